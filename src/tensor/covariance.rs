//! Covariance and correlation of variables: one row per variable, one
//! column per observation.

use crate::base::{Result, Scalar, Shape};
use crate::ir::{AluOp, ContractDims, Op};
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, precision};
use crate::tensor::movement::repeated;
use crate::tensor::options::{options, some};
use crate::tensor::reduce::total;

options! {
    /// How a covariance is taken.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::CovOpts;
    /// let x = Tensor::from([1.0f32, 3.0]);
    /// assert_eq!(x.cov(CovOpts::default().correction(0.0)).to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    CovOpts {
        /// What is taken from the number of observations in the divisor (1).
        correction: f64 = 1.0;
        /// How often each observation counts; integers.
        fweights: Option<Tensor> = None, &Tensor => some;
        /// How much each observation counts; floating.
        aweights: Option<Tensor> = None, &Tensor => some;
    }
}

impl Tensor {
    /// The covariance of each two rows: `[variables, observations]` to `[variables, variables]`.
    ///
    /// Of a rank-1 tensor its variance. Invalid above rank 2.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0, 3.0], [3.0, 2.0, 1.0]]);
    /// assert_eq!(x.cov(Default::default()).to_vec::<f32>()?, [1.0, -1.0, -1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cov(&self, opts: CovOpts) -> Tensor {
        let site = CallSite::here("cov");
        site.build(&[self], || covariance(site, self, &opts))
    }

    /// The correlation of each two rows: `[variables, observations]` to `[variables, variables]`.
    ///
    /// Of a rank-1 tensor 1. Invalid above rank 2.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0, 3.0], [6.0, 4.0, 2.0]]);
    /// assert!((x.corrcoef().i((0, 1)).item::<f32>()? + 1.0).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn corrcoef(&self) -> Tensor {
        let site = CallSite::here("corrcoef");
        site.build(&[self], || {
            let cov = covariance(site, self, &CovOpts::default())?;
            if cov.rank() == 0 {
                return Ok(site.alu(AluOp::Div, &[&cov, &cov]));
            }
            let n = cov.shape()[0];
            let flat = site.reshape(&cov, &Shape::from(n * n));
            let deviation = site.alu(AluOp::Sqrt, &[&site.slice(&flat, 0, 0, n * n, n + 1)]);
            let rows = repeated(site, &deviation, 1, n);
            let columns = repeated(site, &deviation, 0, n);
            let scaled = site.alu(AluOp::Div, &[&site.alu(AluOp::Div, &[&cov, &rows]), &columns]);
            let above = site.alu(AluOp::Max, &[&scaled, &site.constant_like(-1, &scaled)]);
            Ok(site.alu(AluOp::Min, &[&above, &site.constant_like(1, &above)]))
        })
    }
}

fn covariance(site: CallSite, x: &Tensor, opts: &CovOpts) -> Result<Tensor> {
    if x.rank() > 2 {
        return Err(site.error("rank 2 or less", format!("rank {}", x.rank()), &[x]));
    }
    let (variables, n) = match x.shape()[..] {
        [variables, n] => (variables, n),
        _ => (1, x.numel()),
    };
    let mut dtype = x.dtype();
    for weights in [&opts.fweights, &opts.aweights].into_iter().flatten() {
        check_weights(site, x, weights, n)?;
        dtype = dtype.promote(weights.dtype());
    }
    let integers = |weights: &Tensor| weights.dtype().is_int();
    if opts.fweights.as_ref().is_some_and(|weights| !integers(weights)) {
        return Err(site.error("integer fweights", "another type", &[x]));
    }
    if opts.aweights.as_ref().is_some_and(|weights| !weights.dtype().is_float()) {
        return Err(site.error("floating aweights", "another type", &[x]));
    }
    let rows = Shape::new(&[variables, n]);
    let rows = site.cast(&site.reshape(x, &rows), dtype.to_float());
    let weights = combined_weights(site, opts, &rows, n);
    let (centred, weighted, divisor) = centred(site, &rows, weights.as_ref(), opts, n);
    let precision = precision(rows.dtype());
    let dims = ContractDims { contract: smallvec::smallvec![(1, 1)], precision, ..ContractDims::default() };
    let products = site.apply(Op::Contract(Box::new(dims)), &[&centred, &weighted]);
    let cov = site.alu(AluOp::Div, &[&products, &divisor]);
    Ok(if variables == 1 { site.reshape(&cov, &Shape::scalar()) } else { cov })
}

fn check_weights(site: CallSite, x: &Tensor, weights: &Tensor, n: usize) -> Result<()> {
    weights.node()?;
    if weights.rank() <= 1 && weights.numel() == n {
        return Ok(());
    }
    Err(site.error(format!("{n} weights on at most one axis"), weights.shape().to_string(), &[x, weights]))
}

/// The product of the weights there are, as one row.
fn combined_weights(site: CallSite, opts: &CovOpts, rows: &Tensor, n: usize) -> Option<Tensor> {
    let row = |weights: &Tensor| site.cast(&site.reshape(weights, &Shape::from(n)), rows.dtype());
    match (&opts.fweights, &opts.aweights) {
        (Some(f), Some(a)) => Some(site.alu(AluOp::Mul, &[&row(f), &row(a)])),
        (Some(w), None) | (None, Some(w)) => Some(row(w)),
        (None, None) => None,
    }
}

/// The rows about their means, the same times the weights, and the divisor.
fn centred(
    site: CallSite,
    rows: &Tensor,
    weights: Option<&Tensor>,
    opts: &CovOpts,
    n: usize,
) -> (Tensor, Tensor, Tensor) {
    let correction = site.constant_like(Scalar::Float(opts.correction), rows);
    let zero = site.constant_like(0, rows);
    let about = |mean: &Tensor| site.alu(AluOp::Sub, &[rows, &repeated(site, mean, 1, n)]);
    let Some(weights) = weights else {
        let count = site.constant_like(n, rows);
        let mean = site.alu(AluOp::Div, &[&total(site, rows, &[1]), &count]);
        let divisor = site.constant_like(Scalar::Float((n as f64 - opts.correction).max(0.0)), rows);
        let centred = about(&mean);
        return (centred.clone(), centred, divisor);
    };
    let sum = total(site, weights, &[0]);
    let wide = site.expand(weights, &rows.shape());
    let mean = total(site, &site.alu(AluOp::Mul, &[rows, &wide]), &[1]);
    let mean = site.alu(AluOp::Div, &[&mean, &sum]);
    let taken = match &opts.aweights {
        None => correction,
        Some(a) => {
            let a = site.cast(&site.reshape(a, &Shape::from(n)), rows.dtype());
            let squares = total(site, &site.alu(AluOp::Mul, &[weights, &a]), &[0]);
            let share = site.alu(AluOp::Div, &[&squares, &sum]);
            site.alu(AluOp::Mul, &[&correction, &share])
        }
    };
    let divisor = site.alu(AluOp::Max, &[&site.alu(AluOp::Sub, &[&sum, &taken]), &zero]);
    let centred = about(&mean);
    let weighted = site.alu(AluOp::Mul, &[&centred, &wide]);
    (centred, weighted, divisor)
}

#[cfg(test)]
mod tests {
    use super::CovOpts;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s};

    #[test]
    fn opposite_rows_vary_oppositely() {
        let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 6.0, 4.0, 2.0]);
        assert_close(&x.cov(CovOpts::default()), &[2, 2], &[1.0, -2.0, -2.0, 4.0]);
        assert_close(&x.corrcoef(), &[2, 2], &[1.0, -1.0, -1.0, 1.0]);
    }

    #[test]
    fn counted_observations_are_as_good_as_repeated_ones() {
        let x = f32s(&[2], &[1.0, 4.0]);
        let counted = x.cov(CovOpts::default().fweights(&i64s(&[2], &[2, 1])));
        assert_close(&counted, &[], &[3.0]);
        assert!(error_text(&x.cov(CovOpts::default().fweights(&x))).contains("integer fweights"));
    }
}
