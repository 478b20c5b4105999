//! Why a set of nodes is not one kernel.

use crate::base::Shape;

/// The reason two parts of a graph do not share a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blocker {
    /// The operation is a step of its own.
    #[error("{0} always runs as a step of its own")]
    Opaque(&'static str),
    /// `KILN_DISABLE` names fusion.
    #[error("fusion is switched off")]
    SwitchedOff,
    /// Stored values range over different points.
    #[error("their values range over different points: {} and {}", .0.0, .0.1)]
    DifferentDomain(Box<(Shape, Shape)>),
    /// Two reductions combine rows of different form.
    #[error("their reductions combine rows of different extents: {} and {}", .0.0, .0.1)]
    DifferentRows(Box<(Shape, Shape)>),
    /// The reduction would be computed more than once.
    #[error("the {0} would be computed {1} times for each of its elements")]
    Repeated(&'static str, usize),
    /// The reduction's position depends on data.
    #[error("the {0} is read at positions that depend on data")]
    DynamicIndex(&'static str),
    /// One kernel holds one contraction, and it fills the whole grid.
    #[error("a kernel holds one contraction, alone with elementwise work before and after it")]
    Contraction,
    /// A contraction's operand is cheaper stored than computed again.
    #[error("{0} before a contraction would be computed again for every block of the result")]
    ExpensivePrologue(&'static str),
    /// A kernel with a contraction cannot be cut where conditions are decided.
    #[error("after a contraction it would be read under conditions, element by element")]
    GuardedEpilogue,
    /// A kernel cannot be cut within its rows.
    #[error("in each pass over the rows it would be read under conditions, element by element")]
    GuardedRows,
    /// The kernel before a contraction stores the operand instead of what it is computed from.
    #[error(
        "the kernel before it computes it once and stores no more for it; a contraction would for every block of the result"
    )]
    ComputedBefore,
    /// A scan's axis must be the kernel's only row axis.
    #[error("the scan does not run along the kernel's rows")]
    ScanAxis,
    /// Rows within rows within rows.
    #[error("reductions nested more than two deep")]
    TooDeep,
    /// Too few rows to occupy the device.
    #[error("{rows} rows of {extent} would leave the device idle; a split reduction runs by itself")]
    TooFewRows {
        /// Rows there are.
        rows: usize,
        /// Elements of one row.
        extent: usize,
    },
    /// The kernel would be too large.
    #[error("the kernel would have more than {0} expressions")]
    TooLarge(usize),
    /// More buffers than the device binds.
    #[error("the kernel would bind {found} buffers, the device binds {limit}")]
    Bindings {
        /// Buffers it would bind.
        found: usize,
        /// Buffers the device binds.
        limit: usize,
    },
    /// Each would have to run before the other.
    #[error("something between them must run after the one and before the other")]
    Cycle,
    /// Too many operations lie between them.
    #[error("too much lies between them to find out whether one must run before the other")]
    Distant,
    /// Storing the value moves fewer bytes than computing it in every kernel that reads it.
    #[error("the value is read by {readers} kernels; storing it costs less than computing it in each")]
    Shared {
        /// Kernels that read the value.
        readers: usize,
    },
    /// The value would be computed once for every element it is expanded to.
    #[error("it would be computed {times} times for each of its elements")]
    Expanded {
        /// How many times.
        times: usize,
    },
}
