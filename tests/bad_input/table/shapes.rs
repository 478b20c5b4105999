//! Shapes that do not fit each other.

use kiln::prelude::*;
use kiln::{Tensor, einsum};

use super::{Op, Tally, on, op};
use crate::{floats, ints};

pub fn run(tally: &mut Tally) {
    let others = [
        ("another row", floats([4])),
        ("more rows", floats([3, 3])),
        ("another matrix", floats([4, 5])),
        ("deeper", floats([2, 3, 3])),
        ("nothing", floats([0])),
    ];
    tally.all(&elementwise(), &others);
    let matrices =
        [("[4, 5]", floats([4, 5])), ("[2, 2, 2, 2]", floats([2, 2, 2, 2])), ("[0, 7]", floats([0, 7]))];
    tally.all(&matrix(), &matrices);
    let counts: [(&str, Vec<i64>); 8] = [
        ("less", vec![5]),
        ("more", vec![7]),
        ("two to work out", vec![-1, -1]),
        ("a negative", vec![-2, 3]),
        ("none", vec![0]),
        ("a rest", vec![4, -1]),
        ("beyond number", vec![i64::MAX, i64::MAX]),
        ("none to work out", vec![0, -1]),
    ];
    tally.all(&elements(), &counts);
    let indices =
        [("[5]", ints([0; 5])), ("[1, 1, 1]", ints([0]).reshape([1, 1, 1])), ("one number", ints([0]).i(0))];
    tally.all(&indexed(), &indices);
}

fn x() -> Tensor {
    floats([2, 3])
}

fn elementwise() -> Vec<Op<Tensor>> {
    vec![
        on("add", |y| x() + y),
        on("sub", |y| x() - y),
        on("mul", |y| y * x()),
        on("div", |y| x() / y),
        on("maximum", |y| x().maximum(y)),
        on("minimum", |y| x().minimum(y)),
        on("fmax", |y| x().fmax(y)),
        on("fmin", |y| x().fmin(y)),
        on("pow", |y| x().pow(y)),
        on("float_power", |y| x().float_power(y)),
        on("atan2", |y| x().atan2(y)),
        on("hypot", |y| x().hypot(y)),
        on("heaviside", |y| x().heaviside(y)),
        on("logaddexp", |y| x().logaddexp(y)),
        on("logaddexp2", |y| x().logaddexp2(y)),
        on("xlogy", |y| x().xlogy(y)),
        on("fmod", |y| x().fmod(y)),
        on("remainder", |y| x().remainder(y)),
        on("floor_divide", |y| x().floor_divide(y)),
        on("copysign", |y| x().copysign(y)),
        on("nextafter", |y| x().nextafter(y)),
        on("lerp", |y| x().lerp(y, 0.5)),
        on("a weight of lerp", |y| x().lerp(&x(), y)),
        on("addcmul", |y| x().addcmul(&x(), y, 1.0)),
        on("addcdiv", |y| x().addcdiv(y, &x(), 1.0)),
        on("clamp", |y| x().clamp(y, 3.0)),
        on("clamp_max", |y| x().clamp_max(y)),
        on("eq", |y| x().eq(y)),
        on("ne", |y| x().ne(y)),
        on("lt", |y| x().lt(y)),
        on("le", |y| x().le(y)),
        on("gt", |y| x().gt(y)),
        on("ge", |y| x().ge(y)),
        on("isclose", |y| x().isclose(y)),
        on("select", |y| x().gt(0).select(y, 0.0)),
        on("condition", |y| y.gt(0).select(x(), 0.0)),
        on("masked_fill", |y| x().masked_fill(&y.gt(0), 1.0)),
        on("masked_select", |y| x().masked_select(&y.gt(0))),
        on("broadcast_tensors", |y| Tensor::broadcast_tensors(&[&x(), y])),
        on("mse_loss", |y| x().mse_loss(y, Reduction::Mean)),
        on("l1_loss", |y| x().l1_loss(y, Reduction::Sum)),
        on("huber_loss", |y| x().huber_loss(y, Default::default())),
        on("smooth_l1_loss", |y| x().smooth_l1_loss(y, Default::default())),
        on("kl_div", |y| x().kl_div(y, Default::default())),
        on("poisson_nll_loss", |y| x().poisson_nll_loss(y, Default::default())),
        on("soft_margin_loss", |y| x().soft_margin_loss(y, Reduction::Mean)),
        on("hinge_embedding_loss", |y| x().hinge_embedding_loss(y, Default::default())),
        on("stack", |y| Tensor::stack(&[&x(), y], 0)),
        on("Var::set", |y| Var::new(x()).set(y.clone())),
        on("Param::set", |y| kiln::nn::Param::new(x()).set(y)),
        on("Buffer::set", |y| kiln::nn::Buffer::new(x()).set(y)),
        on("reshape_as", |y| x().reshape_as(&Tensor::cat(&[y.ravel(), floats([9])], 0))),
        on("a loop's carry", |y| {
            let y = y.clone();
            kiln::fori_loop(2, &[x()], move |_, _| vec![y])
        }),
    ]
}

fn matrix() -> Vec<Op<Tensor>> {
    vec![
        on("matmul", |y| x().matmul(y)),
        on("mm", |y| x().mm(y)),
        on("bmm", |y| floats([2, 2, 3]).bmm(y)),
        on("mv", |y| x().mv(y)),
        on("dot", |y| floats([3]).dot(y)),
        on("vdot", |y| floats([3]).vdot(y)),
        on("inner", |y| x().inner(y)),
        on("outer", |y| floats([3]).outer(y)),
        on("addmm", |y| floats([2, 2]).addmm(&x(), y, Default::default())),
        on("addmv", |y| floats([2]).addmv(&x(), y, Default::default())),
        on("baddbmm", |y| floats([2, 2, 2]).baddbmm(&floats([2, 2, 3]), y, Default::default())),
        on("addbmm", |y| floats([2, 2]).addbmm(&floats([2, 2, 3]), y, Default::default())),
        on("addr", |y| x().addr(y, &floats([3]), Default::default())),
        on("tensordot", |y| x().tensordot(y, 1)),
        on("tensordot of none", |y| x().tensordot(y, 9)),
        on("einsum", |y| einsum("ij,jk->ik", &[&x(), y])),
        on("einsum of a letter", |y| einsum("i->i", &[y])),
        on("linear", |y| x().linear(y, None)),
        on("a bias", |y| x().linear(&floats([5, 3]), Some(y))),
        on("bilinear", |y| x().bilinear(&x(), y, None)),
        on("solve", |y| floats([3, 3]).solve(y)),
        on("inv", |y| y.i((Ellipsis, ..1)).inv()),
        on("det", |y| y.i((Ellipsis, ..1)).det()),
        on("slogdet", |y| y.i((Ellipsis, ..1)).slogdet()),
        on("cholesky", |y| y.i((Ellipsis, ..1)).cholesky(false)),
        on("matrix_exp", |y| y.i((Ellipsis, ..1)).matrix_exp()),
        on("matrix_power", |y| y.i((Ellipsis, ..1)).matrix_power(2)),
        on("cdist", |y| x().cdist(y, 2.0)),
        on("linalg_cross", |y| y.linalg_cross(y, 0)),
        on("multi_dot", |y| kiln::tensor::matmul::multi_dot(&[&x(), y, &x()])),
        on("layer_norm", |y| x().layer_norm([3], NormOpts::default().weight(y))),
        on("a bias of layer_norm", |y| x().layer_norm([3], NormOpts::default().bias(y))),
        on("rms_norm", |y| x().rms_norm([3], NormOpts::default().weight(y))),
        on("group_norm", |y| floats([2, 3, 4]).group_norm(3, NormOpts::default().weight(y))),
        on("batch_norm", |y| floats([2, 3, 4]).batch_norm(RunningNormOpts::training().weight(y))),
        on("running statistics", |y| floats([2, 3, 4]).batch_norm(RunningNormOpts::running(y, y))),
        on("prelu", |y| floats([2, 3, 4]).prelu(y)),
        on("attention", |y| {
            floats([1, 1, 2, 3]).scaled_dot_product_attention(y, y, AttentionOpts::default())
        }),
        on("a mask", |y| {
            let q = floats([1, 1, 2, 3]);
            q.scaled_dot_product_attention(&q, &q, AttentionOpts::default().mask(y))
        }),
        on("grid_sample", |y| floats([1, 1, 4, 4]).grid_sample(y, Default::default())),
        on("cross_entropy", |y| floats([2, 3, 4]).cross_entropy(y, Default::default())),
        on("a weight of classes", |y| {
            x().cross_entropy(&ints([0, 1]), kiln::opts::CrossEntropyOpts::default().weight(y))
        }),
        on("multi_margin_loss", |y| y.multi_margin_loss(&ints([0, 1, 2]), Default::default())),
    ]
}

fn elements() -> Vec<Op<Vec<i64>>> {
    vec![
        op("reshape", |s: &Vec<i64>| x().reshape(s.as_slice())),
        op("view", |s: &Vec<i64>| x().view(s.as_slice())),
        op("unflatten", |s: &Vec<i64>| floats([2, 6]).unflatten(1, s.as_slice())),
        op("split", |s: &Vec<i64>| floats([6]).split(s.clone(), 0)),
        op("sum_to_size", |s: &Vec<i64>| floats([6, 6]).sum_to_size(s.as_slice())),
    ]
}

fn indexed() -> Vec<Op<Tensor>> {
    vec![
        on("gather", |i| x().gather(0, &i.unsqueeze(0).unsqueeze(0).unsqueeze(0))),
        on("index_add", |i| x().index_add(0, i, &floats([2, 3]), 1)),
        on("index_copy", |i| x().index_copy(0, i, &floats([2, 3]))),
        on("scatter of a tensor", |i| x().scatter_add(0, &i.unsqueeze(0).unsqueeze(0).unsqueeze(0), x())),
        on("put", |i| x().put(i, &floats([2]), false)),
        on("cross_entropy", |i| floats([2, 3]).cross_entropy(i, Default::default())),
        on("nll_loss", |i| floats([2, 3]).nll_loss(i, Default::default())),
        on("index_put", |i| x().index_put(&[Some(i)], &floats([7, 7]), false)),
    ]
}
