//! Scaled dot-product attention: a composite whose body is its definition,
//! so that a template may run it without writing the scores.

use crate::base::{DType, Scalar, Shape};
use crate::ir::{AluOp, BuiltIn, Composite, Monoid};
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::control::composite_at;
use crate::tensor::matmul::matmul;
use crate::tensor::options::{options, some};
use crate::tensor::recent_composites::determined_composite_at;
use crate::tensor::rule::with_rule;
use crate::tensor::softmax::row_maximum;

options! {
    /// Options of [`Tensor::scaled_dot_product_attention`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::eye(2, 2, ());
    /// let y = x.scaled_dot_product_attention(&x, &x, AttentionOpts::default().causal(true));
    /// assert_eq!(y.i(0).to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    AttentionOpts {
        /// `Bool`: where to look; floating: added to the scores. Broadcasts to
        /// `[.., l, s]`.
        mask: Option<Tensor> = None, &Tensor => some;
        /// Position `i` looks at the keys `0..=i` only.
        causal: bool = false;
        /// Factor of the scores; one over the root of the last extent if `None`.
        scale: Option<f64> = None, f64 => Some;
        /// Let several heads of the query share one of the keys and values.
        enable_gqa: bool = false;
        /// Bound of the scores before masks: `softcap * tanh(score / softcap)`; none if `None`.
        softcap: Option<f64> = None, f64 => Some;
    }
}

impl Tensor {
    /// `softmax(self @ key.T * scale + mask) @ value` (Vaswani et al. 2017).
    ///
    /// Queries `[.., l, e]`, keys `[.., s, e]` and values `[.., s, v]` give `[.., l, v]`. A query
    /// that may look nowhere gets zeros. 16-bit floats compute in `F32`; keys' shares may be
    /// rounded to the type. Where a value that no query of a block looks at is no number
    /// or infinite, it is left open whether results are numbers.
    ///
    /// Invalid when shapes or types do not fit, a mask meets `causal`, or with shared heads the
    /// query's heads are no multiple of the keys'.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (q, k) = (Tensor::zeros([1, 4], ()), Tensor::zeros([2, 4], ()));
    /// let v = Tensor::from([[1.0f32], [3.0]]);
    /// assert_eq!(q.scaled_dot_product_attention(&k, &v, Default::default()).to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn scaled_dot_product_attention(&self, key: &Tensor, value: &Tensor, opts: AttentionOpts) -> Tensor {
        let site = CallSite::here("scaled_dot_product_attention");
        let this: &Tensor = &site.autocast(self);
        let key: &Tensor = &site.autocast(key);
        let value: &Tensor = &site.autocast(value);
        finish(attention(site, this, key, value, &opts))
    }
}

fn attention(site: CallSite, q: &Tensor, k: &Tensor, v: &Tensor, opts: &AttentionOpts) -> Checked<Tensor> {
    check(site, q, k, v, opts)?;
    let width = q.shape()[q.rank() - 1];
    let scale = opts.scale.unwrap_or(1.0 / (width as f64).sqrt());
    let attributes = [
        ("scale", Scalar::Float(scale)),
        ("causal", Scalar::Bool(opts.causal)),
        ("gqa", Scalar::Bool(opts.enable_gqa)),
    ];
    let operands = aligned(site, [q, k, v], opts.enable_gqa);
    if opts.softcap.is_some() {
        // No template bounds scores.
        return Ok(attend(site, &operands[0], &operands[1], &operands[2], opts, scale));
    }
    let inputs: Vec<Tensor> = operands.iter().chain(&opts.mask).cloned().collect();
    let inner = CallSite { name: BuiltIn::Attention.name(), span: site.span };
    let body = |inputs: &[Tensor]| {
        let plain = AttentionOpts { mask: inputs.get(3).cloned(), ..opts.clone() };
        attend(inner, &inputs[0], &inputs[1], &inputs[2], &plain, scale)
    };
    Ok(determined_composite_at(site.span, BuiltIn::Attention, &attributes, &inputs, body))
}

/// Checks what a user calls by the name of a composite of the library: the body then says what it is,
/// but under that name it has to be applied to what the name stands for.
pub(crate) fn check_named(
    site: CallSite,
    built_in: BuiltIn,
    attributes: &[(&'static str, Scalar)],
    inputs: &[Tensor],
) -> Checked<()> {
    let all: Vec<&Tensor> = inputs.iter().collect();
    let least = built_in.operands();
    site.require((least..=least + 1).contains(&inputs.len()), &all, || {
        (format!("{least} tensors and perhaps a mask"), inputs.len().to_string())
    })?;
    let [("scale", scale @ (Scalar::Float(_) | Scalar::Int(_))), rest @ ..] = attributes else {
        return Err(wrong_attributes(site, attributes, &all));
    };
    let [("causal", Scalar::Bool(causal)), ("gqa", Scalar::Bool(shared))] = rest else {
        return Err(wrong_attributes(site, attributes, &all));
    };
    let opts = AttentionOpts::default().scale(scale.as_f64()).causal(*causal).enable_gqa(*shared);
    let opts = AttentionOpts { mask: inputs.get(least).cloned(), ..opts };
    let values = if built_in == BuiltIn::Attention || built_in == BuiltIn::AttentionBackward { 2 } else { 1 };
    check(site, &inputs[0], &inputs[1], &inputs[values], &opts)
}

fn wrong_attributes(site: CallSite, found: &[(&'static str, Scalar)], inputs: &[&Tensor]) -> Tensor {
    let expected = "the attributes `scale`, a number, and `causal` and `gqa`, truth values, in this order";
    site.invalid(expected, format!("{found:?}"), inputs)
}

/// Queries with all axes of attentions, and keys with the values': where one attention
/// reads what several others do, all of its operands are theirs. What does not broadcast
/// stays for the products to refuse.
fn aligned(site: CallSite, [q, k, v]: [&Tensor; 3], shared: bool) -> [Tensor; 3] {
    let own = if shared { 3 } else { 2 };
    let outer = |t: &Tensor| Shape::from(&t.shape()[..t.rank() - own]);
    let of_keys = outer(k).broadcast(&outer(v));
    let of_all = of_keys.as_ref().and_then(|of_keys| of_keys.broadcast(&outer(q)));
    let (Some(of_keys), Some(of_all)) = (of_keys, of_all) else { return [q, k, v].map(Clone::clone) };
    let to = |t: &Tensor, outer: &Shape| {
        let dims = [&outer[..], &t.shape()[t.rank() - own..]].concat();
        if t.shape()[..] == dims[..] { t.clone() } else { site.expand(t, &dims) }
    };
    [to(q, &of_all), to(k, &of_keys), to(v, &of_keys)]
}

fn check(site: CallSite, q: &Tensor, k: &Tensor, v: &Tensor, opts: &AttentionOpts) -> Checked<()> {
    let all = [q, k, v];
    let least = if opts.enable_gqa { 3 } else { 2 };
    site.require(all.iter().all(|t| t.rank() >= least), &all, || {
        let found = all.map(|t| t.rank().to_string()).join(", ");
        (format!("query, key and value of rank at least {least}"), format!("ranks {found}"))
    })?;
    let fits = q.dtype().is_float() && all.iter().all(|t| t.dtype() == q.dtype());
    site.require(fits, &all, || {
        let found = all.map(|t| t.dtype().to_string()).join(", ");
        ("query, key and value of one floating type".into(), found)
    })?;
    let last = |t: &Tensor, from_end: usize| t.shape()[t.rank() - from_end];
    let fits = last(q, 1) == last(k, 1) && last(k, 2) == last(v, 2);
    site.require(fits, &all, || {
        (
            "keys as long as queries, and as many as values".into(),
            format!("{}, {}, {}", q.shape(), k.shape(), v.shape()),
        )
    })?;
    if opts.enable_gqa {
        let (heads, shared) = (last(q, 3), last(k, 3));
        let fits = shared > 0 && heads % shared == 0 && last(v, 3) == shared;
        site.require(fits, &all, || {
            ("heads of the query a multiple of the keys' and values'".into(), format!("{heads} and {shared}"))
        })?;
    }
    match &opts.mask {
        Some(mask) => check_mask(site, mask, q, last(k, 2), opts.causal),
        None => Ok(()),
    }
}

fn check_mask(site: CallSite, mask: &Tensor, q: &Tensor, keys: usize, causal: bool) -> Checked<()> {
    site.require(!causal, &[q, mask], || ("a mask or causal".into(), "both".into()))?;
    site.require(mask.dtype() == DType::Bool || mask.dtype() == q.dtype(), &[mask], || {
        (format!("a bool or {} mask", q.dtype()), mask.dtype().to_string())
    })?;
    let scores = [&q.shape()[..q.rank() - 1], &[keys]].concat();
    let fits = mask.shape().broadcast(&Shape::from(&scores[..])) == Some(Shape::from(&scores[..]));
    site.require(fits, &[mask], || {
        (format!("a mask that broadcasts to {scores:?}"), mask.shape().to_string())
    })
}

/// The definition.
fn attend(site: CallSite, q: &Tensor, k: &Tensor, v: &Tensor, opts: &AttentionOpts, scale: f64) -> Tensor {
    let heads = Heads::new(q, k, opts.enable_gqa);
    let values = heads.lead(site, &site.cast(v, v.dtype().compute()));
    let scores = scores(site, q, k, opts, scale);
    // Only a mask, or no keys at all, leaves a query without any.
    let safe = opts.mask.is_some() || k.shape()[k.rank() - 2] == 0;
    let shares = softmax(site, &scores, safe);
    let shares =
        if q.dtype() == shares.dtype() { shares } else { rounded(site, &shares, &scores, q.dtype()) };
    let y = matmul(site, &shares, &values);
    site.cast(&heads.merge(site, &y), q.dtype())
}

/// Shares rounded to a 16-bit type, which is all that gradients keep of them and of the scores: theirs are
/// those of a softmax in terms of its result.
fn rounded(site: CallSite, shares: &Tensor, scores: &Tensor, dtype: DType) -> Tensor {
    let rounded = site.cast(&site.cast(shares, dtype), shares.dtype());
    with_rule(rounded, &[scores], move |_, shares, g| {
        let own = site.mul(shares, g);
        let common = site.reduce_keepdim(Monoid::Sum, &own, &[own.rank() - 1]);
        vec![Some(site.sub(&own, site.mul(shares, common)))]
    })
}

/// Each query's scores, heads as [`Heads::split`] has them.
fn scores(site: CallSite, q: &Tensor, k: &Tensor, opts: &AttentionOpts, scale: f64) -> Tensor {
    let wide = |t: &Tensor| site.cast(t, t.dtype().compute());
    let heads = Heads::new(q, k, opts.enable_gqa);
    let (queries, keys) = (heads.split(site, &wide(q)), heads.lead(site, &wide(k)));
    let turned = site.transpose(&keys, keys.rank() - 2, keys.rank() - 1);
    // Queries in 16 bits are kept as they are, those in 32 times the scale.
    let scores = if q.dtype() == queries.dtype() {
        matmul(site, &site.mul(queries, scale), &turned)
    } else {
        site.mul(matmul(site, &queries, &turned), scale)
    };
    let scores = match opts.softcap {
        Some(cap) => site.mul(site.unary(AluOp::Tanh, &site.div(scores, cap)), cap),
        None => scores,
    };
    let mask = opts.mask.as_ref().map(|mask| heads.split(site, mask));
    masked(site, scores, mask.as_ref(), opts.causal)
}

/// For each query of an attention with these operands, the logarithm of the sum of its
/// scores' powers, `[.., l]`: minus infinity where it may look nowhere.
pub(crate) fn log_sums(site: CallSite, attention: &Composite, operands: &[Tensor]) -> Tensor {
    let attribute = |name: &str| attention.attributes.iter().find(|(found, _)| *found == name);
    let flag = |name: &str| attribute(name).is_some_and(|(_, value)| value.as_bool());
    let scale = attribute("scale").map_or(1.0, |(_, value)| value.as_f64());
    let inner = CallSite { name: BuiltIn::AttentionLogSum.name(), span: site.span };
    let inputs: Vec<Tensor> = operands[..2].iter().chain(operands.get(3)).cloned().collect();
    let body = |inputs: &[Tensor]| {
        let opts = AttentionOpts { mask: inputs.get(2).cloned(), ..AttentionOpts::default() };
        let opts = opts.causal(flag("causal")).enable_gqa(flag("gqa"));
        let scores = scores(inner, &inputs[0], &inputs[1], &opts, scale);
        let last = [scores.rank() - 1];
        let sums = inner.reduce_keepdim(Monoid::LogSumExp, &scores, &last);
        let sums = Heads::new(&inputs[0], &inputs[1], opts.enable_gqa).merge(inner, &sums);
        vec![inner.squeeze(&sums, sums.rank() - 1)]
    };
    composite_at(site.span, BuiltIn::AttentionLogSum, &attention.attributes, &inputs, body).remove(0)
}

/// How many heads of the query share one head of the keys; 1 without sharing.
struct Heads {
    group: usize,
    shared: bool,
}

impl Heads {
    fn new(q: &Tensor, k: &Tensor, shared: bool) -> Heads {
        let heads = |t: &Tensor| if shared { t.shape()[t.rank() - 3] } else { 1 };
        Heads { group: heads(q) / heads(k).max(1), shared }
    }
    /// `[.., h, l, e]` as `[.., h / group, group, l, e]`; an extent of 1 broadcasts.
    fn split(&self, site: CallSite, x: &Tensor) -> Tensor {
        if !self.shared || x.rank() < 3 {
            return x.clone();
        }
        let mut dims = x.shape().to_vec();
        let at = x.rank() - 3;
        let inner = if dims[at] == 1 { 1 } else { self.group };
        dims.splice(at..=at, [dims[at] / inner, inner]);
        site.reshape(x, &dims)
    }
    /// `[.., h, s, e]` as `[.., h, 1, s, e]`.
    fn lead(&self, site: CallSite, x: &Tensor) -> Tensor {
        if self.shared { site.unsqueeze(x, x.rank() - 2) } else { x.clone() }
    }
    /// Undoes [`Heads::split`].
    fn merge(&self, site: CallSite, x: &Tensor) -> Tensor {
        if !self.shared {
            return x.clone();
        }
        let mut dims = x.shape().to_vec();
        let at = x.rank() - 4;
        dims.splice(at..=at + 1, [dims[at] * dims[at + 1]]);
        site.reshape(x, &dims)
    }
}

/// The scores with minus infinity where a query must not look.
fn masked(site: CallSite, scores: Tensor, mask: Option<&Tensor>, causal: bool) -> Tensor {
    let hide = |look: &Tensor, scores: Tensor| {
        let dtype = scores.dtype();
        site.select(look, scores, f64::NEG_INFINITY, dtype)
    };
    let shape = scores.shape();
    let scores = if causal {
        let index = |axis: usize| {
            site.iota_along(shape[shape.rank() - 2 + axis], axis, 2, DType::I64, scores.device())
        };
        let later = site.lt(index(0), index(1));
        hide(&site.unary(AluOp::Not, &later), scores)
    } else {
        scores
    };
    match mask {
        Some(mask) if mask.dtype() == DType::Bool => hide(mask, scores),
        Some(mask) => site.add(&scores, site.cast(mask, scores.dtype())),
        None => scores,
    }
}

/// Softmax over the last axis; with `safe`, a row of minus infinities
/// becomes zeros.
pub(crate) fn softmax(site: CallSite, scores: &Tensor, safe: bool) -> Tensor {
    let Some(last) = scores.rank().checked_sub(1) else { return scores.clone() };
    let axis = [last];
    let max = row_maximum(site, scores, axis[0]);
    let max = if safe { site.select(&site.eq(&max, f64::NEG_INFINITY), 0.0, &max, max.dtype()) } else { max };
    let powers = site.unary(AluOp::Exp, &site.sub(scores, max));
    let sum = site.reduce_keepdim(Monoid::Sum, &powers, &axis);
    let sum = if safe { site.select(&site.eq(&sum, 0.0), 1.0, &sum, sum.dtype()) } else { sum };
    site.mul(powers, site.unary(AluOp::Recip, &sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Op;
    use crate::tensor::testing::{assert_close, error_text, f32s, pattern, tensor, values};

    /// Attention of one head by its definition, over the keys `looks` allows.
    fn reference(
        q: &[f64],
        k: &[f64],
        v: &[f64],
        e: usize,
        looks: impl Fn(usize, usize) -> bool,
    ) -> Vec<f64> {
        let (l, s) = (q.len() / e, k.len() / e);
        let w = v.len() / s;
        let mut y = Vec::new();
        for i in 0..l {
            let score =
                |j: usize| (0..e).map(|c| q[i * e + c] * k[j * e + c]).sum::<f64>() / (e as f64).sqrt();
            let powers: Vec<f64> = (0..s).map(|j| if looks(i, j) { score(j).exp() } else { 0.0 }).collect();
            let sum: f64 = powers.iter().sum();
            y.extend((0..w).map(|c| {
                let total: f64 = (0..s).map(|j| powers[j] * v[j * w + c]).sum();
                if sum == 0.0 { 0.0 } else { total / sum }
            }));
        }
        y
    }

    #[test]
    fn masks_say_where_to_look() {
        let (q, k, v) = (pattern(&[3, 2], 1), pattern(&[4, 2], 2), pattern(&[4, 5], 3));
        let run = |opts: AttentionOpts| q.scaled_dot_product_attention(&k, &v, opts);
        let expect =
            |looks: &dyn Fn(usize, usize) -> bool| reference(&values(&q), &values(&k), &values(&v), 2, looks);
        assert_close(&run(AttentionOpts::default()), &[3, 5], &expect(&|_, _| true));
        assert_close(&run(AttentionOpts::default().causal(true)), &[3, 5], &expect(&|i, j| j <= i));
        // The second query looks nowhere.
        let look = |i: usize, j: usize| i != 1 && (i + j).is_multiple_of(2);
        let mask: Vec<f64> = (0..12).map(|p| f64::from(u8::from(look(p / 4, p % 4)))).collect();
        let bools = tensor(&[3, 4], DType::Bool, &mask);
        assert_close(&run(AttentionOpts::default().mask(&bools)), &[3, 5], &expect(&look));
        let added: Vec<f64> = mask.iter().map(|&m| if m == 1.0 { 0.0 } else { f64::NEG_INFINITY }).collect();
        assert_close(&run(AttentionOpts::default().mask(&f32s(&[3, 4], &added))), &[3, 5], &expect(&look));
    }

    #[test]
    fn heads_share_keys_in_groups() {
        let (q, k, v) = (pattern(&[2, 6, 3, 4], 1), pattern(&[2, 2, 5, 4], 2), pattern(&[2, 2, 5, 4], 3));
        let y = q.scaled_dot_product_attention(&k, &v, AttentionOpts::default().enable_gqa(true));
        let (vq, vk, vv) = (values(&q), values(&k), values(&v));
        let mut expected = Vec::new();
        for head in 0..12 {
            let shared = head / 6 * 2 + head % 6 / 3;
            let (of_q, of_k) = (head * 12..head * 12 + 12, shared * 20..shared * 20 + 20);
            expected.extend(reference(&vq[of_q], &vk[of_k.clone()], &vv[of_k], 4, |_, _| true));
        }
        assert_close(&y, &[2, 6, 3, 4], &expected);
    }

    #[test]
    fn a_template_sees_the_operands_and_the_attributes() {
        let q = pattern(&[1, 2, 3, 4], 1);
        let y = q.scaled_dot_product_attention(&q, &q, AttentionOpts::default().causal(true));
        let Op::Composite(composite, 0) = y.node().unwrap().op().clone() else { panic!("{y:?}") };
        assert_eq!((composite.built_in, composite.body.params.len()), (Some(BuiltIn::Attention), 3));
        assert!(composite.attributes.iter().any(|(name, value)| *name == "causal" && value.as_bool()));
    }

    #[test]
    fn errors_are_told() {
        let (q, k) = (pattern(&[3, 2], 1), pattern(&[4, 3], 2));
        assert!(
            error_text(&q.scaled_dot_product_attention(&k, &k, AttentionOpts::default())).contains("as long")
        );
        let both = AttentionOpts::default().causal(true).mask(&pattern(&[3, 3], 1));
        assert!(error_text(&q.scaled_dot_product_attention(&q, &q, both)).contains("both"));
        let wide = AttentionOpts::default().mask(&pattern(&[2, 3, 3], 1));
        assert!(error_text(&q.scaled_dot_product_attention(&q, &q, wide)).contains("broadcasts"));
    }
}
