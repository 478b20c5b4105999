//! Versions of a cell's content: the new one, and the old one until the new one is computed.
//!
//! Content is put into cells before it is computed. If computing it fails, the cell falls back, so that a step
//! that fails changes nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ir::node::Node;
use crate::ir::pending::Holder;

/// What cells hold.
pub trait Content: Sized {
    /// The content that is this node, or nothing; `None` for cells that always hold something.
    fn of(node: Option<Arc<Node>>) -> Option<Self>;
    /// The node, if it is one.
    fn node(&self) -> Option<&Arc<Node>>;
    /// Whether there is nothing left to be computed.
    fn is_computed(&self) -> bool {
        self.node().is_none_or(|node| node.value().is_some())
    }
    /// Whether it is this node.
    fn is(&self, node: &Arc<Node>) -> bool {
        self.node().is_some_and(|own| Arc::ptr_eq(own, node))
    }
}

impl Content for Option<Arc<Node>> {
    fn of(node: Option<Arc<Node>>) -> Option<Self> {
        Some(node)
    }
    fn node(&self) -> Option<&Arc<Node>> {
        self.as_ref()
    }
}

/// Content that a cell has released. A graph may be long, so it is dropped after the cell's lock.
#[must_use = "dropped under the cell's lock otherwise"]
pub struct Released<T>([Option<T>; 2]);

/// The content of a cell.
#[derive(Debug, Default)]
pub struct Versions<T> {
    now: T,
    /// What was computed last, or there first; `None` once `now` is computed.
    before: Option<T>,
}

impl<T: Content> Versions<T> {
    /// A cell's first content.
    pub fn new(now: T) -> Versions<T> {
        Versions { now, before: None }
    }

    /// The content.
    pub fn now(&self) -> &T {
        &self.now
    }

    /// Puts content in, to fall back from to what was computed last.
    pub fn put(&mut self, new: T) -> Released<T> {
        let old = std::mem::replace(&mut self.now, new);
        if self.now.is_computed() {
            return Released([Some(old), self.before.take()]);
        }
        if self.before.is_none() || old.is_computed() {
            return Released([self.before.replace(old), None]);
        }
        Released([Some(old), None])
    }

    /// Puts content in that stays.
    pub fn replace(&mut self, new: T) -> Released<T> {
        Released([Some(std::mem::replace(&mut self.now, new)), self.before.take()])
    }

    /// What the cell falls back to; outer `None` if that is what it holds.
    pub fn before(&self) -> Option<Option<Arc<Node>>> {
        self.before.as_ref().map(|before| before.node().cloned())
    }

    /// Takes out what the cell falls back to, since its memory may be overwritten.
    pub fn take_before(&mut self) -> Option<Option<Arc<Node>>> {
        self.before.take().map(|before| before.node().cloned())
    }

    /// Puts back what [`Versions::take_before`] gave, since nothing has been overwritten.
    pub fn restore(&mut self, before: Option<Arc<Node>>) {
        if self.before.is_none() && !self.now.is_computed() {
            self.before = T::of(before);
        }
    }

    /// Takes the content at `node` back, if it is not computed.
    pub fn retract(&mut self, node: &Arc<Node>) -> Released<T> {
        let before = if self.now.is(node) { self.before.take() } else { None };
        Released([before.map(|before| std::mem::replace(&mut self.now, before)), None])
    }

    /// The content at `node` cannot be computed: in its place comes what [`Versions::take_before`] gave.
    pub fn fall_back(&mut self, node: &Arc<Node>, before: Option<Arc<Node>>) -> Released<T> {
        let slot = if self.now.is(node) {
            Some(&mut self.now)
        } else {
            // Something newer is there, which falls back to the node.
            self.before.as_mut().filter(|before| before.is(node))
        };
        Released([slot.zip(T::of(before)).map(|(slot, before)| std::mem::replace(slot, before)), None])
    }
}

/// A cell that holds [`Versions`] under a lock.
pub trait VersionedCell: Send + Sync {
    /// What it holds.
    type Contents: Content;
    /// The versions.
    fn versions(&self) -> &Mutex<Versions<Self::Contents>>;
    /// What is computed with the content.
    fn companion(&self) -> Option<Arc<Node>> {
        None
    }
    /// Locks the versions.
    fn lock(&self) -> MutexGuard<'_, Versions<Self::Contents>> {
        // Every change is whole, so a poisoned lock holds a whole cell.
        self.versions().lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: VersionedCell> Holder for C {
    fn held(&self) -> Option<Arc<Node>> {
        self.lock().now().node().cloned()
    }
    fn companion(&self) -> Option<Arc<Node>> {
        VersionedCell::companion(self)
    }
    fn before(&self) -> Option<Option<Arc<Node>>> {
        self.lock().before()
    }
    fn take_before(&self) -> Option<Option<Arc<Node>>> {
        self.lock().take_before()
    }
    fn restore(&self, before: Option<Arc<Node>>) {
        self.lock().restore(before);
    }
    fn fall_back(&self, node: &Arc<Node>, before: Option<Arc<Node>>) {
        let released = self.lock().fall_back(node, before);
        drop(released);
    }
}
