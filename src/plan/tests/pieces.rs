//! What is computed in pieces, and that the pieces give the whole.

use super::agrees;
use crate::base::{DType, Device};
use crate::kernel::contraction::as_reduction;
use crate::kernel::horizontal_fusion::fuse_horizontally;
use crate::kernel::index_set_splitting::split_index_set;
use crate::kernel::{Expr, Kernel};
use crate::plan::context::Context;
use crate::plan::realize::planned;
use crate::tensor::Tensor;
use crate::tensor::conv::{ConvOpts, ConvTransposeOpts};
use crate::tensor::pad::PadMode;
use crate::tensor::pool::MaxPoolOpts;
use crate::tensor::testing::pattern;

/// The pieces that the kernels of a tensor would be cut into, and that the
/// device's results are right.
fn cut(tensor: &Tensor) -> Vec<usize> {
    let nodes = [tensor.node().expect("no error").clone()];
    let plan = planned(&Context::new(), &nodes);
    agrees(&[tensor]);
    let summed = |kernel: &Kernel| as_reduction(kernel).unwrap_or_else(|| kernel.clone());
    plan.schedule
        .steps
        .iter()
        .filter_map(|step| Some(split_index_set(&summed(step.kernel()?), 1).len()))
        .collect()
}

#[test]
fn what_is_joined_is_computed_part_by_part() {
    let (a, b) = (pattern(&[64, 40], 1), pattern(&[64, 24], 2));
    assert_eq!(cut(&Tensor::cat(&[&a.exp(), &(&b * 2.0)], 1)), [2]);
    // The halves of a rotary embedding.
    let (x, c, s) = (pattern(&[4, 64, 32], 1), pattern(&[64, 16], 2), pattern(&[64, 16], 3));
    let (even, odd) = (x.narrow(-1, 0, 16), x.narrow(-1, 16, 16));
    assert_eq!(cut(&Tensor::cat(&[&even * &c - &odd * &s, &odd * &c + &even * &s], -1)), [2]);
    // A row added to many.
    assert_eq!(cut(&Tensor::cat(&[&pattern(&[2, 99, 16], 1), &pattern(&[2, 1, 16], 2)], 1)), [2]);
}

/// What follows from one condition is no condition of its own, at which a kernel would be cut.
#[test]
fn what_mirrors_a_part_asks_for_it_once() {
    let x = pattern(&[4, 20, 24], 1);
    // Borders and the inside, along both axes.
    let reflected = || x.pad(&[3, 3, 2, 2], PadMode::Reflect);
    assert_eq!(cut(&reflected()), [9]);
    assert_eq!(largest(&reflected()), (4 * 20 * 24, 1));
    assert_eq!(cut(&x.pad(&[1, 3], PadMode::Replicate)), [3]);
}

/// What is flattened before it is joined is at quotients and remainders of positions, which its
/// piece splits.
#[test]
fn what_is_flattened_and_joined_divides_no_position() {
    let flat = |x: &Tensor| x.reshape([x.numel()]);
    let (x, y) = (pattern(&[6, 10, 14], 1), pattern(&[8, 20], 2));
    let moved = x.permute([2, 0, 1]);
    for joined in [
        Tensor::cat(&[&flat(&moved), &flat(&y)], 0),
        Tensor::cat(&[&flat(&y), &flat(&moved), &flat(&y.t())], 0),
        // Joined before, and so cut once more.
        Tensor::cat(&[&flat(&Tensor::cat(&[&y.t(), &y.t().exp()], 1)), &flat(&moved)], 0),
    ] {
        let (whole, cut) = divided(&joined);
        assert!(whole > 0);
        assert_eq!(cut, 0);
    }
}

/// A stride is in what is read and in the order of what is written, never divided by: neither
/// where zeros are between elements nor where windows share them, over whole periods or parts.
#[test]
fn strides_divide_no_position() {
    let transposed = ConvTransposeOpts::default().stride(2).padding(1);
    let strided = ConvOpts::default().stride(2).padding(1);
    let windows = MaxPoolOpts::default().stride(2).padding(1);
    let gradient = |x: &Tensor, call: &dyn Fn(&Tensor) -> Tensor| {
        let x = x.clone().with_requires_grad();
        crate::grad(&call(&x).square().sum(..), &[&x]).remove(0)
    };
    let (w, w4) = (pattern(&[8, 6, 3, 3], 2), pattern(&[6, 8, 4, 4], 3));
    for extent in [12, 13, 14] {
        let x = pattern(&[2, 6, extent, extent + 1], 1);
        for (case, y) in [
            ("transposed", x.conv_transpose2d(&w4, None, transposed.clone())),
            (
                "odd kernel",
                x.conv_transpose2d(&w4.narrow(-1, 0, 3).narrow(-2, 0, 3), None, transposed.clone()),
            ),
            ("its gradient", gradient(&x, &|x| x.conv_transpose2d(&w4, None, transposed.clone()))),
            ("gradient", gradient(&x, &|x| x.conv2d(&w, None, strided.clone()))),
            ("kernel's gradient", gradient(&w, &|w| x.conv2d(w, None, strided.clone()))),
            ("maxima", gradient(&x, &|x| x.max_pool2d(3, windows.clone()))),
        ] {
            assert_eq!(divided(&y).1, 0, "{case} of {extent}");
        }
    }
}

/// How many positions the kernels of a tensor would divide and how many their pieces do; that
/// its results are right.
fn divided(tensor: &Tensor) -> (usize, usize) {
    let nodes = [tensor.node().expect("no error").clone()];
    let plan = planned(&Context::new(), &nodes);
    agrees(&[tensor]);
    let dynamic = |kernel: &Kernel| {
        let loads = kernel.exprs.iter().filter_map(|node| node.expr.load());
        loads.map(|(_, access)| access.dynamic.len()).sum::<usize>()
    };
    let kernels = plan.schedule.steps.iter().filter_map(|step| step.kernel());
    let each = kernels.map(|kernel| (dynamic(kernel), split_index_set(kernel, 1).iter().map(dynamic).sum()));
    each.fold((0, 0), |(whole, cut), (w, c): (usize, usize)| (whole + w, cut + c))
}

/// How many kernels the pieces of a tensor's only kernel are, and that its results are right.
fn together_of(tensor: &Tensor) -> usize {
    let nodes = [tensor.node().expect("no error").clone()];
    let plan = planned(&Context::new(), &nodes);
    agrees(&[tensor]);
    let kernels: Vec<&Kernel> = plan.schedule.steps.iter().filter_map(|step| step.kernel()).collect();
    assert_eq!(kernels.len(), 1);
    fuse_horizontally(split_index_set(kernels[0], 1)).len()
}

#[test]
fn equal_parts_of_rows_are_written_by_one_kernel() {
    let (x, c, s) = (pattern(&[4, 64, 64], 1), pattern(&[64, 32], 2), pattern(&[64, 32], 3));
    let (even, odd) = (x.narrow(-1, 0, 32), x.narrow(-1, 32, 32));
    let turned = [&even * &c - &odd * &s, &odd * &c + &even * &s];
    assert_eq!(together_of(&Tensor::cat(&[&turned[0], &turned[1]], -1)), 1);
    // One value in two places, and a copy beside what is computed.
    let twice = &even * &c;
    assert_eq!(together_of(&Tensor::cat(&[&twice, &twice], -1)), 1);
    assert_eq!(together_of(&Tensor::cat(&[&even, &turned[1]], -1)), 1);
    // Parts of different lengths, or further apart than a page, stay apart.
    let (long, short) = (pattern(&[64, 40], 1).exp(), pattern(&[64, 24], 2).exp());
    assert_eq!(together_of(&Tensor::cat(&[&long, &short], 1)), 2);
    assert_eq!(together_of(&Tensor::cat(&[&twice, &turned[1]], 0)), 2);
}

#[test]
fn what_slides_over_a_border_is_computed_without_it_inside() {
    let (x, w) = (pattern(&[2, 4, 24, 24], 1), pattern(&[4, 1, 3, 3], 2));
    // A convolution of each channel by itself shares nothing: a sum.
    assert_eq!(cut(&x.conv2d(&w, None, ConvOpts::default().padding(1).groups(4))), [9]);
}

/// Where there is no room for all parts along both axes, the largest has none of a border's.
#[test]
fn the_largest_piece_is_cut_first() {
    let narrow: Vec<Tensor> = (0..4).map(|seed| pattern(&[24, 2], seed)).collect();
    let mut joined: Vec<&Tensor> = narrow.iter().collect();
    let wide = pattern(&[24, 30], 5);
    joined.push(&wide);
    let padded = Tensor::cat(&joined, 1).exp().pad(&[0, 0, 2, 2], 1);
    assert_eq!(largest(&padded), (24 * 30, 1));
}

/// The points and loads of the largest piece of a tensor's only kernel; that its results are right.
fn largest(tensor: &Tensor) -> (usize, usize) {
    let nodes = [tensor.node().expect("no error").clone()];
    let plan = planned(&Context::new(), &nodes);
    agrees(&[tensor]);
    let parts = split_index_set(plan.schedule.steps[0].kernel().expect("one kernel"), 1);
    let largest = parts.iter().max_by_key(|part| part.level_points(0)).expect("parts");
    let loads = largest.exprs.iter().filter(|node| matches!(node.expr, Expr::Load(..))).count();
    (largest.level_points(0), loads)
}

#[test]
fn positions_compared_in_a_narrower_type_are_cut_where_it_decides() {
    let position = Tensor::arange(0, 4096, 1, Device::cpu()).to_dtype(DType::I32);
    assert_eq!(cut(&position.lt(2048)), [2]);
}

#[test]
fn what_no_cut_decides_stays_whole() {
    let x = pattern(&[64, 64], 1);
    assert_eq!(cut(&x.tril(0)), [1]);
    assert_eq!(cut(&x.exp().sum(0)), [1]);
}
