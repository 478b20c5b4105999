//! The device that the fuzz runs on: `KILN_FUZZ_DEVICE`, the CPU if unset.

use std::sync::{Arc, LazyLock};

use kiln::plan::context::Context;
use kiln::{DType, Device};

/// The device under test.
pub fn under_test() -> Device {
    static DEVICE: LazyLock<Device> = LazyLock::new(|| match std::env::var("KILN_FUZZ_DEVICE") {
        Ok(name) => name.parse().expect("KILN_FUZZ_DEVICE names a device"),
        Err(_) => Device::cpu(),
    });
    *DEVICE
}

/// A context for a program of so many instructions. In every fourth's no kernel
/// of a wgpu device is too small for lanes and templates.
pub fn context(instructions: usize) -> Arc<Context> {
    let context = Context::new();
    #[cfg(feature = "wgpu")]
    if instructions.is_multiple_of(4) && under_test().kind == kiln::DeviceKind::Wgpu {
        use kiln::unstable::runtime::wgpu::{WgpuBackend, gpu::WgpuGpu};
        static EAGER: LazyLock<Arc<WgpuGpu>> = LazyLock::new(|| {
            let mut gpu = WgpuGpu::open(under_test()).expect("the device under test is there");
            Arc::get_mut(&mut gpu).expect("the only handle").target.compile_bound_elements = 0;
            gpu
        });
        context.install(Arc::new(WgpuBackend::of(EAGER.clone())));
    }
    #[cfg(not(feature = "wgpu"))]
    let _ = instructions;
    context
}

/// The types that the device under test does not compute with.
static MISSING: LazyLock<Vec<DType>> = LazyLock::new(|| {
    let backend = kiln::context().backend(under_test()).expect("the device under test is there");
    backend.capabilities().missing.to_vec()
});

/// Whether the device under test computes with a type.
pub fn has(dtype: DType) -> bool {
    !MISSING.contains(&dtype)
}

/// Whether an error refuses a type that the device under test really lacks.
pub fn lacks_what_is_refused(error: &str) -> bool {
    MISSING.iter().any(|dtype| error.contains(&format!("{dtype} needs the feature")))
}

/// A number from the environment.
pub fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}
