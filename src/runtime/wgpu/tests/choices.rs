//! Each way in which a template computes a kernel on an adapter, and the choice of one.

use std::sync::Arc;

use super::{device, is_software};
use crate::base::Device;
use crate::render::{Adapter, GpuTarget, TemplateChoice, wgsl};
use crate::runtime::Backend;
use crate::runtime::cpu::tests::choices::{Ways, agree_and_the_fastest_runs, own_folder};
use crate::runtime::wgpu::WgpuBackend;
use crate::runtime::wgpu::gpu::WgpuGpu;

/// What a class of adapters is like, as far as the adapter at hand can stand in for it.
fn class(target: GpuTarget, adapter: Adapter) -> GpuTarget {
    // Templates for subgroups are the CPU's.
    let subgroup = if adapter == Adapter::Software { target.subgroup } else { 0 };
    GpuTarget { adapter, subgroup, compile_bound_elements: 0, workgroup_bytes: 32 << 10, ..target }
}

/// A device of its own that is taken for one of a class.
fn opened(adapter: Adapter, choice: Option<TemplateChoice>, times_choices: bool) -> Arc<dyn Backend> {
    let mut gpu = WgpuGpu::open(Device::wgpu(0)).expect("another device of one adapter");
    let own = Arc::get_mut(&mut gpu).expect("the only handle");
    own.target = GpuTarget { choice, ..class(own.target.clone(), adapter) };
    own.times_choices = times_choices;
    Arc::new(WgpuBackend::of(gpu))
}

#[test]
fn every_way_agrees_and_the_fastest_runs() {
    const TEST: &str = "runtime::wgpu::tests::choices::every_way_agrees_and_the_fastest_runs";
    let Some(there) = device() else { return };
    let Some(folder) = own_folder(TEST) else { return };
    for adapter in [Adapter::Software, Adapter::Discrete, Adapter::Integrated] {
        let target = class(there.gpu().target.clone(), adapter);
        // Its attention broadcasts within small subgroups.
        if adapter == Adapter::Software && !is_software(&there) && !matches!(target.subgroup, 4 | 8) {
            continue;
        }
        let ways = Ways {
            with: &|choice| opened(adapter, choice, false),
            timing: &|| opened(adapter, None, true),
            choices: &|kernel| wgsl::choices(kernel, &target),
        };
        agree_and_the_fastest_runs(&ways, &folder);
    }
}
