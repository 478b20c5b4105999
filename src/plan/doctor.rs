//! Which devices there are, what is missing for the others, and how to fix it.

use std::fmt::{self, Display};

use kiln_simd::micro;

use crate::base::{Device, DeviceKind};
use crate::plan::context::{Context, current};
use crate::runtime::Backend;
use crate::runtime::cpu::threads;

/// What [`doctor`] found. Prints one line a device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Doctor {
    /// Every family of devices, present or not.
    pub devices: Vec<Finding>,
}

/// What was found of one device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The device.
    pub device: Device,
    /// Whether tensors can be computed there, or, for meta, planned.
    pub available: bool,
    /// What it is, or what is missing.
    pub what: String,
    /// What to do about it; empty if nothing is or can be.
    pub fix: String,
}

/// Looks for devices. Opens those it finds; never fails.
pub fn doctor() -> Doctor {
    let context = current();
    let families = [DeviceKind::Cpu, DeviceKind::Wgpu, DeviceKind::Cuda, DeviceKind::Null, DeviceKind::Meta];
    // Of a family that is missing, the first device says why.
    let all =
        families.into_iter().flat_map(|kind| (0..kind.count().max(1)).map(move |i| kind.device(i as u16)));
    Doctor { devices: all.map(|device| examine(&context, device)).collect() }
}

fn examine(context: &Context, device: Device) -> Finding {
    let found = |what: String| Finding { device, available: true, what, fix: String::new() };
    match (device.kind, context.backend(device)) {
        (DeviceKind::Meta, _) => found("shapes and types of any size, no data".into()),
        (kind, Ok(backend)) => {
            let limit = backend.memory().limit;
            let limit = if limit == u64::MAX { String::new() } else { format!(", at most {limit} bytes") };
            found(presence(kind, backend.as_ref()) + &limit)
        }
        (kind, Err(error)) => {
            Finding { device, available: false, what: error.to_string(), fix: fix(kind).into() }
        }
    }
}

fn presence(kind: DeviceKind, backend: &dyn Backend) -> String {
    match kind {
        DeviceKind::Cpu => {
            let threads = threads::count();
            let plural = if threads == 1 { "" } else { "s" };
            format!("{threads} thread{plural}, {}", instruction_set())
        }
        DeviceKind::Wgpu | DeviceKind::Cuda | DeviceKind::Meta | DeviceKind::Null => backend.describe(),
    }
}

/// The architecture and the widest vectors that the CPU's kernels use.
fn instruction_set() -> String {
    let vectors = match micro::level() {
        micro::Level::Base => "",
        micro::Level::Avx2 => " with AVX2",
        micro::Level::Avx512 => " with AVX-512",
    };
    format!("{}{vectors}", std::env::consts::ARCH)
}

fn fix(kind: DeviceKind) -> &'static str {
    match kind {
        #[cfg(feature = "wgpu")]
        DeviceKind::Wgpu => crate::runtime::wgpu::adapter::FIX,
        #[cfg(not(feature = "wgpu"))]
        DeviceKind::Wgpu => "build kiln with the feature wgpu",
        #[cfg(feature = "cuda")]
        DeviceKind::Cuda => crate::runtime::cuda::driver::FIX,
        #[cfg(not(feature = "cuda"))]
        DeviceKind::Cuda => "build kiln with the feature cuda",
        DeviceKind::Cpu | DeviceKind::Null | DeviceKind::Meta => "",
    }
}

impl Display for Doctor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.devices {
            let state = if finding.available { "ok     " } else { "missing" };
            writeln!(f, "{:<7} {state} {}", finding.device.to_string(), finding.what)?;
            // Most causes say it themselves.
            if !finding.what.contains(&*finding.fix) {
                writeln!(f, "                to fix it: {}", finding.fix)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_always_there_and_absences_say_what_to_do() {
        let found = doctor();
        assert!(found.devices.iter().any(|f| f.device == Device::cpu() && f.available));
        for absent in found.devices.iter().filter(|f| !f.available) {
            assert!(!absent.fix.is_empty(), "{absent:?}");
        }
        assert!(found.to_string().contains("thread"), "{found}");
    }
}
