//! Axes that there are not.

use kiln::Tensor;
use kiln::opts::DiffOpts;
use kiln::opts::QuantileOpts;
use kiln::opts::VarOpts;
use kiln::prelude::*;

use super::{Op, Tally, op};
use crate::{floats, ints};

pub fn run(tally: &mut Tally) {
    let axes = [
        ("axis 2", 2),
        ("axis 9", 9),
        ("axis -3", -3),
        ("the largest axis", i64::MAX),
        ("the least axis", i64::MIN),
    ];
    tally.all(&reductions(), &axes);
    tally.all(&along(), &axes);
    tally.all(&parts(), &axes);
    let pairs = [
        ("axes 0 and 2", [0, 2]),
        ("axes -3 and 0", [-3, 0]),
        ("one axis twice", [1, -1]),
        ("the largest axes", [i64::MAX; 2]),
    ];
    tally.all(&of_two(), &pairs);
}

fn x() -> Tensor {
    floats([4, 4])
}

fn reductions() -> Vec<Op<i64>> {
    vec![
        op("sum", |&a| x().sum(a)),
        op("sum_keepdim", |&a| x().sum_keepdim(a)),
        op("mean", |&a| x().mean(a)),
        op("prod", |&a| x().prod(a)),
        op("amax", |&a| x().amax(a)),
        op("amin", |&a| x().amin(a)),
        op("any", |&a| x().gt(0).any(a)),
        op("all", |&a| x().gt(0).all(a)),
        op("logsumexp", |&a| x().logsumexp(a)),
        op("argmax", |&a| x().argmax(a)),
        op("argmin", |&a| x().argmin(a)),
        op("argmax_keepdim", |&a| x().argmax_keepdim(a)),
        op("max_with_index", |&a| x().max_with_index(a)),
        op("min_with_index", |&a| x().min_with_index(a)),
        op("aminmax", |&a| x().aminmax(a)),
        op("var", |&a| x().var(a)),
        op("std", |&a| x().std(a)),
        op("var_mean", |&a| x().var_mean(a, VarOpts::default())),
        op("norm", |&a| x().norm(2.0, a)),
        op("median", |&a| x().median(a)),
        op("nanmedian", |&a| x().nanmedian(a)),
        op("mode", |&a| x().mode(a)),
        op("quantile", |&a| x().quantile(0.5, a, QuantileOpts::default())),
        op("sum of two axes", |&a| x().sum([0, a])),
    ]
}

fn along() -> Vec<Op<i64>> {
    vec![
        op("softmax", |&a| x().softmax(a)),
        op("softmax_as", |&a| x().softmax_as(a, DType::F64)),
        op("log_softmax", |&a| x().log_softmax(a)),
        op("softmin", |&a| x().softmin(a)),
        op("cumsum", |&a| x().cumsum(a)),
        op("cumprod", |&a| x().cumprod(a)),
        op("cummax", |&a| x().cummax(a)),
        op("cummin", |&a| x().cummin(a)),
        op("logcumsumexp", |&a| x().logcumsumexp(a)),
        op("sort", |&a| x().sort(a, false)),
        op("argsort", |&a| x().argsort(a, true)),
        op("topk", |&a| x().topk(1, TopkOpts::default().axis(a))),
        op("kthvalue", |&a| x().kthvalue(1, a)),
        op("flip", |&a| x().flip(a)),
        op("roll", |&a| x().roll(1, a)),
        op("fftshift", |&a| x().fftshift(a)),
        op("glu", |&a| x().glu(a)),
        op("normalize", |&a| x().normalize(2.0, a, 1e-12)),
        op("renorm", |&a| x().renorm(2.0, a, 1.0)),
        op("diff", |&a| x().diff(DiffOpts::default().axis(a))),
        op("trapezoid", |&a| x().trapezoid(1.0, a)),
        op("cumulative_trapezoid", |&a| x().cumulative_trapezoid(1.0, a)),
        op("vecdot", |&a| x().vecdot(&x(), a)),
        op("cosine_similarity", |&a| x().cosine_similarity(&x(), a, 1e-8)),
        op("linalg_cross", |&a| floats([3, 3]).linalg_cross(&floats([3, 3]), a)),
        op("cross", |&a| floats([3, 3]).cross(&floats([3, 3]), Some(a))),
        op("unique", |&a| x().unique(a)),
        op("unique_consecutive", |&a| x().unique_consecutive(a)),
    ]
}

fn parts() -> Vec<Op<i64>> {
    vec![
        op("cat", |&a| Tensor::cat(&[x(), x()], a)),
        op("transpose", |&a| x().transpose(0, a)),
        op("swapaxes", |&a| x().swapaxes(a, 0)),
        op("squeeze", |&a| x().squeeze(a)),
        op("flatten", |&a| x().flatten(0, a)),
        op("unflatten", |&a| x().unflatten(a, [2, 2])),
        op("permute", |&a| x().permute([0, a])),
        op("movedim", |&a| x().movedim(0, a)),
        op("split", |&a| x().split(2, a)),
        op("chunk", |&a| x().chunk(2, a)),
        op("tensor_split", |&a| x().tensor_split(2, a)),
        op("unbind", |&a| x().unbind(a)),
        op("narrow", |&a| x().narrow(a, 0, 1)),
        op("select_index", |&a| x().select_index(a, 0)),
        op("slice", |&a| x().slice(a, r(0, 1))),
        op("unfold", |&a| x().unfold(a, 2, 1)),
        op("repeat_interleave", |&a| x().repeat_interleave(2, a)),
        op("gather", |&a| x().gather(a, &ints([0, 1]).reshape([1, 2]))),
        op("index_select", |&a| x().index_select(a, &ints([0]))),
        op("take_along_dim", |&a| x().take_along_dim(&ints([0]).reshape([1, 1]), a)),
        op("scatter", |&a| x().scatter(a, &ints([0]).reshape([1, 1]), 1.0)),
        op("scatter_add", |&a| x().scatter_add(a, &ints([0]).reshape([1, 1]), x())),
        op("index_add", |&a| x().index_add(a, &ints([0]), &floats([1, 4]), 1)),
        op("index_copy", |&a| x().index_copy(a, &ints([0]), &floats([1, 4]))),
        op("index_fill", |&a| x().index_fill(a, &ints([0]), 1.0)),
        op("select_scatter", |&a| x().select_scatter(&floats([4]), a, 0)),
        op("slice_update", |&a| x().slice_update(a, 0, &floats([1, 4]))),
        op("dim", |&a| x().dim(a)),
    ]
}

fn of_two() -> Vec<Op<[i64; 2]>> {
    vec![
        op("sum", |&a| x().sum(a)),
        op("permute", |&a| x().permute(a)),
        op("rot90", |&a| x().rot90(1, a)),
        op("matrix_norm", |&a| x().matrix_norm(kiln::opts::MatrixNorm::Frobenius, a)),
        op("flip", |&a| x().flip(a)),
        op("var", |&a| x().var(a)),
    ]
}
