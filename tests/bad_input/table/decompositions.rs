//! Matrices that decompositions do not take.

use kiln::Tensor;
use kiln::opts::{MatrixNorm, ToleranceOpts};
use kiln::prelude::*;

use super::{Op, Tally, on, op};
use crate::floats;

pub fn run(tally: &mut Tally) {
    let inputs = [
        ("i64", Tensor::ones([4, 4], DType::I64)),
        ("bool", Tensor::ones([4, 4], DType::Bool)),
        ("f16", Tensor::ones([4, 4], DType::F16)),
        ("bf16", Tensor::ones([4, 4], DType::BF16)),
        ("a vector", floats([4])),
        ("one number", floats([1]).i(0)),
        ("on a GPU", Tensor::ones([4, 4], Device::cuda(7))),
        ("on another", Tensor::ones([4, 4], Device::wgpu(7))),
    ];
    tally.all(&of_matrices(), &inputs);
    tally.all(&of_square(), &inputs);
    tally.all(&of_square(), &[("more columns", floats([2, 3])), ("more rows", floats([3, 2]))]);
    let long = [("rows whose square is too much", Tensor::ones([1 << 40, 1], Device::meta()))];
    tally.all(&[on("svd", |x| x.svd(true).0), on("qr", |x| x.qr(true))], &long);
    tally.all(&of_nothing(), &[("an invalid tensor", ())]);
    let tolerances = [("negative", -1.0), ("nan", f64::NAN)];
    tally.all(&of_tolerances(), &tolerances);
    let right = [
        ("another number of rows", floats([3, 2])),
        ("another batch", floats([2, 4, 1])),
        ("another type", Tensor::ones([4, 1], DType::F64)),
        ("one number", floats([1]).i(0)),
        ("elsewhere", Tensor::ones([4, 1], Device::null())),
    ];
    tally.all(&[on("lstsq", |b: &Tensor| floats([3, 4, 4]).lstsq(b, Default::default()))], &right);
}

fn of_matrices() -> Vec<Op<Tensor>> {
    vec![
        on("svd", |x| x.svd(false).1),
        on("svdvals", |x| x.svdvals()),
        on("qr", |x| x.qr(false)),
        on("pinv", |x| x.pinv(Default::default())),
        on("matrix_rank", |x| x.matrix_rank(Default::default())),
        on("lstsq", |x| x.lstsq(x, Default::default())),
        on("cond", |x| x.cond(MatrixNorm::Spectral)),
        on("matrix_norm", |x| x.matrix_norm(MatrixNorm::Nuclear, [-2, -1])),
    ]
}

fn of_square() -> Vec<Op<Tensor>> {
    vec![
        on("eigh", |x| x.eigh(false)),
        on("eigvalsh", |x| x.eigvalsh(true)),
        on("cond", |x| x.cond(MatrixNorm::Frobenius)),
        on("pinv", |x| x.pinv(ToleranceOpts::default().symmetric(true))),
        on("matrix_rank", |x| x.matrix_rank(ToleranceOpts::default().symmetric(true))),
    ]
}

/// An invalid tensor, the line of which is its operation's.
#[track_caller]
fn bad() -> Tensor {
    floats([2, 3]) + floats([4])
}

fn of_nothing() -> Vec<Op<()>> {
    vec![
        op("svd", |()| bad().svd(false).2),
        op("svdvals", |()| bad().svdvals()),
        op("eigh", |()| bad().eigh(false)),
        op("eigvalsh", |()| bad().eigvalsh(false)),
        op("qr", |()| bad().qr(true)),
        op("pinv", |()| bad().pinv(Default::default())),
        op("lstsq", |()| bad().lstsq(&floats([2]), Default::default())),
        op("right-hand side", |()| floats([2, 2]).lstsq(&bad(), Default::default())),
        op("matrix_rank", |()| bad().matrix_rank(Default::default())),
        op("cond", |()| bad().cond(MatrixNorm::Nuclear)),
    ]
}

fn of_tolerances() -> Vec<Op<f64>> {
    vec![
        op("pinv", |&t| floats([2, 2]).pinv(ToleranceOpts::default().rtol(t))),
        op("matrix_rank", |&t| floats([2, 2]).matrix_rank(ToleranceOpts::default().atol(t))),
    ]
}
