//! Experiment.
use std::sync::OnceLock;
/// Env.
pub fn kx(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}
/// Once.
pub fn flag() -> usize { static F: OnceLock<usize> = OnceLock::new(); *F.get_or_init(|| kx("KX_F", 0)) }
