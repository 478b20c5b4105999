//! The environment variables kiln reads, each once, at first use.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::base::device::DeviceKind;
use crate::base::error::{Error, Result};

/// What the environment says; see the table in README.
#[derive(Clone, Debug)]
pub struct Config {
    /// `KILN_DEBUG`: 0 silent, 1 plan summaries, 2 kernels with times,
    /// 3 schedule reasons, 4 sources, 5 index expressions.
    pub debug: u8,
    /// `KILN_DEVICE`: the default device's name, if set.
    pub device: Option<String>,
    /// `KILN_VIRTUAL_DEVICES`: devices to simulate, by family. A text that
    /// cannot be read is reported once and counts as none.
    pub virtual_devices: Vec<(DeviceKind, u16)>,
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
        virtual_devices: text("KILN_VIRTUAL_DEVICES").map_or_else(Vec::new, |text| {
            virtual_devices(&text).unwrap_or_else(|error| {
                eprintln!("kiln: KILN_VIRTUAL_DEVICES: {error}");
                Vec::new()
            })
        }),
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

/// Reads `cpu=4,wgpu=2`.
///
/// # Errors
/// [`Error::Parse`] for anything else.
pub fn virtual_devices(text: &str) -> Result<Vec<(DeviceKind, u16)>> {
    let part = |part: &str| {
        let (kind, count) = part.split_once('=')?;
        let kind: DeviceKind = kind.trim().parse().ok().filter(|kind| *kind != DeviceKind::Meta)?;
        Some((kind, count.trim().parse().ok()?))
    };
    text.split(',').map(|piece| part(piece).ok_or_else(|| unreadable(text))).collect()
}

fn unreadable(text: &str) -> Error {
    Error::Parse {
        what: "numbers of devices",
        expected: "KIND=COUNT,.. with the kinds cpu, wgpu, cuda and null".into(),
        found: text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_devices_by_family() {
        let expected = [(DeviceKind::Cpu, 4), (DeviceKind::Wgpu, 2)];
        assert_eq!(virtual_devices("cpu=4, wgpu=2").unwrap(), expected);
        for wrong in ["", "cpu", "cpu=x", "meta=2", "cpu=1;null=2", "cpu=-1"] {
            assert!(virtual_devices(wrong).unwrap_err().to_string().contains("KIND=COUNT"), "{wrong}");
        }
    }
}
