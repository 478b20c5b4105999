//! Several ranks that train one model: the same program run several times at once, as threads or as
//! processes, each on data of its own.
//!
//! [`spawn`] runs ranks as threads of this process, [`init`] joins the processes that a launcher has
//! started. Each rank gets its [`Group`], through which it meets the others. [`Ddp`] is a model that all of
//! them train.
//!
//! ```
//! use kiln::dist;
//! # fn main() -> kiln::Result<()> {
//! let ranks = dist::spawn(2, |group| {
//!     group.barrier()?;
//!     Ok(group.rank())
//! })?;
//! assert_eq!(ranks, [0, 1]);
//! # Ok(())
//! # }
//! ```

mod data_parallel;
mod ddp;
mod device_engine;
mod divided_param;
mod divided_state;
mod endpoint;
mod group;
mod init;
mod launch;
mod mail;
mod mesh;
#[cfg(all(feature = "mpi", unix))]
mod mpi;
mod operations;
mod post;
mod reduce;
#[cfg(feature = "safetensors")]
mod save;
mod spawn;
mod tcp;
mod tensor_parallel;
mod texts;
mod transport;
mod worker;

pub use crate::base::{CollectiveError, CollectiveProblem};
pub use crate::ir::collective::Reduce;
pub use data_parallel::DataParallel;
pub use ddp::{BufferSync, Ddp, DdpOpts};
pub use group::Group;
pub use init::{Backend, InitOpts, init, init_with};
pub use mesh::Mesh;
pub use spawn::{SpawnOpts, spawn, spawn_with};
pub use tensor_parallel::{ColumnParallel, RowParallel, VocabularyParallel};

#[cfg(test)]
mod tests;
