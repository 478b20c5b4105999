//! Reductions, scans and statistics.

use kiln::opts::CovOpts;
use kiln::opts::DiffOpts;
use kiln::opts::MatrixNorm;
use kiln::opts::VarOpts;
use kiln::opts::{Interpolation, QuantileOpts};
use kiln::tensor::operand::OperandValue;
use kiln::tensor::{AxisList, Tensor};
use kiln::{Device, Scalar};

use super::super::arg::Arg;
use super::super::call::{Call, Outcome, Stop, unsupported};
use super::{Entry, entry, one, pair, with};

/// A reduction with `dim`, `keepdim` and `dtype`, in its two forms.
macro_rules! reductions {
    ($($name:literal $plain:ident $keepdim:ident;)*) => {
        &[$(entry($name, "self dim keepdim dtype", |c| {
            let (mut x, axes) = (c.tensor("self")?, c.axes_or_all("dim")?);
            if let Some(dtype) = c.dtype("dtype")? {
                x = x.to_dtype(dtype);
            }
            one(if c.is("keepdim")? { x.$keepdim(axes) } else { x.$plain(axes) })
        })),*]
    };
}

/// Reductions to one value per place.
pub const REDUCTIONS: &[Entry] = reductions! {
    "sum" sum sum_keepdim;
    "nansum" nansum nansum_keepdim;
    "mean" mean mean_keepdim;
    "nanmean" nanmean nanmean_keepdim;
    "prod" prod prod_keepdim;
    "amax" amax amax_keepdim;
    "amin" amin amin_keepdim;
    "all" all all_keepdim;
    "any" any any_keepdim;
    "logsumexp" logsumexp logsumexp_keepdim;
};

/// Reductions with indices, extremes, norms and moments.
pub const EXTREMES: &[Entry] = &[
    entry("max", "self dim keepdim", |c| {
        extreme(c, Tensor::maximum, Tensor::amax, Tensor::max_with_index, Tensor::max_with_index_keepdim)
    }),
    entry("min", "self dim keepdim", |c| {
        extreme(c, Tensor::minimum, Tensor::amin, Tensor::min_with_index, Tensor::min_with_index_keepdim)
    }),
    entry("aminmax", "self dim keepdim", |c| {
        let (x, axes) = (c.tensor("self")?, c.axes("dim")?);
        pair(if c.is("keepdim")? { x.aminmax_keepdim(axes) } else { x.aminmax(axes) })
    }),
    entry("argmax", "self dim keepdim", |c| {
        let (x, axes) = (c.tensor("self")?, c.axes("dim")?);
        one(if c.is("keepdim")? { x.argmax_keepdim(axes) } else { x.argmax(axes) })
    }),
    entry("argmin", "self dim keepdim", |c| {
        let (x, axes) = (c.tensor("self")?, c.axes("dim")?);
        one(if c.is("keepdim")? { x.argmin_keepdim(axes) } else { x.argmin(axes) })
    }),
    entry("count_nonzero", "self dim", |c| one(c.tensor("self")?.count_nonzero(c.axes_or_all("dim")?))),
    entry("median", "self dim keepdim", |c| median(c, Tensor::median, Tensor::median_keepdim)),
    entry("nanmedian", "self dim keepdim", |c| median(c, Tensor::nanmedian, Tensor::nanmedian_keepdim)),
    entry("mode", "self dim keepdim", |c| {
        let (x, dim) = (c.tensor("self")?, c.opt_int("dim")?.unwrap_or(-1));
        pair(if c.is("keepdim")? { x.mode_keepdim(dim) } else { x.mode(dim) })
    }),
    entry("kthvalue", "self k dim keepdim", |c| {
        let (x, k, dim) = (c.tensor("self")?, c.size("k")?, c.opt_int("dim")?.unwrap_or(-1));
        pair(if c.is("keepdim")? { x.kthvalue_keepdim(k, dim) } else { x.kthvalue(k, dim) })
    }),
    entry("quantile", "self q dim keepdim interpolation", |c| {
        let interpolation = match c.opt_text("interpolation")?.as_deref() {
            None | Some("linear") => Interpolation::Linear,
            Some("lower") => Interpolation::Lower,
            Some("higher") => Interpolation::Higher,
            Some("nearest") => Interpolation::Nearest,
            Some("midpoint") => Interpolation::Midpoint,
            Some(other) => return unsupported("interpolation", other),
        };
        let opts = QuantileOpts::default().interpolation(interpolation).keepdim(c.is("keepdim")?);
        one(c.tensor("self")?.quantile(c.operand("q")?, c.axes("dim")?, opts))
    }),
];

type WithIndex = fn(&Tensor, i64) -> (Tensor, Tensor);

/// `max` and `min`: of two tensors, of all elements, or along an axis.
fn extreme(
    c: &Call,
    binary: fn(&Tensor, &Tensor) -> Tensor,
    all: fn(&Tensor, AxisList) -> Tensor,
    along: WithIndex,
    along_keepdim: WithIndex,
) -> Outcome {
    let x = c.tensor("self")?;
    if c.has_tensor("dim") {
        return one(binary(&x, &c.tensor("dim")?));
    }
    match c.opt_int("dim")? {
        None => one(all(&x, AxisList::All)),
        Some(dim) => pair(if c.is("keepdim")? { along_keepdim(&x, dim) } else { along(&x, dim) }),
    }
}

type Median = fn(&Tensor, AxisList) -> (Tensor, Tensor);

/// Medians: along an axis with their index, of all elements without.
fn median(c: &Call, plain: Median, keepdim: Median) -> Outcome {
    let (x, all) = (c.tensor("self")?, !c.has("dim"));
    let (value, index) =
        if c.is("keepdim")? { keepdim(&x, c.axes("dim")?) } else { plain(&x, c.axes("dim")?) };
    Ok(if all { vec![value] } else { vec![value, index] })
}

/// Norms and moments.
pub const MOMENTS: &[Entry] = &[
    entry("var", "self dim unbiased keepdim correction", |c| {
        let (axes, opts) = moments(c)?;
        one(c.tensor("self")?.var_with(axes, opts))
    }),
    entry("std", "self dim unbiased keepdim correction", |c| {
        let (axes, opts) = moments(c)?;
        one(c.tensor("self")?.std_with(axes, opts))
    }),
    entry("var_mean", "self dim unbiased keepdim correction", |c| {
        let (axes, opts) = moments(c)?;
        pair(c.tensor("self")?.var_mean(axes, opts))
    }),
    entry("std_mean", "self dim unbiased keepdim correction", |c| {
        let (axes, opts) = moments(c)?;
        pair(c.tensor("self")?.std_mean(axes, opts))
    }),
    entry("norm", "self p dim keepdim dtype", |c| {
        let p = match c.take("p") {
            None => 2.0,
            Some(Arg::Text(name)) if name == "fro" => 2.0,
            Some(Arg::Number(p)) => p.as_f64(),
            Some(other) => return unsupported("p", format!("{other:?}")),
        };
        norm(c, p)
    }),
    entry("linalg.vector_norm", "self ord dim keepdim dtype", |c| {
        norm(c, c.opt_float("ord")?.unwrap_or(2.0))
    }),
    entry("linalg.matrix_norm", "self ord dim keepdim dtype", |c| {
        let ord = c.take("ord").unwrap_or(Arg::Text("fro".into()));
        matrix_norm(c, &ord)
    }),
    entry("linalg.norm", "self ord dim keepdim dtype", linalg_norm),
    entry("dist", "self other p", |c| {
        one(c.tensor("self")?.dist(&c.tensor("other")?, c.opt_float("p")?.unwrap_or(2.0)))
    }),
    entry("cov", "self correction fweights aweights", |c| {
        let mut opts = CovOpts::default().correction(c.opt_float("correction")?.unwrap_or(1.0));
        opts = with(opts, c.opt_tensor("fweights")?, |opts, weights| opts.fweights(&weights));
        opts = with(opts, c.opt_tensor("aweights")?, |opts, weights| opts.aweights(&weights));
        one(c.tensor("self")?.cov(opts))
    }),
    entry("corrcoef", "self", |c| one(c.tensor("self")?.corrcoef())),
];

/// Axes and options of `var` and its kin, whose second argument may also be
/// `unbiased`.
fn moments(c: &Call) -> Outcome<(AxisList, VarOpts)> {
    let unbiased = match c.take("dim") {
        Some(Arg::Number(Scalar::Bool(unbiased))) => Some(unbiased),
        Some(dim) => {
            c.put("dim", dim);
            c.opt_flag("unbiased")?
        }
        None => c.opt_flag("unbiased")?,
    };
    let correction = unbiased.map(|unbiased| f64::from(u8::from(unbiased)));
    let correction = c.opt_float("correction")?.or(correction).unwrap_or(1.0);
    let opts = VarOpts::default().correction(correction).keepdim(c.is("keepdim")?);
    Ok((c.axes_or_all("dim")?, opts))
}

fn norm(c: &Call, p: f64) -> Outcome {
    let (x, axes) = (c.converted()?, c.axes_or_all("dim")?);
    one(if c.is("keepdim")? { x.norm_keepdim(p, axes) } else { x.norm(p, axes) })
}

fn matrix_norm(c: &Call, ord: &Arg) -> Outcome {
    let (norm, singular) = match ord {
        Arg::Text(name) if name == "fro" => (MatrixNorm::Frobenius, false),
        Arg::Number(ord) if ord.as_f64() == 1.0 => (MatrixNorm::MaxColumn, false),
        Arg::Number(ord) if ord.as_f64() == -1.0 => (MatrixNorm::MinColumn, false),
        Arg::Number(ord) if ord.as_f64() == f64::INFINITY => (MatrixNorm::MaxRow, false),
        Arg::Number(ord) if ord.as_f64() == f64::NEG_INFINITY => (MatrixNorm::MinRow, false),
        other => (singular_norm(other)?, true),
    };
    let given = c.converted()?;
    // Singular values are computed on the CPU.
    let x = if singular { given.to(Device::cpu()) } else { given.clone() };
    let axes = c.opt_ints("dim")?.unwrap_or(vec![-2, -1]);
    let Ok(axes) = <[i64; 2]>::try_from(axes.clone()) else {
        return Err(Stop::Inexpressible(format!("two axes, given {axes:?}")));
    };
    let y = if c.is("keepdim")? { x.matrix_norm_keepdim(norm, axes) } else { x.matrix_norm(norm, axes) };
    one(y.to(given.device()))
}

/// A norm by singular values.
#[cfg(feature = "linalg")]
fn singular_norm(ord: &Arg) -> Outcome<MatrixNorm> {
    match ord {
        Arg::Text(name) if name == "nuc" => Ok(MatrixNorm::Nuclear),
        Arg::Number(ord) if ord.as_f64() == 2.0 => Ok(MatrixNorm::Spectral),
        Arg::Number(ord) if ord.as_f64() == -2.0 => Ok(MatrixNorm::LeastSingular),
        other => unsupported("ord", format!("{other:?}")),
    }
}

#[cfg(not(feature = "linalg"))]
fn singular_norm(ord: &Arg) -> Outcome<MatrixNorm> {
    unsupported("ord", format!("{ord:?}, which needs the feature linalg"))
}

/// `linalg.norm`: of all elements without `ord`, else of a vector or a
/// matrix, by `dim` or by the rank.
fn linalg_norm(c: &Call) -> Outcome {
    let Some(ord) = c.take("ord") else { return norm(c, 2.0) };
    let axes = c.opt_ints("dim")?;
    let count = axes.as_ref().map_or(c.peek_tensor("self").map_or(0, |x| x.rank()), Vec::len);
    if let Some(axes) = axes {
        c.put("dim", Arg::List(axes.into_iter().map(|axis| Arg::Number(axis.into())).collect()));
    }
    match (count, &ord) {
        (2, _) => matrix_norm(c, &ord),
        (_, Arg::Number(p)) => norm(c, p.as_f64()),
        (_, other) => unsupported("ord", format!("{other:?}")),
    }
}

/// Running reductions, differences and counts.
pub const SCANS: &[Entry] = &[
    entry("cumsum", "self dim dtype", |c| one(c.converted()?.cumsum(c.int("dim")?))),
    entry("cumprod", "self dim dtype", |c| one(c.converted()?.cumprod(c.int("dim")?))),
    entry("cummax", "self dim", |c| pair(c.tensor("self")?.cummax(c.int("dim")?))),
    entry("cummin", "self dim", |c| pair(c.tensor("self")?.cummin(c.int("dim")?))),
    entry("logcumsumexp", "self dim", |c| one(c.tensor("self")?.logcumsumexp(c.int("dim")?))),
    entry("trace", "self", |c| one(c.tensor("self")?.trace())),
    entry("diff", "self n dim prepend append", |c| {
        let order = if c.has("n") { c.size("n")? } else { 1 };
        let mut opts = DiffOpts::default().order(order).axis(c.opt_int("dim")?.unwrap_or(-1));
        opts = with(opts, c.opt_tensor("prepend")?, |opts, before| opts.prepend(&before));
        opts = with(opts, c.opt_tensor("append")?, |opts, after| opts.append(&after));
        one(c.tensor("self")?.diff(opts))
    }),
    entry("trapezoid", "self x dx dim", |c| {
        let spacing = spacing(c)?;
        one(c.tensor("self")?.trapezoid(spacing, c.opt_int("dim")?.unwrap_or(-1)))
    }),
    entry("cumulative_trapezoid", "self x dx dim", |c| {
        let spacing = spacing(c)?;
        one(c.tensor("self")?.cumulative_trapezoid(spacing, c.opt_int("dim")?.unwrap_or(-1)))
    }),
    entry("histc", "self bins min max", |c| {
        let bins = if c.has("bins") { c.size("bins")? } else { 100 };
        let (min, max) = (c.opt_float("min")?.unwrap_or(0.0), c.opt_float("max")?.unwrap_or(0.0));
        one(c.tensor("self")?.histc(bins, min, max))
    }),
    entry("bincount", "self weights minlength", |c| {
        let least = if c.has("minlength") { c.size("minlength")? } else { 0 };
        let x = c.tensor("self")?;
        let length = if x.numel() == 0 { 0 } else { c.known(&x.amax(..))?[0] + 1 };
        let length = usize::try_from(length).unwrap_or(0).max(least);
        one(x.bincount(c.opt_tensor("weights")?.as_ref(), length))
    }),
];

/// Positions `x`, or the distance `dx` of neighbours.
fn spacing(c: &Call) -> Outcome<OperandValue> {
    Ok(match c.opt_operand("x")? {
        Some(x) => x,
        None => c.opt_operand("dx")?.unwrap_or(OperandValue::Scalar(Scalar::Int(1))),
    })
}
