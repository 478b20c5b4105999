//! Gathers, scatters, and what only moves elements.

use kiln::prelude::*;

use crate::support::item::{Item, gradient};

use DType::{F32, I64};

pub const ITEMS: &[Item] = &[
    Item("va_grad_embedding", &[&[1000, 256]], F32, |x| {
        gradient(x, |x| (Tensor::arange(0, 8192, 1, x[0].device()) * 7 % 1000).embedding(&x[0]))
    }),
    Item("vb_gather_1", &[&[2048, 2048]], F32, |x| {
        x[0].gather(
            1,
            &((Tensor::arange(0, 2048, 1, x[0].device()) * 7 % 2048).reshape([1, 2048]).expand([2048, 2048])),
        )
    }),
    Item("vc_index_select_1", &[&[2048, 2048]], F32, |x| {
        x[0].index_select(1, &(Tensor::arange(0, 1024, 1, x[0].device()) * 3 % 2048))
    }),
    Item("vd_masked_softmax", &[&[2048, 2048]], F32, |x| x[0].masked_fill(&x[0].lt(0.0), -1e9).softmax(-1)),
    Item("ve_roll", &[&[2048, 2048]], F32, |x| x[0].roll([3, 5], [0, 1])),
    Item("vf_flip", &[&[2048, 2048]], F32, |x| x[0].flip([0, 1])),
    Item("vg_tril_mul", &[&[2048, 2048], &[2048, 2048]], F32, |x| (&x[0] * &x[1]).tril(0)),
    Item("vh_one_hot", &[&[8192]], F32, |x| (x[0].abs() * 255.0).to_dtype(I64).one_hot(256).to_dtype(F32)),
    Item("vi_repeat_interleave", &[&[4, 8, 512, 64]], F32, |x| x[0].repeat_interleave(4, 1)),
    Item(
        "vj_cat8",
        &[
            &[512, 128],
            &[512, 128],
            &[512, 128],
            &[512, 128],
            &[512, 128],
            &[512, 128],
            &[512, 128],
            &[512, 128],
        ],
        F32,
        |x| Tensor::cat(&x.iter().collect::<Vec<_>>(), 1),
    ),
    Item("vk_stack_last", &[&[1024, 1024], &[1024, 1024]], F32, |x| Tensor::stack(&[&x[0], &x[1]], -1)),
    Item("vl_interleaved_rope", &[&[4, 512, 8, 64], &[512, 32], &[512, 32]], F32, |x| {
        let y = x[0].reshape([4, 512, 8, 32, 2]);
        let (a, b) = (y.select_index(-1, 0), y.select_index(-1, 1));
        let (c, s) = (x[1].reshape([512, 1, 32]), x[2].reshape([512, 1, 32]));
        Tensor::stack(&[&(&a * &c - &b * &s), &(&b * &c + &a * &s)], -1).reshape([4, 512, 8, 64])
    }),
    Item("vm_patches", &[&[8, 3, 224, 224]], F32, |x| {
        x[0].reshape([8, 3, 14, 16, 14, 16]).permute([0, 2, 4, 1, 3, 5]).reshape([8, 196, 768]).contiguous()
    }),
    Item("vn_window_partition_add", &[&[8, 56, 56, 96], &[49, 96]], F32, |x| {
        (x[0].reshape([8, 8, 7, 8, 7, 96]).permute([0, 1, 3, 2, 4, 5]).reshape([512, 49, 96]) + &x[1]) * 2.0
    }),
    Item("vo_heads", &[&[4, 512, 1536]], F32, |x| {
        let y = x[0].reshape([4, 512, 3, 8, 64]).permute([2, 0, 3, 1, 4]);
        y.select_index(0, 0).contiguous() + y.select_index(0, 1) * y.select_index(0, 2)
    }),
    Item("vp_scatter_max", &[&[8192, 64]], F32, |x| {
        Tensor::zeros([1000, 64], x[0].device()).scatter_reduce(
            0,
            &((Tensor::arange(0, 8192, 1, x[0].device()) * 7 % 1000).reshape([8192, 1]).expand([8192, 64])),
            &x[0],
            ScatterReduce::Amax,
            true,
        )
    }),
    Item("vq_unfold_mean", &[&[64, 16_384]], F32, |x| x[0].unfold(1, 64, 16).mean(-1)),
];
