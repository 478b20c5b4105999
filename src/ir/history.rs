//! The autograd history of nodes: which are tracked, which edges gradients pass,
//! and where they accumulate.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::base::{DType, Device, Result, Scalar, Span};
use crate::ir::collective::Channel;
use crate::ir::node::{Node, Operands};
use crate::ir::op::Op;
use crate::ir::pending::Holder;
use crate::ir::ty::Type;
use crate::ir::version::{VersionedCell, Versions};

/// A vector-Jacobian product in place of the primitives' own.
pub trait VjpRule: Send + Sync {
    /// The cotangent of each input, `None` where there is none. `output` is
    /// the node that has this rule, `cotangent` is of its type.
    ///
    /// # Errors
    /// The rule's error.
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
    pub rule: Arc<dyn VjpRule>,
}

impl fmt::Debug for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Override({} inputs)", self.inputs.len())
    }
}

/// Takes the gradients of parameters before they accumulate, to combine them with those of other ranks.
pub trait GradReducer: Send + Sync {
    /// Whether it takes any now.
    fn is_on(&self) -> bool;
    /// Puts into cells what becomes of the gradients that a backward pass, asked for in a line, has found for them.
    ///
    /// # Errors
    /// The error recorded in a gradient.
    fn reduce(&self, found: Vec<(Arc<GradCell>, Arc<Node>)>, span: Span) -> Result<()>;
}

/// Where the gradients of a parameter accumulate. Clones of an `Arc` of it
/// are the same parameter, whatever tensor it holds at the time.
#[derive(Default)]
pub struct GradCell {
    sum: Mutex<Versions<Option<Arc<Node>>>>,
    /// Gradients in the sum since it was computed.
    added: AtomicUsize,
    /// Who takes the gradients first.
    reducer: Mutex<Option<Weak<dyn GradReducer>>>,
    /// What a model calls the parameter.
    name: Mutex<Option<Arc<str>>>,
    /// Whether a gradient is in the sum, where only the device knows.
    presence: Mutex<Option<Arc<GradPresence>>>,
    /// The ranks that divide the parameter, if it is a part of one.
    sharers: OnceLock<Arc<dyn Channel>>,
}

/// Whether the sums of some parameters have gradients in them: a truth value of rank 0 that a device knows. An index
/// out of range, found late, makes void what would have begun a sum.
pub struct GradPresence(Mutex<Versions<Option<Arc<Node>>>>);

impl GradPresence {
    /// True once the sums on a device are computed, unless what is added to them turns out void: then as `before`.
    pub fn after(before: Option<&GradPresence>, device: Device, span: Span) -> GradPresence {
        let before = before.and_then(|before| {
            let before = before.lock();
            before.before().unwrap_or_else(|| before.now().clone())
        });
        let ty = Type::scalar(DType::Bool, device);
        let yes = Op::Const(Scalar::Bool(true), DType::Bool, device);
        let yes = Node::new(yes, ty.clone(), Operands::new(), span);
        // No constant, since it may turn out false.
        let there = Node::new(Op::reshape(()), ty, std::iter::once(yes).collect(), span);
        let mut versions = Versions::new(before);
        drop(versions.put(Some(there)));
        GradPresence(Mutex::new(versions))
    }
}

impl VersionedCell for GradPresence {
    type Contents = Option<Arc<Node>>;
    fn versions(&self) -> &Mutex<Versions<Option<Arc<Node>>>> {
        &self.0
    }
}

/// A sum of gradients as it is in memory.
#[derive(Clone)]
pub struct GradSum {
    /// The sum: of no meaning where `presence` turns out false.
    pub node: Arc<Node>,
    /// Whether a gradient is in it, where only the device knows.
    pub presence: Option<Arc<GradPresence>>,
}

/// Gradients in a sum that is not computed before it counts as long.
const LONG: usize = 8;

impl GradCell {
    /// The sum so far.
    pub fn get(&self) -> Option<Arc<Node>> {
        self.lock().now().clone()
    }
    /// The sum so far, with what says whether there is one.
    pub fn sum(&self) -> Option<GradSum> {
        let cell = self.lock();
        let node = cell.now().clone()?;
        Some(GradSum { node, presence: self.lock_presence().clone() })
    }
    /// Replaces the sum by one that is there, or none.
    pub fn replace(&self, sum: Option<Arc<Node>>) {
        let mut cell = self.lock();
        let released = (self.lock_presence().take(), cell.put(sum));
        drop(cell);
        drop(released);
    }
    /// Replaces the sum by what is made of it.
    pub fn change(&self, sum: Arc<Node>) {
        let released = self.lock().put(Some(sum));
        drop(released);
    }
    /// Changed under the lock of the sum only, so that the two are of one another.
    fn lock_presence(&self) -> MutexGuard<'_, Option<Arc<GradPresence>>> {
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Replaces the sum if it is `held` still; says whether.
    pub fn replace_if(&self, held: Option<&GradSum>, new: GradSum) -> bool {
        let mut cell = self.lock();
        if cell.now().as_ref().map(Arc::as_ptr) != held.map(|held| Arc::as_ptr(&held.node)) {
            return false;
        }
        let added = if held.is_some_and(|held| held.node.value().is_none()) {
            self.added.load(Ordering::Relaxed)
        } else {
            0
        };
        self.added.store(added + 1, Ordering::Relaxed);
        let presence = std::mem::replace(&mut *self.lock_presence(), new.presence);
        let released = (presence, cell.put(Some(new.node)));
        drop(cell);
        drop(released);
        true
    }
    /// Lets a reducer take the gradients first, as long as somebody holds it.
    pub fn set_reducer(&self, reducer: Weak<dyn GradReducer>) {
        *self.reducer.lock().unwrap_or_else(PoisonError::into_inner) = Some(reducer);
    }
    /// Who takes the gradients first now.
    pub fn reducer(&self) -> Option<Arc<dyn GradReducer>> {
        let reducer = self.reducer.lock().unwrap_or_else(PoisonError::into_inner);
        reducer.as_ref()?.upgrade().filter(|reducer| reducer.is_on())
    }
    /// What a model calls the parameter, as `encoder.0.weight`.
    pub fn name(&self) -> Option<Arc<str>> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Names the parameter. A longer name stays: it is that of a module around the one that asks.
    pub fn set_name(&self, name: &str) {
        let mut known = self.name.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|known| known.len() < name.len()) {
            *known = Some(name.into());
        }
    }
    /// The ranks that divide the parameter, of which this one has a part; none where it is whole.
    pub fn sharers(&self) -> Option<&Arc<dyn Channel>> {
        self.sharers.get()
    }
    /// The same for parameters that the same ranks divide.
    pub fn division(&self) -> Option<*const ()> {
        self.sharers().map(|sharers| Arc::as_ptr(sharers).cast())
    }
    /// Says which ranks divide the parameter, the first time.
    pub fn divide_among(&self, sharers: Arc<dyn Channel>) {
        self.sharers.get_or_init(|| sharers);
    }
    /// Whether the sum holds many gradients that are not computed.
    pub fn is_long(&self) -> bool {
        self.added.load(Ordering::Relaxed) >= LONG
    }
}

impl VersionedCell for GradCell {
    type Contents = Option<Arc<Node>>;
    fn versions(&self) -> &Mutex<Versions<Option<Arc<Node>>>> {
        &self.sum
    }
    fn companion(&self) -> Option<Arc<Node>> {
        let presence = self.lock_presence().clone();
        presence?.held()
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
