//! Attention by the template against the interpreter of its body, and through
//! NVIDIA's compiler.

use std::sync::Arc;

use super::{compiler, device};
use crate::base::{DType, Device};
use crate::kernel::lower::attention::Range;
use crate::plan::context::{Context, with_context};
use crate::render::cuda::attention::RANGE;
use crate::runtime::Capabilities;
use crate::runtime::cpu::tests::attention::{
    self as cases, Attended, BRAIN_FLOATS, EVEN, HALVES, ODD, numbers, opts,
};
use crate::runtime::null::{CAPABILITIES, NullBackend};

/// A call of the template.
const TEMPLATE: &str = "attention<Extents, i32>(block";

/// Few queries are worth it too.
const ANY: Range = Range { least_rows: 1, ..RANGE };

/// Several blocks of queries and of keys, in this template's sizes.
const LONG: &[(&str, Attended)] = &[
    ("causal over blocks", |d| {
        let (q, k) = (numbers([1, 2, 150, 20], 1, d), numbers([1, 2, 150, 20], 2, d));
        q.scaled_dot_product_attention(&k, &numbers([1, 2, 150, 12], 3, d), opts().causal(true))
    }),
    ("shared heads, hidden, in halves", |d| {
        let q = numbers([1, 4, 70, 24], 1, d).to_dtype(DType::F16);
        let (k, v) = (numbers([1, 2, 130, 24], 2, d), numbers([1, 2, 130, 16], 3, d));
        let (k, v) = (k.to_dtype(DType::F16), v.to_dtype(DType::F16));
        let mask = numbers([70, 130], 4, d).gt(0.0);
        let y = q.scaled_dot_product_attention(&k, &v, opts().mask(&mask).enable_gqa(true));
        y.to_dtype(DType::F32)
    }),
];

fn agree(cases: &[(&str, Attended)], tolerance: f64) {
    let Some(mut backend) = device() else { return };
    backend.capabilities.attention = Some(ANY);
    cases::agree(Arc::new(backend), TEMPLATE, cases, tolerance);
}

#[test]
fn attention_agrees_with_the_interpreter() {
    agree(EVEN, 2e-5);
    agree(LONG, 1e-3);
}

#[test]
fn attention_of_odd_extents_types_and_masks_agrees_with_the_interpreter() {
    agree(ODD, 2e-5);
    agree(HALVES, 1e-3);
    agree(BRAIN_FLOATS, 8e-3);
}

#[test]
fn attention_compiles_without_spills() {
    if !compiler::is_there() {
        return;
    }
    let context = Context::new();
    let capabilities = Capabilities { attention: Some(ANY), ..CAPABILITIES };
    context.install(Arc::new(NullBackend::new(capabilities)));
    with_context(&context, || {
        for (title, attended) in EVEN.iter().chain(ODD).chain(LONG).chain(HALVES).chain(BRAIN_FLOATS) {
            let report = attended(Device::null()).plan().expect("a plan");
            for kernel in &report.kernels {
                compiler::compiles(kernel.work()).unwrap_or_else(|error| panic!("{title}: {error}"));
            }
        }
    });
}
