//! Work of other shapes than `peers`': odd sizes, tall and wide products,
//! strided and transposed inputs, convolutions of other kinds, 16-bit floats,
//! large vocabularies, gradients. One JSON line each.
//!
//! `cargo bench --bench shapes -- --device cpu`; `ITEMS=a1,c2` picks items,
//! `BUDGET_S` the seconds of timed calls per item. `shapes.py` beside it runs
//! the same in other libraries, and prints the table.

mod support;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use kiln::opts::{InterpolateMode, InterpolateOpts};
use kiln::prelude::*;
use support::item::{self, Item, gradient};
use support::report;

/// Runs work of other shapes.
#[derive(Parser)]
struct Arguments {
    /// Device to run on.
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// Accepted because `cargo bench` passes it.
    #[arg(long, hide = true)]
    bench: bool,
}

use DType::{BF16, F16, F32};

const ITEMS: &[Item] = &[
    Item("a1_softmax_4097x1023", &[&[4097, 1023]], F32, |x| x[0].softmax(-1)),
    Item("a2_layernorm_4097x1023", &[&[4097, 1023], &[1023], &[1023]], F32, |x| {
        let opts = NormOpts::default().weight(&x[1]).bias(&x[2]);
        x[0].layer_norm([1023], opts)
    }),
    Item("a3_matmul_1000", &[&[1000, 1000], &[1000, 1000]], F32, |x| x[0].matmul(&x[1])),
    Item("a4_chain_1000x1000", &[&[1000, 1000], &[1000]], F32, |x| (&x[0] * 1.5 + &x[1]).gelu().square()),
    Item("b1_matmul_16x4096x4096", &[&[16, 4096], &[4096, 4096]], F32, |x| x[0].matmul(&x[1])),
    Item("b2_matmul_4096x16x4096", &[&[4096, 16], &[16, 4096]], F32, |x| x[0].matmul(&x[1])),
    Item("b3_gemv_4096x4096", &[&[4096, 4096], &[4096]], F32, |x| x[0].mv(&x[1])),
    Item("b4_vecmat_4096x4096", &[&[1, 4096], &[4096, 4096]], F32, |x| x[0].matmul(&x[1])),
    Item("c1_matmul_transposed_1024", &[&[1024, 1024], &[1024, 1024]], F32, |x| x[0].matmul(&x[1].t())),
    Item("c2_transpose_add_2048", &[&[2048, 2048], &[2048, 2048]], F32, |x| x[0].t() + &x[1]),
    Item("c3_strided_2048x2048", &[&[2048, 2048]], F32, |x| x[0].slice(1, (..).step(2)) * 2.0 + 1.0),
    Item("c4_permute_64x256x256", &[&[64, 256, 256]], F32, |x| x[0].permute([2, 0, 1]).contiguous()),
    Item("d1_conv_stride2", &[&[8, 64, 56, 56], &[128, 64, 3, 3]], F32, |x| {
        x[0].conv2d(&x[1], None, ConvOpts::default().padding(1).stride(2))
    }),
    Item("d2_conv_1x1", &[&[8, 256, 28, 28], &[64, 256, 1, 1]], F32, |x| {
        x[0].conv2d(&x[1], None, ConvOpts::default())
    }),
    Item("d3_conv_depthwise", &[&[8, 128, 56, 56], &[128, 1, 3, 3]], F32, |x| {
        x[0].conv2d(&x[1], None, ConvOpts::default().padding(1).groups(128))
    }),
    Item("e1_gelu_bf16_4M", &[&[1 << 22]], BF16, |x| x[0].gelu()),
    Item("e2_softmax_f16_2048x1024", &[&[2048, 1024]], F16, |x| x[0].softmax(-1)),
    Item("e3_matmul_bf16_512", &[&[512, 512], &[512, 512]], BF16, |x| x[0].matmul(&x[1])),
    Item("f1_cross_entropy_256x50257", &[&[256, 50257]], F32, |x| {
        let target = Tensor::arange(0, 256, 1, x[0].device()) * 191;
        x[0].cross_entropy(&target, Default::default())
    }),
    Item("g1_group_norm_8x64x56x56", &[&[8, 64, 56, 56], &[64], &[64]], F32, |x| {
        x[0].group_norm(8, NormOpts::default().weight(&x[1]).bias(&x[2]))
    }),
    Item("g2_rms_swiglu_512x512x1024", &[&[512, 512], &[512], &[512, 1024], &[512, 1024]], F32, |x| {
        let y = x[0].rms_norm([512], NormOpts::default().weight(&x[1]).eps(1e-6));
        y.matmul(&x[2]).silu() * y.matmul(&x[3])
    }),
    Item("g3_group_norm_silu_16x256x64x64", &[&[16, 256, 64, 64], &[256], &[256]], F32, |x| {
        x[0].group_norm(32, NormOpts::default().weight(&x[1]).bias(&x[2])).silu()
    }),
    Item("h1_rotary_4x8x512x64", &[&[4, 8, 512, 64], &[512, 32], &[512, 32]], F32, |x| {
        let (even, odd) = (x[0].narrow(-1, 0, 32), x[0].narrow(-1, 32, 32));
        Tensor::cat(&[&even * &x[1] - &odd * &x[2], &odd * &x[1] + &even * &x[2]], -1)
    }),
    Item("i1_topk_256x10000", &[&[256, 10_000]], F32, |x| x[0].topk(10, Default::default()).0),
    Item("i2_cumsum_1024x4096", &[&[1024, 4096]], F32, |x| x[0].cumsum(1)),
    Item("i3_gather_rows_8192", &[&[50_000, 256]], F32, |x| {
        let rows = Tensor::arange(0, 8192, 1, x[0].device()) * 6;
        rows.embedding(&x[0])
    }),
    Item("k1_gradient_convs_16x64x28x28", &[&[16, 64, 28, 28], &[64, 64, 3, 3], &[64, 64, 3, 3]], F32, |x| {
        let conv = |x: &Tensor, w: &Tensor| x.conv2d(w, None, ConvOpts::default().padding(1));
        gradient(x, |x| conv(&conv(&x[0], &x[1]).relu(), &x[2]))
    }),
    Item("k2_gradient_mlp_512x256x1024", &[&[512, 256], &[256, 1024], &[1024, 256]], F32, |x| {
        gradient(x, |x| x[0].matmul(&x[1]).gelu().matmul(&x[2]))
    }),
    Item("k3_gradient_conv_stride2", &[&[8, 64, 56, 56], &[128, 64, 3, 3]], F32, |x| {
        gradient(x, |x| x[0].conv2d(&x[1], None, ConvOpts::default().padding(1).stride(2)))
    }),
    Item("k4_gradient_max_pool", &[&[8, 64, 56, 56]], F32, |x| {
        gradient(x, |x| x[0].max_pool2d(3, MaxPoolOpts::default().stride(2).padding(1)))
    }),
    Item("l1_conv_transpose_8x64x28x28", &[&[8, 64, 28, 28], &[64, 32, 4, 4]], F32, |x| {
        x[0].conv_transpose2d(&x[1], None, ConvTransposeOpts::default().padding(1).stride(2))
    }),
    Item("l2_bilinear_4x32x64x64", &[&[4, 32, 64, 64]], F32, |x| {
        x[0].interpolate(InterpolateOpts::default().scale_factor(vec![2.0]).mode(InterpolateMode::Linear))
    }),
    Item("m1_index_add_8192x256", &[&[8192, 256]], F32, |x| {
        let rows = (Tensor::arange(0, 8192, 1, x[0].device()) * 7).remainder(1000);
        Tensor::zeros([1000, 256], x[0].device()).index_add(0, &rows, &x[0], 1.0)
    }),
    Item("m2_flat_cat_512x8x784", &[&[512, 8, 784], &[65_536]], F32, |x| {
        Tensor::cat(&[&x[0].permute([1, 0, 2]).reshape([512 * 8 * 784]), &x[1]], 0)
    }),
];

fn main() -> ExitCode {
    let device = Arguments::parse().device;
    let start = Instant::now();
    if let Err(error) = Tensor::ones([4], device).realize() {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    let init_ms = start.elapsed().as_secs_f64() * 1e3;
    for item in ITEMS.iter().filter(|item| report::wanted(item.0)) {
        item::run(device, item);
    }
    report::process_line(&device.to_string(), init_ms);
    ExitCode::SUCCESS
}
