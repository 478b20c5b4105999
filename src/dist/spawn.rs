//! Ranks as threads of this process.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::{Builder, Result as Ended};
use std::time::Duration;

use crate::base::{CollectiveProblem, Error, Result, Span};
use crate::data::scopes::ThreadScopes;
use crate::dist::group::Group;
use crate::dist::post::World;
use crate::tensor::options::options;

options! {
    /// How ranks run; see [`spawn_with`].
    SpawnOpts {
        /// How long a rank waits for another before all of them fail. PyTorch: `timeout` of
        /// `init_process_group`.
        timeout: Duration = Duration::from_secs(600);
        /// Whether data on CUDA devices go from device to device, by NVIDIA's NCCL (feature `nccl`). Each
        /// rank has a device of its own: `Device::cuda(group.rank())`, say.
        nccl: bool = false;
    }
}

/// Runs the body once for each of so many ranks, each on a thread of its own, and gives what they return, by
/// rank.
///
/// Each rank gets the [`Group`] of all of them, and inherits the caller's context, default device, gradient
/// mode and mixed precision. Random numbers start on each rank as on a new thread: seed them as you mean
/// it.
///
/// A rank that returns an error, or panics, does not keep the others waiting: what they ask of it is an
/// error. The panic goes on in the caller once all have ended. PyTorch: `torch.multiprocessing.spawn`.
///
/// # Errors
/// The first rank's error that is not another's end; a system that gives no threads, or no ranks.
///
/// # Examples
/// ```
/// use kiln::dist;
/// let ranks = dist::spawn(3, |group| {
///     group.barrier()?;
///     Ok(format!("{} of {}", group.rank(), group.size()))
/// })?;
/// assert_eq!(ranks, ["0 of 3", "1 of 3", "2 of 3"]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn spawn<R: Send>(ranks: usize, body: impl Fn(Group) -> Result<R> + Sync) -> Result<Vec<R>> {
    spawn_at(Span::caller(), ranks, &SpawnOpts::default(), &body)
}

/// [`spawn`] with options.
///
/// # Errors
/// As [`spawn`]; no NCCL, where the options want it.
///
/// # Examples
/// ```
/// use kiln::dist::{self, SpawnOpts};
/// use std::time::Duration;
/// // Rank 1 does something else for too long.
/// let opts = SpawnOpts::default().timeout(Duration::from_millis(50));
/// let done = dist::spawn_with(2, opts, |group| {
///     if group.rank() == 1 {
///         std::thread::sleep(Duration::from_millis(500));
///     }
///     group.barrier()
/// });
/// assert!(done.unwrap_err().to_string().contains("rank 1 did not come to barrier"));
/// ```
#[track_caller]
pub fn spawn_with<R: Send>(
    ranks: usize,
    opts: SpawnOpts,
    body: impl Fn(Group) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    spawn_at(Span::caller(), ranks, &opts, &body)
}

fn spawn_at<R: Send>(
    span: Span,
    ranks: usize,
    opts: &SpawnOpts,
    body: &(impl Fn(Group) -> Result<R> + Sync),
) -> Result<Vec<R>> {
    let wrong = |expected: &str, found: String| {
        Err(Error::Argument { call: "spawn", expected: expected.into(), found, span })
    };
    if ranks == 0 {
        return wrong("at least one rank", "0".into());
    }
    if opts.nccl {
        crate::dist::init::nccl().or_else(|found| wrong("NVIDIA's library NCCL", found).map(drop))?;
    }
    let (world, scopes) = (World::new(opts.timeout), ThreadScopes::here());
    let run = |rank: usize| -> Ended<Result<R>> {
        let group = Group::new(Arc::new(world.endpoint(rank, ranks)), opts.nccl);
        let ended = catch_unwind(AssertUnwindSafe(|| scopes.enter(|| body(group))));
        world.leave(rank);
        ended
    };
    let ended = std::thread::scope(|scope| {
        let run = &run;
        let start = |rank: usize| {
            let thread = Builder::new().name(format!("rank {rank}"));
            let thread = thread.spawn_scoped(scope, move || run(rank));
            // The others need not wait for one that never starts.
            thread.inspect_err(|_| world.leave(rank))
        };
        let threads: Vec<_> = (0..ranks).map(start).collect();
        let join = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match thread {
            Ok(thread) => Ok(thread.join().unwrap_or_else(Err)),
            Err(error) => Err(error),
        };
        threads.into_iter().map(join).collect::<Vec<std::io::Result<Ended<Result<R>>>>>()
    });
    let mut results = Vec::with_capacity(ranks);
    for rank in ended {
        match rank {
            Ok(Ok(result)) => results.push(result),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(error) => return wrong("a system that gives a thread for each rank", error.to_string()),
        }
    }
    first_cause(results)
}

/// The results, or the first error that is not another rank's end.
fn first_cause<R>(results: Vec<Result<R>>) -> Result<Vec<R>> {
    let is_consequence = |error: &Error| match error {
        Error::Collective(error) => matches!(error.problem, CollectiveProblem::Gone { .. }),
        _ => false,
    };
    let cause = results.iter().position(|result| result.as_ref().is_err_and(|error| !is_consequence(error)));
    match cause {
        Some(cause) => {
            results.into_iter().nth(cause).map_or(Ok(Vec::new()), |result| result.map(|_| Vec::new()))
        }
        None => results.into_iter().collect(),
    }
}
