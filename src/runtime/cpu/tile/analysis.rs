//! What each expression depends on, and when it can be computed.

use crate::kernel::{Affine, AxisId, Expr, Guard, Kernel};

/// Levels there are at most, and one.
pub const LEVELS: usize = 4;

/// A set of axes.
pub type AxisSet = u64;

/// What is known of a kernel's expressions, by number.
#[derive(Debug)]
pub struct ExprFacts {
    /// The axes each value varies along.
    pub axes: Vec<AxisSet>,
    /// Per level `l` up to the expression's own: how many passes over level
    /// `l + 1` must be complete before it can be computed. At its own level
    /// that is when it is ready; at a lower one, the pass that computes it.
    pub passes: Vec<[u8; LEVELS]>,
    /// Whether it waits for a reduction or scan in its own level's body, so
    /// that no loop of the level can be outside of it.
    pub pinned: Vec<bool>,
    /// How often it is used, stores included.
    pub uses: Vec<u32>,
}

/// The facts of a kernel.
pub fn analyze(kernel: &Kernel) -> ExprFacts {
    assert!(kernel.axes.len() <= 64, "more axes than a kernel can have: {}", kernel.axes.len());
    let count = kernel.exprs.len();
    let mut facts = ExprFacts {
        axes: vec![0; count],
        passes: vec![[0; LEVELS]; count],
        pinned: vec![false; count],
        uses: vec![0; count],
    };
    for store in &kernel.stores {
        facts.uses[store.value.index()] += 1;
    }
    if let Some(scatter) = kernel.scatter() {
        facts.uses[scatter.value.index()] += 1;
        facts.uses[scatter.index.index()] += 1;
    }
    for i in 0..count {
        facts.add(kernel, i);
    }
    facts
}

impl ExprFacts {
    fn add(&mut self, kernel: &Kernel, i: usize) {
        let node = &kernel.exprs[i];
        let mut axes = own_axes(&node.expr);
        let mut passes = [0; LEVELS];
        let mut pinned = false;
        node.expr.operands(|operand| {
            let o = operand.index();
            self.uses[o] += 1;
            axes |= self.axes[o];
            pinned |= self.pinned[o] && kernel.exprs[o].level == node.level;
            for (mine, theirs) in passes.iter_mut().zip(self.passes[o]) {
                *mine = theirs.max(*mine);
            }
        });
        let level = usize::from(node.level);
        match &node.expr {
            Expr::Reduce(..) => {
                passes[level] += 1;
                passes[level + 1..].fill(0);
                axes &= up_to(kernel, node.level);
                pinned = true;
            }
            Expr::Scan(_, _, axis) => {
                axes |= bit(*axis);
                pinned = true;
            }
            Expr::Const(_)
            | Expr::Arg(_)
            | Expr::Index(_)
            | Expr::Inside(_)
            | Expr::Load(..)
            | Expr::Alu(..)
            | Expr::Cast(_)
            | Expr::Bitcast(_)
            | Expr::Checked(..)
            | Expr::Accumulator => {}
        }
        (self.axes[i], self.passes[i], self.pinned[i]) = (axes, passes, pinned);
    }
}

/// The set of one axis.
pub fn bit(axis: AxisId) -> AxisSet {
    1 << axis.0
}

/// The axes an affine value varies along.
pub fn axes_of(affine: &Affine) -> AxisSet {
    affine.terms.iter().fold(0, |set, term| set | bit(term.0))
}

/// The axes a guard's conditions on axes vary along.
pub fn axes_of_guard(guard: &Guard) -> AxisSet {
    guard.within.iter().fold(0, |set, within| set | axes_of(&within.value))
}

fn own_axes(expr: &Expr) -> AxisSet {
    match expr {
        Expr::Index(affine) => axes_of(affine),
        Expr::Inside(within) => axes_of(&within.value),
        Expr::Load(_, access) => axes_of(&access.affine) | axes_of_guard(&access.guard),
        Expr::Const(_)
        | Expr::Arg(_)
        | Expr::Alu(..)
        | Expr::Cast(_)
        | Expr::Bitcast(_)
        | Expr::Reduce(..)
        | Expr::Scan(..)
        | Expr::Checked(..) => 0,
        Expr::Accumulator => AxisSet::MAX,
    }
}

/// The axes of the levels up to one.
pub fn up_to(kernel: &Kernel, level: u8) -> AxisSet {
    let axes = (0..kernel.axes.len()).filter(|&i| kernel.axes[i].level <= level);
    axes.fold(0, |set, i| set | 1 << i)
}
