//! Timing of whole calls, and the JSON lines that report it.

use std::time::{Duration, Instant};

/// How a work item did.
pub struct Timing {
    pub cold_ms: f64,
    pub median_ms: f64,
    pub min_ms: f64,
    pub cpu_ms: f64,
    pub calls: usize,
}

/// Seconds of timed calls per item: `BUDGET_S`, 2 if unset.
fn budget() -> f64 {
    std::env::var("BUDGET_S").ok().and_then(|text| text.parse().ok()).unwrap_or(2.0)
}

/// Whether `ITEMS` (a list like `2,5a`) asks for an item; all if unset.
pub fn wanted(item: &str) -> bool {
    let prefix = item.split('_').next().unwrap_or(item);
    std::env::var("ITEMS").map_or(true, |list| list.is_empty() || list.split(',').any(|one| one == prefix))
}

/// Times a call: the first one, three more to warm up, then at least five
/// and until the budget is spent. `check` sees the first result.
pub fn time<T>(mut call: impl FnMut() -> T, check: impl FnOnce(T)) -> Timing {
    let start = Instant::now();
    let first = call();
    let cold = start.elapsed();
    check(first);
    (0..3).for_each(|_| drop(call()));
    let mut times: Vec<Duration> = Vec::new();
    let (start, cpu_start) = (Instant::now(), cpu_seconds());
    while times.len() < 5 || (start.elapsed().as_secs_f64() < budget() && times.len() < 10_000) {
        let call_start = Instant::now();
        let result = call();
        times.push(call_start.elapsed());
        drop(result);
    }
    let cpu = (cpu_seconds() - cpu_start) / times.len() as f64;
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Timing {
        cold_ms: ms(cold),
        median_ms: ms(times[times.len() / 2]),
        min_ms: ms(times[0]),
        cpu_ms: cpu * 1e3,
        calls: times.len(),
    }
}

/// CPU time of all threads so far. `/proc` counts in hundredths of a second,
/// exact enough over a budget of seconds; 0 where there is no `/proc`.
fn cpu_seconds() -> f64 {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return 0.0 };
    let after_name = stat.rsplit(')').next().unwrap_or("");
    let ticks = |n: usize| after_name.split_whitespace().nth(n).and_then(|t| t.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}

/// The sum of magnitudes and the weighted sum of a result.
pub fn sums(values: &[f32]) -> (f64, f64) {
    let weight = |i: usize| ((i % 101) as f64 - 50.0) / 50.0;
    values.iter().enumerate().fold((0.0, 0.0), |(abs, weighted), (i, &v)| {
        (abs + f64::from(v.abs()), weighted + f64::from(v) * weight(i))
    })
}

/// One line of the report.
pub fn line(device: &str, item: &str, timing: &Timing, sums: (f64, f64)) {
    println!(
        "{{\"peer\":\"kiln\",\"device\":\"{device}\",\"item\":\"{item}\",\"median_ms\":{:.4},\"min_ms\":{:.4},\
         \"n\":{},\"cpu_ms\":{:.4},\"cold_ms\":{:.4},\"sum_abs\":{:?},\"wsum\":{:?}}}",
        timing.median_ms, timing.min_ms, timing.calls, timing.cpu_ms, timing.cold_ms, sums.0, sums.1
    );
}

/// The last line: the process's peak memory, start-up time and version.
pub fn process_line(device: &str, init_ms: f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb: f64 = peak.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
    println!(
        "{{\"peer\":\"kiln\",\"device\":\"{device}\",\"item\":\"_process\",\"peak_rss_mb\":{:.0},\
         \"init_ms\":{init_ms:.2},\"version\":\"{}\"}}",
        kb / 1024.0,
        env!("CARGO_PKG_VERSION")
    );
}
