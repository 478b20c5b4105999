//! The vector-Jacobian product of every primitive, stated once.
//!
//! Subgradients at ties and bounds are PyTorch's:
//!
//! | operation | where | gradient |
//! |---|---|---|
//! | `maximum`, `minimum` | equal operands | half to each |
//! | `max(axis)` and other reductions to an extreme | equal elements | shared equally |
//! | `max_with_index` | equal elements | all to the first |
//! | `abs`, `relu` | 0 | 0 |
//! | `clamp` to numbers | at a bound | 0 |
//! | `atan2` | (0, 0) | 0 to each |
//! | `sign`, `heaviside`, `floor_divide` | everywhere | 0 |

mod alu;
mod collective;
mod contract;
mod index;
mod movement;
mod reduce;
mod scan;

use crate::base::{OpError, Result};
use crate::grad::{attention, control};
use crate::ir::{BuiltIn, Op};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// The context of one vector-Jacobian product: an operation, its operands, its result
/// and the result's cotangent.
pub(crate) struct VjpContext<'a> {
    /// The user's line of the operation.
    pub site: CallSite,
    /// The operands.
    pub x: &'a [Tensor],
    /// The result.
    pub y: &'a Tensor,
    /// The result's cotangent.
    pub g: &'a Tensor,
    /// Which operands' cotangents are needed.
    pub needs: &'a [bool],
}

/// The cotangents of the operands; `None` where there is none or it is 0.
///
/// # Errors
/// An operation that has no gradient.
pub(crate) fn vjp(op: &Op, p: &VjpContext) -> Result<Vec<Option<Tensor>>> {
    let each = |rule: &dyn Fn(usize) -> Option<Tensor>| -> Result<Vec<Option<Tensor>>> {
        let needed = |i: usize| p.needs.get(i).copied().unwrap_or(false);
        Ok((0..p.x.len()).map(|i| if needed(i) { rule(i) } else { None }).collect())
    };
    match op {
        Op::Const(..) | Op::Arg(..) | Op::Iota(..) | Op::Leaf(_) | Op::Param(..) => Ok(Vec::new()),
        Op::Alu(op) => each(&|i| alu::alu(*op, p, i)),
        Op::Cast(_) => each(&|_| p.x[0].dtype().is_float().then(|| p.site.cast(p.g, p.x[0].dtype()))),
        Op::Bitcast(_) | Op::Sort { .. } => each(&|_| None),
        Op::Reshape(_) => each(&|_| Some(p.site.reshape(p.g, &p.x[0].shape()))),
        Op::Permute(order) => each(&|_| Some(movement::permute(p, order))),
        Op::Expand(_) => each(&|_| Some(movement::expand(p))),
        Op::Pad(axes) => each(&|i| Some(movement::pad(p, axes, i))),
        Op::Slice(axes) => each(&|_| Some(movement::slice(p, axes))),
        Op::Flip(axes) => each(&|_| Some(p.site.apply(Op::Flip(axes.clone()), &[p.g]))),
        Op::Window(window) => {
            each(&|_| Some(p.site.unwindow(p.g, **window, p.x[0].shape()[usize::from(window.axis)])))
        }
        Op::Unwindow(window, _) => each(&|_| Some(p.site.window(p.g, **window))),
        Op::Reduce(monoid, axes) => each(&|_| reduce::reduce(p, *monoid, axes)),
        Op::Scan(monoid, axis) => each(&|_| scan::scan(p, *monoid, usize::from(*axis))),
        Op::Contract(dims) => each(&|i| Some(contract::contract(p, dims, i))),
        Op::Gather(axis) => each(&|i| (i == 0).then(|| index::gather(p, usize::from(*axis)))),
        Op::Scatter(axis, mode) => each(&|i| index::scatter(p, usize::from(*axis), *mode, i)),
        Op::Copy(_) => each(&|_| Some(p.site.apply(Op::Copy(p.x[0].device()), &[p.g]))),
        Op::After => each(&|i| (i == 0).then(|| p.g.clone())),
        Op::Pack(packing) => each(&|i| Some(movement::unpack(p, packing.starts[i], i))),
        Op::Composite(composite, out) if composite.built_in == Some(BuiltIn::Attention) => {
            attention::attention(p, composite, *out)
        }
        Op::Composite(composite, out) => control::composite(p, composite, *out),
        Op::Loop(..) => unreachable!("the results of a repetition go together"),
        Op::Collective(collective) => {
            each(&|i| if i == 0 { collective::collective(p, collective) } else { None })
        }
        Op::Custom(..) => {
            let expected = "an operation with a gradient; give it one by `custom_grad`";
            Err(OpError::new(op.name(), p.site.span, expected, op.name()).into())
        }
    }
}
