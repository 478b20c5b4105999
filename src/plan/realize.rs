//! `realize`: collect, find or build the plan, run it, record the values.

use std::sync::Arc;

use crate::base::{Error, OpError, Result, Span, process};
use crate::ir::claim::{ClaimError, Deadlock};
use crate::ir::collect::{Collected, NodeMap, collect};
use crate::ir::node::NodeClaims;
use crate::ir::open::closed;
use crate::ir::pending::{self, Cells, StateScope};
use crate::ir::{Leaf, Node, NodeId, Op};
use crate::plan::budget::{exceeds, within};
use crate::plan::build::{Plan, WantedPlan, build};
use crate::plan::cache::Lookup;
use crate::plan::context::{self, Context, add};
use crate::plan::debug;
use crate::plan::donate::{LeafMemory, leaf_memory};
use crate::plan::fallback::{Replacement, fallbacks};
use crate::plan::guard::may_transfer;
use crate::plan::key::key;
use crate::plan::observe::ObservedRun;
use crate::plan::run::{Calls, run};
use crate::plan::view::{contiguous_range, view};
use crate::plan::wait::{Turn, now};
use crate::plan::watch::note;
use crate::runtime::Waiting;
use crate::runtime::trace::{self, Activity};
use crate::schedule::fallback::Fallback;

/// Computes the values of some nodes, together, in one plan; with them, what
/// the thread means to compute from the same work ([`pending`]). Nodes that
/// have values are left alone. What another thread computes is waited for.
///
/// # Errors
/// A node that has a value only inside a body, a node on the meta device, an absent device, out of memory
/// or over a budget, an index out of range, a kernel that fails. No node then has a value that it did not
/// have before, and cells that were set to what cannot be computed hold what they held before.
pub fn realize(nodes: &[Arc<Node>], span: Span) -> Result<()> {
    realize_as(nodes, span, StateScope::Shared, &mut ())
}

/// Something that happens together with a realize, or not at all.
pub(crate) trait RealizeHook {
    /// The state that the nodes replace: new values among the nodes, each with the value before.
    fn replacements(&self) -> Result<Vec<Replacement>>;
    /// Called once the nodes are claimed, and before donation is decided. Gives the views of the nodes
    /// that it has put into cells.
    fn begin(&mut self) -> Result<Vec<Arc<Node>>>;
    /// Called when the nodes could not be computed, while they are still claimed.
    fn undo(&mut self);
}

impl RealizeHook for () {
    fn replacements(&self) -> Result<Vec<Replacement>> {
        Ok(Vec::new())
    }
    fn begin(&mut self) -> Result<Vec<Arc<Node>>> {
        Ok(Vec::new())
    }
    fn undo(&mut self) {}
}

/// [`realize`], and what happens with it.
///
/// # Errors
/// As [`realize`], and what the step says when it begins.
pub(crate) fn realize_as(
    nodes: &[Arc<Node>],
    span: Span,
    state: StateScope,
    hook: &mut dyn RealizeHook,
) -> Result<()> {
    closed(nodes, "realize", span)?;
    now(realize_closed(nodes, span, state, hook, Waiting::Block)).map_err(|error| error.at(span))
}

/// [`realize`], pending while a device has not done what the next step needs.
///
/// # Errors
/// As [`realize`].
pub(crate) async fn realize_async(nodes: &[Arc<Node>], span: Span) -> Result<()> {
    closed(nodes, "realize_async", span)?;
    let _turn = Turn::take().await;
    let realized = realize_closed(nodes, span, StateScope::Shared, &mut (), Waiting::Yield).await;
    realized.map_err(|error| error.at(span))
}

async fn realize_closed(
    nodes: &[Arc<Node>],
    span: Span,
    state: StateScope,
    hook: &mut dyn RealizeHook,
    waiting: Waiting,
) -> Result<()> {
    let recorded = trace::span(Activity::Realize).at(span);
    let Some((mut target, claims)) = claim(nodes, span, state)? else {
        recorded.discard();
        return hook.begin().map(drop);
    };
    let replacements = hook.replacements()?;
    let begun = hook.begin().map(|ranges| target.views.extend(ranges));
    let cells = Cells::take(target.nodes());
    target.fallbacks = fallbacks(&mut target.collected, &cells, replacements);
    let result = match begun {
        Ok(()) => compute(&target, &cells, waiting).await,
        Err(error) => Err(error),
    };
    match &result {
        Ok(()) => cells.settle(),
        Err(error) => {
            cells.give_back(|is_state| is_lost(error, is_state));
            hook.undo();
        }
    }
    drop(claims);
    result
}

/// Whether state, or gradients, that could not be computed are given up: they would fail whatever needs
/// them. What was refused before anything ran may be let through another time, and with more memory
/// gradients may fit.
fn is_lost(error: &Error, is_state: bool) -> bool {
    let refused = matches!(
        error,
        Error::OverBudget { .. }
            | Error::TransferDenied { .. }
            | Error::CollectiveDenied { .. }
            | Error::SyncDenied { .. }
            | Error::CannotBlock { .. }
    );
    if is_state { !refused } else { matches!(error, Error::IndexOutOfRange { .. }) }
}

/// Decides what to compute, and claims it; `None` if everything is there.
fn claim(nodes: &[Arc<Node>], span: Span, state: StateScope) -> Result<Option<(RealizeTarget, NodeClaims)>> {
    loop {
        let recorded = trace::span(Activity::Collect);
        let Some(target) = find_target(nodes, span, state)? else {
            recorded.discard();
            return Ok(None);
        };
        drop(recorded);
        if let Some(meta) = target.computed.iter().find(|node| node.ty().device.is_meta()) {
            return Err(Error::NoData { call: "realize", shape: meta.ty().shape.clone(), span });
        }
        match Node::claim(&target.computed) {
            Ok(claims) => return Ok(Some((target, claims))),
            Err(ClaimError::Computed) => {}
            Err(ClaimError::Claimed(node)) => {
                drop(target);
                let _span = trace::span(Activity::Wait);
                node.wait().map_err(|Deadlock| within_itself(span))?;
            }
        }
    }
}

async fn compute(target: &RealizeTarget, cells: &Cells, waiting: Waiting) -> Result<()> {
    let context = context::current();
    let (plan, values) = {
        let Prepared { plan, scalars } = prepare(&context, target, cells)?;
        note(&plan, &target.collected);
        let call = |id| plan.call(&target.collected, id);
        may_transfer(&plan, &call, waiting)?;
        let leaves: Vec<Leaf> = target.collected.leaves().filter_map(|leaf| leaf.value().cloned()).collect();
        let observed = ObservedRun::of(&plan, &target.collected);
        let channel = |id| plan.channel(&target.collected, id);
        let calls = Calls { call: &call, channel: &channel };
        let values = run(&context, &plan, &leaves, &scalars, calls, observed, waiting).await?;
        (plan, values)
    };
    plan.compiled(&context)?.flush()?;
    let mut values = values.into_iter();
    for (node, value) in target.computed.iter().zip(&mut values) {
        node.set_value(value);
    }
    for ((given, _), value) in plan.schedule.retained.iter().zip(values) {
        let node = &target.collected.nodes[given.index()];
        // Another thread may be at it, or have it.
        if let Ok(_claims) = Node::claim(std::slice::from_ref(node)) {
            node.set_value(value);
        }
    }
    for node in &target.views {
        assert!(settle_view(node), "a view of what was computed has no value");
    }
    Ok(())
}

/// The error of a kernel that needs its own result.
fn within_itself(span: Span) -> Error {
    let expected = "a tensor that no running kernel waits for";
    OpError::new("realize", span, expected, "one whose own kernel, a user's, asks for it").into()
}

/// Decides what a realize computes; `None` if everything is there.
///
/// # Errors
/// A node whose own kernel asks for it.
pub(crate) fn find_target(
    nodes: &[Arc<Node>],
    span: Span,
    state: StateScope,
) -> Result<Option<RealizeTarget>> {
    let mut requested = nodes.to_vec();
    loop {
        let found = pending_target(&requested, state);
        let Some(first) = found.computed.first() else { return Ok(None) };
        process::whole(first.ty().device)?;
        let collected = collect(&found.computed).map_err(|Deadlock| within_itself(span))?;
        let mut kept = collected.kept();
        kept.retain(|node| {
            !node.ty().device.is_meta() && !requested.iter().any(|known| Arc::ptr_eq(known, node))
        });
        if kept.is_empty() {
            let PendingTarget { computed, views, losses } = found;
            let retain_candidates = if losses { collected.gradient_candidates(nodes) } else { Vec::new() };
            let fallbacks = Vec::new();
            return Ok(Some(RealizeTarget { computed, views, collected, retain_candidates, fallbacks }));
        }
        requested.extend(kept);
    }
}

/// What a realize computes, and what is there then without being computed.
pub(crate) struct RealizeTarget {
    pub computed: Vec<Arc<Node>>,
    /// Contiguous ranges of what is computed, mostly of packs.
    pub views: Vec<Arc<Node>>,
    /// The graph below.
    pub collected: Collected,
    /// Its nodes that gradients may need later.
    pub retain_candidates: Vec<NodeId>,
    /// What its outputs fall back to.
    pub fallbacks: Vec<Fallback>,
}

impl RealizeTarget {
    /// The nodes that have values then.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.computed.iter().chain(&self.views)
    }
}

/// [`RealizeTarget`], before the graph is known.
struct PendingTarget {
    computed: Vec<Arc<Node>>,
    views: Vec<Arc<Node>>,
    /// Whether every requested node is a loss whose gradients have not been taken.
    losses: bool,
}

/// The nodes that have no value yet, and what else is to be computed with
/// them.
fn pending_target(nodes: &[Arc<Node>], state: StateScope) -> PendingTarget {
    let unsettled = |nodes: &[Arc<Node>]| -> Vec<Arc<Node>> {
        nodes.iter().filter(|node| !settle_view(node)).cloned().collect()
    };
    let mut target = unsettled(nodes);
    let co_computed = pending::co_computed(&target, state);
    let is_loss = |node: &Arc<Node>| node.ty().shape.numel() == 1 && node.has_gradient();
    let losses = !co_computed.gradients && target.iter().all(is_loss);
    target.extend(unsettled(&co_computed.nodes));
    let ranges = target.iter().map(|node| contiguous_range(node).map(|(whole, _)| whole));
    let ranges: Vec<Option<Arc<Node>>> = ranges.collect();
    let kept = kept(&target, &ranges);
    let mut found = PendingTarget { computed: Vec::with_capacity(target.len()), views: Vec::new(), losses };
    let mut seen: NodeMap<()> = NodeMap::default();
    for (node, whole) in target.into_iter().zip(ranges) {
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

/// The nodes of which ranges need no memory of their own: packs, what is
/// a target itself, and what several ranges are at least half of.
fn kept(target: &[Arc<Node>], ranges: &[Option<Arc<Node>>]) -> NodeMap<()> {
    let mut kept: NodeMap<()> = target.iter().map(|node| (address(node), ())).collect();
    let mut covered: NodeMap<(usize, usize)> = NodeMap::default();
    for (node, whole) in target.iter().zip(ranges) {
        let Some(whole) = whole else { continue };
        let (ranges, elements) = covered.entry(address(whole)).or_default();
        *ranges += 1;
        *elements += node.ty().shape.numel();
        let most = *ranges > 1 && 2 * *elements >= whole.ty().shape.numel();
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

/// The plan for a graph, and the graph's scalars.
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
pub(crate) fn prepare(context: &Context, target: &RealizeTarget, cells: &Cells) -> Result<Prepared> {
    let _span = trace::span(Activity::Plan);
    let collected = &target.collected;
    let memory = leaf_memory(collected, cells);
    let (retained, fallbacks) = (&target.retain_candidates, &target.fallbacks);
    let (mut plan, scalars) = look_up(context, collected, &memory, retained, fallbacks);
    if !target.retain_candidates.is_empty() && exceeds(context, &plan, collected) {
        plan = look_up(context, collected, &memory, &[], fallbacks).0;
    }
    let plan = within(context, plan, collected, &memory)?;
    Ok(Prepared { plan, scalars })
}

/// The plan for a graph, from the cache or new, and the bits of the graph's scalars.
fn look_up(
    context: &Context,
    collected: &Collected,
    memory: &LeafMemory,
    retain_candidates: &[NodeId],
    fallbacks: &[Fallback],
) -> (Arc<Plan>, Vec<u64>) {
    let (skeleton, values) = key(collected, memory, retain_candidates, fallbacks);
    let scalars = values.scalars.clone();
    let plan = match context.look_up(&skeleton, &values) {
        Lookup::Hit(plan) => {
            add(&context.counts.cache_hits, 1);
            plan
        }
        Lookup::Miss { lifted, template } => {
            let wanted = WantedPlan { collected, memory, retain_candidates, fallbacks };
            let plan = Arc::new(build(context, &wanted, &lifted, template.as_deref()));
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
    look_up(context, &collected, &memory, &[], &[]).0
}
