//! Functions of each element, optimizers' steps, integers and narrow types.

use kiln::prelude::*;

use crate::support::item::{Item, gradient};

use DType::{F16, F32, F64, I32, I64};

pub const ITEMS: &[Item] = &[
    Item("pa_gelu_tanh_4M", &[&[4_194_304]], F32, |x| x[0].gelu_tanh()),
    Item("pb_mish_4M", &[&[4_194_304]], F32, |x| x[0].mish()),
    Item("pc_grad_silu_4M", &[&[4_194_304]], F32, |x| gradient(x, |x| x[0].silu())),
    Item("pd_softplus_4M", &[&[4_194_304]], F32, |x| x[0].softplus(1.0, 20.0)),
    Item("pe_sincos_4M", &[&[4_194_304]], F32, |x| x[0].sin() * x[0].cos()),
    Item("pf_atan2_4M", &[&[4_194_304], &[4_194_304]], F32, |x| x[0].atan2(&x[1])),
    Item("pg_pow25_4M", &[&[4_194_304]], F32, |x| (x[0].abs() + 0.5).pow(2.5)),
    Item("ph_log1p_4M", &[&[4_194_304]], F32, |x| x[0].abs().log1p()),
    Item("pi_erf_4M", &[&[4_194_304]], F32, |x| x[0].erf()),
    Item("pj_softmax_f64", &[&[1024, 1024]], F32, |x| x[0].to_dtype(F64).softmax(-1).to_dtype(F32)),
    Item("pk_choices_grad", &[&[4_194_304], &[4_194_304]], F32, |x| {
        gradient(x, |x| x[0].gt(&x[1]).select(&x[0] * 2.0, &x[1] * 3.0))
    }),
    Item("pl_tanh_gate", &[&[2048, 2048]], F32, |x| {
        let (a, b) = (x[0].slice(1, ..1024), x[0].slice(1, 1024..));
        a.tanh() * b.sigmoid()
    }),
    Item("pm_expm1_elu_grad", &[&[4_194_304]], F32, |x| gradient(x, |x| x[0].elu(1.0))),
    Item("pn_tan_asin", &[&[1_048_576]], F32, |x| x[0].tan() + x[0].asin() + x[0].atan()),
    Item("sa_adam_4M", &[&[4_194_304], &[4_194_304], &[4_194_304], &[4_194_304]], F32, |x| {
        let m = &x[2] * 0.9 + &x[1] * 0.1;
        let v = x[3].abs() * 0.999 + x[1].square() * 0.001;
        &x[0] - &m / (v.sqrt() + 1e-8) * 0.001
    }),
    Item("sb_clip_norm", &[&[4_194_304]], F32, |x| {
        let n = x[0].norm(2.0, ..);
        &x[0] * (1.0 / (n + 1e-6)).clamp_max(1.0)
    }),
    Item("xa_i32_chain", &[&[4_194_304]], F32, |x| {
        ((&x[0] * 100.0).to_dtype(I32) * 3 + 7).remainder(11).to_dtype(F32)
    }),
    Item("xb_i64_sum", &[&[2048, 2048]], F32, |x| (&x[0] * 100.0).to_dtype(I64).sum(1).to_dtype(F32)),
    Item("xc_layernorm_f16", &[&[4096, 768]], F32, |x| {
        x[0].to_dtype(F16).layer_norm([768], NormOpts::default()).to_dtype(F32)
    }),
    Item("xd_fake_quant", &[&[4_194_304]], F32, |x| (&x[0] * 127.0).round().clamp(-128.0, 127.0) / 127.0),
    Item("xe_dequant_i8", &[&[1024, 1024], &[64, 1024], &[1024]], F32, |x| {
        x[1].matmul(&((&x[0] * 127.0).to_dtype(DType::I32).to_dtype(F32) * &x[2]))
    }),
    Item("xf_bool_mask_count", &[&[4_194_304]], F32, |x| {
        (x[0].gt(0.1).to_dtype(F32) * x[0].lt(0.7).to_dtype(F32)).sum(..)
    }),
];
