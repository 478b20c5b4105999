//! Groups of ranks, and what a program asks of them.

use std::fmt;
use std::sync::Arc;

use crate::base::{DType, Device, Error, Result, Span};
use crate::dist::endpoint::Endpoint;
use crate::dist::transport::Transport;
use crate::ir::Type;
use crate::ir::collective::{Channel, CollectiveKind};

/// Ranks that work together: the same program, run several times at once on different data. A handle, cheap
/// to clone, of one rank.
///
/// All ranks of a group call the same operations of it in the same order, as in MPI and
/// `torch.distributed`. Ranks that differ, in operation, shape or type, and ranks that end or do not come
/// in time, are an `Err` on every rank of the group ([`Error::Collective`]), after which the group cannot
/// be used any more.
///
/// PyTorch: `ProcessGroup`.
///
/// # Examples
/// ```
/// use kiln::dist;
/// let sizes = dist::spawn(4, |world| {
///     // Two groups of two.
///     let half = [[0, 1], [2, 3]][world.rank() / 2];
///     let group = world.subgroup(&half)?.expect("a member");
///     Ok((group.name().to_string(), group.rank()))
/// })?;
/// assert_eq!(sizes[3], ("world[2, 3]".to_string(), 1));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone)]
pub struct Group {
    endpoint: Arc<Endpoint>,
}

impl Group {
    /// Over an engine; with `between_devices`, data on devices that can do so pass it by.
    pub(crate) fn new(transport: Arc<dyn Transport>, between_devices: bool) -> Group {
        Group { endpoint: Arc::new(Endpoint::new(transport, between_devices)) }
    }

    /// This rank's end.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The group as a graph knows it.
    pub(crate) fn channel(&self) -> Arc<dyn Channel> {
        self.endpoint.clone()
    }

    /// This rank's number in the group. PyTorch: `get_rank`.
    pub fn rank(&self) -> usize {
        self.endpoint.rank()
    }

    /// The number of ranks. PyTorch: `get_world_size`.
    pub fn size(&self) -> usize {
        self.endpoint.size()
    }

    /// This rank's number among the ranks of the world that are on its machine: which device it takes.
    /// PyTorch: `LOCAL_RANK`.
    pub fn local_rank(&self) -> usize {
        self.endpoint.local_rank()
    }

    /// The name in errors and plans: `world`, and of a group of some of its ranks their numbers.
    pub fn name(&self) -> &str {
        self.endpoint.name()
    }

    /// Waits until all ranks have come here. PyTorch: `barrier`.
    ///
    /// # Errors
    /// [`Error::Collective`].
    ///
    /// # Examples
    /// ```
    /// kiln::dist::spawn(2, |group| group.barrier())?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        let nothing = Type::new([0], DType::U8, Device::cpu());
        self.endpoint.run(CollectiveKind::Barrier, &nothing, Span::caller(), &[]).map(drop)
    }

    /// The group of some of the ranks, numbered in the order given; `None` on a rank that is none of them.
    /// Only its own ranks need to make it. PyTorch: `new_group`, which all ranks call.
    ///
    /// # Errors
    /// No rank, a rank that there is not, one that is listed twice.
    ///
    /// # Examples
    /// ```
    /// use kiln::dist;
    /// let ranks = dist::spawn(3, |world| {
    ///     let outer = world.subgroup(&[2, 0])?;
    ///     Ok(outer.map(|group| group.rank()))
    /// })?;
    /// assert_eq!(ranks, [Some(1), None, Some(0)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn subgroup(&self, ranks: &[usize]) -> Result<Option<Group>> {
        let span = Span::caller();
        let is_twice = |(i, rank): (usize, &usize)| ranks[..i].contains(rank);
        if ranks.is_empty()
            || ranks.iter().any(|&rank| rank >= self.size())
            || ranks.iter().enumerate().any(is_twice)
        {
            let expected = format!("different ranks below {}, at least one", self.size());
            return Err(Error::Argument { call: "subgroup", expected, found: format!("{ranks:?}"), span });
        }
        let own = ranks.contains(&self.rank());
        Ok(own.then(|| Group { endpoint: Arc::new(self.endpoint.subgroup(ranks)) }))
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({}, rank {} of {})", self.name(), self.rank(), self.size())
    }
}
