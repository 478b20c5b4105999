//! The wgpu adapter that tests run on.
// Each test program uses a part of it.
#![allow(dead_code)]

use kiln::Device;

/// The first adapter. Without one a test is skipped, unless `KILN_REQUIRE`
/// asks for wgpu.
pub fn adapter() -> Option<Device> {
    let device = Device::wgpu(0);
    let Err(error) = device.probe() else { return Some(device) };
    let required = std::env::var("KILN_REQUIRE").is_ok_and(|list| list.split(',').any(|it| it == "wgpu"));
    assert!(!required, "KILN_REQUIRE asks for wgpu: {error}");
    println!("skipped: {error}");
    None
}

/// The first adapter, if it has so few workers that the shapes of tests keep
/// all of them busy: kernel counts hold for such devices.
pub fn narrow_adapter() -> Option<Device> {
    let properties = adapter()?.properties().expect("the adapter is there");
    (properties.compute_units <= 128).then_some(Device::wgpu(0))
}

/// The first adapter as a device that nobody else uses.
#[cfg(feature = "wgpu")]
pub fn own_backend() -> Option<kiln::unstable::runtime::wgpu::WgpuBackend> {
    let name = adapter()?;
    let gpu = kiln::unstable::runtime::wgpu::gpu::WgpuGpu::open(name).expect("another device of one adapter");
    Some(kiln::unstable::runtime::wgpu::WgpuBackend::of(gpu))
}
