//! Persistent graph nodes, as users build them.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use smallvec::SmallVec;

use crate::base::{DType, Device, Shape, Span};
use crate::ir::buffer::Leaf;
use crate::ir::history::{GradCell, Override, tracking};
use crate::ir::lazy;
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
/// Once realized, a node has a value and no operands. A node that is
/// *tracked* then still has its history: the edges gradients look through.
#[derive(Debug)]
pub struct Node {
    op: Op,
    ty: Type,
    span: Span,
    depth: u32,
    tracked: bool,
    operands: Mutex<Operands>,
    value: OnceLock<Leaf>,
    history: Mutex<Option<Box<History>>>,
    grad: OnceLock<Arc<GradCell>>,
}

/// The edges gradients look through, where they are not the operands.
#[derive(Debug)]
enum History {
    /// The operands of a node that has been realized.
    Operands(Operands),
    /// A rule of the node's own.
    Override(Override),
    /// Gradients have been taken, and may not be taken again.
    Released,
}

impl Node {
    /// A node of the type that inference found. It is tracked if gradients
    /// can pass: an operand is, it is floating, and [`tracking`] is on.
    pub fn new(op: Op, ty: Type, operands: Operands, span: Span) -> Arc<Node> {
        let passes = matches!(op, Op::Param(..)) || operands.iter().any(|o| o.is_tracked());
        let tracked = passes && ty.dtype.is_float() && tracking();
        Arc::new(Node::unshared(op, ty, operands, span, tracked))
    }

    fn unshared(op: Op, ty: Type, operands: Operands, span: Span, tracked: bool) -> Node {
        let depth = operands.iter().map(|o| o.depth + 1).max().unwrap_or(0);
        if !operands.is_empty() {
            lazy::count(1);
        }
        let (value, history, grad) = (OnceLock::new(), Mutex::default(), OnceLock::new());
        Node { op, ty, span, depth, tracked, operands: Mutex::new(operands), value, history, grad }
    }

    /// A node that has its value from the start.
    pub fn leaf(ty: Type, value: Leaf, span: Span) -> Arc<Node> {
        let op = Op::Leaf(Box::new(ty.clone()));
        let mut node = Node::unshared(op, ty, Operands::new(), span, false);
        node.value = OnceLock::from(value);
        Arc::new(node)
    }

    /// The same operation, with a rule of its own for gradients.
    pub fn overridden(&self, given: Override) -> Arc<Node> {
        let operands = self.operands().clone();
        let mut node = Node::unshared(self.op.clone(), self.ty.clone(), operands, self.span, self.tracked);
        node.history = Mutex::new(Some(Box::new(History::Override(given))));
        Arc::new(node)
    }

    /// A copy of a node, its operands and the inputs of its rule replaced.
    pub fn rebuilt(&self, operands: Operands, map: &dyn Fn(&Arc<Node>) -> Arc<Node>) -> Arc<Node> {
        let mut node = Node::unshared(self.op.clone(), self.ty.clone(), operands, self.span, self.tracked);
        node.history = Mutex::new(self.rule().map(|given| {
            let inputs = given.inputs.iter().map(map).collect();
            Box::new(History::Override(Override { inputs, rule: given.rule }))
        }));
        Arc::new(node)
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

    /// Records the value and lets go of the operands, which a tracked node
    /// keeps as its history. A value that another thread recorded first stays.
    pub fn set_value(&self, value: Leaf) {
        if self.value.set(value).is_err() {
            return;
        }
        // One lock over both, so that operands are always found on one side.
        let mut history = self.lock_history();
        let operands = std::mem::take(&mut *self.operands());
        if !operands.is_empty() {
            lazy::count(-1);
        }
        if self.tracked && history.is_none() {
            *history = Some(Box::new(History::Operands(operands)));
        } else {
            drop(history);
            drop_chain(operands);
        }
    }

    /// Whether gradients look at this node.
    pub fn is_tracked(&self) -> bool {
        self.tracked || self.grad.get().is_some()
    }
    /// Where gradients of this node accumulate, if it is a parameter.
    pub fn grad_cell(&self) -> Option<&Arc<GradCell>> {
        self.grad.get()
    }
    /// Makes the node a parameter whose gradients accumulate in `cell`. The
    /// first cell stays.
    pub fn set_grad_cell(&self, cell: Arc<GradCell>) {
        let _ = self.grad.set(cell);
    }
    /// The rule that stands in place of the primitive's.
    pub fn rule(&self) -> Option<Override> {
        match self.lock_history().as_deref() {
            Some(History::Override(given)) => Some(given.clone()),
            Some(History::Operands(_) | History::Released) | None => None,
        }
    }
    /// What gradients pass on to: the inputs of the node's rule, else the
    /// operands, remembered or present. Empty for nodes that are not tracked.
    pub fn history(&self) -> Operands {
        if !self.tracked {
            return Operands::new();
        }
        let history = self.lock_history();
        match history.as_deref() {
            Some(History::Override(given)) => given.inputs.clone(),
            Some(History::Operands(operands)) => operands.clone(),
            Some(History::Released) => Operands::new(),
            None => self.operands().clone(),
        }
    }
    /// Lets go of the history, once gradients have been taken.
    pub fn release_history(&self) {
        let history = self.lock_history().replace(Box::new(History::Released));
        match history.map(|history| *history) {
            Some(History::Operands(operands)) => drop_chain(operands),
            Some(History::Override(given)) => drop_chain(given.inputs),
            Some(History::Released) | None => {}
        }
    }
    /// Whether gradients have been taken and the history is gone.
    pub fn is_released(&self) -> bool {
        matches!(self.lock_history().as_deref(), Some(History::Released))
    }

    fn lock_history(&self) -> MutexGuard<'_, Option<Box<History>>> {
        // Replaced whole, so a poisoned lock holds a whole history.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut pending = Vec::new();
        self.release(&mut pending);
        drop_all(pending);
    }
}

impl Node {
    /// Moves everything below the node into `pending`.
    fn release(&mut self, pending: &mut Vec<Arc<Node>>) {
        let operands = self.operands.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !operands.is_empty() {
            lazy::count(-1);
        }
        pending.extend(std::mem::take(operands));
        match self.history.get_mut().unwrap_or_else(PoisonError::into_inner).take().map(|history| *history) {
            Some(History::Operands(operands)) => pending.extend(operands),
            Some(History::Override(given)) => pending.extend(given.inputs),
            Some(History::Released) | None => {}
        }
    }
}

fn drop_chain(operands: Operands) {
    drop_all(operands.into_vec());
}

/// Drops nodes without recursion, so that a graph's depth is not bounded by
/// the stack.
fn drop_all(mut pending: Vec<Arc<Node>>) {
    while let Some(node) = pending.pop() {
        if let Some(mut node) = Arc::into_inner(node) {
            node.release(&mut pending);
        }
    }
}
