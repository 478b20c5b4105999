//! How threads share the work of a program.

/// How a program's work is shared between threads. It depends on shapes alone, so results do not
/// depend on the number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkPartition {
    /// One thread.
    Serial,
    /// So many tiles of level 0 a job.
    Tiles(usize),
    /// So many iterations of level 1 a job, whose partial states are then
    /// combined in order.
    ReductionRows(usize),
    /// So many jobs that divide an axis along which writes of a scatter
    /// never conflict.
    ConflictFree(usize),
}
