//! The environment variables kiln reads, each once, at first use.

use std::path::PathBuf;
use std::sync::OnceLock;

/// What the environment says; see the table in README.
#[derive(Clone, Debug)]
pub struct Config {
    /// `KILN_DEBUG`: 0 silent, 1 plan summaries, 2 kernels with times,
    /// 3 schedule reasons, 4 sources, 5 index expressions.
    pub debug: u8,
    /// `KILN_DEVICE`: the default device's name, if set.
    pub device: Option<String>,
    /// `KILN_STRICT=1`: panic where an invalid tensor is born.
    pub strict: bool,
    /// `KILN_CACHE_DIR`: where compiled kernels are kept on disk.
    pub cache_dir: Option<PathBuf>,
    /// `KILN_THREADS`: threads the CPU device uses; 0 or unset is all cores.
    pub threads: usize,
}

/// The process's configuration.
pub fn config() -> &'static Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    CONFIG.get_or_init(|| Config {
        debug: number("KILN_DEBUG").min(5) as u8,
        device: text("KILN_DEVICE"),
        strict: number("KILN_STRICT") != 0,
        cache_dir: text("KILN_CACHE_DIR").map(PathBuf::from),
        threads: number("KILN_THREADS"),
    })
}

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> usize {
    text(name).and_then(|value| value.parse().ok()).unwrap_or(0)
}
