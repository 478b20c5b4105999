//! Claims on nodes: one realize computes a node, and others wait for it.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

use crate::ir::claim::{ClaimError, Claimable, Claims, Deadlock, WaitingRoom, claim};
use crate::ir::node::{Edges, Node, OperandsGuard};

/// Where threads wait for what others compute.
static WAITING: WaitingRoom = WaitingRoom::new();

thread_local! {
    /// The nodes that this thread has claimed, by address.
    static CLAIMED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

impl Node {
    /// The operands; empty once realized. Waits for a realize that computes the node. Hold the guard
    /// briefly, and no other's with it.
    pub fn operands(&self) -> OperandsGuard<'_> {
        // Whom this thread's own claim keeps from waiting may look: only computing would do harm.
        self.operands_to_compute().unwrap_or_else(|Deadlock| OperandsGuard(self.edges()))
    }

    /// [`Node::operands`] for whoever computes from them.
    ///
    /// # Errors
    /// A realize that cannot end before this thread continues.
    pub fn operands_to_compute(&self) -> Result<OperandsGuard<'_>, Deadlock> {
        loop {
            if let Some(operands) = self.operands_now() {
                return Ok(operands);
            }
            CLAIMED.with_borrow(|own| WAITING.wait(self, own))?;
        }
    }

    /// [`Node::operands`] without waiting; `None` while a realize computes the node.
    pub fn operands_now(&self) -> Option<OperandsGuard<'_>> {
        let edges = self.edges();
        (!self.claimed.load(Ordering::Relaxed)).then(|| OperandsGuard(edges))
    }

    /// Claims nodes that this thread is about to compute, all of them or none.
    ///
    /// # Errors
    /// What is in the way.
    pub fn claim(nodes: &[Arc<Node>]) -> Result<NodeClaims, ClaimError<Node>> {
        let claims = claim(nodes, &WAITING)?;
        CLAIMED.with_borrow_mut(|own| own.extend(claims.addresses()));
        Ok(NodeClaims { claims, not_send: PhantomData })
    }

    /// Waits until nobody computes the node.
    ///
    /// # Errors
    /// A realize that cannot end before this thread continues.
    pub fn wait(&self) -> Result<(), Deadlock> {
        self.operands_to_compute().map(drop)
    }
}

impl Claimable for Node {
    type Guarded = Edges;
    fn edges(&self) -> MutexGuard<'_, Edges> {
        Node::edges(self)
    }
    fn claimed(&self) -> &AtomicBool {
        &self.claimed
    }
    fn is_computed(&self) -> bool {
        self.value().is_some()
    }
}

/// The sole right of this thread to compute some nodes, given back when dropped.
pub struct NodeClaims {
    claims: Claims<'static, Node>,
    // Claims are noted by thread.
    not_send: PhantomData<*const ()>,
}

impl Drop for NodeClaims {
    fn drop(&mut self) {
        CLAIMED.with_borrow_mut(|own| own.truncate(own.len() - self.claims.addresses().count()));
    }
}
