//! Polynomials with constant coefficients, which are one loop (`micro/polynomial.rs`).

use kiln_simd::micro::{self, Operation};
use smallvec::SmallVec;

use crate::base::{DType, Scalar};
use crate::ir::AluOp;
use crate::kernel::{Expr, ExprId, Kernel};
use crate::runtime::cpu::tile::build::ProgramBuilder;
use crate::runtime::cpu::tile::program::{FrameSlot, SlotStorage, TileShape};

/// A polynomial by Horner's rule.
pub(super) struct Horner {
    /// Its products and sums, but for the last sum.
    pub inner: SmallVec<[ExprId; 24]>,
    /// Its coefficients, that of the highest power first.
    pub coefficients: SmallVec<[Scalar; 24]>,
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
    while found.coefficients.len() < *micro::POLYNOMIAL_TERMS.end() {
        let ([a, b], product, coefficient) = last_term(kernel, sum)?;
        found.inner.push(product);
        found.coefficients.push(coefficient);
        sum = if b == x { a } else { b };
        if a != x && b != x {
            return None;
        }
        if let Some(highest) = number(kernel, sum) {
            found.coefficients.push(highest);
            found.coefficients.reverse();
            return Some(found);
        }
        found.inner.push(sum);
    }
    None
}

/// The factors of a product, it itself, and the number of a sum of both.
fn last_term(kernel: &Kernel, sum: ExprId) -> Option<([ExprId; 2], ExprId, Scalar)> {
    let Expr::Alu(AluOp::Add, [a, b, _]) = *kernel.expr(sum) else { return None };
    let (product, coefficient) = match number(kernel, b) {
        Some(coefficient) => (a, coefficient),
        None => (b, number(kernel, a)?),
    };
    match *kernel.expr(product) {
        Expr::Alu(AluOp::Mul, [x, y, _]) => Some(([x, y], product, coefficient)),
        _ => None,
    }
}

/// The value of a constant.
fn number(kernel: &Kernel, id: ExprId) -> Option<Scalar> {
    match *kernel.expr(id) {
        Expr::Const(bits) => Some(Scalar::from_bits(bits, kernel.exprs[id.index()].dtype)),
        _ => None,
    }
}

impl ProgramBuilder<'_> {
    /// A polynomial that [`horner`] found.
    pub(super) fn polynomial(&mut self, id: ExprId, x: ExprId, dtype: DType) -> Option<FrameSlot> {
        let Horner { coefficients, .. } = horner_of(self.kernel, id, x)?;
        let function = micro::polynomial(coefficients.len(), dtype)?;
        let x = self.slot_of(x);
        // Constants that are made one after another lie so.
        let number = |value: &Scalar| SlotStorage::Constant(0, value.to_bits(dtype.compute()));
        let slots = coefficients.iter().map(|value| self.slot(number(value), TileShape::Scalar, dtype));
        let first = slots.min()?;
        Some(self.apply(&[x, first], dtype, |_| Operation { function, name: "polynomial", variants: None }))
    }
}
