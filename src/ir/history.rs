//! What gradients need to know of nodes: which are tracked, through which
//! edges to look back, and where gradients accumulate.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::Result;
use crate::ir::node::{Node, Operands};
use crate::ir::pending::Holder;

/// A vector-Jacobian product in place of the primitives' own.
pub trait Rule: Send + Sync {
    /// The cotangent of each input, `None` where there is none. `output` is
    /// the node that has this rule, `cotangent` is of its type.
    ///
    /// # Errors
    /// A mistake that the rule makes.
    fn pull_back(
        &self,
        inputs: &[Arc<Node>],
        output: &Arc<Node>,
        cotangent: &Arc<Node>,
    ) -> Result<Vec<Option<Arc<Node>>>>;
}

/// How gradients look through a node that has a rule of its own.
#[derive(Clone)]
pub struct Override {
    /// What the node counts as a function of.
    pub inputs: Operands,
    /// Its gradient.
    pub rule: Arc<dyn Rule>,
}

impl fmt::Debug for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Override({} inputs)", self.inputs.len())
    }
}

/// Where the gradients of a parameter accumulate. Clones of an `Arc` of it
/// are the same parameter, whatever tensor it holds at the time.
#[derive(Default)]
pub struct GradCell {
    sum: Mutex<Option<Arc<Node>>>,
}

impl GradCell {
    /// The sum so far.
    pub fn get(&self) -> Option<Arc<Node>> {
        self.sum.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Replaces the sum; returns the old one, so that a long graph is not
    /// dropped under the lock.
    pub fn replace(&self, sum: Option<Arc<Node>>) -> Option<Arc<Node>> {
        std::mem::replace(&mut *self.sum.lock().unwrap_or_else(PoisonError::into_inner), sum)
    }
}

impl Holder for GradCell {
    fn held(&self) -> Option<Arc<Node>> {
        self.get()
    }
}

impl fmt::Debug for GradCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GradCell({})", if self.get().is_some() { "a gradient" } else { "none" })
    }
}

thread_local! {
    static TRACKING: Cell<bool> = const { Cell::new(true) };
}

/// Whether nodes built on this thread remember how gradients pass them.
#[inline]
pub fn tracking() -> bool {
    TRACKING.get()
}

/// Sets [`tracking`]; returns what it was.
pub fn set_tracking(on: bool) -> bool {
    TRACKING.replace(on)
}
