//! Attention in blocks against the interpreter of its body, in 64-bit floats. Blocks are small
//! here, so that queries and keys come in several.

use std::sync::Arc;

use crate::base::Device;
use crate::kernel::lower::attention::AttentionLimits;
use crate::runtime::cpu::CpuBackend;
use crate::runtime::cpu::attention::RANGE;
use crate::runtime::cpu::tests::attention::{self as cases, Attended, BRAIN_FLOATS, EVEN, HALVES, ODD, opts};

/// Holds attention of however few queries against the interpreter.
fn agree(cases: &[(&str, Attended)], tolerance: f64) {
    let mut backend = CpuBackend::named(Device::cpu());
    backend.capabilities.attention = Some(AttentionLimits { least_rows: 1, ..RANGE });
    cases::agree(Arc::new(backend), "queries:", cases, tolerance);
}

#[test]
fn attention_agrees_with_the_interpreter() {
    agree(EVEN, 2e-5);
}

#[test]
fn attention_of_odd_extents_types_and_masks_agrees_with_the_interpreter() {
    agree(ODD, 2e-5);
    agree(HALVES, 1e-3);
    agree(BRAIN_FLOATS, 8e-3);
}

/// Operands and results that no strides describe: something is computed before and after.
const COMPUTED: &[(&str, Attended)] = &[
    ("operands computed", |d| {
        let [q, k, v] = cases::heads([2, 2], [40, 70, 16, 20], d);
        q.exp().scaled_dot_product_attention(&(k.sin() * 2.0), &(v - 0.5), opts())
    }),
    ("transposed operands", |d| {
        let [q, k, v] = [1, 2, 3].map(|seed| cases::numbers([2, 16, 70], seed, d).transpose(1, 2));
        q.scaled_dot_product_attention(&k, &v, opts().causal(true))
    }),
    ("transposed result", |d| {
        let [q, k, v] = cases::heads([2, 2], [40, 70, 16, 20], d);
        q.scaled_dot_product_attention(&k, &v, opts()).transpose(2, 3).relu() + 1.0
    }),
    ("scores of minus infinity", |d| {
        let [q, k, v] = cases::heads([1, 1], [20, 40, 8, 8], d);
        (q.abs() * f32::INFINITY).scaled_dot_product_attention(&(k.abs() * -1.0 - 1.0), &v, opts())
    }),
    ("a mask for each key, computed", |d| {
        let [q, k, v] = cases::heads([2, 2], [40, 70, 16, 20], d);
        let mask = cases::numbers([2, 1, 1, 70], 9, d).abs().gt(0.3);
        q.scaled_dot_product_attention(&k, &v, opts().mask(&mask))
    }),
];

#[test]
fn attention_among_other_operations_agrees_with_the_interpreter() {
    agree(COMPUTED, 2e-5);
}
