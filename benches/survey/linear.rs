//! Products of matrices, and linear algebra.

use kiln::prelude::*;

use crate::support::item::{Item, gradient, gradient_of_the_first};

use DType::{BF16, F32, F64, I32};

pub const ITEMS: &[Item] = &[
    Item("wa_einsum_heads", &[&[4, 256, 8, 64], &[4, 256, 8, 64]], F32, |x| {
        kiln::einsum("bihd,bjhd->bhij", &[&x[0], &x[1]])
    }),
    Item("wb_cdist", &[&[512, 64], &[512, 64]], F32, |x| x[0].cdist(&x[1], 2.0)),
    Item("wc_cholesky", &[&[256, 256]], F32, |x| {
        (x[0].matmul(&x[0].t()) + Tensor::eye(256, 256, x[0].device()) * 256.0).cholesky(false)
    }),
    Item("wd_solve", &[&[256, 256], &[256, 16]], F32, |x| {
        (&x[0] + Tensor::eye(256, 256, x[0].device()) * 32.0).solve(&x[1])
    }),
    Item("we_bmm_small", &[&[4096, 8, 8], &[4096, 8, 8]], F32, |x| x[0].matmul(&x[1])),
    Item("wf_matmul_f64", &[&[512, 512], &[512, 512]], F32, |x| {
        x[0].to_dtype(F64).matmul(&x[1].to_dtype(F64)).to_dtype(F32)
    }),
    Item("wg_gram", &[&[2048, 256]], F32, |x| x[0].t().matmul(&x[0])),
    Item("wh_linear_relu", &[&[256, 784], &[784, 512], &[512]], F32, |x| (x[0].matmul(&x[1]) + &x[2]).relu()),
    Item("wi_gemv_batched", &[&[64, 512, 512], &[64, 512, 1]], F32, |x| x[0].matmul(&x[1])),
    Item("wj_lowrank", &[&[1024, 1024], &[1024, 8], &[8, 1024]], F32, |x| {
        x[0].matmul(&x[1]).matmul(&x[2]) * 2.0 + &x[0]
    }),
    Item("wk_pairwise_l1", &[&[512, 64], &[512, 64]], F32, |x| {
        (x[0].unsqueeze(1) - x[1].unsqueeze(0)).abs().sum(-1)
    }),
    Item("wl_outer_sum", &[&[2048], &[2048], &[2048]], F32, |x| {
        (x[0].unsqueeze(1) * x[1].unsqueeze(0) + &x[2]).exp().sum(1)
    }),
    Item("wm_moe", &[&[8, 64, 256], &[8, 256, 512], &[8, 512, 256]], F32, |x| {
        x[0].matmul(&x[1]).gelu().matmul(&x[2])
    }),
    Item("wn_matmul_bf16_1024", &[&[1024, 1024], &[1024, 1024]], F32, |x| {
        x[0].to_dtype(BF16).matmul(&x[1].to_dtype(BF16)).to_dtype(F32)
    }),
    Item("wo_int_matmul", &[&[256, 256], &[256, 256]], F32, |x| {
        (&x[0] * 100.0).to_dtype(I32).matmul(&(&x[1] * 100.0).to_dtype(I32)).to_dtype(F32)
    }),
    Item("wp_inv_512", &[&[512, 512]], F32, |x| (&x[0] + Tensor::eye(512, 512, x[0].device()) * 32.0).inv()),
    Item("wq_triangular_512", &[&[512, 512], &[512, 512]], F32, |x| {
        let lower = &x[0] + Tensor::eye(512, 512, x[0].device()) * 32.0;
        lower.solve_triangular(&x[1], Default::default())
    }),
    Item("wr_grad_solve", &[&[256, 256], &[256, 16]], F32, |x| {
        gradient_of_the_first(x, |x| {
            (&x[0] + Tensor::eye(256, 256, x[0].device()) * 32.0).solve(&x[1]).sum(..)
        })
    }),
    Item("ws_grad_slogdet", &[&[256, 256]], F32, |x| {
        gradient(x, |x| (&x[0] + Tensor::eye(256, 256, x[0].device()) * 32.0).slogdet().1)
    }),
];
