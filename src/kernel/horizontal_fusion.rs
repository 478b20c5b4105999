//! Horizontal fusion: subdomains of a kernel that write side by side become one kernel.

use std::collections::HashMap;

use crate::kernel::expr::{ExprId, ExprNode};
use crate::kernel::nest::{Kernel, KernelStore};

/// Bytes from a store of one subdomain to that of another, at most: a page, so that what a
/// tile writes to both lies together in memory.
const MAX_STORE_DISTANCE: u64 = 4 << 10;

/// Fuses subdomains that run over the same points and write side by side at each: tiles of
/// the halves of rows are then whole rows. Such a kernel stores each output once for each of
/// its subdomains, in the order of the outputs.
pub fn fuse_horizontally(subdomains: Vec<Kernel>) -> Vec<Kernel> {
    let mut fused: Vec<Kernel> = Vec::with_capacity(subdomains.len());
    for subdomain in subdomains {
        match fused.iter_mut().find(|first| can_fuse(first, &subdomain)) {
            Some(first) => append(first, subdomain),
            None => fused.push(subdomain),
        }
    }
    fused
}

/// Whether a subdomain runs over the same points as another, without reductions, and stores
/// within a page of it at each.
fn can_fuse(first: &Kernel, subdomain: &Kernel) -> bool {
    let near = |(a, b): (&KernelStore, &KernelStore)| {
        let distance = a.address.offset.abs_diff(b.address.offset);
        a.address.terms == b.address.terms
            && distance.saturating_mul(a.dtype.size() as u64) <= MAX_STORE_DISTANCE
    };
    subdomain.depth() == 0
        && subdomain.is_elementwise()
        && first.axes == subdomain.axes
        && first.stores.iter().zip(&subdomain.stores).all(near)
}

/// Adds what a subdomain computes and stores to another; common subexpressions are shared.
fn append(first: &mut Kernel, subdomain: Kernel) {
    let known = first.exprs.iter().enumerate().map(|(i, node)| (node.clone(), ExprId(i as u32)));
    let mut known: HashMap<ExprNode, ExprId> = known.collect();
    let mut numbers: Vec<ExprId> = Vec::with_capacity(subdomain.exprs.len());
    for node in &subdomain.exprs {
        let expr = node.expr.mapped(|id| numbers[id.index()], Clone::clone);
        let node = ExprNode { expr, ..*node };
        let id = *known.entry(node).or_insert_with_key(|node| {
            first.exprs.push(node.clone());
            ExprId(first.exprs.len() as u32 - 1)
        });
        numbers.push(id);
    }
    let stores =
        subdomain.stores.iter().map(|s| KernelStore { value: numbers[s.value.index()], ..s.clone() });
    first.stores.extend(stores);
}
