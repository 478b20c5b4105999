//! Work that fills a GPU.

use kiln::prelude::*;

use crate::support::item::{Item, gradient, gradient_of_the_first};

use DType::{BF16, F32, F64};

pub const ITEMS: &[Item] = &[
    Item(
        "z01_grad_causal_bf16",
        &[&[4, 16, 2048, 128], &[4, 16, 2048, 128], &[4, 16, 2048, 128]],
        F32,
        |x| {
            let x: Vec<Tensor> = x.iter().map(|x| x.to_dtype(BF16)).collect();
            gradient(&x, |x| {
                x[0].scaled_dot_product_attention(&x[1], &x[2], AttentionOpts::default().causal(true))
            })
            .to_dtype(F32)
        },
    ),
    Item("z02_grad_attention_f32", &[&[4, 8, 1024, 64], &[4, 8, 1024, 64], &[4, 8, 1024, 64]], F32, |x| {
        gradient(x, |x| x[0].scaled_dot_product_attention(&x[1], &x[2], AttentionOpts::default()))
    }),
    Item(
        "z03_block_train_bf16",
        &[&[8, 1024, 768], &[768], &[768], &[768, 2304], &[768, 768], &[768, 3072], &[3072, 768]],
        F32,
        |x| {
            let x: Vec<Tensor> = x.iter().map(|x| x.to_dtype(BF16)).collect();
            gradient(&x, |x| {
                let n = |y: &Tensor| y.layer_norm([768], NormOpts::default().weight(&x[1]).bias(&x[2]));
                let p =
                    n(&x[0]).matmul(&(&x[3] * 0.05)).reshape([8, 1024, 3, 12, 64]).permute([2, 0, 3, 1, 4]);
                let a = p
                    .select_index(0, 0)
                    .scaled_dot_product_attention(
                        &p.select_index(0, 1),
                        &p.select_index(0, 2),
                        AttentionOpts::default().causal(true),
                    )
                    .permute([0, 2, 1, 3])
                    .reshape([8, 1024, 768]);
                let y = &x[0] + &a.matmul(&(&x[4] * 0.05));
                &y + &n(&y).matmul(&(&x[5] * 0.05)).gelu_tanh().matmul(&(&x[6] * 0.03))
            })
            .to_dtype(F32)
        },
    ),
    Item(
        "z04_block_train_f32",
        &[&[8, 1024, 768], &[768], &[768], &[768, 2304], &[768, 768], &[768, 3072], &[3072, 768]],
        F32,
        |x| {
            gradient(x, |x| {
                let n = |y: &Tensor| y.layer_norm([768], NormOpts::default().weight(&x[1]).bias(&x[2]));
                let p =
                    n(&x[0]).matmul(&(&x[3] * 0.05)).reshape([8, 1024, 3, 12, 64]).permute([2, 0, 3, 1, 4]);
                let a = p
                    .select_index(0, 0)
                    .scaled_dot_product_attention(
                        &p.select_index(0, 1),
                        &p.select_index(0, 2),
                        AttentionOpts::default().causal(true),
                    )
                    .permute([0, 2, 1, 3])
                    .reshape([8, 1024, 768]);
                let y = &x[0] + &a.matmul(&(&x[4] * 0.05));
                &y + &n(&y).matmul(&(&x[5] * 0.05)).gelu_tanh().matmul(&(&x[6] * 0.03))
            })
        },
    ),
    Item("z05_grad_cross_entropy", &[&[4096, 50_257]], F32, |x| {
        gradient_of_the_first(x, |x| {
            x[0].cross_entropy(&(Tensor::arange(0, 4096, 1, x[0].device()) * 7 % 1000), Default::default())
        })
    }),
    Item("z06_matmul_bf16_4096", &[&[4096, 4096], &[4096, 4096]], F32, |x| {
        let x: Vec<Tensor> = x.iter().map(|x| x.to_dtype(BF16)).collect();
        x[0].matmul(&x[1]).to_dtype(F32)
    }),
    Item("z07_conv_f32", &[&[32, 128, 56, 56], &[128, 128, 3, 3]], F32, |x| {
        x[0].conv2d(&x[1], None, ConvOpts::default().padding(1))
    }),
    Item("z08_conv_bf16", &[&[32, 128, 56, 56], &[128, 128, 3, 3]], F32, |x| {
        let x: Vec<Tensor> = x.iter().map(|x| x.to_dtype(BF16)).collect();
        x[0].conv2d(&x[1], None, ConvOpts::default().padding(1)).to_dtype(F32)
    }),
    Item("z09_grad_conv_bf16", &[&[32, 128, 56, 56], &[128, 128, 3, 3]], F32, |x| {
        let x: Vec<Tensor> = x.iter().map(|x| x.to_dtype(BF16)).collect();
        gradient(&x, |x| x[0].conv2d(&x[1], None, ConvOpts::default().padding(1))).to_dtype(F32)
    }),
    Item("z10_grad_conv_f32", &[&[32, 128, 56, 56], &[128, 128, 3, 3]], F32, |x| {
        gradient(x, |x| x[0].conv2d(&x[1], None, ConvOpts::default().padding(1)))
    }),
    Item("z11_sort_64x262144", &[&[64, 262_144]], F32, |x| x[0].sort(1, false).0),
    Item("z12_topk_1x4M", &[&[1, 4_194_304]], F32, |x| x[0].topk(10, Default::default()).0),
    Item("z13_cumsum_16M", &[&[16_777_216]], F32, |x| x[0].cumsum(0)),
    Item("z14_sum_64M", &[&[67_108_864]], F32, |x| x[0].sum(..)),
    Item("z15_grad_embedding", &[&[50_257, 1024]], F32, |x| {
        gradient(x, |x| (Tensor::arange(0, 32_768, 1, x[0].device()) * 7 % 50_257).embedding(&x[0]))
    }),
    Item("z16_matmul_f32_4096", &[&[4096, 4096], &[4096, 4096]], F32, |x| x[0].matmul(&x[1])),
    Item("z17_gemv_16384", &[&[8192, 16_384], &[16_384, 1]], F32, |x| x[0].matmul(&x[1])),
    Item("z18_skinny_bf16", &[&[16, 8192], &[8192, 8192]], F32, |x| {
        let x: Vec<Tensor> = x.iter().map(|x| x.to_dtype(BF16)).collect();
        x[0].matmul(&x[1]).to_dtype(F32)
    }),
    Item("z19_matmul_f64_2048", &[&[2048, 2048], &[2048, 2048]], F32, |x| {
        x[0].to_dtype(F64).matmul(&x[1].to_dtype(F64)).to_dtype(F32)
    }),
    Item("z20_layernorm_bf16", &[&[65_536, 1024]], F32, |x| {
        let x: Vec<Tensor> = x.iter().map(|x| x.to_dtype(BF16)).collect();
        x[0].layer_norm([1024], NormOpts::default()).to_dtype(F32)
    }),
    Item("z21_batch_norm", &[&[32, 256, 56, 56], &[256], &[256]], F32, |x| {
        x[0].batch_norm(RunningNormOpts::training().weight(&x[1]).bias(&x[2]))
    }),
    Item("z22_transpose_8192", &[&[8192, 8192]], F32, |x| x[0].t() * 2.0),
    Item("z23_decode_bf16", &[&[16, 32, 1, 128], &[16, 32, 4096, 128], &[16, 32, 4096, 128]], F32, |x| {
        let x: Vec<Tensor> = x.iter().map(|x| x.to_dtype(BF16)).collect();
        x[0].scaled_dot_product_attention(&x[1], &x[2], AttentionOpts::default()).to_dtype(F32)
    }),
    Item("z24_grad_batch_norm", &[&[32, 256, 28, 28], &[256], &[256]], F32, |x| {
        gradient(x, |x| x[0].batch_norm(RunningNormOpts::training().weight(&x[1]).bias(&x[2])))
    }),
    Item("z25_grad_layer_norm", &[&[65_536, 768], &[768], &[768]], F32, |x| {
        gradient(x, |x| x[0].layer_norm([768], NormOpts::default().weight(&x[1]).bias(&x[2])))
    }),
    Item("z26_max_pool", &[&[32, 64, 112, 112]], F32, |x| {
        x[0].max_pool2d(3, MaxPoolOpts::default().stride(2).padding(1))
    }),
    Item("z27_softmax_50257", &[&[4096, 50_257]], F32, |x| x[0].softmax(-1)),
    Item("z28_depthwise", &[&[32, 256, 56, 56], &[256, 1, 3, 3]], F32, |x| {
        x[0].conv2d(&x[1], None, ConvOpts::default().padding(1).groups(256))
    }),
    Item("z29_stem7x7", &[&[32, 3, 224, 224], &[64, 3, 7, 7]], F32, |x| {
        x[0].conv2d(&x[1], None, ConvOpts::default().padding(3).stride(2)).relu()
    }),
    Item(
        "z30_attention_f32_large",
        &[&[8, 16, 2048, 64], &[8, 16, 2048, 64], &[8, 16, 2048, 64]],
        F32,
        |x| x[0].scaled_dot_product_attention(&x[1], &x[2], AttentionOpts::default()),
    ),
    Item("z31_gather_rows", &[&[50_257, 1024]], F32, |x| {
        (Tensor::arange(0, 65_536, 1, x[0].device()) * 7 % 50_257).embedding(&x[0])
    }),
    Item("z32_adam_64M", &[&[67_108_864], &[67_108_864], &[67_108_864], &[67_108_864]], F32, |x| {
        let m = &x[2] * 0.9 + &x[1] * 0.1;
        let v = x[3].abs() * 0.999 + x[1].square() * 0.001;
        &x[0] - &m / (v.sqrt() + 1e-8) * 0.01
    }),
];
