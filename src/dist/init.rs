//! Ranks as processes that a launcher has started.

use std::time::Duration;

use crate::base::config::config;
use crate::base::{Error, Result, Span};
use crate::dist::group::Group;
use crate::dist::launch::Launch;
use crate::dist::post::World;
use crate::tensor::options::options;

/// What moves data between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// Memory: ranks are threads of one process. [`spawn`](crate::dist::spawn) starts them; [`init`] gives
    /// the group of this thread alone, so that a program for several ranks runs as one.
    Threads,
    /// TCP: ranks are processes that `torchrun` or `srun` has started, or anything that sets `RANK`,
    /// `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`. Of connections nobody proves who they are: it is for
    /// networks that are trusted. PyTorch: `gloo`.
    Tcp,
    /// An MPI library, loaded at run time (feature `mpi`): ranks are processes that `mpirun` or `srun` has
    /// started.
    Mpi,
}

options! {
    /// How ranks meet; see [`init_with`].
    InitOpts {
        /// How long a rank waits for another before all of them fail. PyTorch: `timeout` of
        /// `init_process_group`.
        timeout: Duration = Duration::from_secs(600);
    }
}

/// The group of all processes that a launcher has started with this one.
///
/// Rank and size are the launcher's, as it has written them into the environment: Open MPI's and MPICH's
/// `mpirun`, `srun`, `torchrun`. `KILN_DEBUG=1` prints them. `KILN_MPI` names the MPI library, where
/// several are installed. PyTorch: `init_process_group`.
///
/// # Errors
/// A library that is not there, or was not compiled in; a launcher that is not the library's, so that each
/// process would be alone; variables that make no sense; a second call.
///
/// # Examples
/// ```
/// use kiln::dist::{self, Backend};
/// let group = dist::init(Backend::Threads)?;
/// assert_eq!((group.rank(), group.size()), (0, 1));
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn init(backend: Backend) -> Result<Group> {
    init_at(Span::caller(), backend, &InitOpts::default())
}

/// [`init`] with options.
///
/// # Errors
/// As [`init`].
///
/// # Examples
/// ```
/// use kiln::dist::{self, Backend, InitOpts};
/// use std::time::Duration;
/// let group = dist::init_with(Backend::Threads, InitOpts::default().timeout(Duration::from_secs(60)))?;
/// assert_eq!(group.local_rank(), 0);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn init_with(backend: Backend, opts: InitOpts) -> Result<Group> {
    init_at(Span::caller(), backend, &opts)
}

fn init_at(span: Span, backend: Backend, opts: &InitOpts) -> Result<Group> {
    let launch = Launch::from_environment()?;
    if config().debug > 0 {
        let said = launch.as_ref().map_or_else(|| "no launcher".to_string(), Launch::to_string);
        eprintln!("kiln: {backend:?}: {said}");
    }
    let wrong = |expected: &str, found: String| Error::Argument {
        call: "init",
        expected: expected.into(),
        found,
        span,
    };
    match backend {
        Backend::Threads => match launch.filter(|launch| launch.size > 1) {
            Some(launch) => Err(wrong("one process, whose threads are the ranks", launch.to_string())),
            None => Ok(alone(opts)),
        },
        Backend::Tcp => match launch.filter(|launch| launch.size > 1) {
            Some(launch) => {
                let world = crate::dist::tcp::world(&launch, opts.timeout);
                let found = |message| wrong("all ranks, to meet at MASTER_ADDR:MASTER_PORT", message);
                world.map(Group::new).map_err(found)
            }
            None => Ok(alone(opts)),
        },
        #[cfg(all(feature = "mpi", unix))]
        Backend::Mpi => {
            let world = crate::dist::mpi::world(launch.as_ref(), opts.timeout);
            world.map(Group::new).map_err(|message| wrong("an MPI library with its launcher", message))
        }
        #[cfg(not(all(feature = "mpi", unix)))]
        Backend::Mpi => Err(wrong("a build with feature `mpi`, on a Unix system", "one without".into())),
    }
}

/// The group of a process that was started alone.
fn alone(opts: &InitOpts) -> Group {
    Group::new(std::sync::Arc::new(World::new(opts.timeout).endpoint(0, 1)))
}
