//! Operations that only move elements, and those at given positions.

use kiln::opts::{BagMode, DiagonalOpts, EmbeddingBagOpts, Indexing};
use kiln::prelude::*;

use super::{Input, Row, all, any, within};

const X: Input = any(&[3, 4]);
const THREE: Input = any(&[2, 3, 4]);

pub const SHAPES: &[Row] = &[
    ("reshape", &[X], |x| x[0].reshape([2, 6])),
    ("view", &[X], |x| x[0].view([2, -1])),
    ("reshape_as", &[X], |x| x[0].reshape_as(&Tensor::zeros([4, 3], ()))),
    ("view_as", &[X], |x| x[0].view_as(&Tensor::zeros([6, 2], ()))),
    ("flatten", &[THREE], |x| x[0].flatten(1, 2)),
    ("ravel", &[X], |x| x[0].ravel()),
    ("unflatten", &[X], |x| x[0].unflatten(1, [2, 2])),
    ("squeeze", &[any(&[3, 1])], |x| x[0].squeeze(1)),
    ("unsqueeze", &[X], |x| x[0].unsqueeze(1)),
    ("expand", &[any(&[3, 1])], |x| x[0].expand([2, 3, 4])),
    ("broadcast_to", &[any(&[4])], |x| x[0].broadcast_to([3, 4])),
    ("expand_as", &[any(&[4])], |x| x[0].expand_as(&Tensor::zeros([3, 4], ()))),
    ("broadcast_tensors", &[any(&[3, 1]), any(&[4])], |x| all(&Tensor::broadcast_tensors(x))),
    ("contiguous", &[X], |x| x[0].t().contiguous()),
    ("copy", &[X], |x| x[0].copy()),
    ("materialize", &[X], |x| x[0].t().materialize()),
    ("to", &[X], |x| x[0].to(Device::cpu())),
    ("cpu", &[X], |x| x[0].cpu()),
    ("atleast_1d", &[any(&[])], |x| x[0].atleast_1d()),
    ("atleast_2d", &[any(&[3])], |x| x[0].atleast_2d()),
    ("atleast_3d", &[X], |x| x[0].atleast_3d()),
    ("permute", &[THREE], |x| x[0].permute([2, 0, 1])),
    ("transpose", &[THREE], |x| x[0].transpose(0, 2)),
    ("swapaxes", &[THREE], |x| x[0].swapaxes(1, 2)),
    ("t", &[X], |x| x[0].t()),
    ("mt", &[THREE], |x| x[0].mt()),
    ("movedim", &[THREE], |x| x[0].movedim(0, 2)),
    ("repeat", &[X], |x| x[0].repeat([2, 1, 2])),
    ("tile", &[X], |x| x[0].tile([2])),
    ("repeat_interleave", &[X], |x| x[0].repeat_interleave(2, 1)),
    ("repeat_interleave_by", &[X], |x| x[0].repeat_interleave_by(&index(&[2, 0, 1], &[3]), 0, 3)),
    ("flip", &[X], |x| x[0].flip([0, 1])),
    ("fliplr", &[X], |x| x[0].fliplr()),
    ("flipud", &[X], |x| x[0].flipud()),
    ("roll", &[X], |x| x[0].roll([1, 2], [0, 1])),
    ("rot90", &[X], |x| x[0].rot90(1, [0, 1])),
    ("fftshift", &[X], |x| x[0].fftshift(1)),
    ("ifftshift", &[X], |x| x[0].ifftshift(..)),
    ("unfold", &[X], |x| x[0].unfold(1, 3, 1)),
    ("as_strided", &[X], |x| x[0].as_strided([3, 2], [2, 1], 1)),
    ("pixel_shuffle", &[any(&[1, 4, 2, 1])], |x| x[0].pixel_shuffle(2)),
    ("pixel_unshuffle", &[any(&[1, 1, 4, 2])], |x| x[0].pixel_unshuffle(2)),
    ("channel_shuffle", &[any(&[1, 4, 2])], |x| x[0].channel_shuffle(2)),
    ("cat", &[X, any(&[3, 2])], |x| Tensor::cat(x, 1)),
    ("stack", &[X, X], |x| Tensor::stack(x, 1)),
    ("hstack", &[X, any(&[3, 2])], |x| Tensor::hstack(x)),
    ("vstack", &[X, any(&[4])], |x| Tensor::vstack(x)),
    ("dstack", &[X, X], |x| Tensor::dstack(x)),
    ("column_stack", &[any(&[3]), X], |x| Tensor::column_stack(x)),
    ("block_diag", &[X, any(&[2, 1])], |x| Tensor::block_diag(x)),
    ("meshgrid", &[any(&[3]), any(&[2])], |x| all(&Tensor::meshgrid(x, Indexing::Xy))),
    ("split", &[X], |x| all(&x[0].split(3, 1)[1..])),
    ("chunk", &[X], |x| all(&x[0].chunk(2, 1))),
    ("tensor_split", &[X], |x| all(&x[0].tensor_split(3, 1)[..2])),
    ("unbind", &[X], |x| all(&x[0].unbind(0)[1..])),
    ("narrow", &[X], |x| x[0].narrow(1, 1, 2)),
    ("select_index", &[X], |x| x[0].select_index(1, -1)),
    ("slice", &[X], |x| x[0].slice(1, r(1, 4).step(2))),
    ("i", &[X], |x| x[0].i((r(1, 3), NewAxis, 2))),
    ("i at tensors", &[X], |x| x[0].i((index(&[2, 0, 2], &[3]), ..))),
    ("diag", &[X], |x| x[0].diag(1)),
    ("diag of a vector", &[any(&[3])], |x| x[0].diag(-1)),
    ("diagonal", &[THREE], |x| x[0].diagonal(DiagonalOpts::default().axes((1, 2)))),
    ("diag_embed", &[X], |x| x[0].diag_embed(DiagonalOpts::default().axes((0, 2)).offset(1))),
    ("diagonal_scatter", &[X, any(&[3])], |x| x[0].diagonal_scatter(&x[1], DiagonalOpts::default())),
    ("tril", &[X], |x| x[0].tril(0)),
    ("triu", &[THREE], |x| x[0].triu(1)),
    ("pad", &[X], |x| x[0].pad(&[1, 2, -1, 1], 3.0)),
    ("pad, reflected", &[X], |x| x[0].unsqueeze(0).pad(&[2, 1], PadMode::Reflect)),
    ("pad, replicated", &[X], |x| x[0].unsqueeze(0).pad(&[2, 1], PadMode::Replicate)),
    ("pad, around", &[X], |x| x[0].unsqueeze(0).pad(&[2, 1], PadMode::Circular)),
    ("constant_pad_nd", &[X], |x| x[0].constant_pad_nd(&[1, 0, 0, 1], 2.0)),
    ("pad_axes", &[X], |x| x[0].pad_axes(&[(1, 1), (2, 0)], PadMode::Replicate)),
];

pub const POSITIONS: &[Row] = &[
    ("gather", &[X], |x| x[0].gather(0, &places())),
    ("index_select", &[X], |x| x[0].index_select(1, &index(&[3, 0, 3], &[3]))),
    ("take", &[X], |x| x[0].take(&index(&[11, 0, 5, 5], &[2, 2]))),
    ("take_along_dim", &[X], |x| x[0].take_along_dim(&index(&[2, 0, 1, 1], &[1, 4]), 0)),
    ("scatter", &[X, any(&[3, 2])], |x| x[0].scatter(0, &apart(), &x[1])),
    ("scatter of a number", &[X], |x| x[0].scatter(0, &apart(), 2.0)),
    ("scatter_add", &[X, any(&[3, 2])], |x| x[0].scatter_add(0, &places(), &x[1])),
    ("scatter_reduce, sum", &[X, any(&[3, 2])], |x| reduced(x, ScatterReduce::Sum, true)),
    ("scatter_reduce, prod", &[X, any(&[3, 2])], |x| reduced(x, ScatterReduce::Prod, true)),
    ("scatter_reduce, mean", &[X, any(&[3, 2])], |x| reduced(x, ScatterReduce::Mean, true)),
    ("scatter_reduce, amax", &[X, any(&[3, 2])], |x| reduced(x, ScatterReduce::Amax, true)),
    ("scatter_reduce, amin", &[X, any(&[3, 2])], |x| reduced(x, ScatterReduce::Amin, false)),
    ("scatter_reduce, product alone", &[X, any(&[3, 2])], |x| reduced(x, ScatterReduce::Prod, false)),
    ("scatter_reduce, mean alone", &[X, any(&[3, 2])], |x| reduced(x, ScatterReduce::Mean, false)),
    ("index_add", &[X, any(&[3, 3])], |x| x[0].index_add(1, &index(&[3, 0, 3], &[3]), &x[1], 0.5)),
    ("index_copy", &[X, any(&[3, 2])], |x| x[0].index_copy(1, &index(&[3, 0], &[2]), &x[1])),
    ("index_fill", &[X, any(&[])], |x| x[0].index_fill(1, &index(&[3, 0], &[2]), &x[1])),
    ("index_reduce, prod", &[X, any(&[3, 3])], |x| {
        x[0].index_reduce(1, &index(&[3, 0, 3], &[3]), &x[1], ScatterReduce::Prod, true)
    }),
    ("index_reduce, amax", &[X, any(&[3, 3])], |x| {
        x[0].index_reduce(1, &index(&[3, 0, 3], &[3]), &x[1], ScatterReduce::Amax, true)
    }),
    ("index_put", &[X, any(&[2, 4])], |x| x[0].index_put(&[Some(&index(&[2, 0], &[2]))], &x[1], false)),
    ("index_put, added", &[X, any(&[3])], |x| {
        x[0].index_put(&[None, Some(&index(&[2, 2], &[2]))], &x[1].unsqueeze(1), true)
    }),
    ("put", &[X, any(&[2])], |x| x[0].put(&index(&[5, 0], &[2]), &x[1], false)),
    ("put, added", &[X, any(&[2])], |x| x[0].put(&index(&[5, 5], &[2]), &x[1], true)),
    ("masked_scatter", &[X, any(&[12])], |x| x[0].masked_scatter(&x[0].gt(0.0).detach(), &x[1])),
    ("masked_fill with a tensor", &[X, any(&[])], |x| {
        x[0].masked_fill(&index(&[1, 0, 0, 1], &[4]).bool(), &x[1])
    }),
    ("masked_select", &[X], |x| x[0].masked_select(&index(&[1, 0, 0, 1], &[4]).bool()).expect("a mask")),
    ("masked_select_async", &[X], |x| {
        pollster::block_on(x[0].masked_select_async(&index(&[1, 0, 0, 1], &[4]).bool())).expect("a mask")
    }),
    ("select_scatter", &[X, any(&[3])], |x| x[0].select_scatter(&x[1], 1, 2)),
    ("slice_scatter", &[X, any(&[3, 2])], |x| x[0].slice_scatter(&x[1], 1, r(0, 4).step(2))),
    ("slice_update", &[X, any(&[3, 2])], |x| x[0].slice_update(1, 1, &x[1])),
    ("embedding", &[X], |x| index(&[2, 0, 2, 1], &[2, 2]).embedding(&x[0])),
    ("embedding_bag", &[X, any(&[2, 3])], |x| bag(&x[0], BagMode::Sum, Some(&x[1]))),
    ("embedding_bag, mean", &[X], |x| bag(&x[0], BagMode::Mean, None)),
    ("embedding_bag, max", &[X], |x| bag(&x[0], BagMode::Max, None)),
    ("bincount", &[any(&[4])], |x| index(&[0, 2, 2, 1], &[4]).bincount(Some(&x[0]), 4)),
    ("unique", &[within(0.1, 0.2, &[4])], |x| x[0].unique(..).expect("values").values),
    ("unique_consecutive", &[X], |x| x[0].unique_consecutive(..).expect("values").values),
    ("unique_async", &[within(0.1, 0.2, &[4])], |x| {
        pollster::block_on(x[0].unique_async(..)).expect("values").values
    }),
    ("unique_consecutive_async", &[X], |x| {
        pollster::block_on(x[0].unique_consecutive_async(..)).expect("values").values
    }),
];

fn index(values: &[i64], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, ())
}

/// Rows of three; some twice in a column.
fn places() -> Tensor {
    index(&[2, 0, 2, 1, 1, 0], &[3, 2])
}

/// Rows of three, none twice in a column.
fn apart() -> Tensor {
    index(&[2, 0, 1, 2, 0, 1], &[3, 2])
}

fn reduced(x: &[Tensor], reduce: ScatterReduce, include: bool) -> Tensor {
    x[0].scatter_reduce(0, &places(), &x[1], reduce, include)
}

fn bag(table: &Tensor, mode: BagMode, weights: Option<&Tensor>) -> Tensor {
    let opts = EmbeddingBagOpts::default().mode(mode);
    let opts = weights.into_iter().fold(opts, |opts, weights| opts.per_sample_weights(weights));
    index(&[2, 0, 2, 1, 1, 0], &[2, 3]).embedding_bag(table, opts)
}
