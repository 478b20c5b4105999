//! The adapters of this machine.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::base::system::THREADS_WAIT;
use crate::base::{Device, Error, Result};
use crate::render::thresholds::{SOFTWARE_COMPILE_BOUND_ELEMENTS, SOFTWARE_MAX_ITERATIONS};
use crate::render::{Adapter as Class, GpuTarget};
use crate::runtime::wgpu::WgpuBackend;

/// Features used where an adapter has them.
pub const WANTED: wgpu::Features = wgpu::Features::SHADER_INT64
    .union(wgpu::Features::SHADER_F64)
    .union(wgpu::Features::SUBGROUP)
    .union(MATRICES)
    .union(wgpu::Features::TIMESTAMP_QUERY)
    .union(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS);

/// Those used in a page. Subgroups would have to be enabled in the text of every shader.
pub const WANTED_IN_PAGES: wgpu::Features = wgpu::Features::empty();

/// Features that products by the matrices of subgroups take, all of them.
const MATRICES: wgpu::Features = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX
    .union(wgpu::Features::SHADER_F16)
    .union(wgpu::Features::SUBGROUP);

/// What to do where there is no adapter.
pub const FIX: &str = "install a Vulkan driver (Debian, Ubuntu: apt-get install mesa-vulkan-drivers libvulkan1, \
                        which includes a software driver)";

/// The adapters, best first: discrete and integrated GPUs before software.
pub fn adapters() -> &'static [wgpu::Adapter] {
    static ADAPTERS: OnceLock<Vec<wgpu::Adapter>> = OnceLock::new();
    if !THREADS_WAIT {
        return PAGE.get().map_or(&[], std::slice::from_ref);
    }
    ADAPTERS.get_or_init(|| {
        let instance = instance(wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12);
        let mut found = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
        found.sort_by_key(|adapter| order(adapter.get_info().device_type));
        found
    })
}

/// The adapter that a page was given first.
static PAGE: OnceLock<wgpu::Adapter> = OnceLock::new();
/// The device that a page was given and has not opened yet.
static GIVEN: Mutex<Option<Opened>> = Mutex::new(None);

fn instance(backends: wgpu::Backends) -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    wgpu::Instance::new(descriptor)
}

/// In a page, asks the browser for an adapter and its device, so that it can be opened.
///
/// # Errors
/// There is none.
pub async fn ask(name: Device) -> Result<()> {
    if THREADS_WAIT || name.index > 0 || WgpuBackend::is_open(name) {
        return Ok(());
    }
    let missing = |reason: String| Error::DeviceUnavailable { device: name, reason, span: None };
    let asked = instance(wgpu::Backends::BROWSER_WEBGPU);
    let adapter = asked.request_adapter(&wgpu::RequestAdapterOptions::default()).await;
    let adapter = adapter.map_err(|error| missing(format!("the browser has no WebGPU adapter: {error}")))?;
    let opened = request(&adapter, WANTED_IN_PAGES).await.map_err(missing)?;
    PAGE.get_or_init(|| adapter);
    *GIVEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
    Ok(())
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
    pub target: GpuTarget,
}

/// Opens the adapter of a number, with those features that it has. One at a time: some drivers do not like
/// several threads here.
///
/// # Errors
/// No such adapter, or its driver refuses.
pub fn open(name: Device, wanted: wgpu::Features) -> Result<Opened> {
    static OPENING: Mutex<()> = Mutex::new(());
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    let missing = |reason: String| Error::DeviceUnavailable { device: name, reason, span: None };
    if !THREADS_WAIT {
        let given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner).take();
        return given.ok_or_else(|| missing("a page opens it by Device::open_async".into()));
    }
    let Some(adapter) = adapters().get(usize::from(name.index)) else {
        return Err(missing(match adapters().len() {
            0 => format!("no adapter was found; {FIX}"),
            count => format!("there are {count} adapters, from wgpu:0 on"),
        }));
    };
    pollster::block_on(request(adapter, wanted)).map_err(missing)
}

/// A device of an adapter, with those features that it has.
async fn request(adapter: &wgpu::Adapter, wanted: wgpu::Features) -> std::result::Result<Opened, String> {
    let (info, limits) = (adapter.get_info(), adapter.limits());
    let mut features = adapter.features() & wanted;
    // Where device memory is not the host's, the host sees it slowly.
    if info.device_type != wgpu::DeviceType::Cpu {
        features.remove(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS);
    }
    let offered = adapter.cooperative_matrix_properties();
    if matrix(features, &offered).is_none() {
        features.remove(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX);
    }
    let request = async |features: wgpu::Features| {
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("kiln"),
            required_features: features,
            required_limits: limits.clone(),
            experimental_features: experimental(features),
            memory_hints: wgpu::MemoryHints::Performance,
            trace: wgpu::Trace::Off,
        };
        adapter.request_device(&descriptor).await
    };
    let given = with_or_without_experiments(features, request).await;
    let ((device, queue), features) = given.map_err(|error| format!("{}: {error}", describe(&info)))?;
    let target = GpuTarget { matrix: matrix(features, &offered), ..target(&info, features, &limits) };
    Ok(Opened { device, queue, info, target })
}

/// wgpu's leave to use those features that it calls experimental, where one is
/// asked for.
fn experimental(features: wgpu::Features) -> wgpu::ExperimentalFeatures {
    if !features.intersects(wgpu::Features::all_experimental_mask()) {
        return wgpu::ExperimentalFeatures::disabled();
    }
    // SAFETY: wgpu warns of its own errors in such features. The only one asked
    // for, multiplying matrices, is used by one shader of ours, which loads and
    // stores them at addresses within shared memory that do not depend on data, and
    // outside of any condition.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

/// What a driver gives for some features, and those features; without the
/// experimental ones if it refuses them though it lists them.
async fn with_or_without_experiments<T, E>(
    features: wgpu::Features,
    request: impl AsyncFn(wgpu::Features) -> std::result::Result<T, E>,
) -> std::result::Result<(T, wgpu::Features), E> {
    let safe = features.difference(wgpu::Features::all_experimental_mask());
    match request(features).await {
        Err(_) if safe != features => Ok((request(safe).await?, safe)),
        given => Ok((given?, features)),
    }
}

/// Rows and columns of the largest matrices of 16-bit floats, with sums of 32
/// bits, among those offered; `None` too if a feature that goes with them is missing.
fn matrix(features: wgpu::Features, offered: &[wgpu::CooperativeMatrixProperties]) -> Option<u32> {
    use wgpu::CooperativeScalarType::{F16, F32};
    let square = |own: &&wgpu::CooperativeMatrixProperties| {
        (own.ab_type, own.cr_type) == (F16, F32) && own.m_size == own.n_size && own.n_size == own.k_size
    };
    let sides = offered.iter().filter(square).map(|own| own.m_size);
    sides.max().filter(|_| features.contains(MATRICES))
}

fn target(info: &wgpu::AdapterInfo, features: wgpu::Features, limits: &wgpu::Limits) -> GpuTarget {
    let adapter = match info.device_type {
        wgpu::DeviceType::Cpu => Class::Software,
        wgpu::DeviceType::IntegratedGpu => Class::Integrated,
        wgpu::DeviceType::DiscreteGpu | wgpu::DeviceType::VirtualGpu | wgpu::DeviceType::Other => {
            Class::Discrete
        }
    };
    GpuTarget {
        adapter,
        int64: features.contains(wgpu::Features::SHADER_INT64),
        float64: features.contains(wgpu::Features::SHADER_F64),
        subgroup: match features.contains(wgpu::Features::SUBGROUP) {
            true if info.subgroup_min_size == info.subgroup_max_size => info.subgroup_min_size,
            _ => 0,
        },
        matrix: None,
        choice: None,
        cuda: None,
        compile_bound_elements: if adapter == Class::Software { SOFTWARE_COMPILE_BOUND_ELEMENTS } else { 0 },
        vec8_halves: false,
        alignment: 8,
        separate_buffers: info.backend == wgpu::Backend::BrowserWebGpu,
        max_workgroup: limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x),
        workgroup_bytes: limits.max_compute_workgroup_storage_size,
        max_buffers: limits.max_storage_buffers_per_shader_stage as usize,
        max_binding: limits.max_storage_buffer_binding_size.min(1 << 31),
        max_buffer: limits.max_buffer_size,
        max_groups: limits.max_compute_workgroups_per_dimension,
        max_iterations: if adapter == Class::Software { SOFTWARE_MAX_ITERATIONS } else { u64::MAX },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgpu::CooperativeScalarType::{F16, F32};

    #[test]
    fn matrices_are_square_of_16_bit_floats_with_sums_of_32_bits() {
        let of = |[m_size, n_size, k_size]: [u32; 3], ab_type, cr_type| wgpu::CooperativeMatrixProperties {
            m_size,
            n_size,
            k_size,
            ab_type,
            cr_type,
            saturating_accumulation: false,
        };
        let (small, large) = (of([8; 3], F16, F32), of([16; 3], F16, F32));
        assert_eq!(matrix(MATRICES, &[small, large]), Some(16));
        assert_eq!(matrix(MATRICES, &[small]), Some(8));
        let others = [of([8, 16, 16], F16, F32), of([16; 3], F32, F32), of([16; 3], F16, F16)];
        assert_eq!(matrix(MATRICES, &others), None);
        for feature in MATRICES.iter() {
            assert_eq!(matrix(MATRICES.difference(feature), &[large]), None, "{feature:?}");
        }
    }

    #[test]
    fn a_device_that_refuses_experimental_features_opens_without_them() {
        let experiment = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        let picky = async |features: wgpu::Features| match features.intersects(experiment) {
            true => Err("refused"),
            false => Ok("a device"),
        };
        let safe = MATRICES.difference(experiment);
        let given = pollster::block_on(with_or_without_experiments(MATRICES, picky));
        assert_eq!(given, Ok(("a device", safe)));
        // Another reason to refuse is told, and nothing is asked for twice.
        let asked = std::cell::Cell::new(0);
        let refusing = async |_| {
            asked.set(asked.get() + 1);
            Err::<(), _>("no memory")
        };
        let refused = pollster::block_on(with_or_without_experiments(safe, refusing));
        assert_eq!((refused, asked.get()), (Err("no memory"), 1));
        assert!(experimental(MATRICES).is_enabled() && !experimental(safe).is_enabled());
    }
}
