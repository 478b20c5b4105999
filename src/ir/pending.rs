//! A thread's pending work: the roots of its backward passes,
//! the gradients these left, and state set to values that are not computed.
//!
//! A realize that shares work with one of them computes it too, so that
//! looking at a loss does not make the forward pass run twice. StateScope is also computed
//! by a realize that reads memory which it reads, and by each step of an optimizer, since nobody may ever ask
//! for it. Everything is held weakly: what nobody can ask for any more is not computed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::ir::buffer::DeviceBuffer;
use crate::ir::collect::{AddressMap, NodeMap};
use crate::ir::node::Node;

/// A cell that holds one node at a time, and the one before until it is computed.
pub trait Holder: Send + Sync {
    /// The node held now.
    fn held(&self) -> Option<Arc<Node>>;
    /// What is computed with it, whoever asks for it.
    fn companion(&self) -> Option<Arc<Node>>;
    /// What the cell falls back to if the node held now cannot be computed; outer `None` if it falls back to
    /// nothing else.
    fn before(&self) -> Option<Option<Arc<Node>>>;
    /// Takes that out: its memory is about to be overwritten.
    fn take_before(&self) -> Option<Option<Arc<Node>>>;
    /// Puts back what was taken out: the node is still to be computed.
    fn restore(&self, before: Option<Arc<Node>>);
    /// The node cannot be computed: the cell holds again what was taken out.
    fn fall_back(&self, node: &Arc<Node>, before: Option<Arc<Node>>);
}

/// Pending work.
pub enum Pending {
    /// The root of a backward pass, or what was made of gradients.
    Root(Weak<Node>),
    /// The gradient in a cell.
    Gradient(Weak<dyn Holder>),
    /// StateScope in a cell.
    State(Weak<dyn Holder>),
}

impl Pending {
    /// The root.
    pub fn root(node: &Arc<Node>) -> Pending {
        node.mark_root();
        Pending::Root(Arc::downgrade(node))
    }

    /// The node to be computed; `None` if it has a value, has none to come,
    /// or nobody can ask for it.
    fn node(&self) -> Option<Arc<Node>> {
        let node = match self {
            Pending::Root(node) => node.upgrade(),
            Pending::Gradient(holder) | Pending::State(holder) => holder.upgrade()?.held(),
        };
        node.filter(|node| node.value().is_none() && !node.ty().device.is_meta())
    }

    fn address(&self) -> usize {
        match self {
            Pending::Root(node) => node.as_ptr() as usize,
            Pending::Gradient(holder) | Pending::State(holder) => holder.as_ptr().cast::<()>() as usize,
        }
    }

    fn holder(&self) -> Option<Arc<dyn Holder>> {
        match self {
            Pending::Root(_) => None,
            Pending::Gradient(holder) | Pending::State(holder) => holder.upgrade(),
        }
    }

    fn is_state(&self) -> bool {
        matches!(self, Pending::State(_))
    }
}

/// A thread's pending work, by address, with the order of registration.
#[derive(Default)]
struct List {
    known: HashMap<usize, (u64, Pending)>,
    registered: u64,
    /// The length at which entries that are computed or dropped are removed.
    full: usize,
}

/// What is to be computed.
struct PendingNode {
    node: Arc<Node>,
    is_state: bool,
    companion: Option<Arc<Node>>,
}

impl List {
    fn add(&mut self, pending: Pending) {
        if self.known.len() >= self.full {
            self.known.retain(|_, (_, pending)| pending.node().is_some());
            self.full = 2 * self.known.len() + 64;
        }
        self.registered += 1;
        // One that is registered again goes to the end: the order, on which
        // the key of a plan depends, must not depend on when the list is full.
        self.known.insert(pending.address(), (self.registered, pending));
    }

    /// The pending work; entries that are computed or dropped are removed.
    fn take_pending(&mut self) -> Vec<PendingNode> {
        self.known.retain(|_, (_, pending)| pending.node().is_some());
        let entry = |(at, pending): &(u64, Pending)| {
            // What another thread computes is no work of this one.
            let node = pending.node().filter(|node| node.operands_now().is_some())?;
            let companion = pending.holder().and_then(|holder| holder.companion());
            let companion = companion.filter(|companion| companion.value().is_none());
            Some((*at, PendingNode { node, is_state: pending.is_state(), companion }))
        };
        let mut found: Vec<(u64, PendingNode)> = self.known.values().filter_map(entry).collect();
        found.sort_unstable_by_key(|(at, _)| *at);
        found.into_iter().map(|(_, entry)| entry).collect()
    }
}

thread_local! {
    static PENDING: RefCell<List> = RefCell::default();
}

/// Adds to this thread's pending work.
pub fn register(new: impl IntoIterator<Item = Pending>) {
    // Taken out, so that a node dropped meanwhile may look at the list.
    let mut list = PENDING.take();
    new.into_iter().for_each(|pending| list.add(pending));
    PENDING.set(list);
}

/// Which state a realize computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateScope {
    /// What shares work or memory with the targets.
    Shared,
    /// All that the thread has set.
    All,
}

/// What a realize computes along with its targets.
#[derive(Default)]
pub struct CoComputed {
    /// The nodes.
    pub nodes: Vec<Arc<Node>>,
    /// Whether there are gradients and roots among them.
    pub gradients: bool,
}

/// The pending work of this thread to compute along with `nodes`: what shares work with them (an operation, not
/// computed yet, below both), and state.
pub fn co_computed(nodes: &[Arc<Node>], state: StateScope) -> CoComputed {
    if nodes.is_empty() && state == StateScope::Shared {
        return CoComputed::default();
    }
    // Taken out, as in `register`.
    let mut list = PENDING.take();
    let pending = list.take_pending();
    PENDING.set(list);
    if pending.is_empty() {
        return CoComputed::default();
    }
    let mut own = Reached::default();
    for node in nodes {
        own.walk(node, |_| false);
    }
    let mut found = CoComputed::default();
    // What a node without a hit reached, no other needs to look at again; and
    // what shares work with one that is found shares the plan's. What state reads no other kind can tell by.
    let (mut looked, mut looked_for_state) = (Reached::default(), Reached::default());
    let requested = |node: &Arc<Node>| nodes.iter().any(|other| Arc::ptr_eq(other, node));
    for PendingNode { node, is_state, companion } in pending {
        if requested(&node) {
            found.nodes.extend(companion);
            continue;
        }
        let shares = if !is_state {
            looked.walk(&node, |met| own.shares_work(met))
        } else if state == StateScope::All {
            true
        } else {
            looked_for_state.walk(&node, |met| own.shares_work(met) || own.shares_memory(met))
        };
        if shares {
            own.walk(&node, |_| false);
            found.gradients |= !is_state;
            found.nodes.push(node);
            found.nodes.extend(companion);
        }
    }
    found
}

/// Whether an operation that is not computed is below both of two sets of nodes. What is kept once it is
/// computed is no work of either.
pub fn share_work(one: &[Arc<Node>], other: &[Arc<Node>]) -> bool {
    let nothing = || Reached { to_kept: true, ..Reached::default() };
    let (mut ones, mut others) = (nothing(), nothing());
    for node in one {
        ones.walk(node, |_| false);
    }
    other.iter().any(|node| others.walk(node, |met| ones.shares_work(met)))
}

/// Operations that are not computed, and the memory they read, found by walking down.
#[derive(Default)]
struct Reached {
    operations: NodeMap<()>,
    memory: AddressMap<*const DeviceBuffer, ()>,
    /// Whether to walk no further than to values that are kept.
    to_kept: bool,
}

impl Reached {
    fn shares_work(&self, node: &Arc<Node>) -> bool {
        self.operations.contains_key(&(Arc::as_ptr(node) as usize))
    }
    fn shares_memory(&self, node: &Arc<Node>) -> bool {
        node.value().is_some_and(|value| self.memory.contains_key(&Arc::as_ptr(&value.buffer)))
    }

    /// Adds what is below a node; stops, and says so, at the first node
    /// that `hit` knows.
    fn walk(&mut self, node: &Arc<Node>, hit: impl Fn(&Arc<Node>) -> bool) -> bool {
        let mut to_do = vec![node.clone()];
        while let Some(node) = to_do.pop() {
            if hit(&node) {
                return true;
            }
            if let Some(value) = node.value() {
                self.memory.insert(Arc::as_ptr(&value.buffer), ());
                continue;
            }
            // What is held by one edge and the list is met once, and needs no looking up.
            let alone = Arc::strong_count(&node) <= 2;
            if (!alone && self.shares_work(&node)) || (self.to_kept && node.is_kept()) {
                continue;
            }
            // What another thread computes is none of this one's work.
            let Some(operands) = node.operands_now() else { continue };
            // A source is no work.
            if !operands.is_empty() {
                if !alone {
                    self.operations.insert(Arc::as_ptr(&node) as usize, ());
                }
                to_do.extend(operands.iter().cloned());
            }
        }
        false
    }
}

/// The cells of this thread that hold what a realize computes, and what they fall back to.
#[derive(Default)]
pub struct Cells {
    held: Vec<HeldCell>,
    /// Whether what they fall back to has been taken out of them.
    taken: bool,
}

struct HeldCell {
    holder: Arc<dyn Holder>,
    is_state: bool,
    node: Arc<Node>,
    before: Option<Arc<Node>>,
}

impl Cells {
    /// Looks at the cells that hold one of these nodes.
    pub fn look<'a>(nodes: impl Iterator<Item = &'a Arc<Node>>) -> Cells {
        Cells::holding(nodes, false)
    }

    /// Takes out what the cells that hold one of these nodes fall back to.
    pub fn take<'a>(nodes: impl Iterator<Item = &'a Arc<Node>>) -> Cells {
        Cells::holding(nodes, true)
    }

    fn holding<'a>(nodes: impl Iterator<Item = &'a Arc<Node>>, taken: bool) -> Cells {
        let holder = |(_, pending): &(u64, Pending)| Some((pending.holder()?, pending.is_state()));
        let holders: Vec<_> = PENDING.with_borrow(|list| list.known.values().filter_map(holder).collect());
        if holders.is_empty() {
            return Cells::default();
        }
        let nodes: NodeMap<()> = nodes.map(|node| (Arc::as_ptr(node) as usize, ())).collect();
        let held = |(holder, is_state): (Arc<dyn Holder>, bool)| {
            let node = holder.held().filter(|node| nodes.contains_key(&(Arc::as_ptr(node) as usize)))?;
            let before = if taken { holder.take_before() } else { holder.before() }?;
            Some(HeldCell { holder, is_state, node, before })
        };
        Cells { held: holders.into_iter().filter_map(held).collect(), taken }
    }

    /// The nodes that cells fall back to, of which nobody reads the memory once a realize has succeeded; with
    /// how often cells hold each.
    pub fn before(&self) -> impl Iterator<Item = (&Arc<Node>, usize)> {
        let times = if self.taken { 1 } else { 2 };
        self.held.iter().filter_map(move |held| Some((held.before.as_ref()?, times)))
    }

    /// The nodes held now, each with what its cell held before, if anything: but for those whose companion says
    /// whether they are to be looked at.
    pub fn replacements(&self) -> impl Iterator<Item = (&Arc<Node>, Option<&Arc<Node>>)> {
        let counts = |held: &&HeldCell| held.before.is_some() || held.holder.companion().is_none();
        self.held.iter().filter(counts).map(|held| (&held.node, held.before.as_ref()))
    }

    /// Nothing has been computed; `lost` says of state, and of gradients, whether it can be another time.
    pub fn give_back(mut self, lost: impl Fn(bool) -> bool) {
        for HeldCell { holder, is_state, node, before } in self.held.drain(..) {
            if lost(is_state) { holder.fall_back(&node, before) } else { holder.restore(before) }
        }
    }

    /// What the cells hold has been computed.
    pub fn settle(mut self) {
        self.held.clear();
    }
}

/// A realize that was given up where it waited has computed nothing.
impl Drop for Cells {
    fn drop(&mut self) {
        if self.taken {
            self.held.drain(..).for_each(|held| held.holder.restore(held.before));
        }
    }
}
