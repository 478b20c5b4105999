//! Connectionist temporal classification.

use crate::base::DType;
use crate::ir::{AluOp, Monoid, PadAxis};
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::control::scan_at;
use crate::tensor::loss::{Reduction, reduce, widen};
use crate::tensor::options::options;
use crate::tensor::rule::with_rule;

options! {
    /// Options of [`Tensor::ctc_loss`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::CtcLossOpts;
    /// let opts = CtcLossOpts::default().blank(2).reduction(Reduction::None);
    /// let (x, one) = (Tensor::zeros([4, 1, 3], ()).log_softmax(-1), Tensor::from([1i64]));
    /// let losses = x.ctc_loss(&Tensor::from([[0i64]]), &(&one * 4), &one, opts);
    /// assert_eq!(losses.dims()?, [1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    CtcLossOpts {
        /// The class that stands for no label (0).
        blank: i64 = 0;
        /// What becomes of the losses; the mean divides each by its target's length.
        reduction: Reduction = Reduction::Mean;
        /// Losses of targets that cannot fit are 0, not infinite.
        zero_infinity: bool = false;
    }
}

impl Tensor {
    /// Connectionist temporal classification (Graves et al. 2006).
    ///
    /// The negative logarithm of the probability that `self`, logarithms of probabilities
    /// `[t, n, c]`, spells the targets `[n, s]` once blanks and repetitions are left out. Lengths
    /// are `[n]`. The same without `n` is one sequence.
    ///
    /// Invalid when shapes or types do not fit; lengths and labels out of range are not noticed
    /// until the device reads past an axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([1, 1, 2], ()).log_softmax(-1);
    /// let one = Tensor::from([1i64]);
    /// let loss = x.ctc_loss(&Tensor::from([[1i64]]), &one, &one, Default::default());
    /// assert!((loss.item::<f32>()? - 0.6931).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn ctc_loss(
        &self,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
        opts: CtcLossOpts,
    ) -> Tensor {
        let site = CallSite::here("ctc_loss");
        let this: &Tensor = &site.autocast(self);
        finish(ctc_loss(site, this, targets, [input_lengths, target_lengths], &opts))
    }
}

fn ctc_loss(
    site: CallSite,
    x: &Tensor,
    targets: &Tensor,
    lengths: [&Tensor; 2],
    opts: &CtcLossOpts,
) -> Checked<Tensor> {
    let lone = x.rank() == 2;
    let lead = |t: &Tensor, axis: usize| if lone { site.unsqueeze(t, axis) } else { t.clone() };
    site.valid(&[x, targets, lengths[0], lengths[1]])?;
    let (x, targets) = (lead(x, 1), lead(targets, 0));
    let [input_lengths, target_lengths] = lengths.map(|t| lead(t, 0));
    check(site, &x, &targets, [&input_lengths, &target_lengths])?;
    let classes = x.shape()[2];
    let is_class = usize::try_from(opts.blank).is_ok_and(|blank| blank < classes);
    site.require(is_class, &[], || (format!("a blank below {classes}"), opts.blank.to_string()))?;
    let trellis = Trellis::new(site, &targets, opts.blank);
    let alpha = trellis.forward(&normalized(site, widen(site, &x)), &input_lengths);
    let loss = site.unary(AluOp::Neg, &trellis.end(&alpha, &target_lengths));
    let loss = if opts.zero_infinity {
        site.select(&site.eq(&loss, f64::INFINITY), 0.0, &loss, loss.dtype())
    } else {
        loss
    };
    let loss = match opts.reduction {
        Reduction::Mean => site.div(&loss, site.cast(&site.max(&target_lengths, 1i64), loss.dtype())),
        Reduction::None | Reduction::Sum | Reduction::BatchMean => loss,
    };
    let loss = reduce(site, &loss, opts.reduction, x.dtype());
    Ok(if lone && loss.rank() == 1 { site.squeeze(&loss, 0) } else { loss })
}

/// The same log-probabilities. PyTorch defines the loss's gradient for rows
/// that stay probabilities: its part along their sum goes.
fn normalized(site: CallSite, x: Tensor) -> Tensor {
    with_rule(x.clone(), &[&x], move |x, _, g| {
        let total = site.reduce_keepdim(Monoid::Sum, g, &[2]);
        vec![Some(site.sub(g, site.mul(site.unary(AluOp::Exp, &x[0]), total)))]
    })
}

fn check(site: CallSite, x: &Tensor, targets: &Tensor, lengths: [&Tensor; 2]) -> Checked<()> {
    let fits = x.rank() == 3
        && x.dtype().is_float()
        && targets.rank() == 2
        && targets.shape()[0] == x.shape()[1]
        && lengths.iter().all(|t| t.shape()[..] == x.shape()[1..2]);
    site.require(fits, &[x, targets, lengths[0], lengths[1]], || {
        let expected = "floating [t, n, c], targets [n, s] and lengths [n]";
        let found =
            format!("{}, {}, {} and {}", x.shape(), targets.shape(), lengths[0].shape(), lengths[1].shape());
        (expected.into(), found)
    })?;
    let integers = targets.dtype().is_int() && lengths.iter().all(|t| t.dtype().is_int());
    site.require(integers, &[targets], || ("integer targets and lengths".into(), targets.dtype().to_string()))
}

/// The states that spell the targets: each label, and a blank before, between
/// and behind them.
struct Trellis {
    site: CallSite,
    /// The classes of the states, `I64` `[n, 2 s + 1]`.
    labels: Tensor,
    /// Whether a state may follow the one before the last: its label differs.
    skips: Tensor,
}

impl Trellis {
    fn new(site: CallSite, targets: &Tensor, blank: i64) -> Trellis {
        let targets = site.cast(targets, DType::I64);
        let between = PadAxis { lo: 1, hi: 1, interior: 1 };
        let labels = site.pad(&targets, vec![PadAxis::default(), between], blank);
        let differs = site.unary(AluOp::Not, &site.eq(&labels, shifted(site, &labels, 2, -1.0)));
        let label = site.unary(AluOp::Not, &site.eq(&labels, blank));
        Trellis { site, skips: site.and(differs, label), labels }
    }

    /// Logarithms of the probabilities of being in each state at the end.
    fn forward(&self, x: &Tensor, lengths: &Tensor) -> Tensor {
        let (site, shape, dtype) = (self.site, self.labels.shape(), x.dtype());
        // Before the first step, as if in the blank before the first.
        let first = site.eq(site.iota(shape[1], DType::I64, x.device()), 0i64);
        let start = site.expand(&site.select(&first, 0.0, f64::NEG_INFINITY, dtype), &shape);
        let lengths = site.unsqueeze(lengths, 1);
        let steps = site.iota(x.shape()[0], DType::I64, x.device());
        let body = |carries: &[Tensor], slices: &[Tensor]| {
            let alpha = &carries[0];
            let back = |by| shifted(site, alpha, by, f64::NEG_INFINITY);
            let skipped = site.select(&self.skips, back(2), f64::NEG_INFINITY, dtype);
            let arrive = log_sum_exp(site, [alpha, &back(1), &skipped]);
            let next = site.add(arrive, site.gather(&slices[0], 1, &self.labels));
            let on = site.lt(&slices[1], &lengths);
            (vec![site.select(&on, next, alpha, dtype)], Vec::new())
        };
        scan_at(site, &[start], &[x.clone(), steps], false, body).0.remove(0)
    }

    /// Logarithms of the probabilities of ending on the last label or the
    /// blank behind it.
    fn end(&self, alpha: &Tensor, lengths: &Tensor) -> Tensor {
        let site = self.site;
        let last = site.unsqueeze(&site.mul(site.cast(lengths, DType::I64), 2i64), 1);
        let blank = site.gather(alpha, 1, &last);
        let label = site.gather(alpha, 1, &site.max(site.sub(&last, 1i64), 0i64));
        let label = site.select(&site.eq(&last, 0i64), f64::NEG_INFINITY, label, alpha.dtype());
        site.squeeze(&log_sum_exp(site, [&blank, &label]), 1)
    }
}

/// Moved up along the last axis, `fill` coming in.
fn shifted(site: CallSite, x: &Tensor, by: i64, fill: f64) -> Tensor {
    site.pad(x, vec![PadAxis::default(), PadAxis { lo: by, hi: -by, interior: 0 }], fill)
}

/// The logarithm of the sum of exponentials of a few tensors.
fn log_sum_exp<const N: usize>(site: CallSite, terms: [&Tensor; N]) -> Tensor {
    let max = terms[1..].iter().fold(terms[0].clone(), |max, term| site.max(max, *term));
    // Where all are minus infinity, so is the result.
    let base = site.select(&site.eq(&max, f64::NEG_INFINITY), 0.0, &max, max.dtype());
    let power = |term: &Tensor| site.unary(AluOp::Exp, &site.sub(term, &base));
    let sum = terms[1..].iter().fold(power(terms[0]), |sum, term| site.add(sum, power(term)));
    let result = site.add(site.unary(AluOp::Log, &sum), &base);
    // Each term's share of the sum; nothing where all are minus infinity.
    with_rule(result, &terms, move |terms, y, g| {
        let sum = site.select(&site.eq(y, f64::NEG_INFINITY), 0.0, y, y.dtype());
        let share = |term: &Tensor| site.mul(g, site.unary(AluOp::Exp, &site.sub(term, &sum)));
        terms.iter().map(|term| Some(share(term))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s, pattern, values};

    /// The loss by enumerating every path through `t` steps of `c` classes.
    fn enumerate(logs: &[f64], t: usize, c: usize, target: &[i64]) -> f64 {
        let mut total = 0.0;
        for path in 0..c.pow(t as u32) {
            let classes: Vec<usize> = (0..t).map(|i| path / c.pow(i as u32) % c).collect();
            let mut spelled: Vec<i64> = Vec::new();
            for (i, &class) in classes.iter().enumerate() {
                if class != 0 && (i == 0 || classes[i - 1] != class) {
                    spelled.push(class as i64);
                }
            }
            if spelled == target {
                total += (0..t).map(|i| logs[i * c + classes[i]]).sum::<f64>().exp();
            }
        }
        -total.ln()
    }

    #[test]
    fn losses_are_those_of_all_paths() {
        let x = pattern(&[5, 2, 3], 1);
        let v = values(&x);
        let logs = |n: usize, t: usize| -> Vec<f64> {
            (0..t).flat_map(|i| v[i * 6 + n * 3..][..3].to_vec()).collect()
        };
        let targets = i64s(&[2, 3], &[1, 1, 2, 2, 0, 0]);
        let (inputs, lengths) = (i64s(&[2], &[5, 4]), i64s(&[2], &[3, 1]));
        let expected = [enumerate(&logs(0, 5), 5, 3, &[1, 1, 2]), enumerate(&logs(1, 4), 4, 3, &[2])];
        let none = CtcLossOpts::default().reduction(Reduction::None);
        assert_close(&x.ctc_loss(&targets, &inputs, &lengths, none.clone()), &[2], &expected);
        let mean = (expected[0] / 3.0 + expected[1]) / 2.0;
        assert_close(&x.ctc_loss(&targets, &inputs, &lengths, CtcLossOpts::default()), &[], &[mean]);
        // Three labels, two of them alike, do not fit three steps.
        let short = i64s(&[2], &[3, 0]);
        let both = x.ctc_loss(&targets, &short, &i64s(&[2], &[3, 0]), none.clone());
        assert_close(&both, &[2], &[f64::INFINITY, 0.0]);
        let zeroed = x.ctc_loss(&targets, &short, &i64s(&[2], &[3, 0]), none.zero_infinity(true));
        assert_close(&zeroed, &[2], &[0.0, 0.0]);
    }

    #[test]
    fn one_sequence_needs_no_batch() {
        let x = pattern(&[4, 3], 1);
        let expected = enumerate(&values(&x), 4, 3, &[2, 1]);
        let loss =
            x.ctc_loss(&i64s(&[2], &[2, 1]), &i64s(&[], &[4]), &i64s(&[], &[2]), CtcLossOpts::default());
        assert_close(&loss, &[], &[expected / 2.0]);
        let bad =
            x.ctc_loss(&f32s(&[2], &[1.0, 2.0]), &i64s(&[], &[4]), &i64s(&[], &[2]), CtcLossOpts::default());
        assert!(error_text(&bad).contains("integer"));
    }
}
