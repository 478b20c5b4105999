//! The adapters of this machine.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::base::{Device, Error, Result};
use crate::render::target::SOFTWARE_FEW;
use crate::render::{Adapter as Class, Target};

/// Features used where an adapter has them.
pub const WANTED: wgpu::Features = wgpu::Features::SHADER_INT64
    .union(wgpu::Features::SHADER_F64)
    .union(wgpu::Features::SUBGROUP)
    .union(wgpu::Features::TIMESTAMP_QUERY)
    .union(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS);

/// Software drivers stop an invocation silently after 65,535 iterations; a
/// GPU's watchdog looks at time only.
const SOFTWARE_ITERATIONS: u64 = 60_000;

/// What to do where there is no adapter.
pub const MEND: &str = "install a Vulkan driver (Debian, Ubuntu: apt-get install mesa-vulkan-drivers libvulkan1, \
                        which includes a software driver)";

/// The adapters, best first: discrete and integrated GPUs before software.
pub fn adapters() -> &'static [wgpu::Adapter] {
    static ADAPTERS: OnceLock<Vec<wgpu::Adapter>> = OnceLock::new();
    ADAPTERS.get_or_init(|| {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
        let instance = wgpu::Instance::new(descriptor);
        let mut found = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
        found.sort_by_key(|adapter| order(adapter.get_info().device_type));
        found
    })
}

fn order(kind: wgpu::DeviceType) -> u8 {
    match kind {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    }
}

/// Whether an adapter runs shaders on the host's processor.
pub fn is_software(index: u16) -> Option<bool> {
    let adapter = adapters().get(usize::from(index))?;
    Some(adapter.get_info().device_type == wgpu::DeviceType::Cpu)
}

/// An adapter in words: name, kind, driver.
pub fn describe(info: &wgpu::AdapterInfo) -> String {
    let kind = match info.device_type {
        wgpu::DeviceType::DiscreteGpu => "discrete",
        wgpu::DeviceType::IntegratedGpu => "integrated",
        wgpu::DeviceType::VirtualGpu => "virtual",
        wgpu::DeviceType::Cpu => "software",
        wgpu::DeviceType::Other => "unknown kind",
    };
    format!("{} ({kind}, {:?}, {} {})", info.name, info.backend, info.driver, info.driver_info)
}

/// An opened adapter.
pub struct Opened {
    /// The device.
    pub device: wgpu::Device,
    /// Its queue.
    pub queue: wgpu::Queue,
    /// What it is.
    pub info: wgpu::AdapterInfo,
    /// What kernels may use.
    pub target: Target,
}

/// Opens the adapter of a number, with those features that it has. One at a time: some drivers do not like
/// several threads here.
///
/// # Errors
/// No such adapter, or its driver refuses.
pub fn open(name: Device, wanted: wgpu::Features) -> Result<Opened> {
    static OPENING: Mutex<()> = Mutex::new(());
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    let missing = |reason: String| Error::DeviceUnavailable { device: name, reason };
    let Some(adapter) = adapters().get(usize::from(name.index)) else {
        return Err(missing(match adapters().len() {
            0 => format!("no adapter was found; {MEND}"),
            count => format!("there are {count} adapters, from wgpu:0 on"),
        }));
    };
    let (info, limits) = (adapter.get_info(), adapter.limits());
    let mut features = adapter.features() & wanted;
    // Where device memory is not the host's, the host sees it slowly.
    if info.device_type != wgpu::DeviceType::Cpu {
        features.remove(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS);
    }
    let request = adapter.request_device(&wgpu::DeviceDescriptor {
        label: Some("kiln"),
        required_features: features,
        required_limits: limits.clone(),
        experimental_features: wgpu::ExperimentalFeatures::disabled(),
        memory_hints: wgpu::MemoryHints::Performance,
        trace: wgpu::Trace::Off,
    });
    let (device, queue) =
        pollster::block_on(request).map_err(|error| missing(format!("{}: {error}", describe(&info))))?;
    let target = target(&info, features, &limits);
    Ok(Opened { device, queue, info, target })
}

fn target(info: &wgpu::AdapterInfo, features: wgpu::Features, limits: &wgpu::Limits) -> Target {
    let adapter = match info.device_type {
        wgpu::DeviceType::Cpu => Class::Cpu,
        wgpu::DeviceType::IntegratedGpu => Class::Integrated,
        wgpu::DeviceType::DiscreteGpu | wgpu::DeviceType::VirtualGpu | wgpu::DeviceType::Other => {
            Class::Discrete
        }
    };
    Target {
        adapter,
        int64: features.contains(wgpu::Features::SHADER_INT64),
        float64: features.contains(wgpu::Features::SHADER_F64),
        subgroup: match features.contains(wgpu::Features::SUBGROUP) {
            true if info.subgroup_min_size == info.subgroup_max_size => info.subgroup_min_size,
            _ => 0,
        },
        tile: None,
        few_elements: if adapter == Class::Cpu { SOFTWARE_FEW } else { 0 },
        aligned: true,
        max_workgroup: limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x),
        workgroup_bytes: limits.max_compute_workgroup_storage_size,
        max_buffers: limits.max_storage_buffers_per_shader_stage as usize,
        max_binding: limits.max_storage_buffer_binding_size.min(1 << 31),
        max_buffer: limits.max_buffer_size,
        max_groups: limits.max_compute_workgroups_per_dimension,
        max_iterations: if adapter == Class::Cpu { SOFTWARE_ITERATIONS } else { u64::MAX },
    }
}
