//! Persistent graph nodes, as users build them.

use std::ops::Deref;
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
    edges: Mutex<Edges>,
    // Boxed: most nodes of a fused graph never have a value.
    value: OnceLock<Box<Leaf>>,
    grad: OnceLock<Arc<GradCell>>,
}

/// What lies below a node.
#[derive(Debug)]
struct Edges {
    /// What the node is computed from; empty once it is.
    operands: Operands,
    /// What gradients look through, where that is not the operands.
    history: Option<Box<History>>,
}

/// The operands of a node, which stay as they are while this is held.
pub struct OperandsGuard<'a>(MutexGuard<'a, Edges>);

impl Deref for OperandsGuard<'_> {
    type Target = Operands;
    fn deref(&self) -> &Operands {
        &self.0.operands
    }
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
        Arc::new(Node::unshared(op, ty, span, tracked, Edges { operands, history: None }))
    }

    // Inlined, so that the node is built where it stays.
    #[inline(always)]
    fn unshared(op: Op, ty: Type, span: Span, tracked: bool, edges: Edges) -> Node {
        let depth = edges.operands.iter().map(|o| o.depth + 1).max().unwrap_or(0);
        if !edges.operands.is_empty() {
            lazy::count(1);
        }
        let (value, grad) = (OnceLock::new(), OnceLock::new());
        Node { op, ty, span, depth, tracked, edges: Mutex::new(edges), value, grad }
    }

    /// A node that has its value from the start.
    pub fn leaf(ty: Type, value: Leaf, span: Span) -> Arc<Node> {
        let op = Op::Leaf(Box::new(ty.clone()));
        let edges = Edges { operands: Operands::new(), history: None };
        let mut node = Node::unshared(op, ty, span, false, edges);
        node.value = OnceLock::from(Box::new(value));
        Arc::new(node)
    }

    /// The same operation, with a rule of its own for gradients.
    pub fn overridden(&self, given: Override) -> Arc<Node> {
        let operands = self.operands().clone();
        self.with_edges(Edges { operands, history: Some(Box::new(History::Override(given))) })
    }

    /// A copy of a node, its operands and the inputs of its rule replaced.
    pub fn rebuilt(&self, operands: Operands, map: &dyn Fn(&Arc<Node>) -> Arc<Node>) -> Arc<Node> {
        let history = self.rule().map(|given| {
            let inputs = given.inputs.iter().map(map).collect();
            Box::new(History::Override(Override { inputs, rule: given.rule }))
        });
        self.with_edges(Edges { operands, history })
    }

    fn with_edges(&self, edges: Edges) -> Arc<Node> {
        Arc::new(Node::unshared(self.op.clone(), self.ty.clone(), self.span, self.tracked, edges))
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
        self.value.get().map(Box::as_ref)
    }
    /// The operands; empty once realized. Hold the guard briefly.
    pub fn operands(&self) -> OperandsGuard<'_> {
        OperandsGuard(self.edges())
    }

    fn edges(&self) -> MutexGuard<'_, Edges> {
        // Each half is replaced whole, so a poisoned lock holds whole edges.
        self.edges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the value and lets go of the operands, which a tracked node
    /// keeps as its history. A value that another thread recorded first stays.
    pub fn set_value(&self, value: Leaf) {
        if self.value.set(Box::new(value)).is_err() {
            return;
        }
        let mut edges = self.edges();
        let operands = std::mem::take(&mut edges.operands);
        if !operands.is_empty() {
            lazy::count(-1);
        }
        if self.tracked && edges.history.is_none() {
            edges.history = Some(Box::new(History::Operands(operands)));
        } else {
            drop(edges);
            drop_all(operands.into_iter().collect());
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
        match self.edges().history.as_deref() {
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
        let edges = self.edges();
        match edges.history.as_deref() {
            Some(History::Override(given)) => given.inputs.clone(),
            Some(History::Operands(operands)) => operands.clone(),
            Some(History::Released) => Operands::new(),
            None => edges.operands.clone(),
        }
    }
    /// Lets go of the history, once gradients have been taken.
    pub fn release_history(&self) {
        let history = self.edges().history.replace(Box::new(History::Released));
        let mut pending = Pending::new();
        release_history(history, &mut pending);
        drop_all(pending);
    }
    /// Whether gradients have been taken and the history is gone.
    pub fn is_released(&self) -> bool {
        matches!(self.edges().history.as_deref(), Some(History::Released))
    }
}

/// Nodes that are let go of; few at a time unless a graph is wide.
type Pending = SmallVec<[Arc<Node>; 8]>;

impl Drop for Node {
    fn drop(&mut self) {
        let mut pending = Pending::new();
        self.release(&mut pending);
        drop_all(pending);
    }
}

impl Node {
    /// Moves everything below the node into `pending`.
    fn release(&mut self, pending: &mut Pending) {
        let edges = self.edges.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !edges.operands.is_empty() {
            lazy::count(-1);
            pending.extend(edges.operands.drain(..));
        }
        release_history(edges.history.take(), pending);
    }
}

fn release_history(history: Option<Box<History>>, pending: &mut Pending) {
    match history.map(|history| *history) {
        Some(History::Operands(operands)) => pending.extend(operands),
        Some(History::Override(given)) => pending.extend(given.inputs),
        Some(History::Released) | None => {}
    }
}

/// Drops nodes without recursion, so that a graph's depth is not bounded by
/// the stack.
fn drop_all(mut pending: Pending) {
    while let Some(mut node) = pending.pop() {
        // Emptied where it is: a node is too large to be moved for nothing. One
        // that is held weakly, or by another thread as yet, has to be.
        if let Some(last) = Arc::get_mut(&mut node) {
            last.release(&mut pending);
        } else if let Some(mut last) = Arc::into_inner(node) {
            last.release(&mut pending);
        }
    }
}
