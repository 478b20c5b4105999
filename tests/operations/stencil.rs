//! Convolutions with one filter for each channel, which the CPU sums row by row: the same as
//! in 64 bits, which it computes otherwise.

use kiln::opts::ConvOpts;
use kiln::prelude::*;

use crate::leaves::{leaves, values};

type Convolution = fn(&[Tensor]) -> Tensor;

fn depthwise(channels: usize) -> ConvOpts {
    ConvOpts::default().groups(channels)
}

/// A name, the operands' shapes, and what is computed.
const CASES: &[(&str, &[&[usize]], Convolution)] = &[
    ("padded", &[&[2, 6, 20, 57], &[6, 1, 3, 3]], |x| x[0].conv2d(&x[1], None, depthwise(6).padding(1))),
    ("not padded", &[&[3, 5, 17, 13], &[5, 1, 3, 5]], |x| x[0].conv2d(&x[1], None, depthwise(5))),
    ("large", &[&[1, 2, 90, 301], &[2, 1, 7, 7]], |x| x[0].conv2d(&x[1], None, depthwise(2).padding(3))),
    ("one filter of some channels", &[&[2, 4, 11, 19], &[1, 4, 3, 3]], |x| {
        x[0].conv2d(&x[1], None, ConvOpts::default().padding(1))
    }),
    ("groups of channels", &[&[2, 6, 11, 19], &[3, 2, 3, 3]], |x| x[0].conv2d(&x[1], None, depthwise(3))),
    ("bias, residual, activation", &[&[2, 6, 12, 40], &[6, 1, 3, 3], &[6]], |x| {
        (x[0].conv2d(&x[1], Some(&x[2]), depthwise(6).padding(1)) + &x[0]).relu()
    }),
    ("of what is computed", &[&[2, 6, 12, 40], &[6, 1, 3, 3], &[6, 1, 1]], |x| {
        (&x[0] * &x[2]).relu().conv2d(&(&x[1] + 1.0), None, depthwise(6).padding(1))
    }),
    ("windows upside down and mirrored", &[&[2, 6, 12, 14], &[6, 3, 4]], |x| {
        let windows = x[0].unfold(2, 3, 1).unfold(3, 4, 1).flip([4, 5]);
        kiln::einsum("ncyxij,cij->ncyx", &[&windows, &x[1]])
    }),
];

fn integer(i: usize) -> f32 {
    let x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((x >> 33) % 7) as f32 - 3.0
}

#[test]
fn sums_are_those_of_64_bits() {
    const SPECIAL: [f32; 3] = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let wild = |i: usize| if i % 97 == 5 { SPECIAL[i / 97 % 3] } else { integer(i) };
    for (name, shapes, call) in CASES {
        for value in [integer, wild as fn(usize) -> f32] {
            let single = call(&leaves(shapes, DType::F32, value));
            let plan = single.plan().expect("a plan");
            let sources = plan.kernels.iter().filter_map(|kernel| kernel.source().ok());
            assert_eq!(sources.filter(|text| text.starts_with("stencil")).count(), 1, "{name}");
            let double = values(&call(&leaves(shapes, DType::F64, value)));
            for (i, (a, b)) in values(&single).iter().zip(&double).enumerate() {
                assert!(a == b || (a.is_nan() && b.is_nan()), "{name}, element {i}: {a} for {b}");
            }
        }
    }
}
