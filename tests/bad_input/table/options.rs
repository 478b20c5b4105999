//! Options that make no sense.

use kiln::Tensor;
use kiln::opts::QuantileOpts;
use kiln::prelude::*;

use super::{Op, Tally, op};
use crate::{floats, ints};

pub fn run(tally: &mut Tally) {
    tally.all(&at_least_one(), &[("0", 0), ("-1", -1), ("i64::MIN", i64::MIN)]);
    tally.all(&not_negative(), &[("-1", -1), ("i64::MIN", i64::MIN)]);
    tally.all(
        &probabilities(),
        &[("NaN", f64::NAN), ("-0.1", -0.1), ("1.1", 1.1), ("infinity", f64::INFINITY)],
    );
    tally.all(&groups(), &[("no group", 0), ("3 groups", 3), ("all groups", usize::MAX)]);
    words(tally);
    ranges(tally);
}

fn image() -> Tensor {
    floats([1, 4, 6, 6])
}

fn filter() -> Tensor {
    floats([4, 4, 2, 2])
}

fn at_least_one() -> Vec<Op<i64>> {
    let (row, box3) = (|| floats([1, 4, 6]), || floats([1, 4, 6, 6, 6]));
    let (row_filter, box_filter) = (|| floats([4, 4, 2]), || floats([4, 4, 2, 2, 2]));
    vec![
        op("stride of conv1d", move |&n| row().conv1d(&row_filter(), None, ConvOpts::default().stride(n))),
        op("stride of conv2d", |&n| image().conv2d(&filter(), None, ConvOpts::default().stride(n))),
        op("stride of conv3d", move |&n| box3().conv3d(&box_filter(), None, ConvOpts::default().stride(n))),
        op("one stride of conv2d", |&n| image().conv2d(&filter(), None, ConvOpts::default().stride([1, n]))),
        op("dilation of conv1d", move |&n| {
            row().conv1d(&row_filter(), None, ConvOpts::default().dilation(n))
        }),
        op("dilation of conv2d", |&n| image().conv2d(&filter(), None, ConvOpts::default().dilation(n))),
        op("stride of conv_transpose1d", move |&n| {
            row().conv_transpose1d(&row_filter(), None, ConvTransposeOpts::default().stride(n))
        }),
        op("stride of conv_transpose2d", |&n| {
            image().conv_transpose2d(&filter(), None, ConvTransposeOpts::default().stride(n))
        }),
        op("dilation of conv_transpose2d", |&n| {
            image().conv_transpose2d(&filter(), None, ConvTransposeOpts::default().dilation(n))
        }),
        op("window of max_pool1d", move |&n| row().max_pool1d(n, MaxPoolOpts::default())),
        op("window of max_pool2d", |&n| image().max_pool2d(n, MaxPoolOpts::default())),
        op("window of max_pool3d", move |&n| box3().max_pool3d(n, MaxPoolOpts::default())),
        op("window of avg_pool1d", move |&n| row().avg_pool1d(n, AvgPoolOpts::default())),
        op("window of avg_pool2d", |&n| image().avg_pool2d(n, AvgPoolOpts::default())),
        op("window of avg_pool3d", move |&n| box3().avg_pool3d(n, AvgPoolOpts::default())),
        op("stride of max_pool2d", |&n| image().max_pool2d(2, MaxPoolOpts::default().stride(n))),
        op("dilation of max_pool2d", |&n| image().max_pool2d(2, MaxPoolOpts::default().dilation(n))),
        op("stride of avg_pool2d", |&n| image().avg_pool2d(2, AvgPoolOpts::default().stride(n))),
        op("kernel of im2col", |&n| image().im2col(n, Default::default())),
        op("stride of im2col", |&n| image().im2col(2, kiln::opts::Im2colOpts::default().stride(n))),
        op("dilation of im2col", |&n| image().im2col(2, kiln::opts::Im2colOpts::default().dilation(n))),
        op("steps of a range", |&n| image().i((.., .., r(0, 4).step(if n < 0 { 0 } else { n })))),
    ]
}

fn not_negative() -> Vec<Op<i64>> {
    vec![
        op("padding of conv2d", |&n| image().conv2d(&filter(), None, ConvOpts::default().padding(n))),
        op("padding of conv_transpose2d", |&n| {
            image().conv_transpose2d(&filter(), None, ConvTransposeOpts::default().padding(n))
        }),
        op("output padding of conv_transpose2d", |&n| {
            image().conv_transpose2d(&filter(), None, ConvTransposeOpts::default().output_padding(n))
        }),
        op("padding of max_pool2d", |&n| image().max_pool2d(2, MaxPoolOpts::default().padding(n))),
        op("padding of avg_pool2d", |&n| image().avg_pool2d(2, AvgPoolOpts::default().padding(n))),
        op("padding of im2col", |&n| image().im2col(2, kiln::opts::Im2colOpts::default().padding(n))),
        op("expand", |&n: &i64| floats([1, 2]).expand([n.saturating_sub(1), 2])),
        op("repeat", |&n| floats([1, 2]).repeat([n, 2])),
        op("tile", |&n| floats([1, 2]).tile([n, 2])),
        op("split", |&n| floats([4]).split(n, 0)),
        op("size of interpolate", |&n| image().interpolate(kiln::opts::InterpolateOpts::default().size(n))),
        op("blank of ctc_loss", |&n| {
            let log_probs = floats([4, 1, 3]).log_softmax(-1);
            let opts = kiln::opts::CtcLossOpts::default().blank(n);
            log_probs.ctc_loss(&ints([1, 2]).reshape([1, 2]), &ints([4]), &ints([2]), opts)
        }),
    ]
}

fn probabilities() -> Vec<Op<f64>> {
    vec![
        op("dropout", |&p| floats([4]).dropout(p)),
        op("a generator's dropout", |&p| kiln::Generator::new(1).dropout(&floats([4]), p)),
        op("quantile", |&p| floats([4]).quantile(p, .., QuantileOpts::default())),
        op("Dropout", |&p| {
            use kiln::nn::Layer;
            kiln::nn::Dropout::new(p).forward(&floats([4]))
        }),
        op("label smoothing", |&p| {
            let opts = kiln::opts::CrossEntropyOpts::default().label_smoothing(p);
            floats([2, 3]).cross_entropy(&ints([0, 1]), opts)
        }),
    ]
}

fn groups() -> Vec<Op<usize>> {
    vec![
        op("conv2d", |&n| image().conv2d(&filter(), None, ConvOpts::default().groups(n))),
        op("conv1d", |&n| floats([1, 4, 6]).conv1d(&floats([4, 4, 2]), None, ConvOpts::default().groups(n))),
        op("conv_transpose2d", |&n| {
            image().conv_transpose2d(&filter(), None, ConvTransposeOpts::default().groups(n))
        }),
        op("group_norm", |&n| image().group_norm(n, NormOpts::default())),
        op("channel_shuffle", |&n| image().channel_shuffle(n)),
        op("pixel_shuffle", |&n| image().pixel_shuffle(n)),
        op("pixel_unshuffle", |&n| image().pixel_unshuffle(if n == 3 { 4 } else { n })),
        op("GroupNorm", |&n| {
            use kiln::nn::Layer;
            kiln::nn::GroupNorm::new(n, 4, ()).forward(&image())
        }),
        op("heads", |&n| {
            use kiln::nn::Layer;
            kiln::nn::MultiheadAttention::new(4, n, Default::default(), ()).forward(&floats([1, 2, 4]))
        }),
        op("Conv2d", |&n| {
            use kiln::nn::Layer;
            kiln::nn::Conv2d::new(4, 4, [2, 2], ConvOpts::default().groups(n), ()).forward(&image())
        }),
    ]
}

fn words(tally: &mut Tally) {
    let (x, y) = (floats([2, 3]), floats([3, 4]));
    for equation in [
        "",
        "->",
        "ij",
        "ij,jk,kl->il",
        "ij,jk->im",
        "ij,jk->ii",
        "i1,1k->ik",
        "ij,jk-ik",
        "ijk,jk->i",
        "...ij,jk->..q",
        "ij;jk->ik",
        "é,jk->k",
    ] {
        tally.row(format!("einsum {equation:?}"), || kiln::einsum(equation, &[&x, &y]));
    }
    tally.row("einsum of nothing", || kiln::einsum("->", &[]));
    tally.row("cat of nothing", || Tensor::cat::<Tensor>(&[], 0));
    tally.row("stack of nothing", || Tensor::stack::<Tensor>(&[], 0));
    tally.row("hstack of nothing", || Tensor::hstack::<Tensor>(&[]));
    tally.row("vstack of nothing", || Tensor::vstack::<Tensor>(&[]));
    tally.row("block_diag of nothing", || Tensor::block_diag::<Tensor>(&[]));
    tally.row("multi_dot of nothing", || kiln::tensor::matmul::multi_dot(&[]));
}

fn ranges(tally: &mut Tally) {
    for (low, high) in
        [(1.0, 0.0), (f64::NAN, 1.0), (0.0, f64::NAN), (f64::NEG_INFINITY, 0.0), (-f64::MAX, f64::MAX)]
    {
        tally.row(format!("uniform {low}..{high}"), || Tensor::uniform(low, high, [2], ()));
    }
    for std in [-1.0, f64::NAN, f64::NEG_INFINITY] {
        tally.row(format!("normal by {std}"), || Tensor::normal(0.0, std, [2], ()));
    }
    for (low, high) in [(0, 0), (5, 3), (i64::MIN, i64::MAX), (i64::MAX, i64::MIN)] {
        tally.row(format!("randint {low}..{high}"), || Tensor::randint(low, high, [2], ()));
        tally.row(format!("randint_like {low}..{high}"), || ints([1, 2]).randint_like(low, high));
    }
    for (low, high, dtype) in
        [(0, 300, DType::U8), (-1, 3, DType::U32), (0, 1 << 40, DType::I32), (0, 5000, DType::F16)]
    {
        tally.row(format!("randint of {dtype}"), || Tensor::randint(low, high, [2], dtype));
    }
    for (n, dtype) in [(300, DType::U8), (1 << 13, DType::F16), (1 << 10, DType::BF16), (3, DType::Bool)] {
        tally.row(format!("randperm of {dtype}"), || Tensor::randperm(n, dtype));
    }
    for index in [4, -5, i64::MAX, i64::MIN] {
        tally.row(format!("position {index}"), || floats([4]).i(index));
        tally.row(format!("select_index {index}"), || floats([4]).select_index(0, index));
        tally.row(format!("narrow from {index}"), || floats([4]).narrow(0, index, 1));
    }
    for shift in [[1, 2, 3], [0, 0, i64::MIN]] {
        tally.row("roll of too many", || floats([4]).roll(shift, 0));
    }
    tally.row("a quarter of one axis", || floats([4]).rot90(1, [0, 1]));
    tally.row("fliplr of a row", || floats([4]).fliplr());
    tally.row("histc from more to less", || floats([4]).histc(3, 1.0, 0.0));
    tally.row("histc to NaN", || floats([4]).histc(3, 0.0, f64::NAN));
    tally.row("no bins", || floats([4]).histc(0, 0.0, 1.0));
    tally.row("as_strided beyond", || floats([4]).as_strided([4], [2], 0));
    tally.row("as_strided before", || floats([4]).as_strided([4], [-1], 0));
}
