//! The table of results, beside other libraries'.

use std::fmt::Write;
use std::path::PathBuf;

use serde_json::Value;

use crate::Failure;

/// Other libraries' lines for so many threads.
pub fn read(paths: &[PathBuf], threads: usize) -> Result<Vec<Value>, Failure> {
    let mut lines = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        for line in text.lines().filter(|line| line.starts_with('{')) {
            let line: Value =
                serde_json::from_str(line).map_err(|error| format!("{}: {error}", path.display()))?;
            if line["threads"] == threads && line["model"].is_string() && line["error"].is_null() {
                lines.push(line);
            }
        }
    }
    Ok(lines)
}

/// A phase, and which of its numbers is compared: the least time, or the best rate.
const PHASES: [(&str, &str, bool); 5] = [
    ("infer", "wall_min", true),
    ("small", "wall_min", true),
    ("train", "wall_min", true),
    ("pp128", "tok_s_best", false),
    ("tg64", "tok_s_best_run", false),
];

/// Lines of kiln beside the best of the others. A ratio is kiln's time over theirs, of rates theirs over kiln's:
/// below 1, kiln is faster.
pub fn show(lines: &[Value], peers: &[Value]) -> String {
    let mut text = format!(
        "{:28} {:6} {:>9} {:>10} {:>10}  {:>10} {:16} {:>6}\n",
        "model", "phase", "first s", "cpu ms", "ms, tok/s", "best peer", "", "ratio"
    );
    for line in lines {
        let others: Vec<&Value> = peers.iter().filter(|peer| alike(line, peer)).collect();
        for (phase, key, less) in PHASES {
            let Some(own) = line[phase][key].as_f64() else { continue };
            let [first, cpu] = ["first_s", "cpu_min"].map(|key| line[phase][key].as_f64().unwrap_or(0.0));
            let _ = write!(text, "{:28} {phase:6} {first:>9.2} {cpu:>10.2} {own:>10.2}", title(line));
            let found =
                others.iter().filter_map(|peer| Some((peer[phase][key].as_f64()?, peer["peer"].as_str()?)));
            let best = found.reduce(|a, b| if (b.0 < a.0) == less { b } else { a });
            let _ = match best {
                Some((best, peer)) => {
                    let ratio = if less { own / best } else { best / own };
                    writeln!(text, "  {best:>10.2} {peer:16} {ratio:>6.2}")
                }
                None => writeln!(text),
            };
        }
        text += &checks(line, &others);
    }
    text
}

/// Memory, and the numbers by which outputs are compared.
fn checks(line: &Value, others: &[&Value]) -> String {
    let mut text = format!("{:28} peak {} MB", "", line["peak_mb"]);
    for key in ["loss", "sum_abs", "grad_norm"] {
        let Some(own) = line[key].as_f64() else { continue };
        let _ = write!(text, ", {key} {own:.6}");
        let theirs = others.iter().find_map(|peer| peer[key].as_f64());
        if let Some(theirs) = theirs {
            let agrees = (own - theirs).abs() <= 1e-3 * theirs.abs();
            let _ = write!(text, " ({}{theirs:.6})", if agrees { "" } else { "differs: " });
        }
    }
    text + "\n"
}

fn alike(line: &Value, peer: &Value) -> bool {
    // Times of 16-bit weights are no peers of 32-bit ones'.
    line["model"] == peer["model"] && line["file"] == peer["file"] && peer["peer"] != "bf16"
}

fn title(line: &Value) -> String {
    let name = line["model"].as_str().unwrap_or("");
    line["file"].as_str().map_or(name.into(), |file| format!("{name}, {}", file.trim_end_matches(".gguf")))
}
