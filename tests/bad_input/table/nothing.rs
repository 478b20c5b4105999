//! Invalid tensors: whatever is asked of one gives the mistake that made it.

use kiln::DType;
use kiln::prelude::*;
use kiln::{Tensor, einsum};

use super::{Op, Tally, op};
use crate::{floats, ints};

/// An invalid tensor, the line of which is its operation's.
#[track_caller]
fn bad() -> Tensor {
    floats([2, 3]) + floats([4])
}

macro_rules! methods {
    ($($name:ident)*) => {
        vec![$(op(stringify!($name), |_: &()| bad().$name())),*]
    };
}

pub fn run(tally: &mut Tally) {
    let input = [("an invalid tensor", ())];
    tally.all(&unary(), &input);
    tally.all(&moving(), &input);
    tally.all(&several(), &input);
    tally.all(&asking(), &input);
}

fn unary() -> Vec<Op<()>> {
    methods! {
        abs neg sign sgn square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos
        atan sinh cosh tanh asinh acosh atanh erf erfc erfinv sigmoid logit floor ceil trunc round frac relu relu6
        silu gelu gelu_tanh mish hardswish hardsigmoid selu softsign tanhshrink logsigmoid isnan isinf isfinite
        signbit bitwise_not logical_not nan_to_num lgamma digamma i0 sinc deg2rad rad2deg zeros_like ones_like
        rand_like randn_like empty_like bernoulli t mt ravel contiguous copy atleast_1d atleast_2d atleast_3d
        fliplr flipud trace det slogdet inv matrix_exp msort corrcoef cpu materialize
    }
}

fn moving() -> Vec<Op<()>> {
    vec![
        op("reshape", |()| bad().reshape([6])),
        op("view", |()| bad().view([-1])),
        op("flatten", |()| bad().flatten(0, -1)),
        op("unflatten", |()| bad().unflatten(0, [2, 1])),
        op("permute", |()| bad().permute([1, 0])),
        op("transpose", |()| bad().transpose(0, 1)),
        op("movedim", |()| bad().movedim(0, 1)),
        op("squeeze", |()| bad().squeeze(..)),
        op("unsqueeze", |()| bad().unsqueeze(0)),
        op("expand", |()| bad().expand([2, 2, 3])),
        op("repeat", |()| bad().repeat([2, 2])),
        op("tile", |()| bad().tile([2])),
        op("repeat_interleave", |()| bad().repeat_interleave(2, 0)),
        op("flip", |()| bad().flip(0)),
        op("roll", |()| bad().roll(1, 0)),
        op("rot90", |()| bad().rot90(1, [0, 1])),
        op("unfold", |()| bad().unfold(0, 1, 1)),
        op("pad", |()| bad().pad(&[1, 1], PadMode::Reflect)),
        op("split", |()| bad().split(1, 0)),
        op("chunk", |()| bad().chunk(2, 0)),
        op("unbind", |()| bad().unbind(0)),
        op("narrow", |()| bad().narrow(0, 0, 1)),
        op("i", |()| bad().i((0, ..))),
        op("diag", |()| bad().diag(0)),
        op("tril", |()| bad().tril(0)),
        op("triu", |()| bad().triu(0)),
        op("to", |()| bad().to(Device::null())),
        op("to_dtype", |()| bad().to_dtype(DType::F16)),
        op("bitcast", |()| bad().bitcast(DType::I32)),
        op("sum", |()| bad().sum(..)),
        op("mean", |()| bad().mean(0)),
        op("amax", |()| bad().amax(0)),
        op("argmax", |()| bad().argmax(0)),
        op("cumsum", |()| bad().cumsum(0)),
        op("softmax", |()| bad().softmax(0)),
        op("sort", |()| bad().sort(0, false)),
        op("topk", |()| bad().topk(1, TopkOpts::default())),
        op("median", |()| bad().median(0)),
        op("norm", |()| bad().norm(2.0, ..)),
        op("clamp", |()| bad().clamp(0.0, 1.0)),
        op("pow", |()| bad().pow(2.0)),
        op("dropout", |()| bad().dropout(0.5)),
        op("leaky_relu", |()| bad().leaky_relu(0.1)),
        op("elu", |()| bad().elu(1.0)),
        op("softplus", |()| bad().softplus(1.0, 20.0)),
        op("glu", |()| bad().glu(0)),
        op("one_hot", |()| bad().one_hot(3)),
        op("new_zeros", |()| bad().new_zeros([3])),
        op("full_like", |()| bad().full_like(3)),
        op("layer_norm", |()| bad().layer_norm([3], NormOpts::default())),
        op("group_norm", |()| bad().group_norm(1, NormOpts::default())),
        op("batch_norm", |()| bad().batch_norm(RunningNormOpts::training())),
        op("max_pool2d", |()| bad().max_pool2d(2, MaxPoolOpts::default())),
        op("avg_pool1d", |()| bad().avg_pool1d(2, AvgPoolOpts::default())),
        op("pixel_shuffle", |()| bad().pixel_shuffle(2)),
        op("interpolate", |()| bad().interpolate(Default::default())),
        op("cholesky", |()| bad().cholesky(false)),
        op("matrix_power", |()| bad().matrix_power(2)),
    ]
}

fn several() -> Vec<Op<()>> {
    let x = || floats([3, 3]);
    vec![
        op("add", move |()| x() + bad()),
        op("sub from a number", |()| 1.0 - bad()),
        op("div", move |()| bad() / x()),
        op("neg", |()| -bad()),
        op("maximum", move |()| x().maximum(&bad())),
        op("eq", move |()| x().eq(bad())),
        op("select", move |()| x().gt(0).select(bad(), 0.0)),
        op("condition", move |()| bad().select(x(), 0.0)),
        op("masked_fill", move |()| x().masked_fill(&bad(), 0.0)),
        op("matmul", move |()| x().matmul(&bad())),
        op("linear", move |()| x().linear(&x(), Some(&bad()))),
        op("addmm", move |()| bad().addmm(&x(), &x(), Default::default())),
        op("einsum", move |()| einsum("ij,jk", &[&x(), &bad()])),
        op("conv2d", |()| floats([1, 3, 4, 4]).conv2d(&bad(), None, ConvOpts::default())),
        op("a bias", |()| {
            floats([1, 3, 4, 4]).conv2d(&floats([2, 3, 1, 1]), Some(&bad()), ConvOpts::default())
        }),
        op("attention", |()| {
            floats([1, 1, 3, 3]).scaled_dot_product_attention(
                &floats([1, 1, 3, 3]),
                &bad(),
                AttentionOpts::default(),
            )
        }),
        op("cat", move |()| Tensor::cat(&[x(), bad()], 0)),
        op("stack", move |()| Tensor::stack(&[bad(), x()], 0)),
        op("meshgrid", move |()| Tensor::meshgrid(&[bad(), x()], Default::default())),
        op("gather", move |()| x().gather(0, &bad())),
        op("index_select", |()| bad().index_select(0, &ints([0]))),
        op("scatter", move |()| x().scatter(0, &bad(), 1.0)),
        op("index_put", move |()| x().index_put(&[Some(&ints([0]))], &bad(), false)),
        op("embedding", |()| ints([0]).embedding(&bad())),
        op("cross_entropy", move |()| x().cross_entropy(&bad(), Default::default())),
        op("mse_loss", move |()| bad().mse_loss(&x(), Reduction::Mean)),
        op("layer_norm", move |()| x().layer_norm([3], NormOpts::default().weight(&bad()))),
        op("where a loop begins", |()| kiln::fori_loop(2, &[bad()], |_, c| c.to_vec())),
        op("what a loop uses", move |()| kiln::fori_loop(2, &[x()], |_, c| vec![&c[0] + bad()])),
        op("a composite's input", |()| kiln::composite("mine", &[], &[bad()], |i| i.to_vec())),
        op("a composite's result", move |()| kiln::composite("mine", &[], &[x()], |_| vec![bad()])),
        op("checkpoint", |()| kiln::checkpoint(|x| x.exp(), &bad())),
        op("grad", move |()| kiln::grad(&bad(), &[&x()])),
    ]
}

fn asking() -> Vec<Op<()>> {
    vec![
        op("realize", |()| bad().realize().map(|_| ())),
        op("realize of several", |()| kiln::realize(&[&floats([1]), &bad()])),
        op("to_vec", |()| bad().to_vec::<f32>()),
        op("item", |()| bad().item::<f32>()),
        op("to_text", |()| bad().to_text()),
        op("show", |()| bad().show()),
        op("plan", |()| bad().plan().map(|_| ())),
        op("dims", |()| bad().dims::<2>()),
        op("dim", |()| bad().dim(0)),
        op("backward", |()| bad().backward()),
        op("nonzero", |()| bad().nonzero()),
        op("nonzero_axes", |()| bad().nonzero_axes()),
        op("unique", |()| bad().unique(..).map(|_| ())),
        op("masked_select", |()| bad().masked_select(&floats([2]).gt(0))),
        op("a mask", |()| floats([2]).masked_select(&bad())),
        op("pin_memory", |()| bad().pin_memory()),
        op("Var::set", |()| kiln::Var::new(floats([2])).set(bad())),
        op("Param::set", |()| kiln::nn::Param::new(floats([2])).set(&bad())),
        op("set_grad", |()| kiln::nn::Param::new(floats([2])).set_grad(Some(&bad()))),
        op("Buffer::set", |()| kiln::nn::Buffer::new(floats([2])).set(&bad())),
        op("insert", |()| kiln::StateDict::new().insert("x", &bad())),
        op("Rows", |()| kiln::data::Rows::new(bad()).map(|_| ())),
    ]
}
