//! What a file in the Trace Event Format must be, written down from the format's description.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// Rounding of times, in microseconds.
const ROUNDING: f64 = 0.002;

/// An event with what all of them have.
struct Event<'a> {
    phase: &'a str,
    track: (u64, u64),
    time: f64,
    all: &'a Value,
}

/// Everything that is wrong with a trace.
pub fn violations(trace: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    if !matches!(trace["displayTimeUnit"].as_str(), Some("ms" | "ns")) {
        wrong.push("displayTimeUnit is neither ms nor ns".into());
    }
    let Some(list) = trace["traceEvents"].as_array() else { return vec!["no traceEvents".into()] };
    let mut events = Vec::new();
    for all in list {
        match fields(all) {
            Ok(event) => events.push(event),
            Err(missing) => wrong.push(format!("{missing}: {all}")),
        }
    }
    let timed: Vec<&Event<'_>> = events.iter().filter(|event| event.phase != "M").collect();
    if timed.windows(2).any(|pair| pair[0].time > pair[1].time) {
        wrong.push("times go back".into());
    }
    wrong.extend(nesting(&timed));
    wrong.extend(flows(&timed));
    wrong.extend(names(&events));
    wrong
}

/// The fields that an event of each phase must have.
fn fields(all: &Value) -> Result<Event<'_>, String> {
    let need = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_string()) };
    let phase = all["ph"].as_str().ok_or("no phase")?;
    need(all["name"].is_string(), "no name")?;
    let (Some(pid), Some(tid)) = (all["pid"].as_u64(), all["tid"].as_u64()) else {
        return Err("no pid or tid".into());
    };
    let time = all["ts"].as_f64().filter(|time| *time >= 0.0).ok_or("no time")?;
    match phase {
        "X" => {
            need(all["dur"].as_f64().is_some_and(|dur| dur >= 0.0), "no duration")?;
            need(all["cat"].is_string(), "no category")?;
        }
        "C" => {
            let args = all["args"].as_object().ok_or("no series")?;
            need(!args.is_empty() && args.values().all(Value::is_number), "a series that is no number")?;
        }
        "s" | "f" => {
            need(all["id"].is_u64() && all["cat"].is_string(), "a flow without id or category")?;
            need(phase == "s" || all["bp"] == "e", "a flow that ends before a slice")?;
        }
        "M" => need(all["args"].is_object(), "no metadata")?,
        "i" => need(matches!(all["s"].as_str(), Some("g" | "p" | "t")), "no scope")?,
        other => return Err(format!("phase {other} is unknown")),
    }
    Ok(Event { phase, track: (pid, tid), time, all })
}

/// Slices of one track that overlap and are not inside each other.
fn nesting(events: &[&Event<'_>]) -> Vec<String> {
    let mut tracks: HashMap<(u64, u64), Vec<(f64, f64, &Value)>> = HashMap::new();
    for event in events.iter().filter(|event| event.phase == "X") {
        let end = event.time + event.all["dur"].as_f64().unwrap_or(0.0);
        tracks.entry(event.track).or_default().push((event.time, end, event.all));
    }
    let mut wrong = Vec::new();
    for slices in tracks.values_mut() {
        slices.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut open: Vec<f64> = Vec::new();
        for &(start, end, all) in slices.iter() {
            while open.last().is_some_and(|last| *last <= start + ROUNDING) {
                open.pop();
            }
            if open.last().is_some_and(|last| end > last + ROUNDING) {
                wrong.push(format!("ends after what it is inside: {all}"));
            }
            open.push(end);
        }
    }
    wrong
}

/// Flows that do not go from one slice to a later one.
fn flows(events: &[&Event<'_>]) -> Vec<String> {
    let mut ends: HashMap<u64, [Vec<&Event<'_>>; 2]> = HashMap::new();
    for event in events.iter().filter(|event| matches!(event.phase, "s" | "f")) {
        let id = event.all["id"].as_u64().unwrap_or(0);
        ends.entry(id).or_default()[usize::from(event.phase == "f")].push(event);
    }
    let around = |end: &Event<'_>| {
        events.iter().any(|slice| {
            let until = slice.time + slice.all["dur"].as_f64().unwrap_or(0.0);
            let covers = slice.time <= end.time + ROUNDING && end.time <= until + ROUNDING;
            slice.phase == "X" && slice.track == end.track && covers
        })
    };
    let mut wrong = Vec::new();
    for (id, [starts, arrivals]) in &ends {
        match (&starts[..], &arrivals[..]) {
            ([from], [to]) if from.time <= to.time && around(from) && around(to) => {}
            _ => wrong.push(format!("flow {id} does not go from a slice to a later one")),
        }
    }
    wrong
}

/// Processes and tracks with slices that have no name.
fn names(events: &[Event<'_>]) -> Vec<String> {
    let named = |kind: &str| -> HashSet<(u64, u64)> {
        events.iter().filter(|event| event.all["name"] == kind).map(|event| event.track).collect()
    };
    let (threads, processes) = (named("thread_name"), named("process_name"));
    let slices = events.iter().filter(|event| event.phase == "X");
    let nameless = |event: &&Event<'_>| {
        !threads.contains(&event.track) || !processes.iter().any(|known| known.0 == event.track.0)
    };
    slices.filter(nameless).map(|event| format!("{:?} has no name", event.track)).collect()
}
