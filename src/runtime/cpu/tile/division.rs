//! Divisions of whole numbers by constants as products and shifts (Granlund and Montgomery,
//! "Division by invariant integers using multiplication", 1994): no vector unit divides them.

use crate::base::{DType, Scalar};
use crate::ir::AluOp;
use crate::kernel::ranges::{ValueRange, ranges};
use crate::kernel::{Affine, Expr, ExprId, ExprNode, Kernel, KernelStore};

/// Bits of what is divided; those of the product of two of them fit an `I64`.
const BITS: u32 = 31;

/// The kernel with quotients and remainders of 64-bit integers by a number taken without a
/// division where ranges say that what is divided is not negative, and has [`BITS`] bits where
/// the number is no power of two; `None` where there are none. The kernel has no contraction.
pub fn by_multiplication(kernel: &Kernel) -> Option<Kernel> {
    let divides = |node: &ExprNode| matches!(node.expr, Expr::Alu(AluOp::Div | AluOp::Rem, _));
    if !kernel.exprs.iter().any(|node| node.dtype == DType::I64 && divides(node)) {
        return None;
    }
    let mut rewrite = DivisionRewriter { exprs: Vec::with_capacity(kernel.exprs.len()) };
    let mut numbers: Vec<ExprId> = Vec::with_capacity(kernel.exprs.len());
    let ranges = ranges(kernel);
    for node in &kernel.exprs {
        let new = ExprNode { expr: node.expr.mapped(|id| numbers[id.index()], Affine::clone), ..*node };
        let quotient = by_number(kernel, node, &ranges).map(|(op, x, divisor)| {
            let dividend = numbers[x.index()];
            rewrite.quotient(op, dividend, divisor)
        });
        numbers.push(quotient.unwrap_or_else(|| rewrite.push(new)));
    }
    let mut multiplied = Kernel { exprs: rewrite.exprs, ..kernel.clone() };
    let store = |s: &KernelStore| KernelStore { value: numbers[s.value.index()], ..s.clone() };
    multiplied.stores = kernel.stores.iter().map(store).collect();
    if let Some(scatter) = multiplied.scatter_mut() {
        [scatter.index, scatter.value] = [scatter.index, scatter.value].map(|id| numbers[id.index()]);
    }
    Some(multiplied)
}

/// What a division by a number divides, and the number, if it may be multiplied.
fn by_number(kernel: &Kernel, node: &ExprNode, ranges: &[ValueRange]) -> Option<(AluOp, ExprId, u32)> {
    let Expr::Alu(op @ (AluOp::Div | AluOp::Rem), [x, y, _]) = node.expr else { return None };
    let Some(Scalar::Int(divisor)) = kernel.exprs[y.index()].constant() else { return None };
    let divisor = u32::try_from(divisor).ok().filter(|divisor| (1..1 << BITS).contains(divisor))?;
    let within = |(low, high)| low >= 0 && (high < 1 << BITS || divisor.is_power_of_two());
    (node.dtype == DType::I64 && ranges[x.index()].is_some_and(within)).then_some((op, x, divisor))
}

/// Expressions as they are written.
struct DivisionRewriter {
    exprs: Vec<ExprNode>,
}

impl DivisionRewriter {
    fn push(&mut self, node: ExprNode) -> ExprId {
        self.exprs.push(node);
        ExprId(self.exprs.len() as u32 - 1)
    }

    /// An operation on an integer and a number.
    fn with_number(&mut self, op: AluOp, x: ExprId, number: i64) -> ExprId {
        let bits = Scalar::Int(number).to_bits(DType::I64);
        let number = self.push(ExprNode { expr: Expr::Const(bits), dtype: DType::I64, level: 0 });
        let level = self.exprs[x.index()].level;
        self.push(ExprNode { expr: Expr::Alu(op, [x, number, x]), dtype: DType::I64, level })
    }

    /// A quotient or remainder by a number.
    fn quotient(&mut self, op: AluOp, x: ExprId, divisor: u32) -> ExprId {
        let remainder = op == AluOp::Rem;
        if remainder && divisor.is_power_of_two() {
            return self.with_number(AluOp::And, x, i64::from(divisor) - 1);
        }
        let quotient = if divisor.is_power_of_two() {
            self.with_number(AluOp::Shr, x, i64::from(divisor.trailing_zeros()))
        } else {
            let (factor, shift) = reciprocal(divisor);
            let product = self.with_number(AluOp::Mul, x, factor);
            self.with_number(AluOp::Shr, product, shift)
        };
        if !remainder {
            return quotient;
        }
        let multiple = self.with_number(AluOp::Mul, quotient, i64::from(divisor));
        let node = &self.exprs[x.index()];
        let level = node.level;
        self.push(ExprNode { expr: Expr::Alu(AluOp::Sub, [x, multiple, x]), dtype: DType::I64, level })
    }
}

/// A factor and a shift that together divide numbers of [`BITS`] bits by one that is no power of
/// two. The factor times the divisor is above a power of two by less than the divisor, so by less
/// than one part in `2^BITS`: too little to carry any such number over the next multiple.
fn reciprocal(divisor: u32) -> (i64, i64) {
    let shift = BITS + (u32::BITS - divisor.leading_zeros());
    ((1_u64 << shift).div_ceil(divisor.into()) as i64, shift.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_divide_all_that_fits() {
        let most = (1_i64 << BITS) - 1;
        for divisor in (3..2000).chain([7919, 50_000, 65_537, (1 << 30) + 1, (1 << BITS) - 1]) {
            let (factor, shift) = reciprocal(divisor);
            let divisor = i64::from(divisor);
            // Where quotients change, at the ends and in between.
            let last = most / divisor * divisor;
            for x in [0, 1, divisor - 1, divisor, divisor + 1, last - 1, last, most / 2, most - 1, most] {
                let product = x.checked_mul(factor).expect("fits");
                assert_eq!(product >> shift, x / divisor, "{x} by {divisor}");
            }
        }
    }
}
