//! Persistent graph nodes, as users build them.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use once_cell::race::OnceBox;
use smallvec::SmallVec;

use crate::base::free_list::FreeList;
use crate::base::unique_arc::UniqueArc;
use crate::base::{OpName, Span};
use crate::ir::buffer::Leaf;
use crate::ir::history::{GradCell, Override, tracking};
use crate::ir::lazy;
use crate::ir::op::Op;
use crate::ir::ty::Type;

mod claimed;
#[cfg(test)]
mod tests;

pub use claimed::NodeClaims;

/// The operands of a node.
pub type Operands = SmallVec<[Arc<Node>; 3]>;

/// An operation applied to operands: a tensor, computed or not.
///
/// Once realized, a node has a value and no operands. A node that is
/// *tracked* then still has its history: the edges gradients look through.
///
/// Graphs are built anew for every realize, so nodes are small (`LARGEST`).
#[derive(Debug)]
pub struct Node {
    op: Op,
    ty: Type,
    span: Span,
    depth: u32,
    /// What the user called it.
    name: OpName,
    /// Whether a realize is computing it: see [`crate::ir::claim`].
    claimed: AtomicBool,
    /// What else is known of it, of [`PARAMETER`] and the marks beside it.
    marks: AtomicU8,
    // Boxed: most nodes of a fused graph never have a value.
    value: OnceBox<Leaf>,
    edges: Mutex<Edges>,
}

/// Bytes of a node with its two reference counts: the largest block that the C library's
/// allocator gives out again as it is, where larger ones are joined and split.
const LARGEST: usize = 120;
const _: () = assert!(size_of::<Node>() + 2 * size_of::<usize>() <= LARGEST);

/// Gradients accumulate here.
const PARAMETER: u8 = 1;
/// Its value is kept once it is computed for another's sake, if anybody holds it.
const KEPT: u8 = 2;
/// A thread may still ask for it that holds it weakly.
const ROOT: u8 = 4;
/// Gradients pass it; known from the start.
const TRACKED: u8 = 8;
/// A parameter of a body is below, or is this; known from the start.
const OPEN: u8 = 16;

/// Nodes' memory that a thread keeps for its next ones: 120 KiB.
const PLACES: usize = 1024;

thread_local! {
    static FREE_NODES: FreeList<Node> = const { FreeList::new(PLACES) };
}

/// A node's edges.
#[derive(Debug, Default)]
pub struct Edges {
    /// What the node is computed from; empty once it is.
    operands: Operands,
    /// What few nodes have.
    rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
struct Rare {
    /// What gradients look through, where that is not the operands.
    history: Option<History>,
    /// Where they accumulate.
    cell: Option<Arc<GradCell>>,
}

impl Edges {
    #[inline]
    fn new(operands: Operands, history: Option<History>) -> Edges {
        let rare = history.map(|history| Box::new(Rare { history: Some(history), cell: None }));
        Edges { operands, rare }
    }
    fn history(&self) -> Option<&History> {
        self.rare.as_ref()?.history.as_ref()
    }
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
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
        let mut node = Node::begin(op, Cow::Owned(ty), span);
        node.edges_mut().operands = operands;
        node.finish();
        node.share()
    }

    /// [`Node::new`] under the name that the user called.
    pub fn named(name: &'static str, op: Op, ty: Type, operands: Operands, span: Span) -> Arc<Node> {
        let mut node = Node::begin(op, Cow::Owned(ty), span);
        node.edges_mut().operands = operands;
        node.name = OpName::of(name);
        node.finish();
        node.share()
    }

    /// [`Node::named`] of two operands, of the type given or else that of the one with axes: most nodes are
    /// arithmetic.
    #[inline]
    pub fn of_two(
        name: &'static str,
        op: Op,
        ty: Option<Type>,
        [a, b]: [Arc<Node>; 2],
        span: Span,
    ) -> Arc<Node> {
        let ty = ty.map_or_else(|| Cow::Borrowed(a.ty().or_with_axes(b.ty())), Cow::Owned);
        let mut node = Node::begin(op, ty, span);
        let operands = &mut node.edges_mut().operands;
        operands.push(a);
        operands.push(b);
        node.name = OpName::of(name);
        node.finish();
        node.share()
    }

    /// A node without operands, in recycled memory if there is any.
    // Inlined, so that each part is written where it stays.
    #[inline(always)]
    fn begin(op: Op, ty: Cow<Type>, span: Span) -> UniqueArc<Node> {
        let Ok(Some(mut node)) = FREE_NODES.try_with(FreeList::take) else {
            return UniqueArc::new(|| Node::alone(op, ty.into_owned(), span));
        };
        (node.op, node.span) = (op, span);
        match ty {
            Cow::Borrowed(ty) => node.ty.become_same(ty),
            Cow::Owned(ty) => node.ty = ty,
        }
        node
    }

    /// Sets what follows from a new node's operands.
    #[inline(always)]
    fn finish(&mut self) {
        let Node { op, ty, depth, edges, marks, .. } = self;
        let operands = &edges.get_mut().unwrap_or_else(PoisonError::into_inner).operands;
        let below = OperandSummary::of(operands);
        *depth = below.depth;
        let own = if let Op::Copy(_) | Op::Collective(_) = op { KEPT } else { 0 };
        *marks.get_mut() = own | below.inherited(op, ty.dtype.is_float() && tracking());
        self.count();
    }

    /// Keeps a node's memory for a later one, after dropping everything it owns but its type.
    fn recycle(mut node: UniqueArc<Node>) {
        let Node { op, name, marks, value, .. } = &mut *node;
        (*op, *name, *marks, *value) = (Op::After, OpName::default(), AtomicU8::new(0), OnceBox::new());
        // A thread that is ending drops nodes too: then it is dropped.
        let _ = FREE_NODES.try_with(|free| free.put(node));
    }

    /// A node without operands and value.
    #[inline(always)]
    fn alone(op: Op, ty: Type, span: Span) -> Node {
        let (claimed, marks) = (AtomicBool::new(false), AtomicU8::new(0));
        let (value, edges) = (OnceBox::new(), Mutex::default());
        Node { op, ty, span, depth: 0, name: OpName::default(), claimed, marks, value, edges }
    }

    /// Counts a node among those to be computed, if it is one.
    fn count(&self) {
        if self.depth > 0 {
            lazy::count(1);
        }
    }

    /// A node that has its value from the start.
    pub fn leaf(ty: Type, value: Leaf, span: Span) -> Arc<Node> {
        let mut node = Node::alone(Op::Leaf(ty.clone()), ty, span);
        node.value = OnceBox::with_value(Box::new(value));
        Arc::new(node)
    }

    /// The same operation, with a rule of its own for gradients, some of whose inputs are tracked.
    pub fn overridden(&self, given: Override) -> Arc<Node> {
        let operands = self.operands().clone();
        let node = self.with_edges(Edges::new(operands, Some(History::Override(given))));
        // Steps, whose parts no gradient passes, have one all the same: 0.
        if tracking() {
            node.marks.fetch_or(TRACKED, Ordering::Relaxed);
        }
        node
    }

    /// A copy of a node, its operands and the inputs of its rule replaced.
    pub fn rebuilt(&self, operands: Operands, map: &dyn Fn(&Arc<Node>) -> Arc<Node>) -> Arc<Node> {
        let history = self.rule().map(|given| {
            let inputs = given.inputs.iter().map(map).collect();
            History::Override(Override { inputs, rule: given.rule })
        });
        self.with_edges(Edges::new(operands, history))
    }

    fn with_edges(&self, edges: Edges) -> Arc<Node> {
        let mut node = Node::alone(self.op.clone(), self.ty.clone(), self.span);
        let below = OperandSummary::of(&edges.operands);
        (node.name, node.depth) = (self.name, below.depth);
        let own = self.marks.load(Ordering::Relaxed) & (KEPT | TRACKED);
        *node.marks.get_mut() = own | below.inherited(&node.op, false);
        *node.edges_mut() = edges;
        node.count();
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
    /// What the user called it; none for nodes that no call of an operation made.
    pub fn name(&self) -> Option<&'static str> {
        self.name.text()
    }
    /// [`Node::name`] by number.
    pub fn op_name(&self) -> OpName {
        self.name
    }
    /// Length of the longest path down to a source.
    pub fn depth(&self) -> u32 {
        self.depth
    }
    /// Whether the node is a parameter of a body, or computed from one: then it
    /// has no value outside of that body.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.is(OPEN)
    }
    /// The value, once realized.
    pub fn value(&self) -> Option<&Leaf> {
        self.value.get()
    }
    fn edges_mut(&mut self) -> &mut Edges {
        self.edges.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
    fn edges(&self) -> MutexGuard<'_, Edges> {
        // Each half is replaced whole, so a poisoned lock holds whole edges.
        self.edges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the value and drops the operands, which a tracked node
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
        if self.is(TRACKED) && edges.history().is_none() {
            edges.rare().history = Some(History::Operands(operands));
        } else {
            drop(edges);
            drop_all(operands.into_iter().collect());
        }
    }

    /// Whether gradients look at this node.
    pub fn is_tracked(&self) -> bool {
        self.is(TRACKED | PARAMETER)
    }
    /// Whether gradients accumulate here.
    pub fn is_parameter(&self) -> bool {
        self.is(PARAMETER)
    }
    /// Whether a realize that computes it on the way keeps its value, if anybody holds it: what was put into
    /// a cell, and transfers.
    pub fn is_kept(&self) -> bool {
        self.is(KEPT)
    }
    /// Marks the node as one whose value is kept.
    pub fn keep(&self) {
        self.mark(KEPT);
    }
    /// Whether a thread may ask for it that holds it weakly.
    pub fn is_root(&self) -> bool {
        self.is(ROOT)
    }
    /// Marks the node as one that is held weakly and may still be requested.
    pub fn mark_root(&self) {
        self.mark(ROOT);
    }
    /// Whether it holds on to its operands, for gradients, once it has a value.
    pub fn remembers(&self) -> bool {
        self.is(TRACKED) && self.edges().history().is_none()
    }
    /// Whether gradients can pass the node, and have not been taken.
    pub fn has_gradient(&self) -> bool {
        self.is(TRACKED) && !self.is_released()
    }
    /// Whether it has one of some marks.
    #[inline]
    fn is(&self, marks: u8) -> bool {
        self.marks.load(Ordering::Acquire) & marks != 0
    }
    fn mark(&self, mark: u8) {
        self.marks.fetch_or(mark, Ordering::Release);
    }
    /// Where gradients of this node accumulate, if it is a parameter.
    pub fn grad_cell(&self) -> Option<Arc<GradCell>> {
        if self.is_parameter() { self.edges().rare.as_ref()?.cell.clone() } else { None }
    }
    /// What a model calls it, if it is a parameter.
    pub fn parameter_name(&self) -> Option<Arc<str>> {
        self.grad_cell()?.name()
    }
    /// Makes the node a parameter whose gradients accumulate in `cell`. The
    /// first cell stays.
    pub fn set_grad_cell(&self, cell: Arc<GradCell>) {
        self.edges().rare().cell.get_or_insert(cell);
        self.mark(PARAMETER);
    }
    /// The rule that stands in place of the primitive's.
    pub fn rule(&self) -> Option<Override> {
        match self.edges().history() {
            Some(History::Override(given)) => Some(given.clone()),
            Some(History::Operands(_) | History::Released) | None => None,
        }
    }
    /// What gradients pass on to: the inputs of the node's rule, else the
    /// operands, remembered or present. Empty for nodes that are not tracked.
    pub fn history(&self) -> Operands {
        if !self.is(TRACKED) {
            return Operands::new();
        }
        let edges = self.edges();
        match edges.history() {
            Some(History::Override(given)) => given.inputs.clone(),
            Some(History::Operands(operands)) => operands.clone(),
            Some(History::Released) => Operands::new(),
            None => edges.operands.clone(),
        }
    }
    /// Drops the history, once gradients have been taken.
    pub fn release_history(&self) {
        let history = self.edges().rare().history.replace(History::Released);
        let mut pending = DropList::new();
        release_history(history, &mut pending);
        drop_all(pending);
    }
    /// Whether gradients have been taken and the history is gone.
    pub fn is_released(&self) -> bool {
        matches!(self.edges().history(), Some(History::Released))
    }
}

/// What follows from a node's operands, found in one pass over them.
#[derive(Default)]
struct OperandSummary {
    /// Length of the longest path down from the node; 0 only for sources.
    depth: u32,
    /// The marks of all operands.
    marks: u8,
}

impl OperandSummary {
    #[inline(always)]
    fn of(operands: &[Arc<Node>]) -> OperandSummary {
        operands.iter().fold(OperandSummary::default(), |below, operand| OperandSummary {
            depth: below.depth.max(operand.depth + 1),
            marks: below.marks | operand.marks.load(Ordering::Acquire),
        })
    }

    /// The marks that a node has for its operands' sake, or as a parameter of a body.
    #[inline(always)]
    fn inherited(&self, op: &Op, may_track: bool) -> u8 {
        let marks = if let Op::Param(..) = op { OPEN | PARAMETER } else { self.marks };
        let tracked = if may_track && marks & (TRACKED | PARAMETER) != 0 { TRACKED } else { 0 };
        (marks & OPEN) | tracked
    }
}

/// Nodes to be dropped; few at a time unless a graph is wide.
type DropList = SmallVec<[Arc<Node>; 8]>;

impl Drop for Node {
    fn drop(&mut self) {
        let edges = self.edges_mut();
        // Mostly everything is dropped already.
        if !edges.operands.is_empty() || edges.rare.is_some() {
            let mut pending = DropList::new();
            edges.release(&mut pending);
            drop_all(pending);
        }
    }
}

impl Edges {
    /// Moves what is below the node and nobody else's into `pending`.
    fn release(&mut self, pending: &mut DropList) {
        if !self.operands.is_empty() {
            lazy::count(-1);
        }
        while let Some(operand) = self.operands.pop() {
            if Arc::strong_count(&operand) == 1 {
                pending.push(operand);
            } else if let Some(mut last) = Arc::into_inner(operand) {
                // Another thread dropped it just now: no chain does so at each link.
                last.edges_mut().release(pending);
            }
        }
        if let Some(rare) = self.rare.take() {
            release_history(rare.history, pending);
        }
    }
}

fn release_history(history: Option<History>, pending: &mut DropList) {
    match history {
        Some(History::Operands(operands)) => pending.extend(operands),
        Some(History::Override(given)) => pending.extend(given.inputs),
        Some(History::Released) | None => {}
    }
}

/// Drops nodes without recursion, so that a graph's depth is not bounded by
/// the stack.
fn drop_all(mut pending: DropList) {
    while let Some(node) = pending.pop() {
        match UniqueArc::of(node) {
            Ok(mut last) => {
                last.edges_mut().release(&mut pending);
                Node::recycle(last);
            }
            // Held weakly, or by another thread as yet.
            Err(node) => {
                if let Some(mut last) = Arc::into_inner(node) {
                    last.edges_mut().release(&mut pending);
                }
            }
        }
    }
}
