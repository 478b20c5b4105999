//! Neighbouring axes that every address runs through as one become one axis.
//!
//! A kernel of `[8, 16]` whose loads and stores all step by 16 along the
//! first axis and by 1 along the second is a kernel of `[128]`: no division
//! recovers positions, and vectors find longer rows.

use crate::kernel::{Affine, AxisId, Expr, Kernel, KernelRoot, LoopAxis};

/// The same kernel with as few axes as its addresses allow.
#[must_use]
pub fn coalesce(kernel: &Kernel) -> Kernel {
    let mut kernel = kernel.clone();
    while let Some((outer, inner)) = pair(&kernel) {
        merge(&mut kernel, outer, inner);
    }
    kernel
}

/// Two neighbours of one level, outer and inner, that can become one.
fn pair(kernel: &Kernel) -> Option<(AxisId, AxisId)> {
    let lists: Vec<Vec<AxisId>> = match &kernel.root {
        KernelRoot::Contraction(c) => vec![c.batch.clone(), c.m.clone(), c.n.clone(), c.k.clone()],
        KernelRoot::Attention(a) => {
            [&a.batch, &a.summed, &a.rows, &a.keys, &a.depth, &a.columns, &a.width].map(Vec::clone).into()
        }
        KernelRoot::Elementwise | KernelRoot::Scatter(_) => {
            (0..=kernel.depth()).map(|level| kernel.level_axes(level).collect()).collect()
        }
    };
    let wide = |axis: &AxisId| kernel.axes[axis.index()].extent > 1;
    for list in lists {
        let list: Vec<AxisId> = list.into_iter().filter(wide).collect();
        let found = list.windows(2).find(|pair| joins(kernel, pair[0], pair[1]));
        if let Some(&[outer, inner]) = found {
            return Some((outer, inner));
        }
    }
    None
}

fn joins(kernel: &Kernel, outer: AxisId, inner: AxisId) -> bool {
    let extent = kernel.axes[inner.index()].extent as i64;
    let mut all = true;
    each(kernel, &mut |affine| {
        all &= affine.coefficient(outer) == affine.coefficient(inner).wrapping_mul(extent);
    });
    all && !kernel
        .exprs
        .iter()
        .any(|node| matches!(node.expr, Expr::Scan(_, _, axis) if axis == outer || axis == inner))
}

/// Visits every affine combination of axes in a kernel.
fn each(kernel: &Kernel, visit: &mut dyn FnMut(&Affine)) {
    kernel.exprs.iter().flat_map(|node| node.expr.positions()).for_each(&mut *visit);
    kernel.stores.iter().for_each(|store| visit(&store.address));
    kernel.scatter().into_iter().for_each(|scatter| visit(&scatter.address));
}

/// The outer axis takes the inner one's place; the outer is left with one
/// position, so that numbers stay.
fn merge(kernel: &mut Kernel, outer: AxisId, inner: AxisId) {
    let extent = kernel.axes[outer.index()].extent;
    kernel.axes[inner.index()].extent *= extent;
    let level = kernel.axes[outer.index()].level;
    kernel.axes[outer.index()] = LoopAxis { extent: 1, level };
    let forget = |affine: &mut Affine| affine.terms.retain(|term| term.0 != outer);
    for node in &mut kernel.exprs {
        match &mut node.expr {
            Expr::Index(affine) => forget(affine),
            Expr::Inside(within) => forget(&mut within.value),
            Expr::Load(_, access) => {
                forget(&mut access.affine);
                access.guard.within.iter_mut().for_each(|within| forget(&mut within.value));
            }
            Expr::Const(_)
            | Expr::Arg(_)
            | Expr::Alu(..)
            | Expr::Cast(_)
            | Expr::Bitcast(_)
            | Expr::Reduce(..)
            | Expr::Scan(..)
            | Expr::Checked(..)
            | Expr::Accumulator => {}
        }
    }
    kernel.stores.iter_mut().for_each(|store| forget(&mut store.address));
    if let Some(scatter) = kernel.scatter_mut() {
        forget(&mut scatter.address);
    }
}
