//! Launches of a plan that runs again, by one call of the driver's.
//!
//! The first time, launches are made one by one. The second time a CUDA graph
//! is made of them; from then on each launch's function, sizes, addresses and
//! scalars are compared with what the graph holds, what differs is changed
//! there, and the graph is launched. So nothing in it is ever stale. Where the
//! driver refuses a graph, launches are made one by one again.

use std::sync::Arc;

use crate::base::Result;
use crate::runtime::Replay;
use crate::runtime::cuda::driver::call::DriverCall;
use crate::runtime::cuda::driver::graph::Chain;
use crate::runtime::cuda::driver::{Failure, Outcome};
use crate::runtime::cuda::gpu::CudaGpu;

/// The most launches of a graph: more take long enough by themselves.
const MOST: usize = 1024;

/// What is kept between the runs of a plan.
enum Kept {
    /// The launches were made once.
    Once,
    /// They are a graph.
    Graph(LaunchGraph),
}

/// A chain of launches, and what it holds.
struct LaunchGraph {
    gpu: Arc<CudaGpu>,
    /// There until it is dropped.
    chain: Option<Chain>,
    calls: Vec<DriverCall>,
}

impl Drop for LaunchGraph {
    fn drop(&mut self) {
        if let Some(chain) = self.chain.take() {
            self.gpu.driver.forget_chain(chain);
        }
    }
}

impl LaunchGraph {
    fn new(gpu: &Arc<CudaGpu>, calls: &[DriverCall]) -> Outcome<LaunchGraph> {
        let chain = gpu.driver.chain(calls)?;
        Ok(LaunchGraph { gpu: gpu.clone(), chain: Some(chain), calls: calls.to_vec() })
    }

    /// Launches it as `calls` say.
    fn launch(&mut self, calls: &[DriverCall]) -> Outcome<()> {
        let Some(chain) = &mut self.chain else { return Ok(()) };
        for (number, (held, call)) in self.calls.iter_mut().zip(calls).enumerate() {
            if held != call {
                self.gpu.driver.change_link(chain, number, held, call)?;
                held.clone_from(call);
            }
        }
        self.gpu.driver.launch_chain(chain)
    }
}

/// Makes launches that follow each other; gives the calls of the driver's that
/// a graph saved.
///
/// # Errors
/// The driver's failure, with the kernels' names.
pub fn launch(gpu: &Arc<CudaGpu>, calls: &[DriverCall], replay: &Replay) -> Result<u64> {
    let graph = match replay.take::<Kept>() {
        _ if !(2..=MOST).contains(&calls.len()) => None,
        None => None,
        Some(Kept::Graph(graph)) if graph.calls.len() == calls.len() => Some(Ok(graph)),
        Some(Kept::Once | Kept::Graph(_)) => Some(LaunchGraph::new(gpu, calls)),
    };
    let launched = graph.map(|graph| {
        let mut graph = graph?;
        graph.launch(calls).map(|()| graph)
    });
    match launched {
        Some(Ok(graph)) => {
            replay.put(Kept::Graph(graph));
            return Ok(calls.len() as u64 - 1);
        }
        Some(Err(Failure::Lost(reason))) => return Err(gpu.error(&names(calls), Failure::Lost(reason))),
        // A graph takes memory of the driver's; nothing of it has run.
        Some(Err(Failure::OutOfMemory | Failure::Other(_))) | None => {}
    }
    one_by_one(gpu, calls)?;
    replay.put(Kept::Once);
    Ok(0)
}

/// Makes launches, each by a call.
///
/// # Errors
/// The driver's failure, with the kernel's name.
pub fn one_by_one(gpu: &CudaGpu, calls: &[DriverCall]) -> Result<()> {
    gpu.times.around(gpu, || {
        calls
            .iter()
            .try_for_each(|call| gpu.driver.launch(call).map_err(|failure| gpu.error(call.name(), failure)))
    })
}

/// The kernels of a graph, which fail together.
fn names(calls: &[DriverCall]) -> String {
    let mut names: Vec<&str> = calls.iter().map(DriverCall::name).collect();
    names.dedup();
    names.join(", ")
}
