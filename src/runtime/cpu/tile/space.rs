//! The iteration space made simple: axes ordered along memory, and merged
//! where every address treats two as one.

use kiln_simd::micro::LaneType;

use crate::base::DType;
use crate::ir::Monoid;
use crate::kernel::{
    Affine, AxisId, Expr, ExprId, ExprNode, Kernel, KernelRoot, KernelStore, LoopAxis, ScatterStore,
};

/// Axes that are adjacent: in row-major order, of one level.
#[derive(Clone, Debug, Default)]
pub struct AxisGroup {
    /// The axes, outermost first.
    pub axes: Vec<AxisId>,
    /// Their level.
    pub level: u8,
}

/// The groups of a kernel without a contraction: one per level, each ordered
/// so that its innermost axis is where memory is contiguous.
pub fn by_level(kernel: &Kernel) -> Vec<AxisGroup> {
    let level = |level: u8| {
        let mut axes: Vec<AxisId> = kernel.level_axes(level).collect();
        if let Some(access) = layout_access(kernel, level) {
            // Stable: axes that do not move the access stay outermost.
            axes.sort_by_key(|&axis| match access.coefficient(axis).unsigned_abs() {
                0 => 0,
                step => u64::MAX - step,
            });
        }
        AxisGroup { axes, level }
    };
    (0..=kernel.depth()).map(level).collect()
}

/// The access that defines a level's layout, by which its axes are ordered: the main store for the
/// grid, of the largest load for rows whose order does not matter. Points whose writes may conflict in a
/// scatter lie along the scattered axis.
fn layout_access(kernel: &Kernel, level: u8) -> Option<Affine> {
    if level == 0 {
        let store = kernel.stores.first().map(|store| &store.address);
        let met = |scatter: &ScatterStore| {
            let along = scatter.axes.iter().map(|&axis| Affine::axis(axis).times(scatter.stride));
            along.fold(scatter.address.clone(), |address, axis| address.plus(&axis))
        };
        return store.cloned().or(kernel.scatter().map(met));
    }
    let ordered = |node: &ExprNode| match &node.expr {
        Expr::Reduce(Monoid::ArgMax | Monoid::ArgMin, _) => node.level + 1 == level,
        Expr::Scan(..) => node.level == level,
        Expr::Reduce(..)
        | Expr::Const(_)
        | Expr::Arg(_)
        | Expr::Index(_)
        | Expr::Inside(_)
        | Expr::Load(..)
        | Expr::Alu(..)
        | Expr::Cast(_)
        | Expr::Bitcast(_)
        | Expr::Checked(..)
        | Expr::Accumulator => false,
    };
    if kernel.exprs.iter().any(ordered) {
        return None;
    }
    let moves = |affine: &Affine| affine.terms.iter().any(|t| kernel.axes[t.0.index()].level == level);
    let loads = kernel.exprs.iter().filter_map(|node| match &node.expr {
        Expr::Load(slot, access) if moves(&access.affine) => {
            Some((kernel.inputs[*slot as usize].numel, &access.affine))
        }
        _ => None,
    });
    let largest = loads.max_by_key(|(numel, _)| *numel);
    largest.map(|(_, affine)| affine.clone())
}

/// A kernel over other axes: those of `groups`, in that order, merged within
/// each group. Axes in no group must not occur in what `roots` need; what
/// they do not need is left out, and the roots' new numbers come back.
pub fn regroup(kernel: &Kernel, groups: &[AxisGroup], roots: &[ExprId]) -> (Kernel, Vec<ExprId>) {
    let used = reachable(kernel, roots);
    debug_assert!(covers(kernel, groups, &used), "an address leaves the groups' axes");
    let map = merge_axes(kernel, groups, &used);
    let mut numbers = vec![ExprId(u32::MAX); kernel.exprs.len()];
    let mut exprs = Vec::new();
    for (i, node) in kernel.exprs.iter().enumerate().filter(|(i, _)| used[*i]) {
        numbers[i] = ExprId(exprs.len() as u32);
        let expr = renumber(&node.expr, &map, &numbers);
        exprs.push(ExprNode { expr, ..*node });
    }
    let number = |id: ExprId| numbers[id.index()];
    let store = |s: &KernelStore| KernelStore {
        value: number(unrounded_value(kernel, s)),
        address: map.affine(&s.address),
        ..s.clone()
    };
    let scatter = |s: &ScatterStore| ScatterStore {
        index: number(s.index),
        value: number(s.value),
        address: map.affine(&s.address),
        axes: s.axes.iter().filter_map(|&axis| map.axis(axis)).collect(),
        ..s.clone()
    };
    let result = Kernel {
        name: kernel.name.clone(),
        axes: map.axes.clone().into(),
        exprs,
        inputs: kernel.inputs.clone(),
        stores: kernel
            .stores
            .iter()
            .filter(|s| used[unrounded_value(kernel, s).index()])
            .map(store)
            .collect(),
        args: kernel.args,
        root: kernel.scatter().map_or(KernelRoot::Elementwise, |s| scatter(s).into()),
    };
    (result, roots.iter().map(|&root| number(root)).collect())
}

/// The value before rounding: a store rounds to a 16-bit float by itself.
pub fn unrounded_value(kernel: &Kernel, store: &KernelStore) -> ExprId {
    let mut value = store.value;
    while let Expr::Cast(x) = *kernel.expr(value)
        && matches!(store.dtype, DType::F16 | DType::BF16)
        && kernel.exprs[value.index()].dtype == store.dtype
        && LaneType::of(kernel.exprs[x.index()].dtype) == LaneType::F32
    {
        value = x;
    }
    value
}

fn reachable(kernel: &Kernel, roots: &[ExprId]) -> Vec<bool> {
    let mut used = vec![false; kernel.exprs.len()];
    for root in roots {
        used[root.index()] = true;
    }
    for i in (0..used.len()).rev() {
        if used[i] {
            kernel.exprs[i].expr.operands(|operand| used[operand.index()] = true);
        }
    }
    used
}

/// Whether every axis that moves an address is in a group.
fn covers(kernel: &Kernel, groups: &[AxisGroup], used: &[bool]) -> bool {
    let grouped = |axis: AxisId| groups.iter().any(|group| group.axes.contains(&axis));
    let fixed = |axis: AxisId| kernel.axes[axis.index()].extent == 1;
    let inside = |affine: &&Affine| affine.terms.iter().all(|&(axis, _)| fixed(axis) || grouped(axis));
    affines(kernel, used).iter().all(inside)
}

/// What becomes of each axis.
struct AxisMap {
    axes: Vec<LoopAxis>,
    /// Per old axis: the new one, if it is the innermost of its parts.
    new: Vec<Option<AxisId>>,
}

impl AxisMap {
    fn affine(&self, affine: &Affine) -> Affine {
        let moved = affine.terms.iter().filter_map(|&(axis, c)| Some((self.new[axis.index()]?, c)));
        let mut affine = Affine { offset: affine.offset, terms: moved.collect() };
        affine.terms.sort_unstable();
        affine
    }
    fn axis(&self, axis: AxisId) -> Option<AxisId> {
        self.new[axis.index()]
    }
}

/// Decides which neighbours become one axis: those that every address steps
/// along as if they were.
fn merge_axes(kernel: &Kernel, groups: &[AxisGroup], used: &[bool]) -> AxisMap {
    let affines = affines(kernel, used);
    let scanned = |axis: AxisId| {
        let scans = |node: &ExprNode| matches!(node.expr, Expr::Scan(_, _, a) if a == axis);
        kernel.exprs.iter().any(scans) || kernel.scatter().is_some_and(|s| s.axes.contains(&axis))
    };
    let mut map = AxisMap { axes: Vec::new(), new: vec![None; kernel.axes.len()] };
    for group in groups {
        let mut outer: Option<AxisId> = None;
        for &axis in group.axes.iter().filter(|axis| kernel.axes[axis.index()].extent != 1) {
            let extent = kernel.axes[axis.index()].extent;
            let joins = outer.filter(|&outer| {
                let as_one = |a: &&Affine| a.coefficient(outer) == a.coefficient(axis) * extent as i64;
                !scanned(outer) && !scanned(axis) && affines.iter().all(as_one)
            });
            match joins.and_then(|outer| map.new[outer.index()].take()) {
                Some(new) => {
                    map.axes[new.index()].extent *= extent;
                    map.new[axis.index()] = Some(new);
                }
                None => {
                    map.new[axis.index()] = Some(AxisId(map.axes.len() as u16));
                    map.axes.push(LoopAxis { extent, level: group.level });
                }
            }
            outer = Some(axis);
        }
    }
    map
}

/// Every affine value that what is used contains.
fn affines<'k>(kernel: &'k Kernel, used: &[bool]) -> Vec<&'k Affine> {
    let nodes = kernel.exprs.iter().zip(used).filter(|(_, used)| **used);
    let mut found: Vec<&Affine> = nodes.flat_map(|(node, _)| node.expr.positions()).collect();
    found.extend(
        kernel.stores.iter().filter(|s| used[unrounded_value(kernel, s).index()]).map(|s| &s.address),
    );
    found.extend(kernel.scatter().into_iter().map(|s| &s.address));
    found
}

fn renumber(expr: &Expr, map: &AxisMap, numbers: &[ExprId]) -> Expr {
    let number = |id: ExprId| numbers[id.index()];
    match expr {
        Expr::Scan(monoid, x, axis) => match map.axis(*axis) {
            Some(axis) => Expr::Scan(*monoid, number(*x), axis),
            // Along a single position: the value itself.
            None => Expr::Cast(number(*x)),
        },
        Expr::Const(_)
        | Expr::Arg(_)
        | Expr::Index(_)
        | Expr::Inside(_)
        | Expr::Load(..)
        | Expr::Alu(..)
        | Expr::Cast(_)
        | Expr::Bitcast(_)
        | Expr::Reduce(..)
        | Expr::Checked(..)
        | Expr::Accumulator => expr.mapped(number, |affine| map.affine(affine)),
    }
}

/// Row-major positions in a level, as an affine value of its axes.
pub fn linear(kernel: &Kernel, level: u8) -> Affine {
    let mut sum = Affine::default();
    let mut step = 1;
    let axes: Vec<AxisId> = kernel.level_axes(level).collect();
    for axis in axes.into_iter().rev() {
        sum = sum.plus(&Affine::axis(axis).times(step));
        step *= kernel.axes[axis.index()].extent as i64;
    }
    sum
}
