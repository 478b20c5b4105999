//! 64-bit integers that provably fit 32 bits become 32-bit integers.
//!
//! Positions are `I64` as lowered, and so is what is computed from them:
//! comparisons with a length, indices of gathers. The extents of a kernel bound
//! them, nearly always well below 2^31. Devices compute in 32 bits faster, and
//! some have nothing else.

use crate::base::{DType, Scalar};
use crate::ir::{AluOp, Monoid};
use crate::kernel::ranges::ranges;
use crate::kernel::{Access, BoundsCheck, Dynamic, Expr, ExprId, ExprNode, Guard, Kernel, KernelRoot};

/// The same kernel with every `I64` value that fits 32 bits, and is computed
/// from such alone, as `I32`. What is stored, contracted or scattered keeps its
/// type; indices of loads and of a scatter may become `I32`.
#[must_use]
pub fn narrow(kernel: &Kernel) -> Kernel {
    let narrow = narrowed(kernel);
    if !narrow.contains(&true) {
        return kernel.clone();
    }
    let mut narrowing = Narrowing { kernel, narrow, exprs: Vec::new(), own: Vec::new(), wide: Vec::new() };
    (0..kernel.exprs.len() as u32).for_each(|id| narrowing.push(ExprId(id)));
    let mut result = Kernel { exprs: Vec::new(), ..kernel.clone() };
    result.stores.iter_mut().for_each(|store| store.value = narrowing.wide(store.value));
    match &mut result.root {
        KernelRoot::Elementwise => {}
        KernelRoot::Contraction(c) => (c.a, c.b) = (narrowing.wide(c.a), narrowing.wide(c.b)),
        KernelRoot::Attention(a) => {
            let a = &mut **a;
            (a.q, a.k) = (narrowing.wide(a.q), narrowing.wide(a.k));
            for operand in [&mut a.v, &mut a.mask, &mut a.g, &mut a.log_sum, &mut a.product] {
                *operand = operand.map(|operand| narrowing.wide(operand));
            }
        }
        KernelRoot::Scatter(s) => (s.index, s.value) = (narrowing.own(s.index), narrowing.wide(s.value)),
    }
    result.exprs = narrowing.exprs;
    result
}

/// Which expressions become `I32`.
fn narrowed(kernel: &Kernel) -> Vec<bool> {
    let mut narrow: Vec<bool> = Vec::with_capacity(kernel.exprs.len());
    for (node, range) in kernel.exprs.iter().zip(ranges(kernel)) {
        let fits = range.is_some_and(|(low, high)| low >= i32::MIN.into() && high <= i32::MAX.into());
        let mut from_narrow = true;
        if let Expr::Alu(..) | Expr::Reduce(Monoid::Sum | Monoid::Max | Monoid::Min, _) | Expr::Scan(..) =
            node.expr
        {
            node.expr.operands(|x| {
                from_narrow &= kernel.exprs[x.index()].dtype != DType::I64 || narrow[x.index()];
            });
        }
        if let Expr::Checked(x, _) = node.expr {
            from_narrow = narrow[x.index()];
        }
        narrow.push(node.dtype == DType::I64 && fits && from_narrow);
    }
    narrow
}

/// Expressions under construction.
struct Narrowing<'k> {
    kernel: &'k Kernel,
    narrow: Vec<bool>,
    exprs: Vec<ExprNode>,
    /// What each old expression is, as `I32` if it became that.
    own: Vec<ExprId>,
    /// Of those that became `I32`: the same as `I64`, where something needs it.
    wide: Vec<Option<ExprId>>,
}

impl Narrowing<'_> {
    fn is_narrow(&self, x: ExprId) -> bool {
        self.narrow[x.index()]
    }

    fn own(&self, x: ExprId) -> ExprId {
        self.own[x.index()]
    }

    fn add(&mut self, expr: Expr, dtype: DType, level: u8) -> ExprId {
        self.exprs.push(ExprNode { expr, dtype, level });
        ExprId(self.exprs.len() as u32 - 1)
    }

    /// An old expression in its old type.
    fn wide(&mut self, x: ExprId) -> ExprId {
        let own = self.own(x);
        if !self.is_narrow(x) {
            return own;
        }
        if let Some(known) = self.wide[x.index()] {
            return known;
        }
        let wide = self.add(Expr::Cast(own), DType::I64, self.kernel.exprs[x.index()].level);
        self.wide[x.index()] = Some(wide);
        wide
    }

    /// Several old expressions in one type: narrow if all of them are.
    fn alike(&mut self, x: [ExprId; 3], count: usize) -> [ExprId; 3] {
        let narrow = x[..count].iter().all(|&x| self.is_narrow(x));
        x.map(|x| if narrow { self.own(x) } else { self.wide(x) })
    }

    /// Takes the next old expression over.
    fn push(&mut self, id: ExprId) {
        let node = &self.kernel.exprs[id.index()];
        let own = self.expr(id, node);
        self.own.push(own);
        self.wide.push(None);
    }

    fn expr(&mut self, id: ExprId, node: &ExprNode) -> ExprId {
        let narrow = self.is_narrow(id);
        let dtype = if narrow { DType::I32 } else { node.dtype };
        let expr = match &node.expr {
            // The low bits of a number that fits.
            Expr::Const(bits) if narrow => Expr::Const(Scalar::from_bits(*bits, node.dtype).to_bits(dtype)),
            Expr::Const(_) | Expr::Arg(_) | Expr::Index(_) | Expr::Inside(_) | Expr::Accumulator => {
                node.expr.clone()
            }
            Expr::Load(slot, access) => {
                let dynamic = |part: &Dynamic| Dynamic { index: self.own(part.index), ..part.clone() };
                let dynamic = access.dynamic.iter().map(dynamic).collect();
                let masks = access.guard.masks.iter().map(|&mask| self.own(mask)).collect();
                let guard = Guard { within: access.guard.within.clone(), masks }.into();
                Expr::Load(*slot, Access { affine: access.affine.clone(), dynamic, guard }.into())
            }
            Expr::Alu(AluOp::Where, x) => {
                let [yes, no, _] = self.alike([x[1], x[2], x[2]], 2);
                Expr::Alu(AluOp::Where, [self.own(x[0]), yes, no])
            }
            // What does not fit needs its operands wide, however small they are.
            Expr::Alu(op, x) if dtype == DType::I64 => Expr::Alu(*op, x.map(|x| self.wide(x))),
            Expr::Alu(op, x) => Expr::Alu(*op, self.alike(*x, op.arity())),
            Expr::Cast(x) if self.exprs[self.own(*x).index()].dtype == dtype => return self.own(*x),
            Expr::Cast(x) => Expr::Cast(self.own(*x)),
            Expr::Bitcast(x) => Expr::Bitcast(self.wide(*x)),
            Expr::Reduce(monoid @ (Monoid::ArgMax | Monoid::ArgMin), x) => {
                Expr::Reduce(*monoid, self.own(*x))
            }
            Expr::Reduce(monoid, x) if narrow => Expr::Reduce(*monoid, self.own(*x)),
            Expr::Reduce(monoid, x) => Expr::Reduce(*monoid, self.wide(*x)),
            Expr::Scan(monoid, x, axis) if narrow => Expr::Scan(*monoid, self.own(*x), *axis),
            Expr::Scan(monoid, x, axis) => Expr::Scan(*monoid, self.wide(*x), *axis),
            Expr::Checked(x, bounded) => {
                let value = if narrow { self.own(*x) } else { self.wide(*x) };
                Expr::Checked(value, BoundsCheck { index: self.own(bounded.index), ..**bounded }.into())
            }
        };
        self.add(expr, dtype, node.level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::builder::KernelBuilder;
    use crate::kernel::{Affine, AxisId, LoopAxis};

    /// A kernel over `extent` points that stores nothing: its expressions count.
    fn kernel(extent: usize, fill: impl FnOnce(&mut KernelBuilder)) -> Kernel {
        let mut builder = KernelBuilder::default();
        builder.axes.push(LoopAxis { extent, level: 0 });
        fill(&mut builder);
        Kernel {
            name: "test".into(),
            axes: builder.axes.into(),
            exprs: builder.exprs,
            inputs: builder.inputs.into(),
            ..Kernel::default()
        }
    }

    fn types(kernel: &Kernel) -> Vec<DType> {
        narrow(kernel).exprs.iter().map(|node| node.dtype).collect()
    }

    fn twice(extent: usize) -> Vec<DType> {
        types(&kernel(extent, |builder| {
            let index = builder.expr(Expr::Index(Affine::axis(AxisId(0)).into()), DType::I64, 0);
            builder.with_number(AluOp::Mul, index, 2);
        }))
    }

    #[test]
    fn positions_become_32_bits_wide_as_long_as_they_fit() {
        assert_eq!(twice(1 << 30), [DType::I32; 3]);
        // The product does not fit, so its operands are widened for it.
        assert_eq!(twice((1 << 30) + 2), [DType::I32, DType::I32, DType::I64, DType::I64, DType::I64]);
        assert_eq!(twice((1 << 31) + 1)[0], DType::I64);
    }

    #[test]
    fn what_wraps_in_64_bits_is_not_taken_for_small() {
        let all = types(&kernel(8, |builder| {
            let index = builder.expr(Expr::Index(Affine::axis(AxisId(0)).into()), DType::I64, 0);
            let large = builder.with_number(AluOp::Mul, index, i64::MAX);
            builder.with_number(AluOp::Min, large, 1);
        }));
        assert_eq!(all.last(), Some(&DType::I64));
    }

    #[test]
    fn a_comparison_of_positions_is_one_of_32_bits() {
        let narrowed = narrow(&kernel(8, |builder| {
            let index = builder.expr(Expr::Index(Affine::axis(AxisId(0)).into()), DType::I64, 0);
            let end = builder.constant(Scalar::Int(5), DType::I64);
            builder.alu(AluOp::Lt, DType::Bool, &[index, end]);
        }));
        assert!(narrowed.exprs.iter().all(|node| node.dtype != DType::I64), "{narrowed:?}");
    }
}
