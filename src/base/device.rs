//! Device identifiers: names of places, which cannot fail to exist.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

use crate::base::error::Error;

/// The families of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceKind {
    /// The host processor; always present.
    Cpu,
    /// An adapter driven through wgpu (Vulkan, Metal, DX12).
    Wgpu,
    /// An NVIDIA GPU driven through CUDA.
    Cuda,
    /// Shapes only: tensors of any size, no memory, nothing runs.
    Meta,
    /// Runs nothing and reports everything; for tests of plans.
    Null,
}

impl DeviceKind {
    /// Every family, in the order of their numbers.
    pub const ALL: [DeviceKind; 5] =
        [DeviceKind::Cpu, DeviceKind::Wgpu, DeviceKind::Cuda, DeviceKind::Meta, DeviceKind::Null];

    /// The name that devices are printed and parsed with.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Wgpu => "wgpu",
            DeviceKind::Cuda => "cuda",
            DeviceKind::Meta => "meta",
            DeviceKind::Null => "null",
        }
    }

    /// Whether a family's devices are printed with their numbers always, so
    /// that the family's name alone may mean any one of them.
    const fn is_numbered(self) -> bool {
        matches!(self, DeviceKind::Wgpu | DeviceKind::Cuda)
    }

    /// The device of this number.
    pub const fn device(self, index: u16) -> Device {
        Device { kind: self, index }
    }

    /// Which device of the family a name without a number means on this
    /// thread (`"cuda"`): the one last made current, else 0.
    pub fn current(self) -> u16 {
        CURRENT.with(|current| current[self as usize].get())
    }

    pub(crate) fn make_current(self, index: u16) {
        CURRENT.with(|current| current[self as usize].set(index));
    }
}

thread_local! {
    static CURRENT: [Cell<u16>; 5] = const { [const { Cell::new(0) }; 5] };
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DeviceKind {
    type Err = Error;
    /// Parses `cpu`, `wgpu`, `cuda`, `meta`, `null`.
    fn from_str(s: &str) -> Result<DeviceKind, Error> {
        DeviceKind::ALL.into_iter().find(|kind| kind.name() == s).ok_or_else(|| Error::Parse {
            what: "kind of device",
            expected: "cpu, wgpu, cuda, meta or null".into(),
            found: s.into(),
        })
    }
}

/// Where a tensor lives: a `Copy` name that needs no device to be there.
/// Using an absent one is an `Err` at `realize()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// The family.
    pub kind: DeviceKind,
    /// Which one of the family, from 0.
    pub index: u16,
}

/// The Metal adapter of a system that has none.
const NO_METAL: Device = DeviceKind::Wgpu.device(u16::MAX);

impl Device {
    /// The host processor.
    pub const fn cpu() -> Device {
        DeviceKind::Cpu.device(0)
    }
    /// The meta device: shapes, types and devices, without data.
    pub const fn meta() -> Device {
        DeviceKind::Meta.device(0)
    }
    /// The null device: plans and counts like a real one, runs nothing.
    pub const fn null() -> Device {
        DeviceKind::Null.device(0)
    }
    /// The `index`-th CUDA device.
    pub const fn cuda(index: u16) -> Device {
        DeviceKind::Cuda.device(index)
    }
    /// The `index`-th wgpu adapter.
    pub const fn wgpu(index: u16) -> Device {
        DeviceKind::Wgpu.device(index)
    }
    /// Metal, as PyTorch calls it: the first wgpu adapter on Apple's systems,
    /// elsewhere a device that is not available.
    pub const fn mps() -> Device {
        if cfg!(target_vendor = "apple") { Device::wgpu(0) } else { NO_METAL }
    }
    /// Whether this is the meta device.
    pub const fn is_meta(self) -> bool {
        matches!(self.kind, DeviceKind::Meta)
    }
    /// Whether this is the Metal adapter of a system that has none.
    pub(crate) fn is_absent_metal(self) -> bool {
        self == NO_METAL
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_absent_metal() {
            return f.pad("mps");
        }
        if self.kind.is_numbered() || self.index != 0 {
            return f.pad(&format!("{}:{}", self.kind, self.index));
        }
        f.pad(self.kind.name())
    }
}

impl FromStr for Device {
    type Err = Error;
    /// Parses `cpu`, `cuda:1`, `wgpu:0`, `mps`, `meta`, `null`. Without a
    /// number, `cuda` and `wgpu` are the current device of that family (see
    /// [`DeviceKind::current`]), the others the first.
    fn from_str(s: &str) -> Result<Device, Error> {
        let fail = || Error::Parse {
            what: "device",
            expected: "cpu, wgpu:N, cuda:N, mps, meta or null".into(),
            found: s.into(),
        };
        if s == "mps" || s == "mps:0" {
            return Ok(Device::mps());
        }
        let (name, index) = match s.split_once(':') {
            Some((name, index)) => (name, Some(index.parse::<u16>().map_err(|_| fail())?)),
            None => (s, None),
        };
        let kind: DeviceKind = name.parse().map_err(|_| fail())?;
        let unnumbered = || if kind.is_numbered() { kind.current() } else { 0 };
        Ok(kind.device(index.unwrap_or_else(unnumbered)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_parsed() {
        let kinds = DeviceKind::ALL.into_iter().flat_map(|kind| [kind.device(0), kind.device(3)]);
        for device in kinds.chain([Device::mps()]) {
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
        }
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::cuda(0));
        for wrong in ["", "gpu", "cuda:", "cuda:-1", "cuda:70000", "mps:1", "cpu 0"] {
            let error = wrong.parse::<Device>().unwrap_err().to_string();
            assert!(error.contains("cuda:N, mps"), "{error}");
        }
    }

    #[test]
    fn a_name_without_a_number_is_the_current_device_of_this_thread() {
        DeviceKind::Cuda.make_current(2);
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::cuda(2));
        assert_eq!("cuda:0".parse::<Device>().unwrap(), Device::cuda(0));
        let elsewhere = std::thread::spawn(|| DeviceKind::Cuda.current());
        assert_eq!(elsewhere.join().unwrap(), 0);
    }
}
