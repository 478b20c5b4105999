//! Attention in blocks against the interpreter of its body, in 64-bit floats. Blocks are small
//! here, so that queries and keys come in several.

use std::sync::Arc;

use crate::base::Device;
use crate::kernel::lower::attention::AttentionLimits;
use crate::runtime::cpu::CpuBackend;
use crate::runtime::cpu::attention::RANGE;
use crate::runtime::cpu::tests::attention::{
    self as cases, Attended, BRAIN_FLOATS, EVEN, FEW, FEW_HALVES, HALVES, ODD, opts,
};
use crate::tensor::Tensor;
use crate::tensor::attention::AttentionOpts;

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

/// Few queries: vectors in place of blocks, heads that share keys as rows, keys divided among threads.
const IN_VECTORS: &[(&str, Attended)] = &[
    ("one query of shared heads", |d| shared([1, 9], [3, 1, 100], d, opts())),
    ("a few of them", |d| shared([2, 4], [1, 3, 70], d, opts())),
    ("more than vectors are worth it for", |d| shared([1, 6], [1, 2, 70], d, opts())),
    ("keys that are another's for each sequence", |d| {
        let q = cases::numbers([3, 4, 1, 8], 1, d);
        let [k, v] = [2, 3].map(|seed| cases::numbers([3, 1, 90, 8], seed, d));
        q.scaled_dot_product_attention(&k.expand([3, 4, 90, 8]), &v.expand([3, 4, 90, 8]), opts())
    }),
    ("hidden keys", |d| {
        let mask = cases::numbers([1, 1, 1, 100], 4, d).gt(0.2);
        shared([1, 4], [2, 1, 100], d, opts().mask(&mask))
    }),
    ("keys hidden by head", |d| {
        let mask = cases::numbers([2, 4, 1, 100], 4, d).gt(0.2) & cases::numbers([4, 1, 1], 7, d).gt(-0.5);
        shared([2, 4], [2, 1, 100], d, opts().mask(&mask))
    }),
    ("a part of the keys hidden", |d| {
        let mask = Tensor::arange(0i64, 100, 1, d).lt(9);
        shared([1, 4], [2, 1, 100], d, opts().mask(&mask))
    }),
    ("added to few", |d| shared([1, 4], [2, 2, 100], d, opts().mask(&cases::numbers([2, 100], 4, d)))),
    ("added to all heads", |d| shared([1, 4], [2, 1, 100], d, opts().mask(&cases::numbers([100], 4, d)))),
    ("few and causal", |d| shared([1, 4], [2, 3, 100], d, opts().causal(true))),
    ("many and causal, in parts", |d| shared([1, 2], [1, 60, 64], d, opts().causal(true))),
    ("values that no strides describe", |d| {
        let q = cases::numbers([1, 2, 1, 8], 1, d);
        let [k, v] = [2, 3].map(|seed| cases::numbers([1, 2, 90, 8], seed, d).cos());
        q.scaled_dot_product_attention(&k, &v, opts())
    }),
];

/// `[n, heads]` of queries 8 wide for so many heads of keys, queries, keys.
fn shared(
    [n, heads]: [usize; 2],
    [groups, rows, keys]: [usize; 3],
    d: Device,
    opts: AttentionOpts,
) -> Tensor {
    let q = cases::numbers([n, heads, rows, 8], 1, d) * 3.0;
    let [k, v] = [2, 3].map(|seed| cases::numbers([n, groups, keys, 8], seed, d));
    q.scaled_dot_product_attention(&k, &v, opts.enable_gqa(true))
}

#[test]
fn attention_of_few_queries_agrees_with_the_interpreter() {
    agree(FEW, 2e-5);
    agree(FEW_HALVES, 1e-3);
    agree(IN_VECTORS, 2e-5);
}

#[test]
fn bits_do_not_depend_on_threads() {
    let attention = || {
        let d = Device::cpu();
        shared([1, 4], [2, 1, 100], d, opts()).to_vec::<f32>().expect("memory for a test")
    };
    let results = [1, 2, 5].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(attention).into_iter().map(f32::to_bits).collect::<Vec<_>>()
    });
    assert!(results[0] == results[1] && results[0] == results[2], "{results:?}");
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
