//! Polynomials with constant coefficients, which are one loop whatever their degree.

use smallvec::SmallVec;

use crate::base::{DType, Scalar};
use crate::ir::AluOp;
use crate::kernel::{Expr, ExprId, Kernel};
use crate::runtime::cpu::micro::{self, Operation};
use crate::runtime::cpu::tile::build::Builder;
use crate::runtime::cpu::tile::program::{Class, Place, Slot};

/// A polynomial by Horner's rule.
pub(super) struct Horner {
    /// Its products and sums, but for the last sum.
    pub inner: SmallVec<[ExprId; 24]>,
    /// Its coefficients, that of the highest power first.
    pub coefficients: SmallVec<[ExprId; 24]>,
}

/// The polynomial that a sum ends, and what it is one of.
pub(super) fn horner(kernel: &Kernel, top: ExprId) -> Option<(ExprId, Horner)> {
    let (factors, _, _) = last_term(kernel, top)?;
    factors.into_iter().find_map(|x| horner_of(kernel, top, x).map(|horner| (x, horner)))
}

/// The same of a factor of the last product.
fn horner_of(kernel: &Kernel, top: ExprId, x: ExprId) -> Option<Horner> {
    let mut found = Horner { inner: SmallVec::new(), coefficients: SmallVec::new() };
    let mut sum = top;
    while found.coefficients.len() < *micro::TERMS.end() {
        let ([a, b], product, coefficient) = last_term(kernel, sum)?;
        found.inner.push(product);
        found.coefficients.push(coefficient);
        sum = if b == x { a } else { b };
        if a != x && b != x {
            return None;
        }
        if let Expr::Const(_) = kernel.expr(sum) {
            found.coefficients.push(sum);
            found.coefficients.reverse();
            return Some(found);
        }
        found.inner.push(sum);
    }
    None
}

/// The factors of a product, it itself, and the number of a sum of both.
fn last_term(kernel: &Kernel, sum: ExprId) -> Option<([ExprId; 2], ExprId, ExprId)> {
    let Expr::Alu(AluOp::Add, [a, b, _]) = *kernel.expr(sum) else { return None };
    let number = |id: ExprId| matches!(kernel.expr(id), Expr::Const(_));
    let (product, coefficient) = if number(b) { (a, b) } else { (b, a) };
    match *kernel.expr(product) {
        Expr::Alu(AluOp::Mul, [x, y, _]) if number(coefficient) => Some(([x, y], product, coefficient)),
        _ => None,
    }
}

impl Builder<'_> {
    /// A polynomial that [`horner`] found.
    pub(super) fn polynomial(&mut self, id: ExprId, x: ExprId, dtype: DType) -> Slot {
        let Some(Horner { coefficients, .. }) = horner_of(self.kernel, id, x) else {
            panic!("{id:?} is no polynomial")
        };
        let x = self.slot_of(x);
        let numbers = self.numbers(&coefficients);
        self.apply(&[x, numbers], dtype, |_| {
            let function = micro::polynomial(coefficients.len(), dtype);
            let function = function.unwrap_or_else(|| panic!("no polynomials of {dtype}"));
            Operation { function, name: "polynomial", variants: None }
        })
    }

    /// The slot of the first of some numbers that lie one after another.
    fn numbers(&mut self, numbers: &[ExprId]) -> Slot {
        let slots = numbers.iter().map(|&id| {
            let Expr::Const(bits) = *self.kernel.expr(id) else { panic!("{id:?} is no number") };
            let dtype = self.kernel.exprs[id.index()].dtype;
            let bits = Scalar::from_bits(bits, dtype).to_bits(dtype.compute());
            // Constants that are made one after another lie so.
            self.slot(Place::Constant(0, bits), Class::SCALAR, dtype)
        });
        let slots: Vec<Slot> = slots.collect();
        slots[0]
    }
}
