//! What a kernel costs: bytes loaded and stored, scalar operations.

use std::collections::{BTreeSet, HashSet};

use crate::base::DType;
use crate::ir::{AluOp, ScatterMode, Type};
use crate::kernel::affine::AxisId;
use crate::kernel::expr::Expr;
use crate::kernel::nest::{AttentionPart, FusedAttention, Kernel, Sort, Workload};
use crate::kernel::root::KernelRoot;

/// A kernel's traffic with memory and its arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes read from buffers, each distinct access once.
    pub loaded: u64,
    /// Bytes written to buffers.
    pub stored: u64,
    /// Scalar floating-point or integer operations.
    pub flops: u64,
    /// Those of them that are products and sums of contractions, for which devices have units of their own.
    pub products: u64,
}

/// The cost of one launch of anything. What a user's kernel computes is not
/// known, so its operations count as none.
pub fn work_cost(work: &Workload) -> Cost {
    match work {
        Workload::Kernel(kernel) => cost(kernel),
        Workload::Sort(sort) => sort_cost(sort),
        Workload::Custom(_, inputs, outputs) => {
            let bytes =
                |types: &[Type]| types.iter().map(|ty| ty.bytes() as u64).fold(0, u64::saturating_add);
            Cost { loaded: bytes(inputs), stored: bytes(outputs), ..Cost::default() }
        }
        Workload::Joint(joint) => joint.kernels().map(cost).fold(Cost::default(), |all, own| Cost {
            loaded: all.loaded.saturating_add(own.loaded),
            stored: all.stored.saturating_add(own.stored),
            flops: all.flops.saturating_add(own.flops),
            products: all.products.saturating_add(own.products),
        }),
    }
}

/// The cost of one launch of a generated kernel.
pub fn cost(kernel: &Kernel) -> Cost {
    let (scattered, products) = (scattered(kernel), products(kernel));
    Cost {
        loaded: loaded(kernel).saturating_add(scattered.loaded),
        stored: stored(kernel).saturating_add(scattered.stored),
        flops: flops(kernel).saturating_add(products).saturating_add(scattered.flops),
        products,
    }
}

/// Keys read once and positions written once; a lane of `n` keys of which `k` are
/// wanted takes `n log2 k` comparisons.
fn sort_cost(sort: &Sort) -> Cost {
    let numel = sort.shape.numel() as u64;
    let comparisons = u64::from(sort.count.max(2).ilog2());
    Cost {
        loaded: numel.saturating_mul(sort.dtype.size() as u64),
        stored: (sort.result().numel() as u64).saturating_mul(DType::I64.size() as u64),
        flops: numel.saturating_mul(comparisons),
        products: 0,
    }
}

/// The updates of a scatter: written, and but for replacement read and
/// combined before.
fn scattered(kernel: &Kernel) -> Cost {
    let Some(scatter) = kernel.scatter() else { return Cost::default() };
    let points = kernel.points(0) as u64;
    let stored = points.saturating_mul(scatter.dtype.size() as u64);
    match scatter.mode {
        ScatterMode::Set => Cost { stored, ..Cost::default() },
        ScatterMode::Add | ScatterMode::Mul | ScatterMode::Max | ScatterMode::Min => {
            Cost { loaded: stored, stored, flops: points, products: 0 }
        }
    }
}

fn loaded(kernel: &Kernel) -> u64 {
    let mut per_input = vec![0u64; kernel.inputs.len()];
    let mut seen = HashSet::new();
    for node in &kernel.exprs {
        let Some((slot, access)) = node.expr.load() else { continue };
        // Two loads that differ only in their guard touch the same elements.
        if !seen.insert((slot, access)) {
            continue;
        }
        let touched = if access.dynamic.is_empty() {
            let extents = access.affine.terms.iter().map(|term| kernel.axes[term.0.index()].extent as u64);
            extents.fold(1u64, u64::saturating_mul)
        } else {
            kernel.points(node.level) as u64
        };
        let input = &kernel.inputs[slot as usize];
        let bytes = touched.min(input.numel as u64).saturating_mul(input.dtype.size() as u64);
        per_input[slot as usize] = per_input[slot as usize].saturating_add(bytes);
    }
    let whole = kernel.inputs.iter().map(|i| (i.numel as u64).saturating_mul(i.dtype.size() as u64));
    per_input.iter().zip(whole).map(|(&bytes, whole)| bytes.min(whole)).fold(0, u64::saturating_add)
}

fn stored(kernel: &Kernel) -> u64 {
    let bytes = |numel: usize, size: usize| (numel as u64).saturating_mul(size as u64);
    kernel.stores.iter().map(|s| bytes(s.numel, s.dtype.size())).fold(0, u64::saturating_add)
}

/// Operations outside of products.
fn flops(kernel: &Kernel) -> u64 {
    let mut total = 0u64;
    let operand_points = operand_points(kernel);
    for (i, node) in kernel.exprs.iter().enumerate() {
        let points = operand_points.get(i).copied().filter(|_| node.level > 0);
        let points = points.unwrap_or_else(|| kernel.points(node.level) as u64);
        total = total.saturating_add(match &node.expr {
            Expr::Alu(op, _) => points.saturating_mul(op.flops()),
            Expr::Reduce(monoid, _) => (kernel.points(node.level + 1) as u64).saturating_mul(monoid.flops()),
            Expr::Scan(monoid, ..) => points.saturating_mul(monoid.flops()),
            Expr::Const(_)
            | Expr::Arg(_)
            | Expr::Index(_)
            | Expr::Inside(_)
            | Expr::Load(..)
            | Expr::Cast(_)
            | Expr::Bitcast(_)
            | Expr::Checked(..)
            | Expr::Accumulator => 0,
        });
    }
    // The softmax does with each score a comparison, a difference, an exponential, a sum.
    let softmax = kernel.attention().map_or(0, |a| scores(kernel, a).saturating_mul(3 + AluOp::Exp.flops()));
    total.saturating_add(softmax)
}

/// By expression, at how many points an operand of a contraction or an attention has it: packing visits each
/// element once. Empty for other kernels.
fn operand_points(kernel: &Kernel) -> Vec<u64> {
    if kernel.contraction().is_none() && kernel.attention().is_none() {
        return Vec::new();
    }
    let mut along: Vec<BTreeSet<AxisId>> = Vec::with_capacity(kernel.exprs.len());
    for node in &kernel.exprs {
        let terms =
            node.expr.positions().into_iter().flat_map(|affine| affine.terms.iter().map(|term| term.0));
        let mut axes: BTreeSet<AxisId> = terms.collect();
        node.expr.operands(|operand| axes.extend(&along[operand.index()]));
        along.push(axes);
    }
    along.iter().map(|axes| points_of(kernel, &Vec::from_iter(axes.iter().copied()))).collect()
}

/// A multiplication and an addition for each product of a contraction.
fn products(kernel: &Kernel) -> u64 {
    let products = match &kernel.root {
        KernelRoot::Contraction(_) => kernel.points(1) as u64,
        KernelRoot::Attention(a) => scores(kernel, a).saturating_mul(products_of_score(kernel, a)),
        KernelRoot::Elementwise | KernelRoot::Scatter(_) => 0,
    };
    products.saturating_mul(2)
}

/// The scores that an attention looks at.
fn scores(kernel: &Kernel, a: &FusedAttention) -> u64 {
    let size = |axes| points_of(kernel, axes);
    let (rows, keys) = (size(&a.rows), size(&a.keys));
    let hidden = if a.causal {
        // Row `i` does not look at the `keys - 1 - i` keys after it.
        let some = rows.min(keys.saturating_sub(1));
        some.saturating_mul(keys.saturating_mul(2).saturating_sub(1 + some)) / 2
    } else {
        0
    };
    let attentions = size(&a.batch).saturating_mul(size(&a.summed));
    attentions.saturating_mul(rows.saturating_mul(keys).saturating_sub(hidden))
}

/// For each score: of a query with a key, and of the score with what is summed by it.
fn products_of_score(kernel: &Kernel, a: &FusedAttention) -> u64 {
    let size = |axes| points_of(kernel, axes);
    let width = match a.part {
        AttentionPart::LogSum => 0,
        AttentionPart::Result | AttentionPart::ValueGradient => size(&a.width),
        // Of the powers' gradients, too.
        AttentionPart::QueryGradient | AttentionPart::KeyGradient => {
            size(&a.width).saturating_add(size(&a.columns))
        }
    };
    size(&a.depth).saturating_add(width)
}

fn points_of(kernel: &Kernel, axes: &[AxisId]) -> u64 {
    axes.iter().map(|axis| kernel.axes[axis.index()].extent as u64).fold(1, u64::saturating_mul)
}
