//! Reverse mode: cotangents propagate from roots to sources, against the edges.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::{DType, OpName, Region, Result};
use crate::grad::control;
use crate::grad::vjp::{VjpContext, vjp};
use crate::ir::collect::NodeMap;
use crate::ir::{Node, Op};
use crate::runtime::trace;
use crate::tensor::autocast;
use crate::tensor::compose::CallSite;
use crate::tensor::{Tensor, rounded};

/// The cotangent of a source.
#[derive(Clone, Debug)]
pub(crate) enum Cotangent {
    /// The roots do not depend on the source.
    Unused,
    /// They depend on it in steps only, such as `floor`: the gradient is 0.
    Zero,
    /// The gradient.
    Value(Tensor),
}

impl Cotangent {
    /// The gradient, if it is not 0.
    pub(crate) fn into_option(self) -> Option<Tensor> {
        match self {
            Cotangent::Value(tensor) => Some(tensor),
            Cotangent::Unused | Cotangent::Zero => None,
        }
    }
}

/// The nodes below the roots, through which gradients look, in topological
/// order.
pub(crate) struct Tape {
    pub nodes: Vec<Arc<Node>>,
    /// By node: the positions of the nodes that its gradient propagates to.
    inputs: Vec<SmallVec<[usize; 3]>>,
}

impl Tape {
    /// Everything tracked below the roots, down to `ends`.
    pub(crate) fn below(roots: &[&Arc<Node>], ends: &[Arc<Node>]) -> Tape {
        let ends: NodeMap<()> = ends.iter().map(|end| (key(end), ())).collect();
        let mut tape = Tape { nodes: Vec::new(), inputs: Vec::new() };
        let mut positions: NodeMap<Option<usize>> = NodeMap::default();
        let mut pending: Vec<TapeVisit> = Vec::new();
        for root in roots {
            pending.push(TapeVisit::Enter((*root).clone()));
            while let Some(walk) = pending.pop() {
                match walk {
                    TapeVisit::Enter(node) if !positions.contains_key(&key(&node)) => {
                        positions.insert(key(&node), None);
                        let history =
                            if ends.contains_key(&key(&node)) { SmallVec::new() } else { node.history() };
                        let below: Vec<TapeVisit> =
                            history.iter().rev().cloned().map(TapeVisit::Enter).collect();
                        pending.push(TapeVisit::Leave(node, history));
                        pending.extend(below);
                    }
                    TapeVisit::Enter(_) => {}
                    TapeVisit::Leave(node, history) => {
                        let position =
                            |input| positions.get(&key(input)).copied().flatten().unwrap_or(usize::MAX);
                        let inputs = history.iter().map(position).collect();
                        positions.insert(key(&node), Some(tape.nodes.len()));
                        tape.nodes.push(node);
                        tape.inputs.push(inputs);
                    }
                }
            }
        }
        tape
    }

    /// By node: whether a source is reached from it.
    fn leads_to(&self, sources: &NodeMap<usize>) -> Vec<bool> {
        let mut leads: Vec<bool> = Vec::with_capacity(self.nodes.len());
        for (node, inputs) in self.nodes.iter().zip(&self.inputs) {
            leads.push(sources.contains_key(&key(node)) || inputs.iter().any(|&input| leads[input]));
        }
        leads
    }
}

/// A step of a walk in post-order.
enum TapeVisit {
    Enter(Arc<Node>),
    Leave(Arc<Node>, SmallVec<[Arc<Node>; 3]>),
}

fn key(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node) as usize
}

/// The cotangents of `sources`, given those of the roots, one each. Nothing
/// below a source is looked at.
///
/// # Errors
/// The error of a user's rule, and operations without a gradient.
pub(crate) fn pull_back(roots: &[(&Arc<Node>, Tensor)], sources: &[Arc<Node>]) -> Result<Vec<Cotangent>> {
    let nodes: Vec<&Arc<Node>> = roots.iter().map(|(node, _)| *node).collect();
    pull_back_along(&Tape::below(&nodes, sources), roots, sources)
}

/// [`pull_back`] over a tape made before, which may continue below sources.
pub(crate) fn pull_back_along(
    tape: &Tape,
    roots: &[(&Arc<Node>, Tensor)],
    sources: &[Arc<Node>],
) -> Result<Vec<Cotangent>> {
    let _full = autocast::paused();
    let targets: NodeMap<usize> = sources.iter().enumerate().map(|(i, node)| (key(node), i)).collect();
    let leads = tape.leads_to(&targets);
    let positions: NodeMap<usize> = tape.nodes.iter().enumerate().map(|(i, node)| (key(node), i)).collect();
    let groups = siblings(tape);
    let mut cotangents: Vec<Option<Tensor>> = vec![None; tape.nodes.len()];
    for (root, cotangent) in roots {
        add(&mut cotangents[positions[&key(root)]], cotangent.clone());
    }
    let mut found = vec![Cotangent::Unused; sources.len()];
    for (position, node) in tape.nodes.iter().enumerate().rev() {
        if !leads[position] {
            continue;
        }
        let group = groups.get(&position).map(|group| &group[..]).unwrap_or(&[]);
        // A repetition's results go together, once all that read them are through.
        if group.first().is_some_and(|&first| first < position) {
            continue;
        }
        if let Some(&source) = targets.get(&key(node)) {
            found[source] = cotangents[position].clone().map_or(Cotangent::Zero, Cotangent::Value);
        }
        let needs: SmallVec<[bool; 3]> = tape.inputs[position].iter().map(|&input| leads[input]).collect();
        if !needs.contains(&true) {
            continue;
        }
        let gradients = if group.is_empty() {
            match cotangents[position].take() {
                Some(cotangent) => through(node, &cotangent, &needs)?,
                None => continue,
            }
        } else {
            let results: Vec<(&Arc<Node>, Option<Tensor>)> =
                group.iter().map(|&sibling| (&tape.nodes[sibling], cotangents[sibling].take())).collect();
            control::repetition(&results, &needs)?
        };
        for (&input, gradient) in tape.inputs[position].iter().zip(gradients) {
            if let Some(gradient) = gradient.filter(|_| leads[input]) {
                gradient.check()?;
                add(&mut cotangents[input], gradient);
            }
        }
    }
    // A source with several duplicates in the list gets the same gradient.
    let same = |i: usize| targets[&key(&sources[i])];
    Ok((0..sources.len()).map(|i| found[same(i)].clone()).collect())
}

fn add(sum: &mut Option<Tensor>, cotangent: Tensor) {
    *sum = Some(match sum.take() {
        Some(sum) => site_of(&sum).add(&sum, &cotangent),
        None => cotangent,
    });
}

/// Where a tensor was made.
fn site_of(x: &Tensor) -> CallSite {
    match x.node() {
        Ok(node) => CallSite { name: OpName::GRADIENT, span: node.span() },
        Err(_) => CallSite::here(OpName::GRADIENT),
    }
}

/// By position of each result of a repetition: the positions of all its results
/// that are on the tape, ascending.
fn siblings(tape: &Tape) -> NodeMap<SmallVec<[usize; 4]>> {
    let mut groups: Vec<SmallVec<[usize; 4]>> = Vec::new();
    let mut numbers: std::collections::HashMap<(usize, SmallVec<[usize; 3]>), usize> = Default::default();
    for (position, node) in tape.nodes.iter().enumerate() {
        let Op::Loop(spec, _) = node.op() else { continue };
        if node.rule().is_some() || tape.inputs[position].is_empty() {
            continue;
        }
        let identity = (Arc::as_ptr(spec) as usize, tape.inputs[position].clone());
        let number = *numbers.entry(identity).or_insert_with(|| {
            groups.push(SmallVec::new());
            groups.len() - 1
        });
        groups[number].push(position);
    }
    groups.iter().flat_map(|group| group.iter().map(|&position| (position, group.clone()))).collect()
}

/// The cotangents of what a node was computed from.
fn through(node: &Arc<Node>, cotangent: &Tensor, needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
    // A gradient belongs to the region of what it is a gradient of.
    let region =
        trace::is_on().then(|| node.op_name().region()).filter(|region| *region != Region::default());
    let _region = region.map(Region::enter);
    if let Some(given) = node.rule() {
        let results = given.rule.pull_back(&given.inputs, node, cotangent.node()?)?;
        return Ok(results.into_iter().map(|result| result.map(Tensor::from_node)).collect());
    }
    let operands: Vec<Tensor> = node.history().iter().cloned().map(Tensor::from_node).collect();
    let output = Tensor::from_node(node.clone());
    let site = CallSite { name: OpName::GRADIENT, span: node.span() };
    let context = VjpContext { site, x: &operands, y: &output, g: cotangent, needs };
    if rounded::wanted(node.ty().dtype) { in_32_bits(node.op(), &context) } else { vjp(node.op(), &context) }
}

/// The cotangents of a 16-bit operation, of whose steps only the last rounds, where the process asks for
/// rounding.
fn in_32_bits(op: &Op, p: &VjpContext) -> Result<Vec<Option<Tensor>>> {
    if !matches!(op, Op::Alu(_) | Op::Reduce(..) | Op::Scan(..)) {
        return vjp(op, p);
    }
    let (site, shape) = (p.site, p.y.shape());
    let wide = |x: &Tensor| if rounded::wanted(x.dtype()) { site.cast(x, DType::F32) } else { x.clone() };
    // An operand of rank 0 extends to the result's shape; its cotangent is rounded before it is summed.
    let extends = |x: &Tensor| matches!(op, Op::Alu(_)) && x.rank() < shape.rank();
    let spread = |x: &Tensor| if extends(x) { site.expand(&wide(x), &shape) } else { wide(x) };
    let operands: Vec<Tensor> = p.x.iter().map(spread).collect();
    let result = wide(&p.y.clone().rounded(site.name, site.span));
    let found = vjp(op, &VjpContext { x: &operands, y: &result, g: &wide(p.g), ..*p })?;
    let axes: Vec<usize> = (0..shape.rank()).collect();
    let narrow = |x: Tensor, own: &Tensor| {
        let x = site.cast(&x, own.dtype());
        if extends(own) { site.sum(&x, &axes) } else { x }
    };
    Ok(found.into_iter().zip(p.x).map(|(x, own)| x.map(|x| narrow(x, own))).collect())
}
