//! Reductions, cumulative operations, orders, norms and statistics.

use kiln::opts::{CovOpts, DiffOpts, LocalResponseNormOpts, MatrixNorm, PairwiseDistanceOpts};
use kiln::opts::{Interpolation, QuantileOpts};
use kiln::prelude::*;

use super::{Input, Row, all, any, positive, within};

const X: Input = any(&[3, 4]);
const PLUS: Input = positive(&[3, 4]);

pub const REDUCTIONS: &[Row] = &[
    ("sum", &[X], |x| x[0].sum(0)),
    ("sum_keepdim", &[X], |x| x[0].sum_keepdim(1)),
    ("prod", &[X], |x| x[0].prod(1)),
    ("prod_keepdim", &[X], |x| x[0].prod_keepdim([0, 1])),
    ("mean", &[X], |x| x[0].mean([0, 1])),
    ("mean_keepdim", &[X], |x| x[0].mean_keepdim(0)),
    ("max", &[X], |x| x[0].max(1)),
    ("max_keepdim", &[X], |x| x[0].max_keepdim(0)),
    ("min", &[X], |x| x[0].min([0, 1])),
    ("min_keepdim", &[X], |x| x[0].min_keepdim(1)),
    ("amax", &[X], |x| x[0].amax(1)),
    ("amax_keepdim", &[X], |x| x[0].amax_keepdim(..)),
    ("amin", &[X], |x| x[0].amin(0)),
    ("amin_keepdim", &[X], |x| x[0].amin_keepdim(1)),
    ("aminmax", &[X], |x| pair(x[0].aminmax(1))),
    ("aminmax_keepdim", &[X], |x| pair(x[0].aminmax_keepdim(0))),
    ("max_with_index", &[X], |x| x[0].max_with_index(1).0),
    ("max_with_index_keepdim", &[X], |x| x[0].max_with_index_keepdim(0).0),
    ("min_with_index", &[X], |x| x[0].min_with_index(1).0),
    ("min_with_index_keepdim", &[X], |x| x[0].min_with_index_keepdim(0).0),
    ("nansum", &[X], |x| x[0].nansum(1)),
    ("nansum_keepdim", &[X], |x| x[0].nansum_keepdim(0)),
    ("nanmean", &[X], |x| x[0].nanmean(1)),
    ("nanmean_keepdim", &[X], |x| x[0].nanmean_keepdim(0)),
    ("logsumexp", &[X], |x| x[0].logsumexp(1)),
    ("logsumexp_keepdim", &[X], |x| x[0].logsumexp_keepdim([0, 1])),
    ("var", &[X], |x| x[0].var(1)),
    ("var_keepdim", &[X], |x| x[0].var_keepdim(0)),
    ("var_with", &[X], |x| x[0].var_with(.., VarOpts::default().correction(0.0))),
    ("var_mean", &[X], |x| pair(x[0].var_mean(1, VarOpts::default()))),
    ("std", &[X], |x| x[0].std(1)),
    ("std_keepdim", &[X], |x| x[0].std_keepdim(0)),
    ("std_with", &[X], |x| x[0].std_with(.., VarOpts::default().correction(0.0))),
    ("std_mean", &[X], |x| pair(x[0].std_mean(1, VarOpts::default()))),
    ("sum_to_size", &[X], |x| x[0].sum_to_size([1, 4])),
    ("trace", &[X], |x| x[0].trace()),
    ("softmax", &[X], |x| x[0].softmax(1)),
    ("softmax_as", &[X], |x| x[0].softmax_as(0, DType::F64)),
    ("log_softmax", &[X], |x| x[0].log_softmax(1)),
    ("log_softmax_as", &[X], |x| x[0].log_softmax_as(0, DType::F64)),
    ("softmin", &[X], |x| x[0].softmin(1)),
    ("softmin_as", &[X], |x| x[0].softmin_as(0, DType::F64)),
    ("glu", &[X], |x| x[0].glu(1)),
];

pub const SCANS_AND_ORDERS: &[Row] = &[
    ("cumsum", &[X], |x| x[0].cumsum(1)),
    ("cumprod", &[X], |x| x[0].cumprod(1)),
    ("cummax", &[X], |x| x[0].cummax(1).0),
    ("cummin", &[X], |x| x[0].cummin(0).0),
    ("logcumsumexp", &[X], |x| x[0].logcumsumexp(1)),
    ("diff", &[X, any(&[3, 1])], |x| x[0].diff(DiffOpts::default().order(2).prepend(&x[1]))),
    ("trapezoid", &[X, positive(&[4])], |x| x[0].trapezoid(&x[1], 1)),
    ("trapezoid, evenly", &[X], |x| x[0].trapezoid(0.5, 0)),
    ("cumulative_trapezoid", &[X, positive(&[4])], |x| x[0].cumulative_trapezoid(&x[1], 1)),
    ("sort", &[X], |x| x[0].sort(1, false).0),
    ("sort, descending", &[X], |x| x[0].sort(0, true).0),
    ("msort", &[X], |x| x[0].msort()),
    ("topk", &[X], |x| x[0].topk(2, TopkOpts::default()).0),
    ("kthvalue", &[X], |x| x[0].kthvalue(2, 1).0),
    ("kthvalue_keepdim", &[X], |x| x[0].kthvalue_keepdim(3, 0).0),
    ("median", &[X], |x| x[0].median(1).0),
    ("median of all", &[X], |x| x[0].median(..).0),
    ("median_keepdim", &[X], |x| x[0].median_keepdim(0).0),
    ("nanmedian", &[X], |x| x[0].nanmedian(1).0),
    ("nanmedian_keepdim", &[X], |x| x[0].nanmedian_keepdim(0).0),
    ("mode", &[X], |x| x[0].mode(1).0),
    ("mode_keepdim", &[X], |x| x[0].mode_keepdim(0).0),
    ("quantile", &[X], |x| x[0].quantile(0.3, 1, Default::default())),
    ("quantile between two", &[X], |x| {
        x[0].quantile(0.3, 1, QuantileOpts::default().interpolation(Interpolation::Midpoint))
    }),
    ("quantile at tensors", &[X, within(0.05, 0.95, &[2])], |x| {
        x[0].quantile(x[1].clamp(0.0, 1.0), 1, Default::default())
    }),
];

pub const NORMS: &[Row] = &[
    ("norm of 0", &[X], |x| x[0].norm(0.0, 1)),
    ("norm of 1", &[X], |x| x[0].norm(1.0, 1)),
    ("norm of 1.5", &[X], |x| x[0].norm(1.5, 1)),
    ("norm", &[X], |x| x[0].norm(2.0, ..)),
    ("norm of 3", &[X], |x| x[0].norm(3.0, 0)),
    ("norm of infinity", &[X], |x| x[0].norm(f64::INFINITY, 1)),
    ("norm of -infinity", &[X], |x| x[0].norm(f64::NEG_INFINITY, 1)),
    ("norm of -1", &[PLUS], |x| x[0].norm(-1.0, 1)),
    ("norm_keepdim", &[X], |x| x[0].norm_keepdim(2.0, 1)),
    ("matrix_norm", &[X], |x| x[0].matrix_norm(MatrixNorm::Frobenius, [0, 1])),
    ("matrix_norm by columns", &[X], |x| x[0].matrix_norm(MatrixNorm::MaxColumn, [0, 1])),
    ("matrix_norm by rows", &[X], |x| x[0].matrix_norm(MatrixNorm::MinRow, [1, 0])),
    ("matrix_norm_keepdim", &[X], |x| x[0].matrix_norm_keepdim(MatrixNorm::MinColumn, [0, 1])),
    ("dist", &[X, any(&[3, 1])], |x| x[0].dist(&x[1], 2.0)),
    ("renorm", &[X], |x| x[0].renorm(2.0, 0, 1.0)),
    ("normalize", &[X], |x| x[0].normalize(2.0, 1, 1e-12)),
    ("cdist", &[X, any(&[2, 4])], |x| x[0].cdist(&x[1], 2.0)),
    ("cdist of 1.5", &[X, any(&[2, 4])], |x| x[0].cdist(&x[1], 1.5)),
    ("cdist of infinity", &[X, any(&[2, 4])], |x| x[0].cdist(&x[1], f64::INFINITY)),
    ("pairwise_distance", &[X, X], |x| x[0].pairwise_distance(&x[1], PairwiseDistanceOpts::default())),
    ("cosine_similarity", &[X, X], |x| x[0].cosine_similarity(&x[1], 1, 1e-8)),
    ("cov", &[X], |x| x[0].cov(CovOpts::default())),
    ("corrcoef", &[X], |x| x[0].corrcoef()),
    ("layer_norm", &[X, any(&[4]), any(&[4])], |x| x[0].layer_norm([4], affine(&x[1..]))),
    ("native_layer_norm", &[X, any(&[4]), any(&[4])], |x| x[0].native_layer_norm([4], affine(&x[1..])).0),
    ("rms_norm", &[X, any(&[4])], |x| x[0].rms_norm([4], NormOpts::default().weight(&x[1]))),
    ("group_norm", &[any(&[2, 4, 3]), any(&[4]), any(&[4])], |x| x[0].group_norm(2, affine(&x[1..]))),
    ("batch_norm", &[any(&[3, 2, 2]), any(&[2]), any(&[2])], |x| {
        x[0].batch_norm(RunningNormOpts::training().weight(&x[1]).bias(&x[2]))
    }),
    ("batch_norm with given moments", &[any(&[3, 2]), any(&[2]), positive(&[2])], |x| {
        x[0].batch_norm(RunningNormOpts::running(&x[1], &x[2]))
    }),
    ("batch_norm_stats", &[any(&[3, 2]), any(&[2]), positive(&[2])], |x| {
        pair(x[0].batch_norm_stats(&x[1], &x[2], 0.1))
    }),
    ("instance_norm", &[any(&[2, 2, 4]), any(&[2])], |x| {
        x[0].instance_norm(RunningNormOpts::training().weight(&x[1]))
    }),
    ("local_response_norm", &[any(&[1, 4, 2])], |x| {
        x[0].local_response_norm(3, LocalResponseNormOpts::default().alpha(0.5))
    }),
];

fn affine(x: &[Tensor]) -> NormOpts {
    NormOpts::default().weight(&x[0]).bias(&x[1])
}

fn pair((a, b): (Tensor, Tensor)) -> Tensor {
    all(&[a, b])
}
