//! How many iterations of loops one invocation makes: software drivers stop
//! counting, and working, at some number.

use crate::base::DType;
use crate::ir::{AluOp, Monoid};
use crate::kernel::{Expr, ExprNode, Kernel};

/// Iterations of one invocation that takes so many steps over the rows of
/// level 1, each for so many lanes: one loop per reduction and one for stores,
/// each with the loops inside.
pub fn of_invocation(kernel: &Kernel, steps: usize, lanes: usize) -> u64 {
    of_step(kernel, 1, lanes).saturating_mul(steps as u64)
}

/// Iterations for one step over the rows of a level, in all the loops over
/// such rows.
pub fn of_step(kernel: &Kernel, level: u8, lanes: usize) -> u64 {
    let own = |node: &&ExprNode| node.level + 1 == level && matches!(node.expr, Expr::Reduce(..));
    let loops = 1 + kernel.exprs.iter().filter(own).count() as u64;
    let inside = match kernel.depth() > level {
        true => of_step(kernel, level + 1, lanes).saturating_mul(kernel.level_points(level + 1) as u64),
        false => 0,
    };
    loops.saturating_mul(of_body(kernel, level, lanes).saturating_add(inside))
}

/// Iterations for one step over the rows of a level in one loop, without
/// those inside: its own, and those of the functions that it calls.
pub fn of_body(kernel: &Kernel, level: u8, lanes: usize) -> u64 {
    let calls = |node: &ExprNode| of_call(kernel, node, level) + of_update(node, level);
    1 + lanes as u64 * kernel.exprs.iter().map(calls).sum::<u64>()
}

/// Iterations of the function that computes an expression, at most.
fn of_call(kernel: &Kernel, node: &ExprNode, level: u8) -> u64 {
    let Expr::Alu(op, x) = &node.expr else { return 0 };
    if node.level != level {
        return 0;
    }
    let dtype = kernel.exprs[x[op.arity() - 1].index()].dtype;
    let wide = dtype.size() == 8;
    match op {
        // One for each binary digit that quotients of finite numbers may have.
        AluOp::Rem if dtype.is_float() => {
            if wide {
                2200
            } else {
                280
            }
        }
        AluOp::Pow if !dtype.is_float() => 8 * dtype.size() as u64,
        AluOp::Pow if wide => 64,
        AluOp::Exp | AluOp::Exp2 | AluOp::Log | AluOp::Log2 | AluOp::Tanh if dtype == DType::F64 => 32,
        AluOp::Sin | AluOp::Cos if dtype == DType::F64 => 16,
        AluOp::Erf if dtype == DType::F64 => 128,
        AluOp::Add | AluOp::Sub | AluOp::Mul | AluOp::Div | AluOp::Rem | AluOp::Pow => 0,
        AluOp::Max | AluOp::Min | AluOp::Neg | AluOp::Abs | AluOp::Recip | AluOp::Sqrt => 0,
        AluOp::Exp2 | AluOp::Log2 | AluOp::Exp | AluOp::Log | AluOp::Sin | AluOp::Cos => 0,
        AluOp::Tanh | AluOp::Erf | AluOp::Floor | AluOp::Trunc | AluOp::Round | AluOp::Lt | AluOp::Eq => 0,
        AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Not | AluOp::Shl | AluOp::Shr | AluOp::Where => 0,
    }
}

/// Iterations of the functions by which a reduction or scan takes a row in.
fn of_update(node: &ExprNode, level: u8) -> u64 {
    let monoid = match node.expr {
        Expr::Reduce(monoid, _) if node.level + 1 == level => Some(monoid),
        Expr::Scan(monoid, ..) if node.level == level => Some(monoid),
        Expr::Reduce(..) | Expr::Scan(..) | Expr::Const(_) | Expr::Arg(_) | Expr::Index(_) => None,
        Expr::Inside(_) | Expr::Load(..) | Expr::Alu(..) | Expr::Cast(_) | Expr::Bitcast(_) => None,
        Expr::Checked(..) | Expr::Accumulator => None,
    };
    // Two exponentials.
    if monoid == Some(Monoid::LogSumExp) && node.dtype == DType::F64 { 64 } else { 0 }
}
