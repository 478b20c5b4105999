//! Sizes beyond memory, beyond number, and below nothing.

use kiln::Tensor;
use kiln::prelude::*;
use kiln::{DType, Device};

use super::{Op, Tally, op};
use crate::{floats, ints};

pub fn run(tally: &mut Tally) {
    for device in [Device::cpu(), Device::meta(), Device::null()] {
        let shapes: [(&str, (Vec<usize>, Device)); 6] = [
            ("elements beyond number", (vec![1 << 33, 1 << 33], device)),
            ("an extent beyond i64", (vec![usize::MAX], device)),
            ("an extent beyond i64 of nothing", (vec![0, usize::MAX], device)),
            ("bytes beyond number", (vec![1 << 32, 1 << 30, 4], device)),
            ("all beyond number", (vec![usize::MAX, usize::MAX, usize::MAX], device)),
            ("256 axes", (vec![1; 256], device)),
        ];
        tally.all(&created(), &shapes);
    }
    let counts = [
        ("the largest usize", usize::MAX),
        ("half of it", usize::MAX / 2),
        ("2^62", 1usize << 62),
        ("2^61", 1usize << 61),
    ];
    tally.all(&counted(), &counts);
    tally.all(&grown(), &[("i64::MAX", i64::MAX), ("2^62", 1i64 << 62), ("-1", -2), ("i64::MIN", i64::MIN)]);
    one_by_one(tally);
}

type Created = (Vec<usize>, Device);

fn created() -> Vec<Op<Created>> {
    vec![
        op("zeros", |(s, d): &Created| Tensor::zeros(s, *d)),
        op("ones", |(s, d): &Created| Tensor::ones(s, (*d, DType::F64))),
        op("full", |(s, d): &Created| Tensor::full(s, 2.5, *d)),
        op("empty", |(s, d): &Created| Tensor::empty(s, *d)),
        op("rand", |(s, d): &Created| Tensor::rand(s, *d)),
        op("randn", |(s, d): &Created| Tensor::randn(s, *d)),
        op("uniform", |(s, d): &Created| Tensor::uniform(-1.0, 1.0, s, *d)),
        op("normal", |(s, d): &Created| Tensor::normal(0.0, 2.0, s, *d)),
        op("randint", |(s, d): &Created| Tensor::randint(0, 9, s, *d)),
        op("new_zeros", |(s, d): &Created| Tensor::ones([1], *d).new_zeros(s)),
        op("new_ones", |(s, d): &Created| Tensor::ones([1], *d).new_ones(s)),
        op("new_full", |(s, d): &Created| Tensor::ones([1], *d).new_full(s, 3)),
        op("generator", |(s, d): &Created| kiln::Generator::new(1).rand(s, *d)),
        op("LayerNorm", |(s, d): &Created| kiln::nn::LayerNorm::new(s, *d).weight.get()),
    ]
}

fn counted() -> Vec<Op<usize>> {
    vec![
        op("randperm", |&n| Tensor::randperm(n, ())),
        op("eye", |&n| Tensor::eye(n, n, ())),
        op("tril_indices", |&n| Tensor::tril_indices(n, n, 0, ())),
        op("triu_indices", |&n| Tensor::triu_indices(n, n, 0, ())),
        op("linspace", |&n| Tensor::linspace(0.0, 1.0, n, ())),
        op("logspace", |&n| Tensor::logspace(0.0, 1.0, n, 2.0, ())),
        op("one_hot", |&n| ints([0, 1]).one_hot(n)),
        op("repeat_interleave", |&n| floats([2, 2]).repeat_interleave(n, 0)),
        op("repeat_interleave_by", |&n| floats([2, 2]).repeat_interleave_by(&ints([1, 1]), 0, n)),
        op("bincount", |&n| ints([0, 1]).bincount(None, n)),
        op("histc", |&n| floats([4]).histc(n, 0.0, 1.0)),
        op("topk", |&n| floats([4]).topk(n, TopkOpts::default())),
        op("kthvalue", |&n| floats([4]).kthvalue(n, 0)),
        op("unfold", |&n| floats([4]).unfold(0, n, 1)),
        op("pixel_shuffle", |&n| floats([1, 4, 2, 2]).pixel_shuffle(n)),
        op("pixel_unshuffle", |&n| floats([1, 4, 2, 2]).pixel_unshuffle(n)),
        op("channel_shuffle", |&n| floats([1, 4, 2, 2]).channel_shuffle(n)),
        op("group_norm", |&n| floats([1, 4, 2, 2]).group_norm(n, NormOpts::default())),
        op("groups of a convolution", |&n| {
            floats([1, 4, 2, 2]).conv2d(&floats([4, 4, 1, 1]), None, ConvOpts::default().groups(n))
        }),
        op("expand", |&n| floats([1, 4]).expand([(n / 2) as i64, 4])),
        op("Embedding", |&n| kiln::nn::Embedding::new(n, 4, ()).weight.get()),
        op("Linear", |&n| kiln::nn::Linear::new(n, n, ()).weight.get()),
        op("Conv2d", |&n| kiln::nn::Conv2d::new(n, 4, [n, n], ConvOpts::default(), ()).weight.get()),
        op("Bilinear", |&n| kiln::nn::Bilinear::new((n, n), 2, ()).weight.get()),
        op("BatchNorm", |&n| kiln::nn::BatchNorm::new(n, ()).running_mean.get()),
        op("MultiheadAttention", |&n| {
            kiln::nn::MultiheadAttention::new(n, 1, Default::default(), ()).q_proj.weight.get()
        }),
        op("Lstm", |&n| kiln::nn::Lstm::new(4, n, 1, ()).forward(&floats([1, 1, 4]), None).0),
        op("layers of a Gru", |&n| kiln::nn::Gru::new(4, 4, n, ()).forward(&floats([1, 1, 4]), None).0),
        op("KvCache", |&n| {
            let layer = kiln::nn::MultiheadAttention::new(4, 2, Default::default(), ());
            layer.attend_cached(&floats([1, 1, 4]), &layer.cache(n, n))
        }),
    ]
}

fn grown() -> Vec<Op<i64>> {
    vec![
        op("expand", |&n| floats([1, 1]).expand([n, n])),
        op("repeat", |&n| floats([2, 2]).repeat([n, n])),
        op("tile", |&n| floats([2, 2]).tile([n, 2])),
        op("reshape", |&n| floats([2, 2]).reshape([n, 2])),
        op("unflatten", |&n| floats([2, 2]).unflatten(0, [n, 2])),
        op("narrow", |&n: &i64| floats([2, 2]).narrow(0, n.saturating_sub(1), 1)),
        op("i", |&n| floats([1]).i(if n == -2 { 1 } else { n })),
        op("select_index", |&n| floats([1]).select_index(0, n)),
        op("window of a pool", |&n| floats([1, 1, 4, 4]).max_pool2d(n, MaxPoolOpts::default())),
        op("padding of a pool", |&n| floats([1, 1, 4, 4]).avg_pool2d(2, AvgPoolOpts::default().padding(n))),
        op("padding", |&n| {
            floats([1, 1, 4, 4]).conv2d(&floats([1, 1, 3, 3]), None, ConvOpts::default().padding(n))
        }),
        op("dilation", |&n| {
            floats([1, 1, 4, 4]).conv2d(&floats([1, 1, 3, 3]), None, ConvOpts::default().dilation(n))
        }),
        op("output_padding", |&n| {
            let opts = ConvTransposeOpts::default().output_padding(n);
            floats([1, 1, 4, 4]).conv_transpose2d(&floats([1, 1, 3, 3]), None, opts)
        }),
        op("reflect", |&n: &i64| floats([1, 4]).pad(&[n.saturating_sub(3), 0], PadMode::Reflect)),
        op("im2col", |&n| floats([1, 1, 4, 4]).im2col(n, Default::default())),
        op("col2im", |&n| floats([1, 4, 4]).col2im(n, 2, Default::default())),
        op("interpolate", |&n| {
            let opts = kiln::opts::InterpolateOpts::default().size(n);
            floats([1, 1, 4, 4]).interpolate(opts)
        }),
        op("adaptive_avg_pool2d", |&n| kiln::nn::AdaptiveAvgPool2d::new(n).forward_bad()),
        op("a position", |&n: &i64| floats([4]).i(n.saturating_mul(4))),
        op("randint", |&n| Tensor::randint(n, n, [2], ())),
        op("matrix_power of none", |&n| floats([2, 3]).matrix_power(n)),
    ]
}

/// A layer that is given an image.
trait Bad {
    fn forward_bad(&self) -> Tensor;
}

impl<L: kiln::nn::Layer> Bad for L {
    #[track_caller]
    fn forward_bad(&self) -> Tensor {
        self.forward(&floats([1, 1, 4, 4]))
    }
}

fn one_by_one(tally: &mut Tally) {
    tally.row("arange beyond number", || Tensor::arange(i64::MIN, i64::MAX, 1, ()));
    tally.row("arange by nothing", || Tensor::arange(0, 5, 0, ()));
    tally.row("arange of floats beyond number", || Tensor::arange(0.0, 1e300, 1.0, ()));
    tally.row("arange to NaN", || Tensor::arange(0.0, f64::NAN, 1.0, ()));
    tally.row("an outer product", || {
        let x = Tensor::ones([1 << 33], Device::meta());
        x.outer(&x)
    });
    tally.row("kron", || {
        let x = Tensor::ones([1 << 20, 1 << 20], Device::meta());
        x.kron(&x)
    });
    tally.row("meshgrid", || {
        let x = Tensor::ones([1 << 33], Device::meta());
        Tensor::meshgrid(&[&x, &x], Default::default())
    });
    tally.row("a product of products", || {
        let x = Tensor::ones([1 << 33, 1], Device::meta());
        x.matmul(&x.transpose(0, 1))
    });
    tally.row("a wider type", || Tensor::ones([1 << 62], (Device::cpu(), DType::U8)).to_dtype(DType::F64));
    tally.row("cat", || {
        let x = Tensor::ones([1 << 62], (Device::cpu(), DType::U8));
        Tensor::cat(&[&x, &x, &x], 0)
    });
    tally.row("cat of many", || {
        let x = Tensor::ones([1 << 58], (Device::cpu(), DType::U8));
        Tensor::cat(&vec![x; 64], 0)
    });
    tally.row("block_diag", || {
        let x = Tensor::ones([1 << 31, 1 << 31], (Device::cpu(), DType::U8));
        Tensor::block_diag(&[&x, &x])
    });
    tally
        .row("stacked windows", || Tensor::ones([1 << 40], (Device::cpu(), DType::U8)).unfold(0, 1 << 30, 1));
    tally.row("what a scan stacks", || {
        let many = Tensor::zeros([1], ()).expand([1i64 << 60]);
        kiln::scan(&[], &[many], |_, s| (vec![], vec![s[0].expand([8])])).1
    });
    tally.row("loops too deep", || nested(100, &floats([1])));
}

fn nested(depth: usize, x: &Tensor) -> Tensor {
    if depth == 0 {
        return x.exp();
    }
    kiln::fori_loop(1, &[x.clone()], |_, c| vec![nested(depth - 1, &c[0])]).remove(0)
}
