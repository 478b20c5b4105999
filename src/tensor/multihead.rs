//! Attention with several heads and its projections.

use crate::base::DType;
use crate::ir::{AluOp, Monoid, PadAxis};
use crate::tensor::Tensor;
use crate::tensor::attention::softmax;
use crate::tensor::compose::{CallSite, Checked};
use crate::tensor::matmul::matmul;
use crate::tensor::options::{options, some};

/// The projections of [`Tensor::multi_head_attention_forward`].
#[derive(Clone, Debug)]
pub struct HeadProjections {
    /// Weights of query, key and value, `[3 e, e]`.
    pub input_weight: Tensor,
    /// Biases of the same, `[3 e]`.
    pub input_bias: Option<Tensor>,
    /// Weight of the result, `[e, e]`.
    pub output_weight: Tensor,
    /// Bias of the result, `[e]`.
    pub output_bias: Option<Tensor>,
}

options! {
    /// Options of [`Tensor::multi_head_attention_forward`].
    ///
    /// # Examples
    /// ```
    /// use kiln::opts::MultiHeadOpts;
    /// let opts = MultiHeadOpts::default().average_weights(false).add_zero_attn(true);
    /// assert!(opts.add_zero_attn && !opts.average_weights);
    /// ```
    MultiHeadOpts {
        /// A further key, of `e` elements.
        key_bias: Option<Tensor> = None, &Tensor => some;
        /// Its value.
        value_bias: Option<Tensor> = None, &Tensor => some;
        /// Add a key and a value of zeros.
        add_zero_attn: bool = false;
        /// `Bool` `[n, s]` or `[s]`: keys not to look at.
        key_padding_mask: Option<Tensor> = None, &Tensor => some;
        /// `Bool`: where not to look; floating: added to the scores. `[l, s]`
        /// or `[n * heads, l, s]`.
        mask: Option<Tensor> = None, &Tensor => some;
        /// Average the returned weights over the heads (true).
        average_weights: bool = true;
        /// The returned weights matter (true). Else, as in PyTorch, a query that may look nowhere
        /// gets zeros and not NaN.
        need_weights: bool = true;
    }
}

impl Tensor {
    /// Attention with several heads and its projections (Vaswani et al. 2017).
    ///
    /// Projects queries `[l, n, e]`, keys and values `[s, n, e]` (or all without `n`), attends in
    /// each of `heads` equal parts of the channels, and projects the result. Returns it and the
    /// weights `[n, l, s]`, or for each head `[n, heads, l, s]`; unread weights cost nothing.
    ///
    /// Invalid when shapes do not fit or the heads do not divide the channels.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::HeadProjections;
    /// let projections = HeadProjections {
    ///     input_weight: Tensor::ones([12, 4], ()),
    ///     input_bias: None,
    ///     output_weight: Tensor::ones([4, 4], ()),
    ///     output_bias: None,
    /// };
    /// let x = Tensor::ones([3, 1, 4], ());
    /// let (y, weights) = x.multi_head_attention_forward(&x, &x, 2, &projections, Default::default());
    /// assert_eq!((y.dims()?, weights.dims()?), ([3, 1, 4], [1, 3, 3]));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn multi_head_attention_forward(
        &self,
        key: &Tensor,
        value: &Tensor,
        heads: usize,
        projections: &HeadProjections,
        opts: MultiHeadOpts,
    ) -> (Tensor, Tensor) {
        let site = CallSite::here("multi_head_attention_forward");
        match forward(site, [self, key, value], heads, projections, &opts) {
            Ok(both) => both,
            Err(invalid) => (invalid.clone(), invalid),
        }
    }
}

fn forward(
    site: CallSite,
    inputs: [&Tensor; 3],
    heads: usize,
    projections: &HeadProjections,
    opts: &MultiHeadOpts,
) -> Checked<(Tensor, Tensor)> {
    let lone = inputs[0].rank() == 2;
    let inputs = inputs.map(|t| if lone { site.unsqueeze(t, 1) } else { t.clone() });
    let channels = check(site, &inputs, heads, projections)?;
    let [q, k, v] = project(site, &inputs, projections, channels);
    let k = with_row(site, &k, opts.key_bias.as_ref())?;
    let v = with_row(site, &v, opts.value_bias.as_ref())?;
    site.valid(&[&q, &k, &v])?;
    let (batch, width) = (q.shape()[1], channels / heads);
    // [l, n, e] to [n, heads, l, e / heads].
    let split = |t: &Tensor| {
        let parts = site.reshape(t, &[t.shape()[0], batch, heads, width]);
        site.permute(&parts, &[1, 2, 0, 3])
    };
    let zero = |t: Tensor| if opts.add_zero_attn { padded(site, &t, 2, 1) } else { t };
    let (q, k, v) = (split(&q), zero(split(&k)), zero(split(&v)));
    let weights = weights(site, &q, &k, opts, inputs[1].shape()[0])?;
    let joined = site.permute(&matmul(site, &weights, &v), &[2, 0, 1, 3]);
    let rows = site.reshape(&joined, &[joined.shape()[0], batch, channels]);
    let y = affine(site, &rows, &projections.output_weight, projections.output_bias.as_ref());
    let weights = if opts.average_weights {
        site.div(site.reduce(Monoid::Sum, &weights, &[1]), heads as f64)
    } else {
        weights
    };
    let result = |t: &Tensor, axis: usize| {
        let t = site.cast(t, inputs[0].dtype());
        if lone && t.ty().is_some() { site.squeeze(&t, axis) } else { t }
    };
    Ok((result(&y, 1), result(&weights, 0)))
}

/// How much each query looks at each key, `[n, heads, l, s]`; keys beyond
/// `given` were appended.
fn weights(site: CallSite, q: &Tensor, k: &Tensor, opts: &MultiHeadOpts, given: usize) -> Checked<Tensor> {
    let scale = 1.0 / (q.shape()[3] as f64).sqrt();
    let scores = matmul(site, &site.mul(q, scale), &site.transpose(k, 2, 3));
    let scores = masked(site, scores, opts, k.shape()[2] - given)?;
    if opts.need_weights {
        return Ok(softmax(site, &scores, false));
    }
    let blind = site.eq(site.reduce_keepdim(Monoid::Max, &scores, &[3]), f64::NEG_INFINITY);
    let seen = site.select(&blind, 0.0, &scores, scores.dtype());
    Ok(site.select(&blind, 0.0, softmax(site, &seen, false), scores.dtype()))
}

fn check(
    site: CallSite,
    inputs: &[Tensor; 3],
    heads: usize,
    projections: &HeadProjections,
) -> Checked<usize> {
    let [q, k, v] = inputs;
    let all = [q, k, v];
    let fits = all.iter().all(|t| t.rank() == 3 && t.dtype().is_float());
    site.require(fits, &all, || {
        ("floating query, key and value of rank 2 or 3".into(), format!("ranks {:?}", all.map(|t| t.rank())))
    })?;
    let channels = q.shape()[2];
    let fits = k.shape() == v.shape() && k.shape()[1..] == q.shape()[1..];
    site.require(fits, &all, || {
        (
            "key and value of one shape, and of the query's batch and channels".into(),
            format!("{:?}", all.map(|t| t.shape())),
        )
    })?;
    site.require(heads > 0 && channels % heads == 0, &all, || {
        (format!("heads that divide {channels} channels"), heads.to_string())
    })?;
    let weights = [&projections.input_weight, &projections.output_weight];
    let expected = [[3 * channels, channels], [channels, channels]];
    let fits = weights.iter().zip(expected).all(|(w, dims)| w.shape()[..] == dims);
    site.require(fits, &weights, || {
        (format!("weights of shapes {expected:?}"), format!("{:?}", weights.map(|w| w.shape())))
    })?;
    Ok(channels)
}

/// `x @ weight.T + bias`, in the type arithmetic is carried out in.
fn affine(site: CallSite, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
    let wide = |t: &Tensor| site.cast(t, t.dtype().compute());
    let y = site.contract(&wide(x), &wide(weight), &[], &[(x.rank() - 1, 1)]);
    bias.map_or(y.clone(), |bias| site.add(&y, wide(bias)))
}

fn project(
    site: CallSite,
    inputs: &[Tensor; 3],
    projections: &HeadProjections,
    channels: usize,
) -> [Tensor; 3] {
    std::array::from_fn(|i| {
        let part = |t: &Tensor| site.slice(t, 0, i * channels, (i + 1) * channels, 1);
        let bias = projections.input_bias.as_ref().map(part);
        affine(site, &inputs[i], &part(&projections.input_weight), bias.as_ref())
    })
}

/// Zeros added at the end of an axis.
fn padded(site: CallSite, x: &Tensor, axis: usize, by: usize) -> Tensor {
    let mut pads = vec![PadAxis::default(); x.rank()];
    pads[axis].hi = by as i64;
    site.pad(x, pads, 0i64)
}

/// `[s, n, e]` with one more row for each sequence.
fn with_row(site: CallSite, x: &Tensor, row: Option<&Tensor>) -> Checked<Tensor> {
    let Some(row) = row else { return Ok(x.clone()) };
    let shape = x.shape();
    site.require(row.numel() == shape[2], &[row], || {
        (format!("a bias of {} elements", shape[2]), format!("shape {}", row.shape()))
    })?;
    let row = site.cast(&site.reshape(row, &[1, 1, shape[2]]), x.dtype());
    let index = site.iota_along(shape[0] + 1, 0, 3, DType::I64, x.device());
    let old = site.lt(index, shape[0] as i64);
    Ok(site.select(&old, padded(site, x, 0, 1), row, x.dtype()))
}

/// The scores `[n, heads, l, s]` with the masks, which do not cover the
/// `extra` last keys.
fn masked(site: CallSite, scores: Tensor, opts: &MultiHeadOpts, extra: usize) -> Checked<Tensor> {
    let shape = scores.shape();
    let mut scores = scores;
    if let Some(mask) = &opts.mask {
        let mask = padded(site, mask, mask.rank().saturating_sub(1), extra);
        let mask = if mask.rank() == 3 { site.reshape(&mask, &shape) } else { mask };
        scores = hidden(site, scores, &mask);
    }
    if let Some(mask) = &opts.key_padding_mask {
        let mask = padded(site, mask, mask.rank().saturating_sub(1), extra);
        let batch = if mask.rank() == 2 { shape[0] } else { 1 };
        scores = hidden(site, scores, &site.reshape(&mask, &[batch, 1, 1, shape[3]]));
    }
    site.valid(&[&scores])?;
    Ok(scores)
}

fn hidden(site: CallSite, scores: Tensor, mask: &Tensor) -> Tensor {
    if mask.dtype() != DType::Bool {
        return site.binary(AluOp::Add, &scores, site.cast(mask, scores.dtype()));
    }
    site.select(mask, f64::NEG_INFINITY, &scores, scores.dtype())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::attention::AttentionOpts;
    use crate::tensor::testing::{assert_close, error_text, pattern, tensor, values};

    fn projections() -> HeadProjections {
        HeadProjections {
            input_weight: pattern(&[12, 4], 1),
            input_bias: Some(pattern(&[12], 2)),
            output_weight: pattern(&[4, 4], 3),
            output_bias: Some(pattern(&[4], 4)),
        }
    }

    #[test]
    fn heads_attend_in_parts_of_the_channels() {
        let (q, k) = (pattern(&[3, 4], 5), pattern(&[5, 4], 6));
        let p = projections();
        let site = CallSite::here("t");
        let project = |x: &Tensor, i: usize| {
            let (w, b) = (site.slice(&p.input_weight, 0, 4 * i, 4 * i + 4, 1), pattern(&[12], 2));
            let y = x.linear(&w, Some(&site.slice(&b, 0, 4 * i, 4 * i + 4, 1)));
            site.permute(&site.reshape(&y, &[x.shape()[0], 2, 2]), &[1, 0, 2])
        };
        let heads = project(&q, 0).scaled_dot_product_attention(
            &project(&k, 1),
            &project(&k, 2),
            AttentionOpts::default(),
        );
        let joined = site.reshape(&site.permute(&heads, &[1, 0, 2]), &[3, 4]);
        let expected = joined.linear(&p.output_weight, p.output_bias.as_ref());
        let (y, weights) = q.multi_head_attention_forward(&k, &k, 2, &p, MultiHeadOpts::default());
        assert_close(&y, &[3, 4], &values(&expected));
        let sums: Vec<f64> = values(&weights).chunks(5).map(|row| row.iter().sum()).collect();
        assert!(sums.iter().all(|s: &f64| (s - 1.0).abs() < 1e-6) && weights.shape()[..] == [3, 5]);
    }

    #[test]
    fn masks_leave_added_keys_in_sight() {
        let (q, k) = (pattern(&[2, 1, 4], 5), pattern(&[3, 1, 4], 6));
        let hide = tensor(&[1, 3], DType::Bool, &[1.0, 1.0, 1.0]);
        let opts = MultiHeadOpts::default().add_zero_attn(true).key_padding_mask(&hide);
        let (_, weights) = q.multi_head_attention_forward(&k, &k, 2, &projections(), opts);
        assert_close(&weights, &[1, 2, 4], &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        let (bad, _) = q.multi_head_attention_forward(&k, &k, 3, &projections(), MultiHeadOpts::default());
        assert!(error_text(&bad).contains("divide 4"));
    }
}
