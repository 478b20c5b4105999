//! Times of calls, and what the process took.

use std::time::Instant;

use serde_json::{Value, json};

use crate::Failure;

/// Calls again and again, for so many seconds: the first call, two more to warm up, then at least five. For none
/// it is called twice.
pub fn measure(budget: f64, mut call: impl FnMut() -> Result<(), Failure>) -> Result<Value, Failure> {
    let mut once = || -> Result<[f64; 2], Failure> {
        let (start, cpu) = (Instant::now(), cpu_ms());
        call()?;
        Ok([start.elapsed().as_secs_f64() * 1e3, cpu_ms() - cpu])
    };
    let first = once()?;
    let least = if budget > 0.0 {
        once()?;
        once()?;
        5
    } else {
        1
    };
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.len() < least || (start.elapsed().as_secs_f64() < budget && times.len() < 300) {
        times.push(once()?);
    }
    let [wall, cpu] = [0, 1].map(|kind| sorted(times.iter().map(|time| time[kind]).collect()));
    Ok(json!({
        "first_s": first[0] / 1e3, "first_cpu_s": first[1] / 1e3,
        "wall_min": wall[0], "wall_med": wall[wall.len() / 2],
        "cpu_min": cpu[0], "cpu_med": cpu[cpu.len() / 2], "n": times.len(),
    }))
}

/// From the least to the greatest.
pub fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

/// CPU time of all threads so far; 0 where there is no `/proc`.
pub fn cpu_ms() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0.0 };
    let time = |task: std::fs::DirEntry| -> Option<f64> {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    tasks.flatten().filter_map(time).sum::<f64>() / 1e6
}

/// The most memory that the process had.
pub fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb: Option<u64> = peak.and_then(|text| text.split_whitespace().next()?.parse().ok());
    kb.unwrap_or(0) / 1024
}
