//! Closing a body: what it captured from outside becomes parameters
//! (lambda lifting; Johnsson 1985).
//!
//! A body is built by running a closure on parameter nodes. Nodes it reaches
//! that depend on none of them were captured. Of these,
//! - constants, index ramps and views are copied into the body, and so is
//!   arithmetic on nothing but indices and single elements: running it inside
//!   costs no memory traffic, while its result may be large (a mask);
//! - everything else becomes a parameter, and its node an operand.
//!
//! Copies are always fresh nodes: realizing an outer node replaces its
//! operands by data, and a body must not change under its owner.

use std::sync::Arc;

use crate::ir::collect::NodeMap;
use crate::ir::node::{Node, Operands};
use crate::ir::op::{Body, Op};
use crate::ir::ty::Type;

/// A closed body, and the outer nodes its last parameters stand for.
#[derive(Debug)]
pub struct Lifted {
    /// The body; its parameters are the given ones, then the captures.
    pub body: Body,
    /// The captured nodes, in the order of their parameters.
    pub captures: Vec<Arc<Node>>,
}

/// Closes the graph below `results` over `params`: [`Op::Param`] nodes numbered
/// from 0, or any others, whose place such then take.
pub fn lift(params: &[Arc<Node>], results: &[Arc<Node>]) -> Lifted {
    let order = post_order(results);
    let classes = classify(params, &order);
    let mut lifting = Lifting {
        types: params.iter().map(|param| param.ty().clone()).collect(),
        captures: Vec::new(),
        inner: params
            .iter()
            .enumerate()
            .map(|(number, given)| (key(given), own_param(number, given)))
            .collect(),
    };
    for needed in needed(&order, &classes, results) {
        lifting.bring_in(&order[needed], classes[&key(&order[needed].node)]);
    }
    let results = results.iter().map(|result| lifting.inner[&key(result)].clone()).collect();
    Lifted { body: Body { params: lifting.types, results }, captures: lifting.captures }
}

/// A node and its operands at the time of the walk: another thread may
/// realize a captured node meanwhile.
struct Visited {
    node: Arc<Node>,
    operands: Operands,
    /// The inputs of the node's own gradient rule.
    inputs: Operands,
}

impl Visited {
    fn below(&self) -> impl DoubleEndedIterator<Item = &Arc<Node>> {
        self.operands.iter().chain(&self.inputs)
    }
}

/// How a node gets into the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaptureClass {
    /// It depends on a parameter: rebuilt around what it captured.
    Inner,
    /// Computed from indices and single elements alone: copied.
    Free,
    /// A view of something that is not: copied, so that the source is lifted.
    View,
    /// Lifted; a single element counts as free for its users.
    Captured { single: bool },
}

struct Lifting {
    types: Vec<Type>,
    captures: Vec<Arc<Node>>,
    inner: NodeMap<Arc<Node>>,
}

impl Lifting {
    fn bring_in(&mut self, visited: &Visited, class: CaptureClass) {
        let Visited { node, operands, .. } = visited;
        if self.inner.contains_key(&key(node)) {
            return;
        }
        let copy = match class {
            CaptureClass::Captured { .. } => {
                let number = self.types.len() as u32;
                self.types.push(node.ty().clone());
                self.captures.push(node.clone());
                param(number, node)
            }
            CaptureClass::Inner if visited.below().all(|o| Arc::ptr_eq(o, &self.inner[&key(o)])) => {
                node.clone()
            }
            CaptureClass::Inner | CaptureClass::Free | CaptureClass::View => {
                let inner = |o: &Arc<Node>| self.inner[&key(o)].clone();
                node.rebuilt(operands.iter().map(inner).collect(), &inner)
            }
        };
        self.inner.insert(key(node), copy);
    }
}

/// The parameter that a node is, or that stands for it.
fn own_param(number: usize, given: &Arc<Node>) -> Arc<Node> {
    if let Op::Param(..) = given.op() { given.clone() } else { param(number as u32, given) }
}

fn param(number: u32, like: &Node) -> Arc<Node> {
    let op = Op::Param(number, like.ty().clone());
    Node::new(op, like.ty().clone(), Operands::new(), like.span())
}

fn key(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node) as usize
}

/// Every node below `results`, operands first.
fn post_order(results: &[Arc<Node>]) -> Vec<Visited> {
    let mut order = Vec::new();
    let mut seen: NodeMap<()> = NodeMap::default();
    let mut pending: Vec<LiftVisit> = Vec::new();
    for result in results {
        pending.push(LiftVisit::Enter(result.clone()));
        while let Some(walk) = pending.pop() {
            match walk {
                LiftVisit::Leave(visited) => order.push(visited),
                LiftVisit::Enter(node) if seen.insert(key(&node), ()).is_none() => {
                    let operands = node.operands().clone();
                    let inputs = node.rule().map(|given| given.inputs).unwrap_or_default();
                    let visited = Visited { node, operands, inputs };
                    let below: Vec<LiftVisit> =
                        visited.below().rev().cloned().map(LiftVisit::Enter).collect();
                    pending.push(LiftVisit::Leave(visited));
                    pending.extend(below);
                }
                LiftVisit::Enter(_) => {}
            }
        }
    }
    order
}

/// A step of a walk in post-order.
enum LiftVisit {
    Enter(Arc<Node>),
    Leave(Visited),
}

fn classify(params: &[Arc<Node>], order: &[Visited]) -> NodeMap<CaptureClass> {
    let mut classes: NodeMap<CaptureClass> = params.iter().map(|p| (key(p), CaptureClass::Inner)).collect();
    for Visited { node, operands, .. } in order {
        if classes.contains_key(&key(node)) {
            continue;
        }
        let below: Vec<CaptureClass> = operands.iter().map(|o| classes[&key(o)]).collect();
        let class = if below.contains(&CaptureClass::Inner) {
            CaptureClass::Inner
        } else {
            outer_class(node, &below)
        };
        classes.insert(key(node), class);
    }
    classes
}

/// The class of a node that depends on no parameter.
fn outer_class(node: &Arc<Node>, below: &[CaptureClass]) -> CaptureClass {
    let captured = CaptureClass::Captured { single: node.ty().shape.rank() == 0 };
    // A realized node has no operands any more, whatever its operation; a
    // trainable one is more than what it starts as.
    if node.value().is_some() || node.is_parameter() {
        return captured;
    }
    let free =
        below.iter().all(|c| matches!(c, CaptureClass::Free | CaptureClass::Captured { single: true }));
    match node.op() {
        Op::Const(..) | Op::Iota(..) => CaptureClass::Free,
        Op::Alu(_) | Op::Cast(_) | Op::Bitcast(_) if free => CaptureClass::Free,
        Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Pad(_) => view(free),
        Op::Slice(_) | Op::Flip(_) | Op::Window(_) => view(free),
        Op::Alu(_) | Op::Cast(_) | Op::Bitcast(_) | Op::Unwindow(..) => captured,
        Op::Arg(..) | Op::Leaf(_) | Op::Param(..) | Op::Reduce(..) | Op::Scan(..) => captured,
        Op::Contract(_) | Op::Gather(_) | Op::Scatter(..) | Op::Sort { .. } => captured,
        Op::Copy(_) | Op::Collective(_) | Op::After | Op::Pack(_) => captured,
        Op::Loop(..) | Op::Composite(..) | Op::Custom(..) => captured,
    }
}

fn view(free: bool) -> CaptureClass {
    if free { CaptureClass::Free } else { CaptureClass::View }
}

/// The positions in `order` of nodes that appear in the body, ascending: a
/// captured node's operands stay outside.
fn needed(order: &[Visited], classes: &NodeMap<CaptureClass>, results: &[Arc<Node>]) -> Vec<usize> {
    let mut needed_nodes: NodeMap<()> = results.iter().map(|result| (key(result), ())).collect();
    let mut needed = Vec::new();
    for (i, visited) in order.iter().enumerate().rev() {
        if !needed_nodes.contains_key(&key(&visited.node)) {
            continue;
        }
        needed.push(i);
        if !matches!(classes[&key(&visited.node)], CaptureClass::Captured { .. }) {
            needed_nodes.extend(visited.below().map(|o| (key(o), ())));
        }
    }
    needed.reverse();
    needed
}
