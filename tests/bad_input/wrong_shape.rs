//! Shapes that do not fit.

use crate::{floats, here, mistake, refused};
use kiln::Shape;
use kiln::nn::{AttentionLayerOpts, Layer, MultiheadAttention};
use kiln::opts::NormOpts;
use kiln::prelude::ConvOpts;
use kiln::{Tensor, einsum};

#[test]
fn operands_that_do_not_broadcast() {
    let (a, b) = (floats([2, 3]), floats([4]));
    refused(here!(&a + &b), "add", "shapes that broadcast together", "[2, 3] and [4]");
    assert_eq!(mistake(&(&a + &b)).shapes, [Shape::new(&[2, 3]), Shape::new(&[4])]);
    refused(here!(a.expand([3, 3])), "expand", "a shape that [2, 3] broadcasts to", "[3, 3]");
}

#[test]
fn products_whose_inner_extents_differ() {
    let (a, b) = (floats([2, 3]), floats([4, 5]));
    refused(
        here!(a.matmul(&b)),
        "matmul",
        "axis 1 of the first and axis 0 of the second of one extent",
        "3 and 4",
    );
    refused(
        here!(einsum("ij,jk->ik", &[&a, &b])),
        "einsum",
        "one extent for each letter of \"ij,jk->ik\"",
        "shape [4, 5] beside [3, 5]",
    );
    refused(
        here!(a.linear(&b, None)),
        "linear",
        "axis 1 of the first and axis 1 of the second of one extent",
        "3 and 5",
    );
    let (image, filter) = (floats([1, 3, 4, 4]), floats([2, 4, 3, 3]));
    let conv = here!(image.conv2d(&filter, None, ConvOpts::default()));
    refused(conv, "conv2d", "an input of 4 channels", "3");
}

#[test]
fn other_numbers_of_elements() {
    let x = floats([2, 3]);
    refused(here!(x.reshape([4])), "reshape", "a shape of 6 elements", "[4]");
    refused(here!(x.reshape([-1, -1])), "reshape", "at most one extent of -1", "[-1, -1]");
    refused(here!(x.view([0, -1])), "view", "a shape of 6 elements with one extent to work out", "[0, -1]");
    refused(
        here!(Tensor::cat(&[&x, &floats([2, 2])], 0)),
        "cat",
        "tensors of one shape but for axis 0",
        "[2, 3], [2, 2]",
    );
    refused(
        here!(Tensor::stack(&[&x, &floats([2, 2])], 0)),
        "stack",
        "tensors of one shape",
        "[2, 3], [2, 2]",
    );
    refused(here!(x.split(vec![1, 3], 1)[0].clone()), "split", "sizes that add up to 3", "[1, 3]");
    refused(here!(x.layer_norm([4], NormOpts::default())), "layer_norm", "last extents [4]", "shape [2, 3]");
}

#[test]
fn heads_that_do_not_divide_the_channels() {
    let opts = AttentionLayerOpts::default();
    let thirds = MultiheadAttention::new(8, 3, opts.clone(), ());
    let x = floats([1, 4, 8]);
    refused(here!(thirds.forward(&x)), "attention", "heads that divide 8 channels", "3 heads");
    let odd = MultiheadAttention::new(6, 2, opts.rotary(1e4), ());
    let pairs = "an even number of channels in a head, to turn pairs of them";
    refused(here!(odd.forward(&floats([1, 4, 6]))), "attention", pairs, "3 channels");
}

#[test]
fn data_that_do_not_fill_the_shape() {
    let short = here!(Tensor::from_slice(&[1f32; 5], [2, 3], ()));
    refused(short, "from_slice", "6 values for shape [2, 3]", "5 values");
    let long = here!(Tensor::from_vec(vec![1u8; 7], [2, 3], ()));
    refused(long, "from_vec", "6 values for shape [2, 3]", "7 values");
    let ragged = here!(Tensor::from(vec![vec![1f32, 2.0], vec![3.0]]));
    refused(ragged, "from", "rows of one length, [2, 2]", "rows of different lengths");
    let deep = here!(Tensor::new(vec![vec![vec![1i64]], vec![vec![1, 2]]], ()));
    refused(deep, "new", "rows of one length, [2, 1, 1]", "rows of different lengths");
}
