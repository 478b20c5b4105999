//! Attention by the templates against the interpreter of its body, in 64-bit
//! floats.

use std::sync::Arc;

use super::{device, eager, in_registers};
use crate::base::{DType, Device};
use crate::kernel::lower::attention::AttentionLimits;
use crate::plan::context::{Context, with_context};
use crate::render::{Adapter, GpuTarget};
use crate::runtime::Backend;
use crate::runtime::cpu::tests::attention::{
    self as cases, Attended, BRAIN_FLOATS, EVEN, FEW, FEW_HALVES, HALVES, ODD, numbers, opts,
};
use crate::runtime::wgpu::WgpuBackend;
use crate::runtime::wgpu::gpu::WgpuGpu;
use crate::tensor::Tensor;

/// An adapter that computes by its template what it would be slower at too.
fn attending(backend: Option<WgpuBackend>) -> Option<WgpuBackend> {
    let mut backend = backend?;
    let range = backend.capabilities.attention?;
    backend.capabilities.attention = Some(AttentionLimits { least_rows: 1, columns: usize::MAX, ..range });
    Some(backend)
}

/// A device of its own that is taken for a GPU of a class, which shares so
/// many bytes.
fn sharing(adapter: Adapter, workgroup_bytes: u32) -> Option<WgpuBackend> {
    device()?;
    let mut gpu = WgpuGpu::open(Device::wgpu(0)).expect("a second device of one adapter");
    let own = Arc::get_mut(&mut gpu).expect("the only handle");
    let target = own.target.clone();
    own.target = GpuTarget { adapter, workgroup_bytes, subgroup: 0, compile_bound_elements: 0, ..target };
    own.times_choices = false;
    attending(Some(WgpuBackend::of(gpu)))
}

/// Holds attention on a device, if it is there, against the interpreter.
fn agree(backend: Option<WgpuBackend>, template: &str, cases: &[(&str, Attended)], tolerance: f64) {
    if let Some(backend) = backend {
        cases::agree(Arc::new(backend), template, cases, tolerance);
    }
}

#[test]
fn attention_in_registers_agrees_with_the_interpreter() {
    let backend = attending(eager());
    let template = in_registers(backend.as_ref());
    agree(backend, template, EVEN, 2e-5);
}

#[test]
fn attention_in_registers_of_odd_extents_types_and_masks_agrees_with_the_interpreter() {
    let agree = |cases, tolerance| {
        let backend = attending(eager());
        let template = in_registers(backend.as_ref());
        agree(backend, template, cases, tolerance);
    };
    agree(ODD, 2e-5);
    agree(HALVES, 1e-3);
    agree(BRAIN_FLOATS, 8e-3);
}

#[test]
fn attention_in_shared_memory_agrees_with_the_interpreter() {
    agree(sharing(Adapter::Discrete, 16 << 10), "const BLOCK_KEYS = 32;", EVEN, 2e-5);
}

#[test]
fn attention_in_shared_memory_of_odd_extents_types_and_masks_agrees_with_the_interpreter() {
    let agree = |cases, tolerance| {
        agree(sharing(Adapter::Integrated, 16 << 10), "const BLOCK_ROWS = 32;", cases, tolerance);
    };
    agree(ODD, 2e-5);
    agree(HALVES, 1e-3);
    agree(BRAIN_FLOATS, 8e-3);
}

#[test]
fn attention_in_more_shared_memory_agrees_with_the_interpreter() {
    agree(sharing(Adapter::Discrete, 32 << 10), "const BLOCK_KEYS = 64;", &EVEN[..5], 2e-5);
    agree(sharing(Adapter::Discrete, 32 << 10), "const BLOCK_KEYS = 64;", &ODD[..6], 2e-5);
}

#[test]
fn attention_of_few_queries_agrees_with_the_interpreter() {
    let agree = |template, backend: &dyn Fn() -> Option<WgpuBackend>| {
        agree(backend(), template, FEW, 2e-5);
        agree(backend(), template, FEW_HALVES, 1e-3);
    };
    agree("const TEAMS = 4;", &|| attending(eager()));
    agree("const TEAMS = 16;", &|| sharing(Adapter::Discrete, 16 << 10));
    agree("const TEAMS = 8;", &|| sharing(Adapter::Integrated, 16 << 10));
}

/// Were a driver to stop an invocation early, the last keys would be missing.
#[test]
fn the_longest_attention_sees_its_last_key() {
    let Some(backend) = attending(eager()) else { return };
    let Some(range) = backend.capabilities().attention else { return };
    let (name, context) = (backend.device(), Context::new());
    context.install(Arc::new(backend));
    with_context(&context, || {
        // GPUs have no limit: more iterations than software drivers carry out.
        let keys = range.most_keys.min(1 << 18);
        let last = Tensor::arange(0, keys as i64, 1, name).unsqueeze(-1).eq(keys as i64 - 1);
        let last = last.to_dtype(DType::F32);
        let q = numbers([16, 128], 1, name) * 0.0 + 1.0;
        let y = q.scaled_dot_product_attention(&(&last * 1e3).expand([keys, 128]), &last, opts());
        let plan = y.plan().expect("a plan");
        assert!(plan.kernels.iter().any(|kernel| kernel.text().contains("  attention %")), "{plan}");
        let y: Vec<f32> = y.to_vec().expect("it runs");
        assert!(y.iter().all(|&y| y == 1.0), "{y:?}");
    });
}
