//! Activations and softmax.

use kiln::tensor::Tensor;

use super::super::call::{Call, Outcome, unsupported};
use super::{Entry, entry, one};

/// Activation functions.
pub const ACTIVATIONS: &[Entry] = &[
    entry("sigmoid", "input", |c| one(c.tensor("input")?.sigmoid())),
    entry("nn.functional.relu", "input inplace", |c| plain(c, Tensor::relu)),
    entry("nn.functional.relu6", "input inplace", |c| plain(c, Tensor::relu6)),
    entry("nn.functional.selu", "input inplace", |c| plain(c, Tensor::selu)),
    entry("nn.functional.silu", "input inplace", |c| plain(c, Tensor::silu)),
    entry("nn.functional.mish", "input inplace", |c| plain(c, Tensor::mish)),
    entry("nn.functional.hardswish", "input inplace", |c| plain(c, Tensor::hardswish)),
    entry("nn.functional.hardsigmoid", "input inplace", |c| plain(c, Tensor::hardsigmoid)),
    entry("nn.functional.softsign", "input", |c| plain(c, Tensor::softsign)),
    entry("nn.functional.tanhshrink", "input", |c| plain(c, Tensor::tanhshrink)),
    entry("nn.functional.logsigmoid", "input", |c| plain(c, Tensor::logsigmoid)),
    entry("nn.functional.gelu", "input approximate", |c| {
        let x = c.tensor("input")?;
        match c.opt_text("approximate")?.as_deref() {
            None | Some("none") => one(x.gelu()),
            Some("tanh") => one(x.gelu_tanh()),
            Some(other) => unsupported("approximate", other),
        }
    }),
    entry("nn.functional.leaky_relu", "input negative_slope inplace", |c| {
        plain(c, |x| x.leaky_relu(c.opt_float("negative_slope").ok().flatten().unwrap_or(0.01)))
    }),
    entry("nn.functional.prelu", "input weight", |c| one(c.tensor("input")?.prelu(&c.tensor("weight")?))),
    entry("nn.functional.elu", "input alpha inplace", |c| {
        let alpha = c.opt_float("alpha")?.unwrap_or(1.0);
        plain(c, |x| x.elu(alpha))
    }),
    entry("nn.functional.celu", "input alpha inplace", |c| {
        let alpha = c.opt_float("alpha")?.unwrap_or(1.0);
        plain(c, |x| x.celu(alpha))
    }),
    entry("nn.functional.hardtanh", "input min_val max_val inplace", |c| {
        let (min, max) = (c.opt_scalar("min_val")?, c.opt_scalar("max_val")?);
        plain(c, |x| x.hardtanh(min.unwrap_or((-1).into()), max.unwrap_or(1.into())))
    }),
    entry("nn.functional.softplus", "input beta threshold", |c| {
        let (beta, threshold) = (c.opt_float("beta")?, c.opt_float("threshold")?);
        one(c.tensor("input")?.softplus(beta.unwrap_or(1.0), threshold.unwrap_or(20.0)))
    }),
    entry("nn.functional.hardshrink", "input lambd", |c| {
        one(c.tensor("input")?.hardshrink(c.opt_float("lambd")?.unwrap_or(0.5)))
    }),
    entry("nn.functional.softshrink", "input lambd", |c| {
        one(c.tensor("input")?.softshrink(c.opt_float("lambd")?.unwrap_or(0.5)))
    }),
    entry("nn.functional.threshold", "input threshold value inplace", |c| {
        let (threshold, value) = (c.scalar("threshold")?, c.scalar("value")?);
        plain(c, |x| x.threshold(threshold, value))
    }),
    entry("nn.functional.glu", "input dim", |c| one(c.tensor("input")?.glu(c.opt_int("dim")?.unwrap_or(-1)))),
];

/// Softmax and its relatives.
pub const SOFTMAX: &[Entry] = &[
    entry("softmax", "input dim dtype", |c| {
        let (x, axis) = (c.tensor("input")?, c.int("dim")?);
        one(c.dtype("dtype")?.map_or_else(|| x.softmax(axis), |dtype| x.softmax_as(axis, dtype)))
    }),
    entry("log_softmax", "input dim dtype", |c| {
        let (x, axis) = (c.tensor("input")?, c.int("dim")?);
        one(c.dtype("dtype")?.map_or_else(|| x.log_softmax(axis), |dtype| x.log_softmax_as(axis, dtype)))
    }),
    entry("nn.functional.softmin", "input dim dtype", |c| {
        let (x, axis) = (c.tensor("input")?, c.int("dim")?);
        one(c.dtype("dtype")?.map_or_else(|| x.softmin(axis), |dtype| x.softmin_as(axis, dtype)))
    }),
];

/// A function without further arguments; kiln has no in-place form, and the
/// result is the same.
fn plain(c: &Call, function: impl FnOnce(&Tensor) -> Tensor) -> Outcome {
    c.opt_flag("inplace")?;
    one(function(&c.tensor("input")?))
}
