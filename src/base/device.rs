//! Device identifiers: names of places, which cannot fail to exist.

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

/// Where a tensor lives: a `Copy` name that needs no device to be there.
/// Using an absent one is an `Err` at `realize()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// The family.
    pub kind: DeviceKind,
    /// Which one of the family, from 0.
    pub index: u16,
}

impl Device {
    /// The host processor.
    pub const fn cpu() -> Device {
        Device { kind: DeviceKind::Cpu, index: 0 }
    }
    /// The meta device: shapes, types and devices, without data.
    pub const fn meta() -> Device {
        Device { kind: DeviceKind::Meta, index: 0 }
    }
    /// The null device: plans and counts like a real one, runs nothing.
    pub const fn null() -> Device {
        Device { kind: DeviceKind::Null, index: 0 }
    }
    /// The `index`-th CUDA device.
    pub const fn cuda(index: u16) -> Device {
        Device { kind: DeviceKind::Cuda, index }
    }
    /// The `index`-th wgpu adapter.
    pub const fn wgpu(index: u16) -> Device {
        Device { kind: DeviceKind::Wgpu, index }
    }
    /// Whether this is the meta device.
    pub const fn is_meta(self) -> bool {
        matches!(self.kind, DeviceKind::Meta)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Wgpu => "wgpu",
            DeviceKind::Cuda => "cuda",
            DeviceKind::Meta => "meta",
            DeviceKind::Null => "null",
        };
        match self.kind {
            DeviceKind::Wgpu | DeviceKind::Cuda => f.pad(&format!("{name}:{}", self.index)),
            DeviceKind::Cpu | DeviceKind::Meta | DeviceKind::Null if self.index != 0 => {
                f.pad(&format!("{name}:{}", self.index))
            }
            DeviceKind::Cpu | DeviceKind::Meta | DeviceKind::Null => f.pad(name),
        }
    }
}

impl FromStr for Device {
    type Err = Error;
    /// Parses `cpu`, `cuda`, `cuda:1`, `wgpu:0`, `meta`, `null`.
    fn from_str(s: &str) -> Result<Device, Error> {
        let fail = || Error::Parse {
            what: "device",
            expected: "cpu, wgpu:N, cuda:N, meta or null".into(),
            found: s.into(),
        };
        let (name, index) = match s.split_once(':') {
            Some((name, index)) => (name, index.parse::<u16>().map_err(|_| fail())?),
            None => (s, 0),
        };
        let kind = match name {
            "cpu" => DeviceKind::Cpu,
            "wgpu" => DeviceKind::Wgpu,
            "cuda" => DeviceKind::Cuda,
            "meta" => DeviceKind::Meta,
            "null" => DeviceKind::Null,
            _ => return Err(fail()),
        };
        Ok(Device { kind, index })
    }
}
