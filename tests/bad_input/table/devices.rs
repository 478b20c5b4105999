//! Operands on different devices, and devices that are not there.

use kiln::prelude::*;
use kiln::{DType, Device};
use kiln::{Tensor, einsum};

use super::{Op, Tally, on};
use crate::floats;

pub fn run(tally: &mut Tally) {
    let away = |device: Device| Tensor::ones([4, 4], device);
    let inputs =
        [("null", away(Device::null())), ("meta", away(Device::meta())), ("cuda:7", away(Device::cuda(7)))];
    tally.all(&scalar(), &inputs);
    tally.all(&others(), &inputs);
    let whole = |device: Device| Tensor::zeros([4, 4], (device, DType::I64));
    tally.all(&whole_numbers(), &[("null", whole(Device::null())), ("meta", whole(Device::meta()))]);
}

fn x() -> Tensor {
    floats([4, 4])
}

fn scalar() -> Vec<Op<Tensor>> {
    vec![
        on("add", |y| x() + y),
        on("sub", |y| y - x()),
        on("mul", |y| x() * y),
        on("div", |y| y / x()),
        on("maximum", |y| x().maximum(y)),
        on("minimum", |y| x().minimum(y)),
        on("fmax", |y| x().fmax(y)),
        on("fmin", |y| x().fmin(y)),
        on("pow", |y| x().pow(y)),
        on("rpow", |y| x().rpow(y)),
        on("float_power", |y| x().float_power(y)),
        on("atan2", |y| x().atan2(y)),
        on("hypot", |y| x().hypot(y)),
        on("heaviside", |y| x().heaviside(y)),
        on("logaddexp", |y| x().logaddexp(y)),
        on("logaddexp2", |y| x().logaddexp2(y)),
        on("xlogy", |y| x().xlogy(y)),
        on("xlog1py", |y| x().xlog1py(y)),
        on("fmod", |y| x().fmod(y)),
        on("remainder", |y| x().remainder(y)),
        on("floor_divide", |y| x().floor_divide(y)),
        on("copysign", |y| x().copysign(y)),
        on("nextafter", |y| x().nextafter(y)),
        on("lerp", |y| x().lerp(y, 0.5)),
        on("addcmul", |y| x().addcmul(&x(), y, 1.0)),
        on("addcdiv", |y| x().addcdiv(y, &x(), 1.0)),
        on("clamp", |y| x().clamp(y, 3.0)),
        on("clamp_min", |y| x().clamp_min(y)),
        on("add_alpha", |y| x().add_alpha(y, 2.0)),
        on("eq", |y| x().eq(y)),
        on("ne", |y| x().ne(y)),
        on("lt", |y| x().lt(y)),
        on("le", |y| x().le(y)),
        on("gt", |y| x().gt(y)),
        on("ge", |y| x().ge(y)),
        on("isclose", |y| x().isclose(y)),
        on("select", |y| x().gt(0).select(y, 0.0)),
        on("masked_fill", |y| x().masked_fill(&x().gt(0), y.i((0, 0)).unsqueeze(0))),
    ]
}

fn others() -> Vec<Op<Tensor>> {
    vec![
        on("matmul", |y| x().matmul(y)),
        on("mm", |y| x().mm(y)),
        on("inner", |y| x().inner(y)),
        on("kron", |y| x().kron(y)),
        on("linear", |y| x().linear(y, None)),
        on("einsum", |y| einsum("ij,jk->ik", &[&x(), y])),
        on("tensordot", |y| x().tensordot(y, 1)),
        on("vecdot", |y| x().vecdot(y, 0)),
        on("solve", |y| x().solve(y)),
        on("cdist", |y| x().cdist(y, 2.0)),
        on("dist", |y| x().dist(y, 2.0)),
        on("cosine_similarity", |y| x().cosine_similarity(y, 1, 1e-8)),
        on("prelu", |y| x().prelu(&y.i(0))),
        on("cat", |y| Tensor::cat(&[&x(), y], 0)),
        on("stack", |y| Tensor::stack(&[&x(), y], 0)),
        on("hstack", |y| Tensor::hstack(&[&x(), y])),
        on("vstack", |y| Tensor::vstack(&[&x(), y])),
        on("dstack", |y| Tensor::dstack(&[&x(), y])),
        on("column_stack", |y| Tensor::column_stack(&[&x(), y])),
        on("block_diag", |y| Tensor::block_diag(&[&x(), y])),
        on("cat of many", |y| {
            let mut parts = vec![x(); 99];
            parts[50] = y.clone();
            Tensor::cat(&parts, 0)
        }),
        on("mse_loss", |y| x().mse_loss(y, Reduction::Mean)),
        on("l1_loss", |y| x().l1_loss(y, Reduction::Mean)),
        on("smooth_l1_loss", |y| x().smooth_l1_loss(y, Default::default())),
        on("huber_loss", |y| x().huber_loss(y, Default::default())),
        on("kl_div", |y| x().kl_div(y, Default::default())),
        on("poisson_nll_loss", |y| x().poisson_nll_loss(y, Default::default())),
        on("gaussian_nll_loss", |y| x().gaussian_nll_loss(&x(), y, Default::default())),
        on("soft_margin_loss", |y| x().soft_margin_loss(y, Reduction::Mean)),
        on("hinge_embedding_loss", |y| x().hinge_embedding_loss(y, Default::default())),
        on("margin_ranking_loss", |y| x().margin_ranking_loss(y, x(), Default::default())),
        on("cross_entropy", |y| x().cross_entropy(y, Default::default())),
        on("layer_norm", |y| x().layer_norm([4], NormOpts::default().weight(&y.i(0)))),
        on("rms_norm", |y| x().rms_norm([4], NormOpts::default().weight(&y.i(0)))),
        on("masked_select", |y| x().masked_select(&y.gt(0))),
        on("masked_scatter", |y| x().masked_scatter(&x().gt(0), y)),
        on("select_scatter", |y| x().select_scatter(&y.i(0), 0, 0)),
        on("slice_update", |y| x().slice_update(0, 0, y)),
        on("loop", |y| kiln::fori_loop(2, &[x()], |_, c| vec![&c[0] + y])),
        on("composite", |y| kiln::composite("mine", &[], &[x()], |i| vec![&i[0] * y])),
        on("Var::set", |y| kiln::Var::new(x()).set(y.clone())),
    ]
}

fn whole_numbers() -> Vec<Op<Tensor>> {
    vec![
        on("gather", |y| x().gather(0, y)),
        on("index_select", |y| x().index_select(0, &y.i(0))),
        on("take", |y| x().take(y)),
        on("embedding", |y| y.embedding(&x())),
        on("index", |y| x().i(y)),
        on("scatter", |y| x().scatter(0, y, 1.0)),
        on("scatter_add", |y| x().scatter_add(0, y, x())),
        on("index_add", |y| x().index_add(0, &y.i(0), &x(), 1)),
        on("index_copy", |y| x().index_copy(0, &y.i(0), &x())),
        on("index_fill", |y| x().index_fill(0, &y.i(0), 1.0)),
        on("gcd", |y| x().to_dtype(DType::I64).gcd(y)),
        on("lcm", |y| x().to_dtype(DType::I64).lcm(y)),
        on("bitwise_and", |y| x().to_dtype(DType::I64).bitwise_and(y)),
        on("bitwise_or", |y| x().to_dtype(DType::I64).bitwise_or(y)),
        on("ldexp", |y| x().ldexp(y)),
        on("isin", |y| x().to_dtype(DType::I64).isin(y)),
        on("cross_entropy", |y| x().cross_entropy(&y.i(0), Default::default())),
        on("nll_loss", |y| x().nll_loss(&y.i(0), Default::default())),
    ]
}
