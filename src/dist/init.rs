//! Ranks as processes that a launcher has started.

use std::sync::Arc;
use std::time::Duration;

use crate::base::config::config;
use crate::base::{Error, Result, Span};
use crate::dist::group::Group;
use crate::dist::launch::Launch;
use crate::dist::post::World;
#[cfg(not(all(feature = "mpi", unix)))]
use crate::dist::transport::Transport;
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
    /// NVIDIA's NCCL, loaded at run time (feature `nccl`): what is on a CUDA device goes from device to device.
    /// Each rank has a device of its own, mostly that of its [`local_rank`](Group::local_rank). The ranks meet,
    /// and tensors on other devices go, by [`Backend::Mpi`] under `mpirun`, where that is compiled in, and else
    /// by [`Backend::Tcp`].
    Nccl,
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
    if backend == Backend::Nccl {
        nccl().map_err(|message| wrong("NVIDIA's library NCCL", message))?;
    }
    let launch = launch.as_ref();
    let transport = match (engine(backend, launch), launch.filter(|launch| launch.size > 1)) {
        (Engine::Threads, Some(launch)) => {
            return Err(wrong("one process, whose threads are the ranks", launch.to_string()));
        }
        (Engine::Tcp, Some(launch)) => crate::dist::tcp::world(launch, opts.timeout)
            .map_err(|message| wrong("all ranks, to meet at MASTER_ADDR:MASTER_PORT", message))?,
        (Engine::Mpi, _) => {
            mpi(launch, opts.timeout).map_err(|message| wrong("an MPI library with its launcher", message))?
        }
        // A process that was started alone.
        (Engine::Threads | Engine::Tcp, None) => Arc::new(World::new(opts.timeout).endpoint(0, 1)),
    };
    Ok(Group::new(transport, backend == Backend::Nccl))
}

/// What moves bytes of the host's, and by what ranks meet.
enum Engine {
    Threads,
    Tcp,
    Mpi,
}

fn engine(backend: Backend, launch: Option<&Launch>) -> Engine {
    match backend {
        Backend::Threads => Engine::Threads,
        Backend::Tcp => Engine::Tcp,
        Backend::Mpi => Engine::Mpi,
        Backend::Nccl if cfg!(all(feature = "mpi", unix)) && launch.is_some_and(Launch::is_mpi) => {
            Engine::Mpi
        }
        Backend::Nccl => Engine::Tcp,
    }
}

#[cfg(all(feature = "mpi", unix))]
use crate::dist::mpi::world as mpi;

#[cfg(not(all(feature = "mpi", unix)))]
fn mpi(_: Option<&Launch>, _: Duration) -> std::result::Result<Arc<dyn Transport>, String> {
    Err("a build without feature `mpi`, or for a system that is not Unix".into())
}

/// Why NCCL cannot be used, if it cannot.
pub(crate) fn nccl() -> std::result::Result<(), String> {
    #[cfg(feature = "nccl")]
    return crate::runtime::cuda::driver::nccl::check();
    #[cfg(not(feature = "nccl"))]
    Err("a build without feature `nccl`".into())
}
