//! Losses of classes: given as indices, as probabilities, or as two.

use crate::base::{DType, Scalar};
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::autocast::autocast_dtype;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::loss::{Reduction, reduce, widen};
use crate::tensor::margin_loss::{log1p, softplus};
use crate::tensor::options::{options, some};
use crate::tensor::rule::with_rule;
use crate::tensor::softmax::row_maximum;

options! {
    /// Options of [`Tensor::nll_loss`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::NllLossOpts;
    /// let x = Tensor::from([[-1.0f32, -2.0], [-3.0, -4.0]]);
    /// let opts = NllLossOpts::default().ignore_index(1).reduction(Reduction::Sum);
    /// assert_eq!(x.nll_loss(&Tensor::from([0i64, 1]), opts).to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    NllLossOpts {
        /// A factor per class.
        weight: Option<Tensor> = None, &Tensor => some;
        /// The target that does not count (-100).
        ignore_index: i64 = -100;
        /// What becomes of the losses (mean, weighted as the losses are).
        reduction: Reduction = Reduction::Mean;
    }
}

options! {
    /// Options of [`Tensor::cross_entropy`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::CrossEntropyOpts;
    /// let opts = CrossEntropyOpts::default().reduction(Reduction::None);
    /// let losses = Tensor::zeros([3, 10], ()).cross_entropy(&Tensor::from([1i64, 2, 3]), opts);
    /// assert_eq!(losses.dims()?, [3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    CrossEntropyOpts {
        /// A factor per class.
        weight: Option<Tensor> = None, &Tensor => some;
        /// The target that does not count (-100).
        ignore_index: i64 = -100;
        /// The share of the target spread over all classes (0).
        label_smoothing: f64 = 0.0;
        /// What becomes of the losses (mean, weighted as the losses are).
        reduction: Reduction = Reduction::Mean;
    }
}

options! {
    /// Options of [`Tensor::binary_cross_entropy`] and of the same with logits.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::BinaryCrossEntropyOpts;
    /// let opts = BinaryCrossEntropyOpts::default().reduction(Reduction::Sum);
    /// let x = Tensor::from([1.0f32, 0.0]);
    /// assert_eq!(x.binary_cross_entropy(&x, opts).to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    BinaryCrossEntropyOpts {
        /// A factor per element.
        weight: Option<Tensor> = None, &Tensor => some;
        /// A factor of positive targets; with logits only.
        pos_weight: Option<Tensor> = None, &Tensor => some;
        /// What becomes of the losses (mean).
        reduction: Reduction = Reduction::Mean;
    }
}

impl Tensor {
    /// The negative log likelihood of target classes.
    ///
    /// `self` holds logarithms of probabilities, `[n, c, ..]` or `[c]`; targets are indices of
    /// classes, `[n, ..]` or `[]`.
    ///
    /// Invalid when shapes do not fit; a target that is no class is an error of the device's,
    /// reported at the next read.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[-1.0f32, -2.0], [-3.0, -4.0]]);
    /// assert_eq!(x.nll_loss(&Tensor::from([0i64, 1]), Default::default()).to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn nll_loss(&self, target: &Tensor, opts: NllLossOpts) -> Tensor {
        let site = CallSite::here("nll_loss");
        let this: &Tensor = &site.autocast(self);
        finish(nll_loss(site, this, target, &opts))
    }

    /// The cross entropy of `softmax(self)` over classes.
    ///
    /// `self` holds logits `[n, c, ..]` or `[c]`; targets are indices of classes `[n, ..]` or
    /// probabilities of `self`'s shape.
    ///
    /// Invalid when shapes do not fit or the smoothing is outside `0..=1`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let logits = Tensor::zeros([2, 4], ());
    /// let y = logits.cross_entropy(&Tensor::from([0i64, 3]), Default::default());
    /// assert!((y.item::<f32>()? - 1.3863).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cross_entropy(&self, target: &Tensor, opts: CrossEntropyOpts) -> Tensor {
        let site = CallSite::here("cross_entropy");
        let this: &Tensor = &site.autocast(self);
        let target: &Tensor = &site.autocast(target);
        finish(cross_entropy(site, this, target, &opts))
    }

    /// The cross entropy of probabilities of two classes; logarithms are taken as at least -100.
    ///
    /// Invalid unless `self` and target have one shape.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let p = Tensor::from([0.5f32, 0.5]);
    /// let y = p.binary_cross_entropy(&Tensor::from([0.0f32, 1.0]), Default::default());
    /// assert!((y.item::<f32>()? - 0.6931).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn binary_cross_entropy(&self, target: &Tensor, opts: BinaryCrossEntropyOpts) -> Tensor {
        let site = CallSite::here("binary_cross_entropy");
        let (this, target): (&Tensor, &Tensor) = (&site.autocast(self), &site.autocast(target));
        let narrow = matches!(this.dtype(), DType::F16 | DType::BF16);
        if narrow && autocast_dtype(this.device()).is_some() {
            let expected = "f32 probabilities under autocast, or `binary_cross_entropy_with_logits` of what \
                the sigmoid is taken of, which no logarithm of a rounded 0 or 1 enters";
            return site.invalid(expected, this.dtype().to_string(), &[this, target]);
        }
        finish(binary_cross_entropy(site, this, target, &opts))
    }

    /// The binary cross entropy of `sigmoid(self)`, without overflow.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0.0f32, 0.0]);
    /// let y = x.binary_cross_entropy_with_logits(&Tensor::from([0.0f32, 1.0]), Default::default());
    /// assert!((y.item::<f32>()? - 0.6931).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn binary_cross_entropy_with_logits(&self, target: &Tensor, opts: BinaryCrossEntropyOpts) -> Tensor {
        let site = CallSite::here("binary_cross_entropy_with_logits");
        let this: &Tensor = &site.autocast(self);
        let target: &Tensor = &site.autocast(target);
        finish(binary_cross_entropy_with_logits(site, this, target, &opts))
    }
}

/// Target classes of `[n, c, ..]`, checked.
struct ClassTargets<'a> {
    site: CallSite,
    /// The axis of the classes.
    axis: usize,
    classes: usize,
    /// Indices with an axis of extent 1 for the classes; 0 where ignored.
    index: Tensor,
    /// Where a target counts.
    counts: Tensor,
    weight: Option<&'a Tensor>,
}

fn class_axis(site: CallSite, x: &Tensor) -> Checked<usize> {
    site.require(x.rank() >= 1 && x.dtype().is_float(), &[x], || {
        ("floating scores with an axis of classes".into(), format!("{} of rank {}", x.dtype(), x.rank()))
    })?;
    Ok(usize::from(x.rank() > 1))
}

fn check_weight(site: CallSite, weight: Option<&Tensor>, classes: usize) -> Checked<()> {
    match weight {
        Some(weight) => site.require(weight.shape()[..] == [classes], &[weight], || {
            (format!("a weight for each of {classes} classes"), format!("shape {}", weight.shape()))
        }),
        None => Ok(()),
    }
}

impl<'a> ClassTargets<'a> {
    fn new(
        site: CallSite,
        x: &Tensor,
        target: &Tensor,
        weight: Option<&'a Tensor>,
        ignore_index: i64,
    ) -> Checked<ClassTargets<'a>> {
        let axis = class_axis(site, x)?;
        let mut dims = x.shape().to_vec();
        let classes = dims.remove(axis);
        site.require(target.shape()[..] == dims[..] && target.dtype().is_int(), &[x, target], || {
            (format!("integer targets of shape {dims:?}"), format!("{} {}", target.dtype(), target.shape()))
        })?;
        check_weight(site, weight, classes)?;
        let counts = site.unary(AluOp::Not, &site.eq(target, ignore_index));
        let index = site.select(&counts, target, 0i64, crate::base::DType::I64);
        Ok(ClassTargets { site, axis, classes, index: site.unsqueeze(&index, axis), counts, weight })
    }

    /// The target classes' elements of `x`.
    fn pick(&self, x: &Tensor) -> Tensor {
        self.site.squeeze(&self.site.gather(x, self.axis, &self.index), self.axis)
    }

    /// The target classes' weights, 0 where ignored; `x` is as wide as they.
    fn weights(&self, x: &Tensor) -> Tensor {
        let (site, dtype) = (self.site, x.dtype());
        let Some(weight) = self.weight else { return site.cast(&self.counts, dtype) };
        let mut dims = self.index.shape().to_vec();
        dims[self.axis] = self.classes;
        let all = site.expand(&per_class(site, &widen(site, weight), self.axis, dims.len()), &dims);
        site.select(&self.counts, self.pick(&all), 0.0, dtype)
    }
}

/// `[c]` shaped to broadcast against a tensor whose classes are on `axis`.
fn per_class(site: CallSite, weight: &Tensor, axis: usize, rank: usize) -> Tensor {
    let mut dims = vec![1; rank - axis];
    dims[0] = weight.numel();
    site.reshape(weight, &dims)
}

/// Losses reduced; their mean is weighted.
fn reduce_weighted(
    site: CallSite,
    loss: &Tensor,
    weights: &Tensor,
    reduction: Reduction,
    like: &Tensor,
) -> Tensor {
    match reduction {
        Reduction::Mean => {
            let all: Vec<usize> = (0..loss.rank()).collect();
            site.cast(&site.div(site.sum(loss, &all), site.sum(weights, &all)), like.dtype())
        }
        Reduction::None | Reduction::Sum | Reduction::BatchMean => {
            reduce(site, loss, reduction, like.dtype())
        }
    }
}

fn nll_loss(site: CallSite, x: &Tensor, target: &Tensor, opts: &NllLossOpts) -> Checked<Tensor> {
    let targets = ClassTargets::new(site, x, target, opts.weight.as_ref(), opts.ignore_index)?;
    let picked = targets.pick(&widen(site, x));
    let weights = targets.weights(&picked);
    // A weight of 0 would keep infinities.
    let negative = site.unary(AluOp::Neg, &site.mul(&picked, &weights));
    let loss = site.select(&targets.counts, negative, 0.0, picked.dtype());
    Ok(reduce_weighted(site, &loss, &weights, opts.reduction, x))
}

fn cross_entropy(site: CallSite, x: &Tensor, target: &Tensor, opts: &CrossEntropyOpts) -> Checked<Tensor> {
    let smoothing = opts.label_smoothing;
    site.require((0.0..=1.0).contains(&smoothing), &[x, target], || {
        ("label smoothing within 0..=1".into(), smoothing.to_string())
    })?;
    site.valid(&[target])?;
    if target.dtype().is_float() {
        return entropy_of_probabilities(site, x, target, opts);
    }
    let targets = ClassTargets::new(site, x, target, opts.weight.as_ref(), opts.ignore_index)?;
    let (wide, axis) = (widen(site, x), targets.axis);
    let (max, log_sum) = log_sum_exp(site, &wide, axis);
    // Picked from the scores themselves, which are in memory.
    let picked =
        site.sub(site.sub(targets.pick(&wide), site.squeeze(&max, axis)), site.squeeze(&log_sum, axis));
    let weights = targets.weights(&picked);
    let mut loss = site.unary(AluOp::Neg, &site.mul(&picked, &weights));
    if smoothing > 0.0 {
        let logs = site.sub(site.sub(&wide, &max), &log_sum);
        let logs = weighted(site, &logs, opts.weight.as_ref(), axis);
        let spread = site.mul(site.sum(&logs, &[axis]), -smoothing / targets.classes as f64);
        loss = site.add(site.mul(loss, 1.0 - smoothing), spread);
    }
    let loss = site.select(&targets.counts, &loss, 0.0, loss.dtype());
    Ok(reduce_weighted(site, &loss, &weights, opts.reduction, x))
}

/// The maximum, and the logarithm of the sum of exponentials above it, along
/// an axis that stays with extent 1.
fn log_sum_exp(site: CallSite, x: &Tensor, axis: usize) -> (Tensor, Tensor) {
    let max = row_maximum(site, x, axis);
    let powers = site.unary(AluOp::Exp, &site.sub(x, &max));
    let log = site.unary(AluOp::Log, &site.reduce_keepdim(Monoid::Sum, &powers, &[axis]));
    (max, log)
}

fn weighted(site: CallSite, x: &Tensor, weight: Option<&Tensor>, axis: usize) -> Tensor {
    weight.map_or(x.clone(), |w| site.mul(x, per_class(site, &widen(site, w), axis, x.rank())))
}

fn entropy_of_probabilities(
    site: CallSite,
    x: &Tensor,
    target: &Tensor,
    opts: &CrossEntropyOpts,
) -> Checked<Tensor> {
    let axis = class_axis(site, x)?;
    let classes = x.shape()[axis];
    site.require(target.shape() == x.shape(), &[x, target], || {
        (format!("probabilities of shape {}", x.shape()), target.shape().to_string())
    })?;
    check_weight(site, opts.weight.as_ref(), classes)?;
    let (wide, mut target) = (widen(site, x), widen(site, target));
    if opts.label_smoothing > 0.0 {
        let kept = site.mul(target, 1.0 - opts.label_smoothing);
        target = site.add(kept, opts.label_smoothing / classes as f64);
    }
    let (max, log_sum) = log_sum_exp(site, &wide, axis);
    let logs = site.sub(site.sub(&wide, max), log_sum);
    let products = weighted(site, &site.mul(logs, target), opts.weight.as_ref(), axis);
    let loss = site.unary(AluOp::Neg, &site.sum(&products, &[axis]));
    Ok(reduce(site, &loss, opts.reduction, x.dtype()))
}

/// Fails unless the target has the input's shape and both are floating.
fn check_elementwise(site: CallSite, x: &Tensor, target: &Tensor) -> Checked<()> {
    let fits = x.shape() == target.shape() && x.dtype().is_float();
    site.require(fits, &[x, target], || {
        ("a floating input and a target of its shape".into(), format!("{} and {}", x.shape(), target.shape()))
    })
}

fn binary_cross_entropy(
    site: CallSite,
    x: &Tensor,
    target: &Tensor,
    opts: &BinaryCrossEntropyOpts,
) -> Checked<Tensor> {
    check_elementwise(site, x, target)?;
    site.require(opts.pos_weight.is_none(), &[x], || {
        ("no factor of positive targets".into(), "one, which only logits take".into())
    })?;
    let (wide, target) = (widen(site, x), widen(site, target));
    let logs = move |p: &Tensor| {
        let rest = log1p(site, &site.unary(AluOp::Neg, p));
        [site.unary(AluOp::Log, p), rest]
    };
    let [yes, no] = logs(&wide).map(|log| site.max(log, Scalar::Float(-100.0)));
    let loss = site.sub(site.mul(site.sub(&target, 1.0), no), site.mul(&target, yes));
    // As in PyTorch, the gradients are not those of the bounds, and the first has its own.
    let loss = with_rule(loss, &[&wide, &target], move |inputs, _, g| {
        let (p, target) = (&inputs[0], &inputs[1]);
        let spread = site.max(site.mul(p, site.sub(1.0, p)), 1e-12);
        let [yes, no] = logs(p);
        let slope = site.div(site.sub(p, target), spread);
        vec![Some(site.mul(g, slope)), Some(site.mul(g, site.sub(no, yes)))]
    });
    Ok(reduce(site, &scaled(site, loss, opts.weight.as_ref()), opts.reduction, x.dtype()))
}

fn binary_cross_entropy_with_logits(
    site: CallSite,
    x: &Tensor,
    target: &Tensor,
    opts: &BinaryCrossEntropyOpts,
) -> Checked<Tensor> {
    check_elementwise(site, x, target)?;
    let (wide, target) = (widen(site, x), widen(site, target));
    let mut positive = softplus(site, &site.unary(AluOp::Neg, &wide));
    if let Some(weight) = &opts.pos_weight {
        let factor = site.add(site.mul(site.sub(widen(site, weight), 1.0), &target), 1.0);
        positive = site.mul(factor, positive);
    }
    let loss = site.add(site.mul(site.sub(1.0, &target), &wide), positive);
    Ok(reduce(site, &scaled(site, loss, opts.weight.as_ref()), opts.reduction, x.dtype()))
}

fn scaled(site: CallSite, loss: Tensor, weight: Option<&Tensor>) -> Tensor {
    match weight {
        Some(weight) => site.mul(loss, widen(site, weight)),
        None => loss,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s, pattern, values};

    /// Logarithms of probabilities of rows of `n` scores.
    fn log_softmax(v: &[f64], n: usize) -> Vec<f64> {
        v.chunks(n)
            .flat_map(|row| {
                let sum: f64 = row.iter().map(|x| x.exp()).sum();
                row.iter().map(move |x| x - sum.ln())
            })
            .collect()
    }

    #[test]
    fn indices_pick_classes() {
        let x = pattern(&[4, 3], 1);
        let logs = log_softmax(&values(&x), 3);
        let t = i64s(&[4], &[2, 0, -100, 1]);
        let none = CrossEntropyOpts::default().reduction(Reduction::None);
        let plain = [-logs[2], -logs[3], 0.0, -logs[10]];
        assert_close(&x.cross_entropy(&t, none.clone()), &[4], &plain);
        let mean = plain.iter().sum::<f64>() / 3.0;
        assert_close(&x.cross_entropy(&t, CrossEntropyOpts::default()), &[], &[mean]);
        let logp = f32s(&[4, 3], &logs);
        assert_close(&logp.nll_loss(&t, NllLossOpts::default()), &[], &[mean]);
        let w = f32s(&[3], &[1.0, 2.0, 4.0]);
        let weighted = (4.0 * plain[0] + plain[1] + 2.0 * plain[3]) / 7.0;
        assert_close(&x.cross_entropy(&t, CrossEntropyOpts::default().weight(&w)), &[], &[weighted]);
        let smooth: Vec<f64> =
            (0..4)
                .map(|i| {
                    if i == 2 {
                        0.0
                    } else {
                        0.7 * plain[i] - 0.1 * logs[3 * i..3 * i + 3].iter().sum::<f64>()
                    }
                })
                .collect();
        assert_close(&x.cross_entropy(&t, none.label_smoothing(0.3)), &[4], &smooth);
    }

    #[test]
    fn classes_may_have_axes_behind_them() {
        let x = pattern(&[2, 3, 2], 1);
        let site = CallSite::here("t");
        let rows = site.reshape(&site.transpose(&x, 1, 2), &[4, 3]);
        let t = i64s(&[2, 2], &[2, 0, 1, 1]);
        let sum = CrossEntropyOpts::default().reduction(Reduction::Sum);
        let flat = rows.cross_entropy(&i64s(&[4], &[2, 0, 1, 1]), sum.clone());
        assert_close(&x.cross_entropy(&t, sum), &[], &values(&flat));
        let single = pattern(&[3], 1).cross_entropy(&i64s(&[], &[1]), CrossEntropyOpts::default());
        assert_close(&single, &[], &[-log_softmax(&values(&pattern(&[3], 1)), 3)[1]]);
    }

    #[test]
    fn probabilities_weigh_classes() {
        let (x, p) = (pattern(&[2, 3], 1), f32s(&[2, 3], &[0.5, 0.25, 0.25, 0.0, 1.0, 0.0]));
        let (logs, p_values) = (log_softmax(&values(&x), 3), values(&p));
        let total: f64 = logs.iter().zip(&p_values).map(|(l, p)| -l * p).sum();
        assert_close(&x.cross_entropy(&p, CrossEntropyOpts::default()), &[], &[total / 2.0]);
    }

    #[test]
    fn two_classes() {
        let (x, t) = (f32s(&[3], &[0.25, 1.0, 1e-9]), f32s(&[3], &[1.0, 0.0, 0.0]));
        let none = BinaryCrossEntropyOpts::default().reduction(Reduction::None);
        assert_close(&x.binary_cross_entropy(&t, none.clone()), &[3], &[-(0.25f64.ln()), 100.0, 1e-9]);
        let logits = f32s(&[3], &[200.0, -2.0, 0.5]);
        let two = f32s(&[1], &[2.0]);
        let expected = [0.0, (1.0 + (-2f64).exp()).ln(), 0.5 + (1.0 + (-0.5f64).exp()).ln()];
        let loss = logits.binary_cross_entropy_with_logits(&t, none.pos_weight(&two));
        assert_close(&loss, &[3], &expected);
    }

    #[test]
    fn errors_are_told() {
        let x = pattern(&[4, 3], 1);
        let bad = |t: &Tensor, opts| error_text(&x.cross_entropy(t, opts));
        assert!(bad(&i64s(&[3], &[0, 0, 0]), CrossEntropyOpts::default()).contains("[4]"));
        assert!(bad(&pattern(&[4], 1), CrossEntropyOpts::default()).contains("[4, 3]"));
        assert!(
            bad(&i64s(&[4], &[0; 4]), CrossEntropyOpts::default().label_smoothing(2.0)).contains("0..=1")
        );
        let weight = CrossEntropyOpts::default().weight(&pattern(&[2], 1));
        assert!(bad(&i64s(&[4], &[0; 4]), weight).contains("3 classes"));
    }
}
