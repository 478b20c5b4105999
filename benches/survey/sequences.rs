//! Attention, and recurrent layers.

use kiln::prelude::*;

use crate::support::item::{Item, gradient};

use DType::F32;

pub const ITEMS: &[Item] = &[
    Item("qa_causal", &[&[4, 8, 512, 64], &[4, 8, 512, 64], &[4, 8, 512, 64]], F32, |x| {
        x[0].scaled_dot_product_attention(&x[1], &x[2], AttentionOpts::default().causal(true))
    }),
    Item("qb_grad_attention", &[&[2, 8, 256, 64], &[2, 8, 256, 64], &[2, 8, 256, 64]], F32, |x| {
        gradient(x, |x| x[0].scaled_dot_product_attention(&x[1], &x[2], AttentionOpts::default()))
    }),
    Item(
        "qc_bias_by_hand",
        &[&[4, 8, 256, 64], &[4, 8, 256, 64], &[4, 8, 256, 64], &[8, 256, 256]],
        F32,
        |x| (x[0].matmul(&x[1].transpose(-2, -1)) * 0.125 + &x[3]).softmax(-1).matmul(&x[2]),
    ),
    Item("qd_decode", &[&[1, 32, 1, 128], &[1, 32, 2048, 128], &[1, 32, 2048, 128]], F32, |x| {
        x[0].scaled_dot_product_attention(&x[1], &x[2], AttentionOpts::default())
    }),
    Item("qe_linear_attention", &[&[4, 8, 512, 64], &[4, 8, 512, 64], &[4, 8, 512, 64]], F32, |x| {
        x[0].softmax(-1).matmul(&x[1].softmax(-2).transpose(-2, -1).matmul(&x[2]))
    }),
    Item("qf_grad_causal", &[&[2, 8, 256, 64], &[2, 8, 256, 64], &[2, 8, 256, 64]], F32, |x| {
        gradient(x, |x| {
            x[0].scaled_dot_product_attention(&x[1], &x[2], AttentionOpts::default().causal(true))
        })
    }),
    Item(
        "ra_lstm_step",
        &[&[64, 512], &[64, 512], &[64, 512], &[512, 2048], &[512, 2048], &[2048]],
        F32,
        |x| {
            let g = x[0].matmul(&x[3]) + x[1].matmul(&x[4]) + &x[5];
            let p: Vec<Tensor> = g.chunk(4, 1);
            let c = p[1].sigmoid() * &x[2] + p[0].sigmoid() * p[2].tanh();
            p[3].sigmoid() * c.tanh()
        },
    ),
    Item("rb_gru_10", &[&[10, 64, 256], &[64, 256], &[256, 768], &[256, 768]], F32, |x| {
        let mut h = x[1].clone();
        for t in 0..10 {
            let a: Vec<Tensor> = x[0].select_index(0, t).matmul(&x[2]).chunk(3, 1);
            let b: Vec<Tensor> = h.matmul(&x[3]).chunk(3, 1);
            let r = (&a[0] + &b[0]).sigmoid();
            let z = (&a[1] + &b[1]).sigmoid();
            let n = (&a[2] + r * &b[2]).tanh();
            h = (1.0 - &z) * n + &z * &h;
        }
        h
    }),
];
