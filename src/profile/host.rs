//! Where the host's time went: each span without the spans inside it, and the gaps between them.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use crate::base::Span;
use crate::profile::Profile;
use crate::profile::event::{Activity, Event};

/// A stretch of time of one thread.
#[derive(Clone, Debug)]
struct Stretch {
    what: What,
    thread: usize,
    start: Duration,
    end: Duration,
    at: Option<Span>,
    label: Option<Arc<str>>,
}

/// What it was spent on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// Something of kiln's, in words.
    Activity(String),
    /// A kernel that ran on the thread, or a transfer: they have rows of their own.
    OnDevice,
    /// A step or a label, which the user's code is in.
    Label,
}

/// Time of the host's that no device's row has.
#[derive(Clone, Debug)]
pub(super) struct HostTime {
    /// What was done; `None` for the user's code.
    pub what: Option<String>,
    /// The user's line; of the user's code, where it began.
    pub at: Option<Span>,
    /// Of the user's code, the line that it led to.
    pub until: Option<Span>,
    /// The labels around it.
    pub label: Option<Arc<str>>,
    /// How long, without what is inside.
    pub time: Duration,
}

/// All of the host's time that no device's row has.
pub(super) fn host_times(profile: &Profile) -> Vec<HostTime> {
    let mut stretches: Vec<Stretch> = profile.events.iter().filter_map(stretch).collect();
    stretches.sort_by_key(|one| (one.thread, one.start, Reverse(one.end)));
    let mut times = Vec::new();
    for of_thread in stretches.chunk_by(|a, b| a.thread == b.thread) {
        times.extend(own_times(of_thread));
        let is_main = of_thread[0].thread == profile.main_thread;
        times.extend(gaps(of_thread, is_main.then_some(profile.span)));
    }
    times
}

fn stretch(event: &Event) -> Option<Stretch> {
    match event {
        Event::Memory(_) => None,
        // The kernel's own row has it.
        Event::Host(host) if host.activity == Activity::Work => None,
        Event::Kernel(kernel) => {
            let on_host = kernel.launching.is_zero();
            let device = kernel.kernel.device;
            let launch = What::Activity(format!("launch kernels on {device}"));
            let end = if on_host { kernel.end } else { kernel.launched + kernel.launching };
            Some(Stretch {
                what: if on_host { What::OnDevice } else { launch },
                thread: kernel.thread,
                start: kernel.launched,
                end,
                at: Some(kernel.kernel.at),
                label: kernel.kernel.label.clone(),
            })
        }
        Event::Transfer(transfer) => Some(Stretch {
            what: What::OnDevice,
            thread: transfer.thread,
            start: transfer.start,
            end: transfer.end,
            at: transfer.at,
            label: transfer.label.clone(),
        }),
        Event::Host(host) => Some(Stretch {
            what: match words(host.activity) {
                None => What::Label,
                Some("wait") => What::Activity(match (&host.name, host.device) {
                    (Some(name), _) => format!("wait for {name}"),
                    (None, Some(device)) => format!("wait for {device}"),
                    (None, None) => "wait for another thread".into(),
                }),
                Some(words) => What::Activity(words.into()),
            },
            thread: host.thread,
            start: host.start,
            end: host.end,
            at: host.at,
            label: host.label.clone(),
        }),
    }
}

/// What an activity is in words; nothing where the user's code runs inside.
fn words(activity: Activity) -> Option<&'static str> {
    match activity {
        Activity::Step | Activity::Region => None,
        Activity::Read => Some("read values"),
        Activity::Realize => Some("realize: bind memory, keep results"),
        Activity::Collect => Some("collect the graph"),
        Activity::Plan => Some("plan: look up or build"),
        Activity::Compile => Some("compile kernels"),
        Activity::Launch => Some("launch kernels"),
        Activity::Work => Some("run a part of a kernel"),
        Activity::Wait => Some("wait"),
        Activity::Transfer => Some("transfer"),
        Activity::Collective => Some("collective"),
        Activity::Batch => Some("make a batch"),
    }
}

/// Each stretch of kiln's without those inside it; lines come from around where there is none.
fn own_times(stretches: &[Stretch]) -> Vec<HostTime> {
    let mut inside = vec![Duration::ZERO; stretches.len()];
    let mut lines: Vec<Option<Span>> = stretches.iter().map(|one| one.at).collect();
    let mut open: Vec<usize> = Vec::new();
    for (number, one) in stretches.iter().enumerate() {
        while open.last().is_some_and(|&last| stretches[last].end <= one.start) {
            open.pop();
        }
        if let Some(&outer) = open.last() {
            inside[outer] += one.end.min(stretches[outer].end).saturating_sub(one.start);
            lines[number] = lines[number].or(lines[outer]);
        }
        open.push(number);
    }
    let own = stretches.iter().zip(inside).zip(lines).filter_map(|((one, inside), at)| {
        let What::Activity(what) = &one.what else { return None };
        let time = (one.end - one.start).saturating_sub(inside);
        Some(HostTime { what: Some(what.clone()), at, until: None, label: one.label.clone(), time })
    });
    own.collect()
}

/// The user's code: what is between stretches of kiln's on one thread. The thread that profiles has some
/// before the first and after the last one, `whole` being all its time.
fn gaps(stretches: &[Stretch], whole: Option<Duration>) -> Vec<HostTime> {
    let labels: Vec<&Stretch> = stretches.iter().filter(|one| one.what == What::Label).collect();
    let label = |time: Duration| {
        let around = labels.iter().rev().find(|one| one.start <= time && time < one.end);
        around.and_then(|one| one.label.clone())
    };
    let mut gaps = Vec::new();
    let mut add = |(from, at): (Duration, Option<Span>), (to, until): (Duration, Option<Span>)| {
        // The edges of labels divide a gap.
        let edges = labels.iter().flat_map(|one| [one.start, one.end]);
        let mut cuts: Vec<Duration> =
            edges.filter(|edge| (from..to).contains(edge)).chain([from, to]).collect();
        cuts.sort_unstable();
        for pair in cuts.windows(2).filter(|pair| pair[0] < pair[1]) {
            gaps.push(HostTime { what: None, at, until, label: label(pair[0]), time: pair[1] - pair[0] });
        }
    };
    let mut reached = whole.map(|_| (Duration::ZERO, None));
    for one in stretches.iter().filter(|one| one.what != What::Label) {
        if let Some(before) = reached.filter(|before| before.0 < one.start) {
            add(before, (one.start, one.at));
        }
        if reached.is_none_or(|before| before.0 < one.end) {
            reached = Some((one.end, one.at));
        }
    }
    if let (Some(before), Some(whole)) = (reached, whole)
        && before.0 < whole
    {
        add(before, (whole, None));
    }
    gaps
}
