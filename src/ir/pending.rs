//! What a thread still means to compute: the roots of its backward passes,
//! the gradients these left, and state set to values that are not computed.
//!
//! A realize that shares work with one of them computes it too, so that
//! looking at a loss does not make the forward pass run twice. Everything is
//! held weakly: what nobody can ask for any more is not computed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::ir::collect::NodeMap;
use crate::ir::node::Node;

/// A cell that holds one node at a time.
pub trait Holder: Send + Sync {
    /// The node held now.
    fn held(&self) -> Option<Arc<Node>>;
}

/// Something to be computed.
pub enum Pending {
    /// A node.
    Node(Weak<Node>),
    /// Whatever a cell holds.
    Held(Weak<dyn Holder>),
}

impl Pending {
    /// The node to be computed; `None` if it has a value, has none to come,
    /// or nobody can ask for it.
    fn node(&self) -> Option<Arc<Node>> {
        let node = match self {
            Pending::Node(node) => node.upgrade(),
            Pending::Held(holder) => holder.upgrade()?.held(),
        };
        node.filter(|node| node.value().is_none() && !node.ty().device.is_meta())
    }

    fn address(&self) -> usize {
        match self {
            Pending::Node(node) => node.as_ptr() as usize,
            Pending::Held(holder) => holder.as_ptr().cast::<()>() as usize,
        }
    }
}

/// What a thread means to compute, by address, with the order of registration.
#[derive(Default)]
struct List {
    known: HashMap<usize, (u64, Pending)>,
    registered: u64,
    /// The length at which what is settled is thrown out.
    full: usize,
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

    fn nodes(&self) -> Vec<Arc<Node>> {
        let mut found: Vec<(u64, Arc<Node>)> =
            self.known.values().filter_map(|(at, pending)| Some((*at, pending.node()?))).collect();
        found.sort_unstable_by_key(|(at, _)| *at);
        found.into_iter().map(|(_, node)| node).collect()
    }
}

thread_local! {
    static PENDING: RefCell<List> = RefCell::default();
}

/// Adds to what this thread means to compute.
pub fn register(new: impl IntoIterator<Item = Pending>) {
    // Taken out, so that a node dropped meanwhile may look at the list.
    let mut list = PENDING.take();
    new.into_iter().for_each(|pending| list.add(pending));
    PENDING.set(list);
}

/// What this thread means to compute and that shares work with `nodes`:
/// an operation, not computed yet, below both.
pub fn sharing(nodes: &[Arc<Node>]) -> Vec<Arc<Node>> {
    let pending: Vec<Arc<Node>> = PENDING.with_borrow(List::nodes);
    if pending.is_empty() {
        return pending;
    }
    let mut own = Reached::default();
    for node in nodes {
        own.walk(node, &|_| false);
    }
    let mut found: Vec<Arc<Node>> = Vec::new();
    // What a node without a hit reached, no other needs to look at again; and
    // what shares work with one that is found shares the plan's.
    let mut looked = Reached::default();
    for node in pending.into_iter().filter(|node| !nodes.iter().any(|wanted| Arc::ptr_eq(wanted, node))) {
        if looked.walk(&node, &|address| own.has(address)) {
            own.walk(&node, &|_| false);
            found.push(node);
        }
    }
    found
}

/// Operations that are not computed, found by walking down.
#[derive(Default)]
struct Reached(NodeMap<()>);

impl Reached {
    fn has(&self, address: usize) -> bool {
        self.0.contains_key(&address)
    }

    /// Adds what is below a node; stops, and says so, at the first address
    /// that `hit` knows.
    fn walk(&mut self, node: &Arc<Node>, hit: &dyn Fn(usize) -> bool) -> bool {
        let mut to_do = vec![node.clone()];
        while let Some(node) = to_do.pop() {
            let address = Arc::as_ptr(&node) as usize;
            if hit(address) {
                return true;
            }
            if node.value().is_some() || self.has(address) {
                continue;
            }
            let operands = node.operands().clone();
            // A source is no work.
            if !operands.is_empty() {
                self.0.insert(address, ());
                to_do.extend(operands);
            }
        }
        false
    }
}
