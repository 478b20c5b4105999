//! `realize`: collect, find or build the plan, run it, record the values.

use std::sync::Arc;

use crate::base::{Error, Result, Span};
use crate::ir::collect::{Collected, NodeMap, collect};
use crate::ir::{Leaf, Node, Op, pending};
use crate::plan::budget::within;
use crate::plan::build::{Plan, build};
use crate::plan::cache::Lookup;
use crate::plan::context::{self, Context, add};
use crate::plan::debug;
use crate::plan::donate::leaf_memory;
use crate::plan::guard::may_transfer;
use crate::plan::key::key;
use crate::plan::run::run;
use crate::plan::view::{stretch, view};

/// Computes the values of some nodes, together, in one plan; with them, what
/// the thread means to compute from the same work ([`pending`]). Nodes that
/// have values are left alone.
///
/// # Errors
/// A node on the meta device, an absent device, out of memory or over a
/// budget, an index out of range, a kernel that fails. No node then has a value that it did not
/// have before.
pub fn realize(nodes: &[Arc<Node>], span: Span) -> Result<()> {
    let context = context::current();
    let Wanted { computed: wanted, views } = to_compute(nodes);
    if wanted.is_empty() {
        return Ok(());
    }
    if let Some(meta) = wanted.iter().find(|node| node.ty().device.is_meta()) {
        return Err(Error::NoData { call: "realize", shape: meta.ty().shape.clone(), span });
    }
    let (plan, values) = {
        let Prepared { plan, collected, scalars } = prepare(&context, &wanted)?;
        let line = |id| plan.line(&collected, id);
        may_transfer(&plan, &line)?;
        let leaves: Vec<Leaf> = collected.leaves().filter_map(|leaf| leaf.value().cloned()).collect();
        let values = run(&context, &plan, &leaves, &scalars, &line)?;
        (plan, values)
    };
    plan.compiled(&context)?.flush()?;
    for (node, value) in wanted.iter().zip(values) {
        node.set_value(value);
    }
    for node in &views {
        assert!(settle_view(node), "a view of what was computed has no value");
    }
    Ok(())
}

/// What a realize computes, and what is there then without being computed.
pub(crate) struct Wanted {
    pub computed: Vec<Arc<Node>>,
    /// Stretches of what is computed, of packs above all.
    pub views: Vec<Arc<Node>>,
}

/// The nodes that have no value yet, and what else is to be computed with
/// them.
pub(crate) fn to_compute(nodes: &[Arc<Node>]) -> Wanted {
    let unsettled = |nodes: &[Arc<Node>]| -> Vec<Arc<Node>> {
        nodes.iter().filter(|node| !settle_view(node)).cloned().collect()
    };
    let mut wanted = unsettled(nodes);
    wanted.extend(unsettled(&pending::sharing(&wanted)));
    let stretches = wanted.iter().map(|node| stretch(node).map(|(whole, _)| whole));
    let stretches: Vec<Option<Arc<Node>>> = stretches.collect();
    let kept = kept(&wanted, &stretches);
    let mut found = Wanted { computed: Vec::with_capacity(wanted.len()), views: Vec::new() };
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

/// The plan for some nodes, and what it applies to.
pub(crate) struct Prepared {
    pub plan: Arc<Plan>,
    pub collected: Collected,
    /// The bits of all the graph's scalars.
    pub scalars: Vec<u64>,
}

/// The plan for some nodes, from the cache or new, within the budgets in
/// force. Nothing is compiled yet.
///
/// # Errors
/// [`Error::OverBudget`].
pub(crate) fn prepare(context: &Context, nodes: &[Arc<Node>]) -> Result<Prepared> {
    let collected = collect(nodes);
    let memory = leaf_memory(&collected);
    let (skeleton, values) = key(&collected, &memory);
    let scalars = values.scalars.clone();
    let plan = match context.look_up(&skeleton, &values) {
        Lookup::Hit(plan) => {
            add(&context.counts.cache_hits, 1);
            plan
        }
        Lookup::Miss { lifted, model } => {
            let plan = Arc::new(build(context, &collected, &lifted, &memory, model.as_deref()));
            debug::built(&plan, &collected);
            context.keep(skeleton, values, lifted, plan)
        }
    };
    let plan = within(context, plan, &collected, &memory)?;
    Ok(Prepared { plan, collected, scalars })
}
