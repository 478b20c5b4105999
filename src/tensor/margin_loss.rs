//! Losses that ask for a margin between distances or scores.

use crate::base::DType;
use crate::ir::AluOp;
use crate::tensor::Tensor;
use crate::tensor::call_site::common_dtype;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::distance::{PairwiseDistanceOpts, float};
use crate::tensor::loss::{Reduction, common, reduce, widen};
use crate::tensor::operand::{Operand, OperandValue};
use crate::tensor::options::{options, some};
use crate::tensor::term::Term;

options! {
    /// Options of losses with a margin.
    ///
    /// Unless given, the margin is the loss's own.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::MarginOpts;
    /// let (x, target) = (Tensor::from([0.5f32]), Tensor::from([-1.0f32]));
    /// let y = x.hinge_embedding_loss(&target, MarginOpts::default().margin(2.0));
    /// assert_eq!(y.to_vec::<f32>()?, [1.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    MarginOpts {
        /// The margin asked for.
        margin: Option<f64> = None, f64 => Some;
        /// What becomes of the losses (mean).
        reduction: Reduction = Reduction::Mean;
    }
}

options! {
    /// Options of [`Tensor::triplet_margin_loss`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::TripletMarginLossOpts;
    /// let x = Tensor::zeros([1, 4], ());
    /// let opts = TripletMarginLossOpts::default().margin(2.0);
    /// assert!((x.triplet_margin_loss(&x, &x, opts).item::<f32>()? - 2.0).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    TripletMarginLossOpts {
        /// The margin asked for (1), above 0.
        margin: f64 = 1.0;
        /// The order of the norm (2).
        p: f64 = 2.0;
        /// Added to differences (1e-6).
        eps: f64 = 1e-6;
        /// Take the positive as the anchor where that is harder (Balntas et al. 2016).
        swap: bool = false;
        /// What becomes of the losses (mean).
        reduction: Reduction = Reduction::Mean;
    }
}

options! {
    /// Options of [`Tensor::multi_margin_loss`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::MultiMarginLossOpts;
    /// let x = Tensor::from([[0.0f32, 0.0]]);
    /// let opts = MultiMarginLossOpts::default().p(2).margin(2.0);
    /// assert_eq!(x.multi_margin_loss(&Tensor::from([0i64]), opts).to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    MultiMarginLossOpts {
        /// The power of what is missing (1), 1 or 2.
        p: i64 = 1;
        /// The margin asked for (1).
        margin: f64 = 1.0;
        /// A factor per class.
        weight: Option<Tensor> = None, &Tensor => some;
        /// What becomes of the losses (mean).
        reduction: Reduction = Reduction::Mean;
    }
}

impl Tensor {
    /// `self` where the target is 1, `max(0, margin - self)` where it is -1.
    ///
    /// The margin is 1 unless given. Shapes broadcast; a target of rank 0, or a number, is everyone's.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, target) = (Tensor::from([0.5f32, 0.5]), Tensor::from([1.0f32, -1.0]));
    /// assert_eq!(x.hinge_embedding_loss(&target, Default::default()).to_vec::<f32>()?, [0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn hinge_embedding_loss(&self, target: impl Operand, opts: MarginOpts) -> Tensor {
        let site = CallSite::here("hinge_embedding_loss");
        let this: &Tensor = &site.autocast(self);
        let target = &sign(site, this, target.into_operand());
        let (x, margin) = (widen(site, this), opts.margin.unwrap_or(1.0));
        let missing = site.max(site.sub(margin, &x), 0.0);
        let loss = by_sign(site, target, &x, &missing);
        reduce(site, &loss, opts.reduction, this.dtype().to_float())
    }

    /// `max(0, margin - target * (self - other))`: ranks `self` above `other` for target 1, below
    /// for -1.
    ///
    /// The margin is 0 unless given. Shapes broadcast; a target of rank 0, or a number, is everyone's.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::from([1.0f32, 5.0]), Tensor::from([2.0f32, 3.0]));
    /// let y = x.margin_ranking_loss(&y, &Tensor::from([1.0f32, 1.0]), Default::default());
    /// assert_eq!(y.to_vec::<f32>()?, [0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn margin_ranking_loss(&self, other: &Tensor, target: impl Operand, opts: MarginOpts) -> Tensor {
        let site = CallSite::here("margin_ranking_loss");
        let this: &Tensor = &site.autocast(self);
        let other: &Tensor = &site.autocast(other);
        margin_ranking_loss(site, this, other, &sign(site, this, target.into_operand()), &opts)
    }

    /// `1 - cos` of the angle between rows where the target is 1, `max(0, cos - margin)` where it
    /// is -1.
    ///
    /// Rows `[n, d]` with targets `[n]`, or vectors `[d]` with a target `[]`; a target of rank 0, or a
    /// number, is every row's. The margin is 0 unless given.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::from([[1.0f32, 0.0]]), Tensor::from([[0.0f32, 1.0]]));
    /// let y = x.cosine_embedding_loss(&y, &Tensor::from([1.0f32]), Default::default());
    /// assert!((y.item::<f32>()? - 1.0).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cosine_embedding_loss(&self, other: &Tensor, target: impl Operand, opts: MarginOpts) -> Tensor {
        let site = CallSite::here("cosine_embedding_loss");
        let this: &Tensor = &site.autocast(self);
        let other: &Tensor = &site.autocast(other);
        finish(cosine_embedding_loss(site, this, other, &sign(site, this, target.into_operand()), &opts))
    }

    /// `max(0, d(self, positive) - d(self, negative) + margin)`, with distances along the last
    /// axis.
    ///
    /// `[n, d]` has `n` losses. Invalid when shapes do not broadcast or the margin is not positive.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (anchor, far) = (Tensor::zeros([1, 2], ()), Tensor::from([[3.0f32, 4.0]]));
    /// let y = anchor.triplet_margin_loss(&far, &anchor, Default::default());
    /// assert!((y.item::<f32>()? - 6.0).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn triplet_margin_loss(
        &self,
        positive: &Tensor,
        negative: &Tensor,
        opts: TripletMarginLossOpts,
    ) -> Tensor {
        let site = CallSite::here("triplet_margin_loss");
        let this: &Tensor = &site.autocast(self);
        let positive: &Tensor = &site.autocast(positive);
        let negative: &Tensor = &site.autocast(negative);
        finish(triplet_margin_loss(site, this, positive, negative, &opts))
    }

    /// `log(1 + exp(-target * self))`, targets being 1 and -1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let y = Tensor::zeros([2], ()).soft_margin_loss(&Tensor::ones([2], ()), Reduction::Mean);
    /// assert!((y.item::<f32>()? - 0.6931).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn soft_margin_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let site = CallSite::here("soft_margin_loss");
        let this: &Tensor = &site.autocast(self);
        let target: &Tensor = &site.autocast(target);
        let product = site.mul(widen(site, target), widen(site, this));
        let loss = softplus(site, &site.unary(AluOp::Neg, &product));
        reduce(site, &loss, reduction, common(this, &[target]))
    }

    /// The mean over the other classes of `max(0, margin - self[target] + self[class])^p`.
    ///
    /// Scores are `[n, c]` or `[c]`, targets `[n]` or `[]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[0.0f32, 0.0]]);
    /// let y = x.multi_margin_loss(&Tensor::from([0i64]), Default::default());
    /// assert_eq!(y.to_vec::<f32>()?, [0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn multi_margin_loss(&self, target: &Tensor, opts: MultiMarginLossOpts) -> Tensor {
        let site = CallSite::here("multi_margin_loss");
        let this: &Tensor = &site.autocast(self);
        finish(multi_margin_loss(site, this, target, &opts))
    }
}

/// `log(1 + exp(x))` without overflow.
pub(crate) fn softplus(site: CallSite, x: &Tensor) -> Tensor {
    let power = site.unary(AluOp::Exp, &site.unary(AluOp::Neg, &site.unary(AluOp::Abs, x)));
    site.add(site.max(x, 0.0), log1p(site, &power))
}

/// `log(1 + x)`.
pub(crate) fn log1p(site: CallSite, x: &Tensor) -> Tensor {
    Term::new(site, x.clone()).log1p().into_tensor()
}

/// The target, 1 or -1: a number as a tensor of rank 0.
fn sign(site: CallSite, x: &Tensor, target: OperandValue) -> Tensor {
    match target {
        OperandValue::Tensor(target) => target,
        OperandValue::Scalar(value) => site.scalar(value, x.dtype().to_float(), x.device()),
    }
}

/// `same` where the target is 1, `other` where it is -1, both summed
/// elsewhere but for what PyTorch leaves out.
fn by_sign(site: CallSite, target: &Tensor, same: &Tensor, other: &Tensor) -> Tensor {
    let own = site.select(&site.eq(target, -1i64), 0.0, same, same.dtype());
    let rest = site.select(&site.eq(target, 1i64), 0.0, other, other.dtype());
    site.add(own, rest)
}

fn margin_ranking_loss(site: CallSite, a: &Tensor, b: &Tensor, target: &Tensor, opts: &MarginOpts) -> Tensor {
    let dtype = common_dtype(&[a, b, target]).to_float();
    let product = site.mul(site.unary(AluOp::Neg, target), site.sub(a, b));
    let missing = site.add(widen(site, &product), opts.margin.unwrap_or(0.0));
    reduce(site, &site.max(missing, 0.0), opts.reduction, dtype)
}

fn cosine_embedding_loss(
    site: CallSite,
    a: &Tensor,
    b: &Tensor,
    target: &Tensor,
    opts: &MarginOpts,
) -> Checked<Tensor> {
    let rank = a.rank();
    let fits = matches!((target.rank(), rank), (0, 1 | 2) | (1, 2)) && b.rank() == rank;
    site.require(fits, &[a, b, target], || {
        let found = format!("ranks {rank}, {} and {}", b.rank(), target.rank());
        ("rows [n, d] or vectors [d], and a target [n] or []".into(), found)
    })?;
    let (x, y) = (widen(site, a), widen(site, b));
    let sum = |product: &Tensor| site.sum(product, &[rank - 1]);
    // Keeps the root's gradient finite where a row is 0.
    let square = |x: &Tensor| site.add(sum(&site.square(x)), 1e-12);
    let lengths = site.unary(AluOp::Sqrt, &site.mul(square(&x), square(&y)));
    let cosine = site.div(sum(&site.mul(&x, &y)), lengths);
    let same = site.select(&site.eq(target, 1i64), site.sub(1.0, &cosine), 0.0, cosine.dtype());
    let over = site.max(site.sub(&cosine, opts.margin.unwrap_or(0.0)), 0.0);
    let other = site.select(&site.eq(target, -1i64), over, 0.0, cosine.dtype());
    Ok(reduce(site, &site.add(same, other), opts.reduction, common(a, &[b])))
}

fn triplet_margin_loss(
    site: CallSite,
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    opts: &TripletMarginLossOpts,
) -> Checked<Tensor> {
    let all = [anchor, positive, negative];
    site.require(opts.margin > 0.0, &all, || ("a margin above 0".into(), opts.margin.to_string()))?;
    let fits = anchor.rank() == positive.rank() && anchor.rank() == negative.rank();
    site.require(fits, &all, || ("tensors of one rank".into(), format!("{:?}", all.map(|t| t.rank()))))?;
    let metric = PairwiseDistanceOpts::default().p(opts.p).eps(opts.eps);
    let wide = all.map(|t| float(site, t));
    let distance =
        |a: &Tensor, b: &Tensor| widen(site, &crate::tensor::distance::pairwise(site, a, b, &metric));
    let near = distance(&wide[0], &wide[1]);
    let far = distance(&wide[0], &wide[2]);
    let far = if opts.swap { site.min(far, distance(&wide[1], &wide[2])) } else { far };
    let missing = site.add(site.sub(near, far), opts.margin);
    Ok(reduce(site, &site.max(missing, 0.0), opts.reduction, common(anchor, &[positive, negative])))
}

fn multi_margin_loss(
    site: CallSite,
    x: &Tensor,
    target: &Tensor,
    opts: &MultiMarginLossOpts,
) -> Checked<Tensor> {
    site.require(opts.p == 1 || opts.p == 2, &[x], || ("a power of 1 or 2".into(), opts.p.to_string()))?;
    let shape = x.shape();
    let fits = (1..=2).contains(&shape.rank()) && shape.last() != Some(&0);
    site.require(fits, &[x], || ("scores of shape [n, c] or [c], c above 0".into(), shape.to_string()))?;
    let lead = &shape[..shape.rank() - 1];
    site.require(target.shape()[..] == *lead, &[x, target], || {
        (format!("a target of shape {lead:?}"), target.shape().to_string())
    })?;
    let (last, classes) = (shape.rank() - 1, shape[shape.rank() - 1]);
    let (wide, index) = (widen(site, x), site.unsqueeze(target, last));
    let own = site.gather(&wide, last, &index);
    let class = site.iota_along(classes, last, last + 1, DType::I64, x.device());
    let lag = site.add(site.sub(&wide, &own), opts.margin);
    // Before the square, whose gradient at an infinite score less itself is NaN.
    let others = site.select(&site.eq(class, &index), 0.0, site.max(lag, 0.0), wide.dtype());
    let others = if opts.p == 2 { site.square(&others) } else { others };
    let loss = site.div(site.sum(&others, &[last]), classes as f64);
    let loss = match &opts.weight {
        Some(weight) => site.mul(loss, site.squeeze(&class_weights(site, weight, &index, classes)?, last)),
        None => loss,
    };
    Ok(reduce(site, &loss, opts.reduction, x.dtype()))
}

/// The weights of the classes that `index` names along its last axis.
fn class_weights(site: CallSite, weight: &Tensor, index: &Tensor, classes: usize) -> Checked<Tensor> {
    site.require(weight.shape()[..] == [classes], &[weight], || {
        (format!("a weight for each of {classes} classes"), format!("shape {}", weight.shape()))
    })?;
    let mut dims = index.shape().to_vec();
    dims[index.rank() - 1] = classes;
    Ok(site.gather(&site.expand(&widen(site, weight), &dims), index.rank() - 1, index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s};

    #[test]
    fn margins_by_their_definitions() {
        let (x, y) = (f32s(&[3], &[0.5, 2.0, -1.0]), f32s(&[3], &[1.0, 0.0, 1.0]));
        let t = f32s(&[3], &[1.0, -1.0, -1.0]);
        let none = MarginOpts::default().reduction(Reduction::None);
        assert_close(&x.hinge_embedding_loss(&t, none.clone()), &[3], &[0.5, 0.0, 2.0]);
        assert_close(&x.margin_ranking_loss(&y, &t, none.margin(0.5)), &[3], &[1.0, 2.5, 0.0]);
        let soft =
            [1f64, -1.0, -1.0].iter().zip([0.5f64, 2.0, -1.0]).map(|(t, x)| (1.0 + (-t * x).exp()).ln());
        assert_close(&x.soft_margin_loss(&t, Reduction::Sum), &[], &[soft.sum()]);
        let tiny = f32s(&[2], &[-30.0, 800.0]);
        assert_close(&softplus(CallSite::here("t"), &tiny), &[2], &[(-30f64).exp(), 800.0]);
    }

    #[test]
    fn a_target_may_be_one_number() {
        let none = MarginOpts::default().reduction(Reduction::None);
        let (x, y) = (f32s(&[2, 2], &[0.5, 2.0, 1.0, 0.0]), f32s(&[2], &[1.0, 0.0]));
        for target in [f32s(&[], &[-1.0]), i64s(&[], &[-1]), f32s(&[2, 1], &[-1.0; 2])] {
            let loss = x.hinge_embedding_loss(&target, none.clone());
            assert_close(&loss, &[2, 2], &[0.5, 0.0, 0.0, 1.0]);
            let loss = x.margin_ranking_loss(&y, &target, none.clone());
            assert_close(&loss, &[2, 2], &[0.0, 2.0, 0.0, 0.0]);
        }
        assert_close(&x.hinge_embedding_loss(-1, none.clone()), &[2, 2], &[0.5, 0.0, 0.0, 1.0]);
        assert_close(&x.margin_ranking_loss(&y, 1, none.clone()), &[2, 2], &[0.5, 0.0, 0.0, 0.0]);
        let turned = f32s(&[2, 2], &[2.0, -0.5, 1.0, 0.0]);
        for target in [f32s(&[], &[1.0]), i64s(&[], &[1])] {
            assert_close(&x.cosine_embedding_loss(&turned, &target, none.clone()), &[2], &[1.0, 0.0]);
            assert_close(&y.cosine_embedding_loss(&y, &target, none.clone()), &[], &[0.0]);
        }
        let narrow = x.to_dtype(DType::F16).margin_ranking_loss(&y.to_dtype(DType::F16), 1.0, none);
        assert_eq!(narrow.dtype(), DType::F16);
    }

    #[test]
    fn distances_and_cosines() {
        let (a, b) = (f32s(&[2, 2], &[3.0, 4.0, 1.0, 0.0]), f32s(&[2, 2], &[4.0, 3.0, 0.0, 2.0]));
        let opts = MarginOpts::default().reduction(Reduction::None).margin(-0.5);
        let loss = a.cosine_embedding_loss(&b, f32s(&[2], &[1.0, -1.0]), opts);
        assert_close(&loss, &[2], &[1.0 - 0.96, 0.5]);
        let zero = f32s(&[2, 2], &[0.0; 4]);
        let opts = TripletMarginLossOpts::default().reduction(Reduction::None).eps(0.0).margin(2.0);
        let loss = zero.triplet_margin_loss(&a, &b, opts.clone());
        assert_close(&loss, &[2], &[2.0, 1.0]);
        let swapped = zero.triplet_margin_loss(&a, &b, opts.swap(true));
        assert_close(&swapped, &[2], &[5.0 - 2f64.sqrt() + 2.0, 1.0]);
    }

    #[test]
    fn scores_of_classes() {
        let x = f32s(&[2, 3], &[0.5, 1.0, -1.0, 2.0, 0.0, 1.5]);
        let opts = MultiMarginLossOpts::default().reduction(Reduction::None);
        let t = i64s(&[2], &[0, 2]);
        assert_close(&x.multi_margin_loss(&t, opts.clone()), &[2], &[1.5 / 3.0, 1.5 / 3.0]);
        let opts = opts.p(2).weight(&f32s(&[3], &[2.0, 1.0, 4.0]));
        assert_close(&x.multi_margin_loss(&t, opts), &[2], &[2.0 * 2.25 / 3.0, 4.0 * 2.25 / 3.0]);
    }

    #[test]
    fn errors_are_told() {
        let x = f32s(&[2, 2], &[0.0; 4]);
        let bad = x.triplet_margin_loss(&x, &x, TripletMarginLossOpts::default().margin(-1.0));
        assert!(error_text(&bad).contains("above 0"));
        assert!(error_text(&x.multi_margin_loss(&x, MultiMarginLossOpts::default())).contains("[2]"));
        let bad = x.margin_ranking_loss(&x, f32s(&[3], &[0.0; 3]), MarginOpts::default());
        assert!(error_text(&bad).contains("broadcast"));
        assert!(error_text(&x.cosine_embedding_loss(&x, &x, MarginOpts::default())).contains("[n, d]"));
    }
}
