//! Gradients of loops and composites.

use std::sync::Arc;

use crate::base::{OpName, Result};
use crate::grad::pull_back::{Cotangent, pull_back};
use crate::grad::vjp::VjpContext;
use crate::ir::collect::NodeMap;
use crate::ir::collective::Collective;
use crate::ir::history::set_tracking;
use crate::ir::{Body, Composite, LoopSpec, Node, Op};
use crate::tensor::Tensor;
use crate::tensor::collective::collective;
use crate::tensor::compose::CallSite;
use crate::tensor::control::scan_at;
use crate::tensor::rule::identity;

/// A body's results with its parameters replaced by `arguments`.
pub(crate) fn instantiate(body: &Body, arguments: &[Tensor]) -> Result<Vec<Arc<Node>>> {
    let arguments: Vec<Arc<Node>> = arguments.iter().map(|x| x.node().cloned()).collect::<Result<_>>()?;
    let mut done: NodeMap<Arc<Node>> = NodeMap::default();
    let mut pending: Vec<(Arc<Node>, bool)> = body.results.iter().rev().map(|r| (r.clone(), false)).collect();
    while let Some((node, expanded)) = pending.pop() {
        if done.contains_key(&key(&node)) {
            continue;
        }
        let operands = node.operands().clone();
        let inputs = node.rule().map(|given| given.inputs).unwrap_or_default();
        let copy = if let Op::Param(number, _) = node.op() {
            arguments[*number as usize].clone()
        } else if expanded {
            let at = |o: &Arc<Node>| done[&key(o)].clone();
            if let Op::Collective(collective) = node.op() {
                met_again(&node, collective, at(&operands[0]))?
            } else {
                node.rebuilt(operands.iter().map(at).collect(), &at)
            }
        } else {
            pending.push((node, true));
            pending.extend(operands.into_iter().chain(inputs).map(|o| (o, false)));
            continue;
        };
        done.insert(key(&node), copy);
    }
    Ok(body.results.iter().map(|result| done[&key(result)].clone()).collect())
}

/// A collective of a body, run once more: after all that this rank has built so far, as on the other ranks.
fn met_again(node: &Arc<Node>, again: &Collective, operand: Arc<Node>) -> Result<Arc<Node>> {
    let Some(channel) = &again.channel else { panic!("{} of no group", again.kind) };
    let site = CallSite { name: again.kind.name(), span: node.span() };
    // Tracked as the other nodes of the body are, though a backward pass builds it.
    let before = set_tracking(node.is_tracked());
    let met = collective(site, again.kind, channel, &Tensor::from_node(operand));
    set_tracking(before);
    met.node().cloned()
}

fn key(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node) as usize
}

/// A named operation's gradient is its body's.
pub(crate) fn composite(p: &VjpContext, composite: &Composite, out: u32) -> Result<Vec<Option<Tensor>>> {
    let own: Vec<Tensor> = p.x.iter().map(|x| source(p.site, x)).collect();
    let results = instantiate(&composite.body, &own)?;
    let sources: Vec<Arc<Node>> = own.iter().map(|x| x.node().cloned()).collect::<Result<_>>()?;
    let source_cotangents = pull_back(&[(&results[out as usize], p.g.clone())], &sources)?;
    Ok(source_cotangents.into_iter().map(Cotangent::into_option).collect())
}

/// The gradient of a loop is the reverse loop: it carries the
/// cotangents of the carries and sums those of the invariants. The forward
/// values of the carries come from the repetition run again with its carries
/// stacked.
///
/// `results` are the results that something depends on, with their
/// cotangents.
pub(crate) fn repetition(
    results: &[(&Arc<Node>, Option<Tensor>)],
    needs: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let node = results[0].0;
    let Op::Loop(spec, _) = node.op() else { unreachable!("a repetition") };
    let site = CallSite { name: OpName::GRADIENT, span: node.span() };
    let operands: Vec<Tensor> = node.history().iter().cloned().map(Tensor::from_node).collect();
    if results.iter().all(|(_, cotangent)| cotangent.is_none()) {
        return Ok(vec![None; operands.len()]);
    }
    let mut cotangents: Vec<Option<Tensor>> = vec![None; spec.body.results.len()];
    for (result, cotangent) in results {
        if let Op::Loop(_, number) = result.op() {
            cotangents[*number as usize] = cotangent.clone();
        }
    }
    Backward { site, spec, operands: &operands, needs, cotangents: &cotangents }.run()
}

/// What a repetition's gradient is made from.
struct Backward<'a> {
    site: CallSite,
    spec: &'a Arc<LoopSpec>,
    operands: &'a [Tensor],
    needs: &'a [bool],
    /// By result.
    cotangents: &'a [Option<Tensor>],
}

impl Backward<'_> {
    fn run(&self) -> Result<Vec<Option<Tensor>>> {
        let spec = self.spec;
        let (carries, rest) = self.operands.split_at(spec.carries);
        let (stacked, invariants) = rest.split_at(spec.stacked);
        let floats: Vec<usize> = (0..carries.len()).filter(|&i| carries[i].dtype().is_float()).collect();
        let offset = spec.carries + spec.stacked;
        let summed: Vec<usize> = (0..invariants.len()).filter(|&i| self.needs[offset + i]).collect();
        let slices: Vec<usize> = (0..stacked.len()).filter(|&i| self.needs[spec.carries + i]).collect();
        let outputs: Vec<usize> =
            (spec.carries..self.cotangents.len()).filter(|&i| self.cotangents[i].is_some()).collect();

        let mut start: Vec<Tensor> = floats
            .iter()
            .map(|&i| self.cotangents[i].clone().unwrap_or_else(|| self.site.zeros_like(&carries[i])))
            .collect();
        start.extend(summed.iter().map(|&i| self.site.zeros_like(&invariants[i])));
        let numbers = self.site.iota(spec.trips, crate::base::DType::I64, node_device(self.operands));
        let mut walked: Vec<Tensor> = vec![numbers];
        walked.extend(self.saved());
        walked.extend(stacked.iter().cloned());
        walked.extend(outputs.iter().filter_map(|&i| self.cotangents[i].clone()));

        let mut failure = None;
        let (last, ys) = scan_at(self.site, &start, &walked, !spec.reverse, |given, at| {
            let arguments: Vec<Tensor> = at[..1 + offset].iter().chain(invariants).cloned().collect();
            let step = LoopStep { floats: &floats, summed: &summed, slices: &slices, outputs: &outputs };
            self.step(&step, &arguments, given, &at[1 + offset..]).unwrap_or_else(|error| {
                let invalid = Tensor::invalid(error.clone());
                failure = Some(error);
                (vec![invalid.clone(); given.len()], vec![invalid; slices.len()])
            })
        });
        if let Some(error) = failure {
            last.iter().chain(&ys).for_each(|x| drop(x.check()));
            return Err(error);
        }
        let mut gradients = vec![None; self.operands.len()];
        let (of_carries, of_invariants) = last.split_at(floats.len());
        floats.iter().zip(of_carries).for_each(|(&i, g)| gradients[i] = Some(g.clone()));
        summed.iter().zip(of_invariants).for_each(|(&i, g)| gradients[offset + i] = Some(g.clone()));
        slices.iter().zip(&ys).for_each(|(&i, g)| gradients[spec.carries + i] = Some(g.clone()));
        Ok(gradients)
    }

    /// The carries at the start of every iteration, stacked: further results
    /// of the repetition if it has them, else those of one that has.
    fn saved(&self) -> Vec<Tensor> {
        let spec = self.spec;
        let is_carry = |number: usize, result: &Arc<Node>| matches!(result.op(), Op::Param(param, _) if *param as usize == number);
        let stacked = &spec.body.results[spec.carries..];
        let place = |number| Some(spec.carries + stacked.iter().position(|r| is_carry(number, r))?);
        let places: Option<Vec<usize>> = (1..=spec.carries).map(place).collect();
        let (spec, places) = match places {
            Some(places) => (spec.clone(), places),
            None => (self.keeping_carries(), (spec.carries..2 * spec.carries).collect()),
        };
        let operands: Vec<&Tensor> = self.operands.iter().collect();
        let apply = |n: usize| self.site.apply(Op::Loop(spec.clone(), n as u32), &operands);
        places.into_iter().map(apply).collect()
    }

    /// The repetition with nothing but its carries stacked.
    fn keeping_carries(&self) -> Arc<LoopSpec> {
        let LoopSpec { body, trips, carries, stacked, reverse } = &**self.spec;
        let param = |number: usize| {
            let ty = body.params[number].clone();
            let op = Op::Param(number as u32, ty.clone());
            Node::new(op, ty, Default::default(), self.site.span)
        };
        let mut results = body.results[..*carries].to_vec();
        results.extend((1..=*carries).map(param));
        let body = Body { params: body.params.clone(), results };
        Arc::new(LoopSpec { body, trips: *trips, carries: *carries, stacked: *stacked, reverse: *reverse })
    }

    /// One iteration backwards: from the cotangents of its results to those
    /// of its carries, sums so far and slices.
    fn step(
        &self,
        step: &LoopStep,
        arguments: &[Tensor],
        given: &[Tensor],
        outputs: &[Tensor],
    ) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let spec = self.spec;
        let arguments: Vec<Tensor> = arguments.iter().map(|x| source(self.site, x)).collect();
        let results = instantiate(&spec.body, &arguments)?;
        let (of_carries, sums) = given.split_at(step.floats.len());
        let mut roots: Vec<(&Arc<Node>, Tensor)> = Vec::new();
        roots.extend(step.floats.iter().zip(of_carries).map(|(&i, g)| (&results[i], g.clone())));
        roots.extend(step.outputs.iter().zip(outputs).map(|(&i, g)| (&results[i], g.clone())));
        let sources: Vec<Arc<Node>> = arguments.iter().map(|x| x.node().cloned()).collect::<Result<_>>()?;
        let source_cotangents = pull_back(&roots, &sources)?;
        let cotangent = |i: usize| {
            let cotangent = source_cotangents[i].clone().into_option();
            cotangent.unwrap_or_else(|| self.site.zeros_like(&arguments[i]))
        };
        let mut next: Vec<Tensor> = step.floats.iter().map(|&i| cotangent(1 + i)).collect();
        let first = 1 + spec.carries + spec.stacked;
        next.extend(step.summed.iter().zip(sums).map(|(&i, sum)| self.site.add(sum, cotangent(first + i))));
        let ys = step.slices.iter().map(|&i| cotangent(1 + spec.carries + i)).collect();
        Ok((next, ys))
    }
}

/// Which of a repetition's parts take part in its gradient, by number.
struct LoopStep<'a> {
    floats: &'a [usize],
    summed: &'a [usize],
    slices: &'a [usize],
    outputs: &'a [usize],
}

/// The same tensor under a node of its own, at which gradients end.
pub(super) fn source(site: CallSite, x: &Tensor) -> Tensor {
    let own = identity(x, site.span);
    if let Some(node) = own.peek().filter(|node| node.ty().dtype.is_float()) {
        node.set_grad_cell(Arc::default());
    }
    own
}

fn node_device(operands: &[Tensor]) -> crate::base::Device {
    operands.iter().map(Tensor::device).next().unwrap_or_else(crate::tensor::place::default_device)
}
