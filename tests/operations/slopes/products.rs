//! Products, convolutions, attention, pools and what else goes over windows.

use kiln::opts::{AddmmOpts, GridSampleOpts, HeadProjections, Im2colOpts, InterpolateMode, InterpolateOpts};
use kiln::opts::{MultiHeadOpts, SampleMode, SamplePadding};
use kiln::prelude::*;

use super::{Input, Row, all, any, within};

const A: Input = any(&[2, 3]);
const B: Input = any(&[3, 4]);
const V: Input = any(&[3]);

pub const PRODUCTS: &[Row] = &[
    ("matmul", &[any(&[2, 2, 3]), B], |x| x[0].matmul(&x[1])),
    ("mm", &[A, B], |x| x[0].mm(&x[1])),
    ("bmm", &[any(&[2, 2, 3]), any(&[2, 3, 2])], |x| x[0].bmm(&x[1])),
    ("mv", &[A, V], |x| x[0].mv(&x[1])),
    ("dot", &[V, V], |x| x[0].dot(&x[1])),
    ("vdot", &[V, V], |x| x[0].vdot(&x[1])),
    ("inner", &[A, any(&[4, 3])], |x| x[0].inner(&x[1])),
    ("outer", &[V, any(&[2])], |x| x[0].outer(&x[1])),
    ("tensordot", &[any(&[2, 3, 2]), any(&[2, 2])], |x| x[0].tensordot(&x[1], 1)),
    ("matrix_power", &[any(&[3, 3])], |x| x[0].matrix_power(3)),
    ("vecdot", &[A, A], |x| x[0].vecdot(&x[1], 1)),
    ("cross", &[A, A], |x| x[0].cross(&x[1], None)),
    ("linalg_cross", &[A, A], |x| x[0].linalg_cross(&x[1], -1)),
    ("kron", &[A, any(&[2, 2])], |x| x[0].kron(&x[1])),
    ("einsum", &[any(&[2, 3, 2]), any(&[2, 2, 4])], |x| kiln::einsum("bij,jbk->kib", &[&x[0], &x[1]])),
    ("einsum of a diagonal", &[any(&[3, 3]), V], |x| kiln::einsum("ii,i->i", &[&x[0], &x[1]])),
    ("multi_dot", &[A, B, any(&[4, 2])], |x| kiln::tensor::matmul::multi_dot(&x.iter().collect::<Vec<_>>())),
    ("addmm", &[any(&[2, 4]), A, B], |x| x[0].addmm(&x[1], &x[2], weighed())),
    ("addmv", &[any(&[2]), A, V], |x| x[0].addmv(&x[1], &x[2], weighed())),
    ("baddbmm", &[any(&[2, 2, 2]), any(&[2, 2, 3]), any(&[2, 3, 2])], |x| {
        x[0].baddbmm(&x[1], &x[2], weighed())
    }),
    ("addbmm", &[any(&[2, 2]), any(&[2, 2, 3]), any(&[2, 3, 2])], |x| x[0].addbmm(&x[1], &x[2], weighed())),
    ("addr", &[any(&[3, 2]), V, any(&[2])], |x| x[0].addr(&x[1], &x[2], weighed())),
    ("linear", &[A, any(&[4, 3]), any(&[4])], |x| x[0].linear(&x[1], Some(&x[2]))),
    ("bilinear", &[A, any(&[2, 2]), any(&[2, 3, 2]), any(&[2])], |x| {
        x[0].bilinear(&x[1], &x[2], Some(&x[3]))
    }),
    ("scaled_dot_product_attention", &[any(&[1, 2, 3, 2]), any(&[1, 2, 4, 2]), any(&[1, 2, 4, 2])], |x| {
        x[0].scaled_dot_product_attention(&x[1], &x[2], AttentionOpts::default())
    }),
    ("scaled_dot_product_attention, causal", &[any(&[1, 1, 3, 2]), any(&[1, 1, 3, 2])], |x| {
        x[0].scaled_dot_product_attention(&x[1], &x[1], AttentionOpts::default().causal(true).softcap(2.0))
    }),
    ("scaled_dot_product_attention, mask", &[any(&[1, 1, 3, 2]), any(&[1, 1, 3, 2]), any(&[3, 3])], |x| {
        x[0].scaled_dot_product_attention(&x[1], &x[1], AttentionOpts::default().mask(&x[2]))
    }),
    ("dropout", &[B], |x| {
        kiln::manual_seed(3);
        x[0].dropout(0.5)
    }),
    (
        "multi_head_attention_forward",
        &[any(&[2, 1, 2]), any(&[3, 1, 2]), any(&[6, 2]), any(&[6]), any(&[2, 2]), any(&[2])],
        |x| {
            let (y, weights) =
                x[0].multi_head_attention_forward(&x[1], &x[1], 2, &projections(x), MultiHeadOpts::default());
            all(&[y, weights])
        },
    ),
];

pub const CONVOLUTIONS: &[Row] = &[
    ("conv1d", &[any(&[2, 2, 5]), any(&[3, 2, 2]), any(&[3])], |x| {
        x[0].conv1d(&x[1], Some(&x[2]), ConvOpts::default().padding(1).stride(2))
    }),
    ("conv2d", &[any(&[1, 4, 4, 3]), any(&[4, 2, 3, 2]), any(&[4])], |x| {
        x[0].conv2d(&x[1], Some(&x[2]), ConvOpts::default().groups(2).padding([2, 1]).dilation([2, 1]))
    }),
    ("conv3d", &[any(&[1, 1, 3, 3, 2]), any(&[2, 1, 2, 2, 2])], |x| {
        x[0].conv3d(&x[1], None, ConvOpts::default().padding(Padding::Same))
    }),
    ("conv_transpose1d", &[any(&[1, 2, 3]), any(&[2, 2, 3]), any(&[2])], |x| {
        x[0].conv_transpose1d(&x[1], Some(&x[2]), ConvTransposeOpts::default().stride(2).padding(1))
    }),
    ("conv_transpose2d", &[any(&[1, 2, 2, 2]), any(&[2, 1, 2, 3])], |x| {
        x[0].conv_transpose2d(&x[1], None, ConvTransposeOpts::default().stride(2).output_padding(1))
    }),
    ("conv_transpose3d", &[any(&[1, 1, 2, 2, 2]), any(&[1, 1, 2, 2, 2])], |x| {
        x[0].conv_transpose3d(&x[1], None, ConvTransposeOpts::default().dilation(2))
    }),
];

pub const WINDOWS: &[Row] = &[
    ("max_pool1d", &[any(&[1, 2, 6])], |x| x[0].max_pool1d(2, most())),
    ("max_pool2d", &[any(&[1, 1, 4, 5])], |x| x[0].max_pool2d(3, most())),
    ("max_pool3d", &[any(&[1, 1, 3, 2, 3])], |x| x[0].max_pool3d(2, most())),
    ("max_pool1d_with_indices", &[any(&[1, 2, 6])], |x| x[0].max_pool1d_with_indices(3, most()).0),
    ("max_pool2d_with_indices", &[any(&[1, 1, 4, 5])], |x| x[0].max_pool2d_with_indices(2, most()).0),
    ("max_pool3d_with_indices", &[any(&[1, 1, 3, 2, 3])], |x| x[0].max_pool3d_with_indices(2, most()).0),
    ("avg_pool1d", &[any(&[1, 2, 6])], |x| x[0].avg_pool1d(3, mean())),
    ("avg_pool2d", &[any(&[1, 1, 4, 5])], |x| x[0].avg_pool2d(2, mean().count_include_pad(false))),
    ("avg_pool3d", &[any(&[1, 1, 3, 2, 3])], |x| x[0].avg_pool3d(2, mean().ceil_mode(true))),
    ("adaptive_avg_pool1d", &[any(&[1, 2, 5])], |x| x[0].adaptive_avg_pool1d(3)),
    ("adaptive_avg_pool2d", &[any(&[1, 1, 5, 4])], |x| x[0].adaptive_avg_pool2d([3, 2])),
    ("adaptive_avg_pool3d", &[any(&[1, 1, 3, 2, 3])], |x| x[0].adaptive_avg_pool3d(2)),
    ("adaptive_max_pool1d", &[any(&[1, 2, 5])], |x| x[0].adaptive_max_pool1d(3)),
    ("adaptive_max_pool2d", &[any(&[1, 1, 5, 4])], |x| x[0].adaptive_max_pool2d([3, 2])),
    ("adaptive_max_pool3d", &[any(&[1, 1, 3, 2, 3])], |x| x[0].adaptive_max_pool3d(2)),
    ("adaptive_max_pool1d_with_indices", &[any(&[1, 2, 5])], |x| x[0].adaptive_max_pool1d_with_indices(3).0),
    ("adaptive_max_pool2d_with_indices", &[any(&[1, 1, 5, 4])], |x| {
        x[0].adaptive_max_pool2d_with_indices([3, 2]).0
    }),
    ("adaptive_max_pool3d_with_indices", &[any(&[1, 1, 3, 2, 3])], |x| {
        x[0].adaptive_max_pool3d_with_indices(2).0
    }),
    ("im2col", &[any(&[1, 2, 3, 3])], |x| x[0].im2col(2, Im2colOpts::default().padding(1))),
    ("col2im", &[any(&[1, 8, 4])], |x| x[0].col2im([3, 3], 2, Im2colOpts::default())),
    ("interpolate", &[any(&[1, 1, 3, 3])], |x| resized(&x[0], InterpolateMode::Nearest, [5, 2])),
    ("interpolate, nearest exact", &[any(&[1, 1, 3, 3])], |x| {
        resized(&x[0], InterpolateMode::NearestExact, [5, 2])
    }),
    ("interpolate, linear", &[any(&[1, 1, 3, 3])], |x| resized(&x[0], InterpolateMode::Linear, [5, 2])),
    ("interpolate, bicubic", &[any(&[1, 1, 3, 3])], |x| resized(&x[0], InterpolateMode::Bicubic, [5, 2])),
    ("interpolate, area", &[any(&[1, 1, 3, 3])], |x| resized(&x[0], InterpolateMode::Area, [5, 2])),
    ("grid_sample", &[any(&[1, 1, 3, 3]), GRID], |x| sampled(x, SampleMode::Bilinear, SamplePadding::Zeros)),
    ("grid_sample, border", &[any(&[1, 1, 3, 3]), GRID], |x| {
        sampled(x, SampleMode::Bilinear, SamplePadding::Border)
    }),
    ("grid_sample, reflected", &[any(&[1, 1, 3, 3]), GRID], |x| {
        sampled(x, SampleMode::Bicubic, SamplePadding::Reflection)
    }),
    ("grid_sample, nearest", &[any(&[1, 1, 3, 3]), GRID], |x| {
        sampled(x, SampleMode::Nearest, SamplePadding::Border)
    }),
];

const GRID: Input = within(-1.3, 1.3, &[1, 2, 3, 2]);

fn weighed() -> AddmmOpts {
    AddmmOpts::default().beta(0.5).alpha(-2.0)
}

fn projections(x: &[Tensor]) -> HeadProjections {
    HeadProjections {
        input_weight: x[2].clone(),
        input_bias: Some(x[3].clone()),
        output_weight: x[4].clone(),
        output_bias: Some(x[5].clone()),
    }
}

fn most() -> MaxPoolOpts {
    MaxPoolOpts::default().stride(1).padding(1)
}

fn mean() -> AvgPoolOpts {
    AvgPoolOpts::default().stride(2).padding(1)
}

fn resized(x: &Tensor, mode: InterpolateMode, size: [usize; 2]) -> Tensor {
    x.interpolate(InterpolateOpts::default().size(size).mode(mode))
}

fn sampled(x: &[Tensor], mode: SampleMode, padding: SamplePadding) -> Tensor {
    x[0].grid_sample(&x[1], GridSampleOpts::default().mode(mode).padding_mode(padding))
}
