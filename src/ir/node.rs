//! Persistent graph nodes, as users build them.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use smallvec::SmallVec;

use crate::base::{DType, Device, Shape, Span};
use crate::ir::buffer::Leaf;
use crate::ir::op::Op;

/// What is known of a tensor without running anything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    /// Extents of the axes.
    pub shape: Shape,
    /// Type of the elements.
    pub dtype: DType,
    /// Where the tensor is, or will be.
    pub device: Device,
}

impl Type {
    /// A type from its parts.
    pub fn new(shape: impl Into<Shape>, dtype: DType, device: Device) -> Type {
        Type { shape: shape.into(), dtype, device }
    }
    /// Bytes the elements occupy when stored densely; saturates.
    pub fn bytes(&self) -> usize {
        self.shape.numel().saturating_mul(self.dtype.size())
    }
}

/// The operands of a node.
pub type Operands = SmallVec<[Arc<Node>; 3]>;

/// An operation applied to operands: a tensor, computed or not.
///
/// Once realized, a node has a value and no operands.
#[derive(Debug)]
pub struct Node {
    op: Op,
    ty: Type,
    span: Span,
    depth: u32,
    operands: Mutex<Operands>,
    value: OnceLock<Leaf>,
}

impl Node {
    /// A node of the type that inference found.
    pub fn new(op: Op, ty: Type, operands: Operands, span: Span) -> Arc<Node> {
        let depth = operands.iter().map(|o| o.depth + 1).max().unwrap_or(0);
        Arc::new(Node { op, ty, span, depth, operands: Mutex::new(operands), value: OnceLock::new() })
    }

    /// A node that has its value from the start.
    pub fn leaf(ty: Type, value: Leaf, span: Span) -> Arc<Node> {
        let op = Op::Leaf(Box::new(ty.clone()));
        let cell = OnceLock::from(value);
        Arc::new(Node { op, ty, span, depth: 0, operands: Mutex::default(), value: cell })
    }

    /// The operation.
    pub fn op(&self) -> &Op {
        &self.op
    }
    /// Shape, element type and device.
    pub fn ty(&self) -> &Type {
        &self.ty
    }
    /// The user's line that built the node.
    pub fn span(&self) -> Span {
        self.span
    }
    /// Length of the longest path down to a source.
    pub fn depth(&self) -> u32 {
        self.depth
    }
    /// The value, once realized.
    pub fn value(&self) -> Option<&Leaf> {
        self.value.get()
    }
    /// The operands; empty once realized. Hold the guard briefly.
    pub fn operands(&self) -> MutexGuard<'_, Operands> {
        // A panic while the lock is held cannot leave the list half-changed.
        self.operands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the value and lets go of the operands. A value that another
    /// thread recorded first stays.
    pub fn set_value(&self, value: Leaf) {
        if self.value.set(value).is_ok() {
            drop_chain(std::mem::take(&mut *self.operands()));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let operands = self.operands.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !operands.is_empty() {
            drop_chain(std::mem::take(operands));
        }
    }
}

/// Drops nodes without recursion, so that a graph's depth is not bounded by
/// the stack.
fn drop_chain(operands: Operands) {
    let mut pending: Vec<Arc<Node>> = operands.into_vec();
    while let Some(node) = pending.pop() {
        if let Some(mut node) = Arc::into_inner(node) {
            let operands = node.operands.get_mut().unwrap_or_else(PoisonError::into_inner);
            pending.extend(std::mem::take(operands));
        }
    }
}
