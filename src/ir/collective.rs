//! Collectives: operations that all ranks of a group run together.
//!
//! A rank is one of several programs, threads or processes, that do the same on different data. In the
//! graph a collective has an operand and a result like any operation; what it computes depends on the
//! operands of the other ranks too.

use std::fmt;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::base::{Kind, Result, Span};
use crate::ir::device_collective::DeviceCollective;
use crate::ir::mismatch::Mismatch;
use crate::ir::node::Node;
use crate::ir::ty::Type;

/// How the values of ranks are combined, element by element, in the order of the ranks: results are the
/// same on all of them, bit by bit. 16-bit floats are combined in 32 bits and rounded once. NCCL has an order of
/// its own and rounds each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reduce {
    /// The sum. Integers wrap.
    Sum,
    /// The sum over the number of ranks; of floats.
    Mean,
    /// The least. NaN where one is.
    Min,
    /// The largest. NaN where one is.
    Max,
    /// The product. Integers wrap.
    Product,
}

impl Reduce {
    /// The name in plans and errors.
    pub const fn name(self) -> &'static str {
        match self {
            Reduce::Sum => "sum",
            Reduce::Mean => "mean",
            Reduce::Min => "min",
            Reduce::Max => "max",
            Reduce::Product => "product",
        }
    }

    /// Whether values of a kind can be combined so.
    pub const fn accepts(self, kind: Kind) -> bool {
        match self {
            Reduce::Min | Reduce::Max => true,
            Reduce::Sum | Reduce::Product => !matches!(kind, Kind::Bool),
            Reduce::Mean => matches!(kind, Kind::Float),
        }
    }
}

/// What the ranks of a group do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CollectiveKind {
    /// The operands combined, on every rank.
    AllReduce(Reduce),
    /// The operands combined; each rank gets its part along the leading axis, whose extent is the number of
    /// ranks and which is removed.
    ReduceScatter(Reduce),
    /// The operands of all ranks along a new leading axis, on every rank.
    AllGather,
    /// Part `i` along the leading axis goes to rank `i`, whose part `j` is rank `j`'s.
    AllToAll,
    /// One rank's operand, on every rank.
    Broadcast {
        /// Whose.
        root: usize,
    },
    /// The sum of the operands on one rank, zeros on the others: what gradients of a broadcast do.
    SumTo {
        /// Which.
        root: usize,
    },
    /// Nothing: all ranks have come when it is done.
    Barrier,
}

impl CollectiveKind {
    /// The operation's name.
    pub const fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllReduce(_) => "all_reduce",
            CollectiveKind::ReduceScatter(_) => "reduce_scatter",
            CollectiveKind::AllGather => "all_gather",
            CollectiveKind::AllToAll => "all_to_all",
            CollectiveKind::Broadcast { .. } => "broadcast",
            CollectiveKind::SumTo { .. } => "reduce",
            CollectiveKind::Barrier => "barrier",
        }
    }

    /// What there is to say besides the name; empty for most.
    pub fn attributes(self) -> String {
        match self {
            CollectiveKind::AllReduce(reduce) | CollectiveKind::ReduceScatter(reduce) => reduce.name().into(),
            CollectiveKind::Broadcast { root } => format!("from {root}"),
            CollectiveKind::SumTo { root } => format!("sum to {root}"),
            CollectiveKind::AllGather | CollectiveKind::AllToAll | CollectiveKind::Barrier => String::new(),
        }
    }

    /// The type of the result on each of `size` ranks.
    ///
    /// # Errors
    /// A type that cannot be combined so, a leading axis that does not say one part for each rank, a root
    /// that is no rank.
    pub fn infer(self, size: usize, operand: &Type) -> Result<Type, Mismatch> {
        match self {
            CollectiveKind::AllReduce(reduce) => {
                accepts(reduce, operand)?;
                Ok(operand.clone())
            }
            CollectiveKind::ReduceScatter(reduce) => {
                accepts(reduce, operand)?;
                one_part_each(size, operand)?;
                Ok(operand.with_shape(&operand.shape[1..]))
            }
            CollectiveKind::AllGather => {
                let extents: Vec<usize> =
                    std::iter::once(size).chain(operand.shape.iter().copied()).collect();
                Ok(operand.with_shape(&extents[..]))
            }
            CollectiveKind::AllToAll => {
                one_part_each(size, operand)?;
                Ok(operand.clone())
            }
            CollectiveKind::Broadcast { root } | CollectiveKind::SumTo { root } if root >= size => {
                Err(Mismatch::new(format!("a root below {size}, the number of ranks"), root.to_string()))
            }
            CollectiveKind::SumTo { .. } => {
                accepts(Reduce::Sum, operand)?;
                Ok(operand.clone())
            }
            CollectiveKind::Broadcast { .. } | CollectiveKind::Barrier => Ok(operand.clone()),
        }
    }
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attributes = self.attributes();
        if attributes.is_empty() {
            f.write_str(self.name())
        } else {
            write!(f, "{}({attributes})", self.name())
        }
    }
}

fn accepts(reduce: Reduce, operand: &Type) -> Result<(), Mismatch> {
    if reduce.accepts(operand.dtype.kind()) {
        return Ok(());
    }
    let expected = match reduce {
        Reduce::Mean => "floats, for the mean",
        Reduce::Sum | Reduce::Product | Reduce::Min | Reduce::Max => "numbers",
    };
    Err(Mismatch::new(expected, operand.dtype.to_string()))
}

fn one_part_each(size: usize, operand: &Type) -> Result<(), Mismatch> {
    if operand.shape.first() == Some(&size) {
        return Ok(());
    }
    let expected = format!("a leading axis of extent {size}, the number of ranks");
    Err(Mismatch::new(expected, format!("shape {}", operand.shape)))
}

/// A rank's way to the other ranks of its group.
pub trait Channel: fmt::Debug + Send + Sync {
    /// The group's name.
    fn name(&self) -> &str;
    /// This rank's number in the group.
    fn rank(&self) -> usize;
    /// The number of ranks.
    fn size(&self) -> usize;
    /// Takes part in a collective: this rank's operand, of type `ty` and row-major, becomes this rank's
    /// result.
    ///
    /// # Errors
    /// [`crate::Error::Collective`], on every rank.
    fn run(&self, kind: CollectiveKind, ty: &Type, span: Span, operand: &[u8]) -> Result<Vec<u8>>;
    /// [`Channel::run`] beside what this thread does next; after those that were started before.
    fn start(
        self: Arc<Self>,
        kind: CollectiveKind,
        ty: &Type,
        span: Span,
        operand: Vec<u8>,
    ) -> Receiver<Result<Vec<u8>>>;
    /// Whether tensors on devices that can do so go from device to device in collectives of that kind, by
    /// [`Channel::start_between_devices`].
    fn goes_between_devices(&self, kind: CollectiveKind) -> bool;
    /// Takes part in a collective by the device, beside what this thread does next and after those that were
    /// started before.
    fn start_between_devices(
        self: Arc<Self>,
        kind: CollectiveKind,
        ty: &Type,
        span: Span,
        part: Box<dyn DeviceCollective>,
    ) -> Receiver<Result<()>>;
    /// The order in which this rank has built collectives, of all its groups.
    fn order(&self) -> &BuildOrder;
}

/// A collective of one group.
#[derive(Clone, Debug)]
pub struct Collective {
    /// What the ranks do.
    pub kind: CollectiveKind,
    /// The number of ranks.
    pub size: usize,
    /// The group; none in plans, which run with that of the graph at hand.
    pub channel: Option<Arc<dyn Channel>>,
}

impl Collective {
    /// The same of any group of as many ranks.
    pub fn of_any_group(&self) -> Arc<Collective> {
        Arc::new(Collective { kind: self.kind, size: self.size, channel: None })
    }
}

/// The collectives that a rank has built and not computed. The next one waits for the last of them, so that
/// all ranks run theirs in the order in which they built them, whatever is computed first.
#[derive(Debug, Default)]
pub struct BuildOrder(Mutex<Vec<Weak<Node>>>);

impl BuildOrder {
    /// The last collective that is still to be computed.
    pub fn last(&self) -> Option<Arc<Node>> {
        let mut built = self.lock();
        while let Some(node) = built.last() {
            match node.upgrade().filter(|node| node.value().is_none()) {
                Some(node) => return Some(node),
                None => _ = built.pop(),
            }
        }
        None
    }
    /// Another one is the last.
    pub fn follow(&self, node: &Arc<Node>) {
        self.lock().push(Arc::downgrade(node));
    }
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Node>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
