//! `realize`: collect, find or build the plan, run it, record the values.

use std::sync::Arc;

use crate::base::{Error, OpError, Result, Span, process};
use crate::ir::claim::{Deadlock, Refused};
use crate::ir::collect::{Collected, NodeMap, collect};
use crate::ir::node::NodeClaims;
use crate::ir::open::closed;
use crate::ir::pending::{self, Cells, State};
use crate::ir::{Leaf, Node, NodeId, Op};
use crate::plan::budget::{exceeds, within};
use crate::plan::build::{Plan, build};
use crate::plan::cache::Lookup;
use crate::plan::context::{self, Context, add};
use crate::plan::debug;
use crate::plan::donate::{LeafMemory, leaf_memory};
use crate::plan::guard::may_transfer;
use crate::plan::key::key;
use crate::plan::run::run;
use crate::plan::view::{stretch, view};

/// Computes the values of some nodes, together, in one plan; with them, what
/// the thread means to compute from the same work ([`pending`]). Nodes that
/// have values are left alone. What another thread computes is waited for.
///
/// # Errors
/// A node that has a value only inside a body, a node on the meta device, an absent device, out of memory or over a
/// budget, an index out of range, a kernel that fails. No node then has a value that it did not
/// have before, and cells that were set to what cannot be computed hold what they held before.
pub fn realize(nodes: &[Arc<Node>], span: Span) -> Result<()> {
    realize_as(nodes, span, State::Shared, &mut ())
}

/// Something that happens with a realize, or not at all.
pub(crate) trait Step {
    /// Called when nobody else can compute the nodes any more, and before it is found out what may be
    /// overwritten. Gives the stretches of the nodes that it has put into cells.
    fn begin(&mut self) -> Result<Vec<Arc<Node>>>;
    /// Called when the nodes could not be computed, while nobody else can compute them.
    fn undo(&mut self);
}

impl Step for () {
    fn begin(&mut self) -> Result<Vec<Arc<Node>>> {
        Ok(Vec::new())
    }
    fn undo(&mut self) {}
}

/// [`realize`], and what happens with it.
///
/// # Errors
/// As [`realize`], and what the step says when it begins.
pub(crate) fn realize_as(nodes: &[Arc<Node>], span: Span, state: State, step: &mut dyn Step) -> Result<()> {
    closed(nodes, "realize", span)?;
    let Some((mut wanted, claims)) = claim(nodes, span, state)? else { return step.begin().map(drop) };
    let begun = step.begin().map(|stretches| wanted.views.extend(stretches));
    let cells = Cells::take(wanted.nodes());
    let result = begun.and_then(|()| compute(&wanted, &cells));
    if let Err(error) = &result {
        cells.give_back(|is_state| is_lost(error, is_state));
        step.undo();
    }
    drop(claims);
    result
}

/// Whether state, or gradients, that could not be computed are given up: they would fail whatever needs them. What
/// was refused before anything ran may be let through another time, and with more memory gradients may fit.
fn is_lost(error: &Error, is_state: bool) -> bool {
    let refused =
        matches!(error, Error::OverBudget { .. } | Error::TransferDenied { .. } | Error::SyncDenied { .. });
    if is_state { !refused } else { matches!(error, Error::IndexOutOfRange { .. }) }
}

/// Decides what to compute, and claims it; `None` if everything is there.
fn claim(nodes: &[Arc<Node>], span: Span, state: State) -> Result<Option<(Wanted, NodeClaims)>> {
    loop {
        let Some(wanted) = want(nodes, span, state)? else { return Ok(None) };
        if let Some(meta) = wanted.computed.iter().find(|node| node.ty().device.is_meta()) {
            return Err(Error::NoData { call: "realize", shape: meta.ty().shape.clone(), span });
        }
        match Node::claim(&wanted.computed) {
            Ok(claims) => return Ok(Some((wanted, claims))),
            Err(Refused::Computed) => {}
            Err(Refused::Claimed(node)) => {
                drop(wanted);
                node.wait().map_err(|Deadlock| within_itself(span))?;
            }
        }
    }
}

fn compute(wanted: &Wanted, cells: &Cells) -> Result<()> {
    let context = context::current();
    let (plan, values) = {
        let Prepared { plan, scalars } = prepare(&context, wanted, cells)?;
        let line = |id| plan.line(&wanted.collected, id);
        may_transfer(&plan, &line)?;
        let leaves: Vec<Leaf> = wanted.collected.leaves().filter_map(|leaf| leaf.value().cloned()).collect();
        let values = run(&context, &plan, &leaves, &scalars, &line)?;
        (plan, values)
    };
    plan.compiled(&context)?.flush()?;
    let mut values = values.into_iter();
    for (node, value) in wanted.computed.iter().zip(&mut values) {
        node.set_value(value);
    }
    for ((given, _), value) in plan.schedule.retained.iter().zip(values) {
        let node = &wanted.collected.nodes[given.index()];
        // Another thread may be at it, or have it.
        if let Ok(_claims) = Node::claim(std::slice::from_ref(node)) {
            node.set_value(value);
        }
    }
    for node in &wanted.views {
        assert!(settle_view(node), "a view of what was computed has no value");
    }
    Ok(())
}

/// The error of a kernel that asks for what it is being run for.
fn within_itself(span: Span) -> Error {
    let expected = "a tensor that no running kernel waits for";
    OpError::new("realize", span, expected, "one whose own kernel, a user's, asks for it").into()
}

/// Decides what a realize computes; `None` if everything is there.
///
/// # Errors
/// A node whose own kernel asks for it.
pub(crate) fn want(nodes: &[Arc<Node>], span: Span, state: State) -> Result<Option<Wanted>> {
    let mut asked = nodes.to_vec();
    loop {
        let found = to_compute(&asked, state);
        let Some(first) = found.computed.first() else { return Ok(None) };
        process::whole(first.ty().device)?;
        let collected = collect(&found.computed).map_err(|Deadlock| within_itself(span))?;
        let mut kept = collected.kept();
        kept.retain(|node| {
            !node.ty().device.is_meta() && !asked.iter().any(|known| Arc::ptr_eq(known, node))
        });
        if kept.is_empty() {
            let ToCompute { computed, views, losses } = found;
            let asked_later = if losses { collected.asked_later(nodes) } else { Vec::new() };
            return Ok(Some(Wanted { computed, views, collected, asked_later }));
        }
        asked.extend(kept);
    }
}

/// What a realize computes, and what is there then without being computed.
pub(crate) struct Wanted {
    pub computed: Vec<Arc<Node>>,
    /// Stretches of what is computed, of packs above all.
    pub views: Vec<Arc<Node>>,
    /// The graph below.
    pub collected: Collected,
    /// What of it gradients may ask for later.
    pub asked_later: Vec<NodeId>,
}

impl Wanted {
    /// The nodes that have values then.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.computed.iter().chain(&self.views)
    }
}

/// [`Wanted`], before the graph is known.
struct ToCompute {
    computed: Vec<Arc<Node>>,
    views: Vec<Arc<Node>>,
    /// Whether all that was asked for are losses whose gradients have not been taken.
    losses: bool,
}

/// The nodes that have no value yet, and what else is to be computed with
/// them.
fn to_compute(nodes: &[Arc<Node>], state: State) -> ToCompute {
    let unsettled = |nodes: &[Arc<Node>]| -> Vec<Arc<Node>> {
        nodes.iter().filter(|node| !settle_view(node)).cloned().collect()
    };
    let mut wanted = unsettled(nodes);
    let along = pending::along(&wanted, state);
    let is_loss = |node: &Arc<Node>| node.ty().shape.numel() == 1 && node.has_gradient();
    let losses = !along.gradients && wanted.iter().all(is_loss);
    wanted.extend(unsettled(&along.nodes));
    let stretches = wanted.iter().map(|node| stretch(node).map(|(whole, _)| whole));
    let stretches: Vec<Option<Arc<Node>>> = stretches.collect();
    let kept = kept(&wanted, &stretches);
    let mut found = ToCompute { computed: Vec::with_capacity(wanted.len()), views: Vec::new(), losses };
    let mut seen: NodeMap<()> = NodeMap::default();
    for (node, whole) in wanted.into_iter().zip(stretches) {
        let whole = whole.filter(|whole| !Arc::ptr_eq(whole, &node) && kept.contains_key(&address(whole)));
        let needed = match whole {
            Some(whole) => {
                found.views.push(node);
                whole
            }
            None => node,
        };
        if seen.insert(address(&needed), ()).is_none() {
            found.computed.push(needed);
        }
    }
    found
}

fn address(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node) as usize
}

/// The nodes of which stretches need no memory of their own: packs, what is
/// wanted itself, and what several stretches are at least half of.
fn kept(wanted: &[Arc<Node>], stretches: &[Option<Arc<Node>>]) -> NodeMap<()> {
    let mut kept: NodeMap<()> = wanted.iter().map(|node| (address(node), ())).collect();
    let mut covered: NodeMap<(usize, usize)> = NodeMap::default();
    for (node, whole) in wanted.iter().zip(stretches) {
        let Some(whole) = whole else { continue };
        let (stretches, elements) = covered.entry(address(whole)).or_default();
        *stretches += 1;
        *elements += node.ty().shape.numel();
        let most = *stretches > 1 && 2 * *elements >= whole.ty().shape.numel();
        if most || matches!(whole.op(), Op::Pack(_)) {
            kept.insert(address(whole), ());
        }
    }
    kept
}

/// Whether a node has a value, perhaps since it turned out to be a view.
pub(crate) fn settle_view(node: &Arc<Node>) -> bool {
    if node.value().is_none()
        && let Some(value) = view(node)
    {
        node.set_value(value);
    }
    node.value().is_some()
}

/// The plan for a graph, and the numbers it is for.
pub(crate) struct Prepared {
    pub plan: Arc<Plan>,
    /// The bits of all the graph's scalars.
    pub scalars: Vec<u64>,
}

/// The plan for a graph, from the cache or new, within the budgets in
/// force; `cells` hold some of its outputs. Nothing is compiled yet.
///
/// # Errors
/// [`Error::OverBudget`].
pub(crate) fn prepare(context: &Context, wanted: &Wanted, cells: &Cells) -> Result<Prepared> {
    let collected = &wanted.collected;
    let memory = leaf_memory(collected, cells);
    let (mut plan, scalars) = look_up(context, collected, &memory, &wanted.asked_later);
    if !wanted.asked_later.is_empty() && exceeds(context, &plan, collected) {
        plan = look_up(context, collected, &memory, &[]).0;
    }
    let plan = within(context, plan, collected, &memory)?;
    Ok(Prepared { plan, scalars })
}

/// The plan for a graph, from the cache or new, and the bits of the graph's scalars.
fn look_up(
    context: &Context,
    collected: &Collected,
    memory: &LeafMemory,
    asked_later: &[NodeId],
) -> (Arc<Plan>, Vec<u64>) {
    let (skeleton, values) = key(collected, memory, asked_later);
    let scalars = values.scalars.clone();
    let plan = match context.look_up(&skeleton, &values) {
        Lookup::Hit(plan) => {
            add(&context.counts.cache_hits, 1);
            plan
        }
        Lookup::Miss { lifted, model } => {
            let plan = Arc::new(build(context, collected, &lifted, memory, model.as_deref(), asked_later));
            debug::built(&plan, collected);
            context.keep(skeleton, values, lifted, plan)
        }
    };
    (plan, scalars)
}

/// The plan for some nodes that nobody computes, without budgets.
#[cfg(test)]
pub(crate) fn planned(context: &Context, nodes: &[Arc<Node>]) -> Arc<Plan> {
    let collected = collect(nodes).expect("computed by nobody");
    let memory = leaf_memory(&collected, &Cells::default());
    look_up(context, &collected, &memory, &[]).0
}
