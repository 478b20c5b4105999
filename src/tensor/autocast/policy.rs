//! The table of mixed precision: which type operations are computed in under
//! [`autocast`](crate::autocast).

use crate::base::DeviceKind;

/// What an operation's floating operands become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The 16-bit type: the operation is faster in it and adds up in 32 bits.
    Lower,
    /// `F32`: 16 bits would overflow, or lose what counts.
    Float32,
}

use Policy::{Float32, Lower};

/// An operation, and its policy on GPUs (PyTorch's for CUDA) and on the CPU (PyTorch's for that).
type Row = (&'static str, Option<Policy>, Option<Policy>);

const fn lower(name: &'static str) -> Row {
    (name, Some(Lower), Some(Lower))
}
const fn float32(name: &'static str) -> Row {
    (name, Some(Float32), Some(Float32))
}
const fn float32_on_gpus(name: &'static str) -> Row {
    (name, Some(Float32), None)
}
const fn float32_on_the_cpu(name: &'static str) -> Row {
    (name, None, Some(Float32))
}

/// By name. What is not here has the widest type of its operands.
const ROWS: &[Row] = &[
    float32_on_gpus("acos"),
    float32_on_the_cpu("adaptive_avg_pool3d"),
    float32_on_the_cpu("adaptive_max_pool3d"),
    lower("addbmm"),
    lower("addmm"),
    ("addmv", Some(Lower), None),
    ("addr", Some(Lower), None),
    float32_on_gpus("asin"),
    float32_on_the_cpu("avg_pool3d"),
    lower("baddbmm"),
    float32_on_the_cpu("binary_cross_entropy"),
    float32("binary_cross_entropy_with_logits"),
    lower("bmm"),
    float32("cdist"),
    float32_on_the_cpu("cholesky"),
    lower("conv1d"),
    lower("conv2d"),
    lower("conv3d"),
    lower("conv_transpose1d"),
    lower("conv_transpose2d"),
    lower("conv_transpose3d"),
    float32_on_gpus("cosh"),
    float32("cosine_embedding_loss"),
    float32_on_gpus("cosine_similarity"),
    float32("cross_entropy"),
    float32_on_the_cpu("ctc_loss"),
    float32_on_gpus("cumprod"),
    float32_on_gpus("cumsum"),
    float32_on_gpus("cumulative_trapezoid"),
    float32_on_gpus("dist"),
    lower("einsum"),
    float32_on_gpus("erfinv"),
    float32_on_gpus("exp"),
    float32_on_gpus("expm1"),
    float32_on_gpus("gaussian_nll_loss"),
    float32_on_the_cpu("grid_sample"),
    float32_on_gpus("group_norm"),
    lower("gru"),
    float32("hinge_embedding_loss"),
    float32("huber_loss"),
    float32_on_gpus("interpolate"),
    float32_on_the_cpu("inv"),
    float32("kl_div"),
    float32("l1_loss"),
    float32_on_gpus("layer_norm"),
    lower("linear"),
    float32_on_gpus("local_response_norm"),
    float32_on_gpus("log"),
    float32_on_gpus("log10"),
    float32_on_gpus("log1p"),
    float32_on_gpus("log2"),
    float32_on_gpus("log_softmax"),
    float32_on_gpus("logsumexp"),
    lower("lstm"),
    float32("margin_ranking_loss"),
    lower("matmul"),
    float32_on_gpus("matrix_norm"),
    float32_on_the_cpu("max_pool3d"),
    lower("mm"),
    float32("mse_loss"),
    lower("multi_dot"),
    float32("multi_margin_loss"),
    float32("multilabel_margin_loss"),
    lower("mv"),
    float32_on_gpus("native_layer_norm"),
    float32("nll_loss"),
    float32_on_gpus("norm"),
    float32_on_gpus("normalize"),
    float32_on_gpus("pairwise_distance"),
    float32("poisson_nll_loss"),
    float32_on_gpus("pow"),
    lower("prelu"),
    float32("prod"),
    float32_on_the_cpu("quantile"),
    float32_on_gpus("reciprocal"),
    float32_on_gpus("renorm"),
    float32_on_gpus("rms_norm"),
    lower("rnn"),
    float32_on_gpus("rpow"),
    float32_on_gpus("rsqrt"),
    lower("scaled_dot_product_attention"),
    float32_on_gpus("sinh"),
    float32("smooth_l1_loss"),
    float32("soft_margin_loss"),
    float32_on_gpus("softmax"),
    float32_on_gpus("softmin"),
    float32_on_gpus("softplus"),
    float32_on_the_cpu("solve"),
    float32_on_gpus("square"),
    float32_on_gpus("sum"),
    float32_on_gpus("sum_to_size"),
    float32_on_gpus("tan"),
    float32_on_the_cpu("trace"),
    float32_on_gpus("trapezoid"),
    float32("triplet_margin_loss"),
    lower("vecdot"),
];

/// The policy of an operation on devices of a family; `None` if it has the widest type of its operands.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::tensor::autocast::policy::{Policy, policy};
/// assert_eq!(policy("matmul", DeviceKind::Cuda), Some(Policy::Lower));
/// assert_eq!(policy("softmax", DeviceKind::Cuda), Some(Policy::Float32));
/// assert_eq!(policy("relu", DeviceKind::Cuda), None);
/// ```
pub fn policy(name: &str, kind: DeviceKind) -> Option<Policy> {
    let row = ROWS.binary_search_by(|row| row.0.cmp(name)).ok()?;
    let (_, on_gpus, on_the_cpu) = ROWS[row];
    match kind {
        DeviceKind::Cpu => on_the_cpu,
        DeviceKind::Wgpu | DeviceKind::Cuda | DeviceKind::Meta | DeviceKind::Null => on_gpus,
    }
}

#[cfg(test)]
mod tests {
    use super::ROWS;

    #[test]
    fn rows_are_in_order() {
        assert!(ROWS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
