//! Whether the indices of a plan are within their axes, as one truth value that the plan computes.
//!
//! The rule of what counts: each index that the plan uses on the device, all of it. Where every element found by an
//! index is needed, the kernels that use the index report a bad one. Where only a part is (a gather of which a slice
//! is left), fusion decides which others a kernel looks at; so the comparison reads such an index as a gather would,
//! and reports it itself. The truth value is false exactly where an error is told.
//!
//! What a body is given, or a slice of it each time, is compared outside, once. What a body computes, and what a
//! loop carries from one iteration to the next, is compared inside, and the body's last result says whether it was
//! in range.

use std::sync::Arc;

use crate::base::{DType, Device, Scalar, Shape, Span};
use crate::ir::alu::AluOp;
use crate::ir::collect::collect_nodes_of_body;
use crate::ir::monoid::Monoid;
use crate::ir::node::Operands;
use crate::ir::rewrite::GraphBuilder;
use crate::ir::{Body, Composite, Graph, GraphNode, LoopSpec, Node, NodeId, Op, Type};

/// Adds to a graph one truth value of rank 0: whether all indices used on a device are within their axes. `None` if
/// none can be beyond. Loops whose bodies find out have a result more then.
pub fn all_in_range(builder: &mut GraphBuilder, device: Device) -> Option<NodeId> {
    Checks::of(builder, None, device).all(builder)
}

/// An axis' extent as a number of a type, if it has it.
pub fn representable(extent: usize, dtype: DType) -> Option<Scalar> {
    let end = Scalar::Int(extent as i64);
    (end.cast(dtype).as_i64() == extent as i64).then_some(end)
}

/// What has a body.
#[derive(Clone)]
enum BodyOwner {
    Loop(Arc<LoopSpec>),
    Composite(Arc<Composite>),
}

impl BodyOwner {
    /// What an operation is a result of, and which.
    fn of(op: &Op) -> Option<(BodyOwner, u32)> {
        if let Op::Loop(spec, result) = op {
            Some((BodyOwner::Loop(spec.clone()), *result))
        } else if let Op::Composite(composite, result) = op {
            Some((BodyOwner::Composite(composite.clone()), *result))
        } else {
            None
        }
    }

    fn body(&self) -> &Body {
        match self {
            BodyOwner::Loop(spec) => &spec.body,
            BodyOwner::Composite(composite) => &composite.body,
        }
    }

    /// The same with another body.
    fn with_body(&self, body: Body) -> BodyOwner {
        match self {
            BodyOwner::Loop(spec) => {
                let LoopSpec { trips, carries, stacked, reverse, .. } = **spec;
                BodyOwner::Loop(Arc::new(LoopSpec { body, trips, carries, stacked, reverse }))
            }
            BodyOwner::Composite(composite) => {
                let Composite { name, built_in, ref attributes, .. } = **composite;
                BodyOwner::Composite(Arc::new(Composite::new(name, built_in, attributes.clone(), body)))
            }
        }
    }

    fn result(&self, number: u32) -> Op {
        match self {
            BodyOwner::Loop(spec) => Op::Loop(spec.clone(), number),
            BodyOwner::Composite(composite) => Op::Composite(composite.clone(), number),
        }
    }

    /// Whether the body is computed at all.
    fn is_run(&self) -> bool {
        match self {
            BodyOwner::Loop(spec) => spec.trips > 0,
            BodyOwner::Composite(_) => true,
        }
    }
}

/// An index somewhere.
#[derive(Clone, Copy)]
struct UsedIndex<T> {
    at: T,
    extent: usize,
    /// The user's line that uses it.
    span: Span,
    /// Whether kernels report it, since they need all that it finds.
    is_reported: bool,
}

/// Where an index comes from.
enum Source {
    /// A node of the graph that uses it.
    Here(NodeId),
    /// A parameter of the body that uses it, which stands for an operand or its slices.
    Given(usize),
    /// Positions made of a ramp are right, or a constant mistake.
    Made,
}

/// What is known of the indices of a graph.
#[derive(Default)]
struct Checks {
    /// Those to be compared in the graph.
    here: Vec<UsedIndex<NodeId>>,
    /// Those to be compared where the graph's parameters come from.
    given: Vec<UsedIndex<usize>>,
    /// Truth values that bodies yield.
    yielded: Vec<NodeId>,
}

impl<T> UsedIndex<T> {
    /// The same somewhere else.
    fn moved<U>(self, at: U) -> UsedIndex<U> {
        let UsedIndex { extent, span, is_reported, .. } = self;
        UsedIndex { at, extent, span, is_reported }
    }
}

impl Checks {
    /// Looks at a graph, of a body if it has an owner, and lets the bodies in it yield what they find out.
    fn of(builder: &mut GraphBuilder, owner: Option<&BodyOwner>, device: Device) -> Checks {
        let mut checks = Checks::default();
        let needed_whole = needed_whole(&builder.graph);
        let mut bodies: Vec<(GraphNode, CheckedBody)> = Vec::new();
        for id in builder.graph.ids() {
            let node = builder.graph.node(id).clone();
            if let Op::Gather(axis) | Op::Scatter(axis, _) = node.op {
                let (at, is_reported) = (node.operands[1], needed_whole[id.index()]);
                let extent = builder.graph.ty(node.operands[0]).shape[usize::from(axis)];
                if node.ty.device == device {
                    checks.add(&builder.graph, owner, UsedIndex { at, extent, span: node.span, is_reported });
                }
            } else if let Some((inner, result)) = BodyOwner::of(&node.op) {
                let known = bodies.iter().position(|(known, _)| are_results_of_one(known, &node));
                let number = known.unwrap_or_else(|| {
                    let body = checks.of_body(builder, owner, &node, &inner, device);
                    bodies.push((node.clone(), body));
                    bodies.len() - 1
                });
                if let Some((inner, _)) = &bodies[number].1.yielding {
                    builder.graph.nodes[id.index()] = node.with_op(inner.result(result));
                }
            }
        }
        checks
    }

    fn add(&mut self, graph: &Graph, owner: Option<&BodyOwner>, used: UsedIndex<NodeId>) {
        match source(graph, owner, used) {
            Source::Here(at) => add_once(&mut self.here, used.moved(at)),
            Source::Given(at) => add_once(&mut self.given, used.moved(at)),
            Source::Made => {}
        }
    }

    /// Looks at the body of a node, which `inner` has.
    fn of_body(
        &mut self,
        builder: &mut GraphBuilder,
        owner: Option<&BodyOwner>,
        node: &GraphNode,
        inner: &BodyOwner,
        device: Device,
    ) -> CheckedBody {
        let body = CheckedBody::of(inner, device);
        for given in &body.given {
            self.add(&builder.graph, owner, given.moved(node.operands[given.at]));
        }
        if let Some((inner, last)) = &body.yielding {
            self.yielded.push(builder.add(inner.result(*last), &node.operands, node.span));
        }
        body
    }

    /// One truth value of all.
    fn all(&self, builder: &mut GraphBuilder) -> Option<NodeId> {
        let mut truths = self.yielded.clone();
        truths.extend(self.here.iter().map(|used| in_range(builder, used)));
        let mut all = None;
        for each in truths {
            let node = builder.graph.node(each);
            let (rank, span) = (node.ty.shape.rank(), node.span);
            let axes = (0..rank).map(|axis| axis as u8).collect();
            let fine =
                if rank == 0 { each } else { builder.add(Op::Reduce(Monoid::Min, axes), &[each], span) };
            all = Some(all.map_or(fine, |all| builder.alu(AluOp::And, &[all, fine], span)));
        }
        all
    }
}

fn add_once<T: Copy + PartialEq>(known: &mut Vec<UsedIndex<T>>, used: UsedIndex<T>) {
    match known.iter_mut().find(|known| known.at == used.at && known.extent == used.extent) {
        Some(known) => known.is_reported |= used.is_reported,
        None => known.push(used),
    }
}

/// Where an index comes from that a graph uses.
fn source(graph: &Graph, owner: Option<&BodyOwner>, used: UsedIndex<NodeId>) -> Source {
    let at = unmoved(graph, used.at);
    let op = &graph.node(at).op;
    if matches!(op, Op::Iota(..) | Op::Const(..)) {
        return Source::Made;
    }
    let Op::Param(number, _) = op else { return Source::Here(at) };
    let number = *number as usize;
    match owner {
        None => Source::Here(at),
        Some(BodyOwner::Composite(_)) => Source::Given(number),
        Some(BodyOwner::Loop(spec)) if number == 0 && spec.trips <= used.extent => Source::Made,
        Some(BodyOwner::Loop(spec)) if number <= spec.carries => Source::Here(at),
        // The iteration number is no operand.
        Some(BodyOwner::Loop(_)) => Source::Given(number - 1),
    }
}

/// What an index repeats or rearranges.
fn unmoved(graph: &Graph, mut id: NodeId) -> NodeId {
    while let Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Flip(_) = graph.node(id).op {
        id = graph.node(id).operands[0];
    }
    id
}

/// What is known of a body.
struct CheckedBody {
    /// Its indices that are operands of its node.
    given: Vec<UsedIndex<usize>>,
    /// What has a body whose last result is the truth value, if there is one to give, and which that is.
    yielding: Option<(BodyOwner, u32)>,
}

impl CheckedBody {
    fn of(owner: &BodyOwner, device: Device) -> CheckedBody {
        if !owner.is_run() {
            return CheckedBody { given: Vec::new(), yielding: None };
        }
        let body = owner.body();
        let collected = collect_nodes_of_body(&body.results);
        let mut builder = GraphBuilder::extending(collected.graph().clone());
        let checks = Checks::of(&mut builder, Some(owner), device);
        let yielding = checks.all(&mut builder).map(|all| {
            builder.graph.outputs.push(all);
            let body = Body { params: body.params.clone(), results: nodes(&builder.graph, &collected.nodes) };
            let last = body.results.len() as u32 - 1;
            (owner.with_body(body), last)
        });
        CheckedBody { given: checks.given, yielding }
    }
}

/// The outputs of a graph that has been made of a body, whose nodes are collected in the same order then: those of the
/// body, as far as they are as they were, and new ones, which go by the names of the lines that they are for.
fn nodes(graph: &Graph, given: &[Arc<Node>]) -> Vec<Arc<Node>> {
    let mut nodes: Vec<Arc<Node>> = Vec::with_capacity(graph.nodes.len());
    for (number, node) in graph.nodes.iter().enumerate() {
        let operands: Operands = node.operands.iter().map(|operand| nodes[operand.index()].clone()).collect();
        let is_same = |known: &&Arc<Node>| {
            let body = |op: &Op| op.body().map(|body| body as *const Body);
            let same_operands =
                || known.operands().iter().zip(&operands).all(|(one, other)| Arc::ptr_eq(one, other));
            body(known.op()) == body(&node.op) && same_operands()
        };
        let own = given.get(number);
        nodes.push(own.filter(is_same).cloned().unwrap_or_else(|| {
            let named = own.or_else(|| given.iter().find(|known| known.span() == node.span));
            let (op, ty) = (node.op.clone(), node.ty.clone());
            match named.and_then(|named| named.name()) {
                Some(name) => Node::named(name, op, ty, operands, node.span),
                None => Node::new(op, ty, operands, node.span),
            }
        }));
    }
    graph.outputs.iter().map(|output| nodes[output.index()].clone()).collect()
}

/// Whether two nodes are results of one loop or composite.
fn are_results_of_one(one: &GraphNode, other: &GraphNode) -> bool {
    let same_body = match (one.op.body(), other.op.body()) {
        (Some(one), Some(other)) => std::ptr::eq(one, other),
        (Some(_) | None, None) | (None, Some(_)) => false,
    };
    same_body && one.operands == other.operands
}

/// By node: whether an output needs all of its elements.
fn needed_whole(graph: &Graph) -> Vec<bool> {
    let mut needed = vec![false; graph.nodes.len()];
    graph.outputs.iter().for_each(|output| needed[output.index()] = true);
    for id in graph.ids().rev().filter(|id| graph.ty(*id).shape.numel() > 0) {
        let node = graph.node(id);
        for (slot, operand) in node.operands.iter().enumerate() {
            needed[operand.index()] |= needed[id.index()] && reads_all(&node.op, slot);
        }
    }
    needed
}

fn reads_all(op: &Op, slot: usize) -> bool {
    match op {
        Op::Slice(_) | Op::Window(_) => false,
        Op::Gather(_) => slot == 1,
        Op::Pad(axes) => axes.iter().all(|axis| axis.lo >= 0 && axis.hi >= 0),
        Op::Const(..) | Op::Arg(..) | Op::Iota(..) | Op::Leaf(_) | Op::Param(..) => true,
        Op::Alu(_) | Op::Cast(_) | Op::Bitcast(_) | Op::Reshape(_) | Op::Permute(_) => true,
        Op::Expand(_) | Op::Flip(_) | Op::Unwindow(..) | Op::Reduce(..) | Op::Scan(..) => true,
        Op::Contract(_) | Op::Scatter(..) | Op::Sort { .. } | Op::Copy(_) | Op::Collective(_) => true,
        Op::After | Op::Pack(_) | Op::Loop(..) | Op::Composite(..) | Op::Custom(..) => true,
    }
}

/// Of each element of an index, whether it is one of its axis.
fn in_range(builder: &mut GraphBuilder, used: &UsedIndex<NodeId>) -> NodeId {
    let UsedIndex { at: index, extent, span, is_reported } = *used;
    let ty = builder.graph.ty(index).clone();
    let zero = builder.full(Scalar::Int(0), &ty, span);
    let negative = builder.alu(AluOp::Lt, &[index, zero], span);
    let mut fine = builder.alu(AluOp::Not, &[negative], span);
    // Where the type ends before the axis does, nothing is beyond it.
    if let Some(end) = representable(extent, ty.dtype) {
        let end = builder.full(end, &ty, span);
        let before_end = builder.alu(AluOp::Lt, &[index, end], span);
        fine = builder.alu(AluOp::And, &[fine, before_end], span);
    }
    if is_reported {
        return fine;
    }
    let row = Shape::from(ty.shape.numel());
    let [index, fine] = [index, fine].map(|x| builder.add(Op::reshape(row.clone()), &[x], span));
    let table = builder.full(Scalar::Bool(true), &Type::new(extent, DType::Bool, ty.device), span);
    let found = builder.add(Op::Gather(0), &[table, index], span);
    builder.alu(AluOp::And, &[fine, found], span)
}
