//! Claims: which of several threads computes a value.
//!
//! A node is in one of three states, and only these moves exist:
//!
//! | from | to | who may | what holds |
//! |---|---|---|---|
//! | lazy | claimed | a realize, all of its outputs at once or none ([`claim`]) | nobody else gets at the operands |
//! | claimed | computed | the claim's owner | it has a value, and no operands |
//! | claimed | lazy | the claim's owner, by dropping [`Claims`] | as before |
//!
//! A thread that needs a claimed node waits ([`WaitingRoom::wait`]) or does without it. So below its outputs, what
//! only they lead to is the owner's alone, and may be overwritten: donation is decided under the claim.
//!
//! A realize collects its graph before it claims, and gives everything back before it waits for another's
//! claim. So it never waits with a claim in hand, and no circle of waiting threads can form. The exception is
//! a realize inside another one's kernel (a user's own): that wait is refused where it would close a circle.
//!
//! The state is guarded by the lock of the node's edges: whoever reads the operands has either taken hold of
//! them, which counts as an owner, before a claim, or sees the claim.

use std::sync::{Arc, PoisonError};

use super::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence};

/// Something that is computed by one thread and waited for by others.
pub trait Claimable {
    /// What the state's lock guards.
    type Guarded;
    /// Locks the state.
    fn edges(&self) -> MutexGuard<'_, Self::Guarded>;
    /// Whether somebody has a claim; read and written under the lock alone.
    fn claimed(&self) -> &AtomicBool;
    /// Whether there is a value.
    fn is_computed(&self) -> bool;
}

/// A wait that would close a cycle: the claim is released only after the waiting thread continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlock;

/// Why a claim was not to be had.
#[derive(Debug)]
pub enum ClaimError<N> {
    /// A node has a value by now.
    Computed,
    /// Somebody else has a claim on this one.
    Claimed(Arc<N>),
}

/// The sole right to compute some nodes, given back when dropped.
pub struct Claims<'a, N: Claimable> {
    nodes: Vec<Arc<N>>,
    room: &'a WaitingRoom,
}

/// Claims all nodes, or none of them.
///
/// # Errors
/// The first in the way.
pub fn claim<'a, N: Claimable>(
    nodes: &[Arc<N>],
    room: &'a WaitingRoom,
) -> Result<Claims<'a, N>, ClaimError<N>> {
    let mut claims = Claims { nodes: Vec::with_capacity(nodes.len()), room };
    let mut order: Vec<&Arc<N>> = nodes.iter().collect();
    // In one order for all, so that of two that overlap one gets everything.
    order.sort_unstable_by_key(|node| address(node));
    for node in order {
        let edges = node.edges();
        if node.is_computed() {
            return Err(ClaimError::Computed);
        }
        if node.claimed().load(Ordering::Relaxed) {
            return Err(ClaimError::Claimed(node.clone()));
        }
        node.claimed().store(true, Ordering::Relaxed);
        drop(edges);
        claims.nodes.push(node.clone());
    }
    Ok(claims)
}

impl<N: Claimable> Claims<'_, N> {
    /// The addresses of the nodes.
    pub fn addresses(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().map(address)
    }
}

impl<N: Claimable> Drop for Claims<'_, N> {
    fn drop(&mut self) {
        for node in &self.nodes {
            let _edges = node.edges();
            node.claimed().store(false, Ordering::Relaxed);
        }
        self.room.wake();
    }
}

fn address<N>(node: &Arc<N>) -> usize {
    Arc::as_ptr(node) as usize
}

/// Where threads wait for claims of others.
#[derive(Debug)]
pub struct WaitingRoom {
    asleep: Mutex<Vec<BlockedThread>>,
    woken: Condvar,
    /// How many wait, or are about to: who gives claims back looks at this alone where nobody does.
    count: AtomicUsize,
}

/// A thread that waits inside of a kernel; any other holds nothing that somebody could wait for.
#[derive(Debug)]
struct BlockedThread {
    /// The nodes it has claimed itself.
    holds: Vec<usize>,
    wants: usize,
}

impl WaitingRoom {
    /// An empty room.
    pub const fn new() -> WaitingRoom {
        WaitingRoom { asleep: Mutex::new(Vec::new()), woken: Condvar::new(), count: AtomicUsize::new(0) }
    }

    /// Waits until nobody has a claim on the node. The thread itself `holds` claims on some.
    ///
    /// # Errors
    /// A wait without end.
    pub fn wait<N: Claimable>(&self, node: &N, holds: &[usize]) -> Result<(), Deadlock> {
        let wants = std::ptr::from_ref(node) as usize;
        self.count.fetch_add(1, Ordering::SeqCst);
        // Before the claim is looked at; the owner gives it back before it looks at the count.
        fence(Ordering::SeqCst);
        let mut asleep = lock(&self.asleep);
        let result = loop {
            if !is_claimed(node) {
                break Ok(());
            }
            if closes_circle(&asleep, holds, wants) {
                break Err(Deadlock);
            }
            if !holds.is_empty() {
                asleep.push(BlockedThread { holds: holds.to_vec(), wants });
            }
            asleep = self.woken.wait(asleep).unwrap_or_else(PoisonError::into_inner);
            asleep.retain(|sleeper| sleeper.holds != holds);
        };
        drop(asleep);
        self.count.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Wakes whoever waits, after claims were given back.
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) > 0 {
            // Who is about to wait holds this lock until it does.
            drop(lock(&self.asleep));
            self.woken.notify_all();
        }
    }
}

impl Default for WaitingRoom {
    fn default() -> WaitingRoom {
        WaitingRoom::new()
    }
}

fn lock(asleep: &Mutex<Vec<BlockedThread>>) -> MutexGuard<'_, Vec<BlockedThread>> {
    // A list is whole between its changes, so a poisoned lock is usable.
    asleep.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_claimed(node: &impl Claimable) -> bool {
    let _edges = node.edges();
    node.claimed().load(Ordering::Relaxed)
}

/// Whether a thread that `holds` some nodes would wait for one that waits for it in the end.
fn closes_circle(asleep: &[BlockedThread], holds: &[usize], mut wants: usize) -> bool {
    for _ in 0..=asleep.len() {
        if holds.contains(&wants) {
            return true;
        }
        match asleep.iter().find(|sleeper| sleeper.holds.contains(&wants)) {
            Some(owner) => wants = owner.wants,
            None => return false,
        }
    }
    false
}
