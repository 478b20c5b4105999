//! How a node takes part in fusion.

use crate::ir::{GraphNode, NodeId, Op};
use crate::kernel::lower::attention;

/// A node's role in fusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FusionClass {
    /// A value from outside: already in memory.
    Input,
    /// Costs nothing to compute anywhere.
    Source,
    /// Rewrites positions; runs only when its result must be stored.
    Movement,
    /// Element by element; any kernel can compute it.
    Pointwise,
    /// Decides the structure of a kernel: reduction, scan, contraction, gather.
    Structural,
    /// The root of a kernel that updates its first operand's memory.
    Scatter,
    /// Memory that its operands share: nothing to compute.
    Pack,
    /// A step of its own whose operands must be in memory.
    Opaque,
}

/// The operands whose elements a node's are made from: all but the one that
/// [`Op::After`] waits for.
pub fn read_operands(node: &GraphNode) -> &[NodeId] {
    if let Op::After = node.op { &node.operands[..1] } else { &node.operands }
}

/// The class of a node; `same_device` says whether a copy stays on its device.
pub fn fusion_class(node: &GraphNode, same_device: bool) -> FusionClass {
    match &node.op {
        Op::Leaf(_) | Op::Param(..) => FusionClass::Input,
        Op::Const(..) | Op::Arg(..) | Op::Iota(..) => FusionClass::Source,
        Op::Alu(_) | Op::Cast(_) | Op::Bitcast(_) => FusionClass::Pointwise,
        Op::Reshape(_)
        | Op::Permute(_)
        | Op::Expand(_)
        | Op::Pad(_)
        | Op::Slice(_)
        | Op::Flip(_)
        | Op::Window(_)
        | Op::After => FusionClass::Movement,
        Op::Unwindow(..) | Op::Reduce(..) | Op::Scan(..) | Op::Contract(_) | Op::Gather(_) => {
            FusionClass::Structural
        }
        Op::Composite(..) if attention::is_attention(&node.op) => FusionClass::Structural,
        Op::Scatter(..) => FusionClass::Scatter,
        Op::Pack(_) => FusionClass::Pack,
        Op::Copy(_) if same_device => FusionClass::Pointwise,
        Op::Copy(_)
        | Op::Sort { .. }
        | Op::Collective(_)
        | Op::Loop(..)
        | Op::Composite(..)
        | Op::Custom(..) => FusionClass::Opaque,
    }
}

/// Whether an operation fills a kernel's grid with sums of products, before
/// which only cheap work runs: a contraction or attention.
pub fn is_product(op: &Op) -> bool {
    matches!(op, Op::Contract(_)) || attention::is_attention(op)
}
