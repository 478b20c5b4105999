//! Pieces of a kernel that write beside each other, as one kernel.

use std::collections::HashMap;

use crate::kernel::expr::{ExprId, ExprNode};
use crate::kernel::nest::{Kernel, KernelStore};

/// Bytes from a store of one piece to that of another at most: a page, so that what a tile
/// writes to both lies together in memory.
const NEAR: u64 = 4 << 10;

/// Pieces with those put together that run over the same points and write beside each other
/// at each: tiles of the halves of rows are then whole rows. Such a kernel stores each
/// output of the pieces once for each of them, in the order of the outputs.
pub fn fuse_horizontally(pieces: Vec<Kernel>) -> Vec<Kernel> {
    let mut joined: Vec<Kernel> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match joined.iter_mut().find(|first| beside(first, &piece)) {
            Some(first) => append(first, piece),
            None => joined.push(piece),
        }
    }
    joined
}

/// Whether a piece runs over the same points as another, without reductions, and stores
/// within a page of it at each.
fn beside(first: &Kernel, piece: &Kernel) -> bool {
    let near = |(a, b): (&KernelStore, &KernelStore)| {
        let apart = a.address.offset.abs_diff(b.address.offset);
        a.address.terms == b.address.terms && apart.saturating_mul(a.dtype.size() as u64) <= NEAR
    };
    let plain = piece.depth() == 0 && piece.contraction.is_none() && piece.scatter.is_none();
    plain
        && piece.attention.is_none()
        && first.axes == piece.axes
        && first.stores.iter().zip(&piece.stores).all(near)
}

/// Adds what a piece computes and stores to another, but for what that computes too.
fn append(first: &mut Kernel, piece: Kernel) {
    let known = first.exprs.iter().enumerate().map(|(i, node)| (node.clone(), ExprId(i as u32)));
    let mut known: HashMap<ExprNode, ExprId> = known.collect();
    let mut numbers: Vec<ExprId> = Vec::with_capacity(piece.exprs.len());
    for node in &piece.exprs {
        let expr = node.expr.mapped(|id| numbers[id.index()], Clone::clone);
        let node = ExprNode { expr, ..*node };
        let id = *known.entry(node).or_insert_with_key(|node| {
            first.exprs.push(node.clone());
            ExprId(first.exprs.len() as u32 - 1)
        });
        numbers.push(id);
    }
    let stores = piece.stores.iter().map(|s| KernelStore { value: numbers[s.value.index()], ..s.clone() });
    first.stores.extend(stores);
}
