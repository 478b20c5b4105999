//! The environment variables kiln reads, each once, at first use.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::base::device::{Device, DeviceKind};
use crate::base::error::{Error, Result};
use crate::base::optimization::{Optimization, optimizations};

/// What the environment says; see the table in README.
#[derive(Clone, Debug)]
pub struct Config {
    /// `KILN_DEBUG`: 0 silent, 1 plan summaries, 2 kernels with times,
    /// 3 schedule reasons, 4 sources, 5 index expressions.
    pub debug: u8,
    /// `KILN_DEVICE`: the default device, if set.
    pub device: Option<Device>,
    /// `KILN_VIRTUAL_DEVICES`: devices to simulate, by family.
    pub virtual_devices: Vec<(DeviceKind, u16)>,
    /// `KILN_CHECK=1`: hold each step against the interpreter.
    pub check: bool,
    /// `KILN_DISABLE`: optimizations that are switched off.
    pub disabled: Vec<Optimization>,
    /// `KILN_STRICT=1`: panic where an invalid tensor is born.
    pub strict: bool,
    /// `KILN_CACHE_DIR`: where compiled kernels are kept on disk.
    pub cache_dir: Option<PathBuf>,
    /// `KILN_SOURCES`: where generated shaders and CUDA texts are written, and those that were edited are
    /// read.
    pub sources: Option<PathBuf>,
    /// `KILN_TUNE`: whether devices time the variants of templates; if
    /// not set, wgpu's GPUs do, and software drivers and CUDA devices do not.
    pub tune: Option<bool>,
    /// `KILN_CUBLAS=0`: CUDA devices compute no product by cuBLASLt.
    pub cublas: bool,
    /// `KILN_THREADS`: threads the CPU device uses, as many as there are cores or 256 at most; 0 or unset
    /// is all cores.
    pub threads: usize,
    /// `KILN_LOCK=write`: [`assert_plan_locked!`](crate::assert_plan_locked) writes its files.
    pub write_locks: bool,
}

/// The process's configuration. A variable that cannot be read is reported
/// once, on standard error, and counts as not set.
pub fn config() -> &'static Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    CONFIG.get_or_init(|| Config {
        debug: variable("KILN_DEBUG", whole_number).unwrap_or(0).min(5) as u8,
        device: variable("KILN_DEVICE", str::parse),
        virtual_devices: variable("KILN_VIRTUAL_DEVICES", virtual_devices).unwrap_or_default(),
        check: variable("KILN_CHECK", whole_number).unwrap_or(0) != 0,
        disabled: variable("KILN_DISABLE", optimizations).unwrap_or_default(),
        strict: variable("KILN_STRICT", whole_number).unwrap_or(0) != 0,
        cache_dir: text("KILN_CACHE_DIR").map(PathBuf::from),
        sources: text("KILN_SOURCES").map(PathBuf::from),
        tune: variable("KILN_TUNE", whole_number).map(|number| number != 0),
        cublas: variable("KILN_CUBLAS", whole_number).unwrap_or(1) != 0,
        threads: variable("KILN_THREADS", threads).unwrap_or(0),
        write_locks: variable("KILN_LOCK", write).unwrap_or(false),
    })
}

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn variable<T>(name: &str, read: impl Fn(&str) -> Result<T>) -> Option<T> {
    let report = |error| eprintln!("kiln: {name}: {error}; going on without it");
    read(&text(name)?).map_err(report).ok()
}

fn whole_number(text: &str) -> Result<usize> {
    text.parse().map_err(|_| Error::Parse {
        what: "number",
        expected: "0, 1, 2, ..".into(),
        found: text.into(),
    })
}

fn write(text: &str) -> Result<bool> {
    let wrong = || Error::Parse { what: "use of plan files", expected: "write".into(), found: text.into() };
    if text == "write" { Ok(true) } else { Err(wrong()) }
}

/// A number of threads that can be woken and waited for: many more than there are cores cannot.
fn threads(text: &str) -> Result<usize> {
    let number = whole_number(text)?;
    let most = std::thread::available_parallelism().map_or(1, usize::from).max(256);
    if number <= most {
        return Ok(number);
    }
    let expected = format!("at most {most}");
    Err(Error::Parse { what: "number of threads", expected, found: text.into() })
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
    fn settings_are_whole_numbers() {
        assert_eq!(whole_number("3").unwrap(), 3);
        for wrong in ["", "-1", "two", "1.5"] {
            assert!(whole_number(wrong).unwrap_err().to_string().contains("0, 1, 2"), "{wrong}");
        }
    }

    #[test]
    fn threads_are_not_beyond_number() {
        assert_eq!((threads("0").unwrap(), threads("256").unwrap()), (0, 256));
        for wrong in ["20000", "-1", "18446744073709551616"] {
            assert!(threads(wrong).is_err(), "{wrong}");
        }
        let error = threads("20000").unwrap_err().to_string();
        assert!(error.starts_with("cannot parse number of threads: expected at most "), "{error}");
    }

    #[test]
    fn numbers_of_devices_by_family() {
        let expected = [(DeviceKind::Cpu, 4), (DeviceKind::Wgpu, 2)];
        assert_eq!(virtual_devices("cpu=4, wgpu=2").unwrap(), expected);
        for wrong in ["", "cpu", "cpu=x", "meta=2", "cpu=1;null=2", "cpu=-1"] {
            assert!(virtual_devices(wrong).unwrap_err().to_string().contains("KIND=COUNT"), "{wrong}");
        }
    }
}
