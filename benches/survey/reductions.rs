//! Reductions, running results, sorts and counts.

use kiln::prelude::*;

use crate::support::item::Item;

use DType::{F32, I64};

pub const ITEMS: &[Item] = &[
    Item("ua_var_023", &[&[16, 64, 56, 56]], F32, |x| x[0].var([0, 2, 3])),
    Item("ub_logsumexp_0", &[&[2048, 2048]], F32, |x| x[0].logsumexp(0)),
    Item("uc_argmax", &[&[2048, 4096]], F32, |x| x[0].argmax(1).to_dtype(F32)),
    Item("ud_argmax_0", &[&[2048, 2048]], F32, |x| x[0].argmax(0).to_dtype(F32)),
    Item("ue_any_gt", &[&[4096, 4096]], F32, |x| x[0].gt(2.0).any(1).to_dtype(F32)),
    Item("uf_cumprod", &[&[1024, 4096]], F32, |x| x[0].cumprod(1)),
    Item("ug_max_middle", &[&[64, 256, 256]], F32, |x| x[0].amax(1)),
    Item("uh_sort", &[&[256, 4096]], F32, |x| x[0].sort(1, false).0),
    Item("ui_argsort", &[&[256, 4096]], F32, |x| x[0].argsort(1, false).to_dtype(F32)),
    Item("uj_median", &[&[256, 4096]], F32, |x| x[0].median(1).0),
    Item("uk_histc", &[&[1_048_576]], F32, |x| x[0].histc(64, -1.0, 1.0)),
    Item("ul_bincount", &[&[1_048_576]], F32, |x| {
        (x[0].abs() * 999.0).to_dtype(I64).bincount(None, 1000).to_dtype(F32)
    }),
    Item("um_prod_rows", &[&[4096, 1024]], F32, |x| (&x[0] * 0.01 + 1.0).prod(1)),
    Item("un_moments", &[&[4096, 1024]], F32, |x| x[0].var(1) + x[0].mean(1).square() + x[0].amax(1)),
    Item("uo_quantile", &[&[256, 4096]], F32, |x| x[0].quantile(0.3, 1, Default::default())),
    Item("up_sum_all_sq", &[&[4_194_304], &[4_194_304]], F32, |x| (&x[0] - &x[1]).square().mean(..)),
    Item("uq_count_i32", &[&[4096, 1024]], F32, |x| {
        x[0].gt(0.0)
            .select(Tensor::full([1], 3i32, x[0].device()), Tensor::full([1], 1i32, x[0].device()))
            .sum(1)
            .to_dtype(F32)
    }),
    Item("ur_cumsum_0", &[&[4096, 1024]], F32, |x| x[0].cumsum(0)),
    Item("us_logcumsumexp", &[&[512, 4096]], F32, |x| x[0].logcumsumexp(1)),
];
