//! Pools, samples, borders and convolutions.

use kiln::opts::{InterpolateMode, InterpolateOpts};
use kiln::prelude::*;

use crate::support::item::{Item, gradient};

use DType::F32;

pub const ITEMS: &[Item] = &[
    Item("ta_avg_pool3", &[&[8, 64, 56, 56]], F32, |x| x[0].avg_pool2d(3, AvgPoolOpts::default().stride(2))),
    Item("tb_max_pool2", &[&[8, 64, 56, 56]], F32, |x| x[0].max_pool2d(2, MaxPoolOpts::default().stride(2))),
    Item("tc_grad_avg_pool2", &[&[8, 64, 56, 56]], F32, |x| {
        gradient(x, |x| x[0].avg_pool2d(2, AvgPoolOpts::default().stride(2)))
    }),
    Item("td_bicubic", &[&[4, 16, 64, 64]], F32, |x| {
        x[0].interpolate(InterpolateOpts::default().scale_factor(vec![2.0]).mode(InterpolateMode::Bicubic))
    }),
    Item("te_nearest", &[&[8, 64, 32, 32]], F32, |x| {
        x[0].interpolate(InterpolateOpts::default().scale_factor(vec![2.0]))
    }),
    Item("tf_grid_sample", &[&[4, 16, 64, 64], &[4, 64, 64, 2]], F32, |x| {
        x[0].grid_sample(&x[1], Default::default())
    }),
    Item("tg_pixel_shuffle", &[&[8, 256, 32, 32]], F32, |x| x[0].pixel_shuffle(2)),
    Item("th_pad_reflect", &[&[8, 64, 56, 56]], F32, |x| x[0].pad(&[3, 3, 3, 3], PadMode::Reflect)),
    Item("ti_conv3d", &[&[2, 16, 16, 28, 28], &[32, 16, 3, 3, 3]], F32, |x| {
        x[0].conv3d(&x[1], None, ConvOpts::default().padding(1))
    }),
    Item("tj_conv1d_k9", &[&[8, 128, 2048], &[128, 128, 9]], F32, |x| {
        x[0].conv1d(&x[1], None, ConvOpts::default().padding(4))
    }),
    Item("tk_conv_dilated", &[&[4, 64, 56, 56], &[64, 64, 3, 3]], F32, |x| {
        x[0].conv2d(&x[1], None, ConvOpts::default().padding(2).dilation(2))
    }),
    Item("tl_conv_groups4", &[&[8, 128, 28, 28], &[128, 32, 3, 3]], F32, |x| {
        x[0].conv2d(&x[1], None, ConvOpts::default().padding(1).groups(4))
    }),
    Item("tm_stem7x7", &[&[4, 3, 224, 224], &[64, 3, 7, 7]], F32, |x| {
        x[0].conv2d(&x[1], None, ConvOpts::default().padding(3).stride(2)).relu()
    }),
    Item("tn_conv5x5", &[&[8, 32, 28, 28], &[64, 32, 5, 5]], F32, |x| {
        x[0].conv2d(&x[1], None, ConvOpts::default().padding(2))
    }),
    Item("to_depthwise1d_causal", &[&[8, 512, 1024], &[512, 1, 4]], F32, |x| {
        x[0].pad(&[3, 0], 0.0).conv1d(&x[1], None, ConvOpts::default().groups(512)).silu()
    }),
    Item("tp_grad_depthwise", &[&[8, 64, 28, 28], &[64, 1, 3, 3]], F32, |x| {
        gradient(x, |x| x[0].conv2d(&x[1], None, ConvOpts::default().padding(1).groups(64)))
    }),
    Item("tq_resblock", &[&[4, 64, 56, 56], &[64, 64, 3, 3], &[64, 64, 3, 3], &[64], &[64]], F32, |x| {
        let c = |a: &Tensor, w: &Tensor| a.conv2d(w, None, ConvOpts::default().padding(1));
        let s = x[3].reshape([1, 64, 1, 1]);
        let b = x[4].reshape([1, 64, 1, 1]);
        ((c(&(c(&x[0], &x[1]) * &s + &b).relu(), &x[2]) * &s + &b) + &x[0]).relu()
    }),
    Item("tr_im2col", &[&[4, 32, 56, 56]], F32, |x| x[0].im2col(3, Default::default())),
    Item("ts_u8_normalise", &[&[8, 224, 224, 3], &[3], &[3]], F32, |x| {
        ((x[0].to_dtype(DType::U8).to_dtype(F32) / 255.0 - &x[1]) / (x[2].abs() + 0.5))
            .permute([0, 3, 1, 2])
            .contiguous()
    }),
];
