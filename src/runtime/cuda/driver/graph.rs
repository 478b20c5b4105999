//! Launches that follow each other as one object of the driver's (a CUDA
//! graph), whose parameters can be changed.

use std::ptr::null_mut;

use cudarc::driver::{result, sys};

use super::call::{DriverCall, KernelCall};
use super::{Driver, Failure, Outcome};

/// Calls in a row, ready to be launched by one call. Must be given to
/// [`Driver::forget_chain`] in the end.
#[derive(Debug)]
pub struct Chain {
    /// What `exec` was made from; its nodes name those of `exec`. A product is a graph
    /// within it.
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
    nodes: Vec<sys::CUgraphNode>,
}

// SAFETY: handles that any thread may use, one at a time, which `&mut` sees to.
unsafe impl Send for Chain {}

impl Driver {
    /// Makes a chain of launches, each after the one before it.
    ///
    /// # Errors
    /// The driver's failure; nothing is left behind then.
    pub fn chain(&self, calls: &[DriverCall]) -> Outcome<Chain> {
        let mut graph = null_mut();
        // SAFETY: the pointer is to a live handle; no flags are defined.
        self.call(|| unsafe { sys::cuGraphCreate(&mut graph, 0).result() })?;
        let made = self.nodes(graph, calls).and_then(|nodes| {
            // SAFETY: the graph is alive and whole.
            let exec =
                self.call(|| unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) })?;
            Ok(Chain { graph, exec, nodes })
        });
        if made.is_err() {
            // Nobody knows the graph yet.
            self.forget_graph(graph);
        }
        made
    }

    /// Adds calls to a graph, each after the one before it.
    fn nodes(&self, graph: sys::CUgraph, calls: &[DriverCall]) -> Outcome<Vec<sys::CUgraphNode>> {
        let mut nodes: Vec<sys::CUgraphNode> = Vec::with_capacity(calls.len());
        for call in calls {
            let mut node = null_mut();
            let before = nodes.last().map_or(std::ptr::null(), std::ptr::from_ref);
            let count = usize::from(!nodes.is_empty());
            // SAFETY (of both): the graph is alive, `before` is a node of it; the
            // driver copies parameters, and graphs added, before it returns.
            match call {
                DriverCall::Kernel(call) => self.call(|| {
                    with_parameters(call, |parameters| {
                        unsafe { sys::cuGraphAddKernelNode_v2(&mut node, graph, before, count, parameters) }
                            .result()
                    })
                })?,
                DriverCall::Product(call) => {
                    let part = self.recorded(call)?;
                    let added = self.call(|| {
                        unsafe { sys::cuGraphAddChildGraphNode(&mut node, graph, before, count, part) }
                            .result()
                    });
                    self.forget_graph(part);
                    added?;
                }
            }
            nodes.push(node);
        }
        Ok(nodes)
    }

    /// Gives the `number`-th call of a chain other parameters, from its next
    /// launch on.
    ///
    /// # Errors
    /// The driver's failure; the call is then as before or as asked for. One that
    /// was a kernel's launch and is to be a product, or the other way round.
    pub fn change_link(
        &self,
        chain: &mut Chain,
        number: usize,
        held: &DriverCall,
        call: &DriverCall,
    ) -> Outcome<()> {
        let node = chain.nodes[number];
        match (held, call) {
            (DriverCall::Kernel(_), DriverCall::Kernel(call)) => self.call(|| {
                with_parameters(call, |parameters| {
                    // SAFETY: the node belongs to the graph that `exec` was made
                    // from; launches under way keep the parameters they have.
                    unsafe { sys::cuGraphExecKernelNodeSetParams_v2(chain.exec, node, parameters) }.result()
                })
            }),
            (DriverCall::Product(_), DriverCall::Product(call)) => {
                let part = self.recorded(call)?;
                // SAFETY: as above; the driver copies the graph before it returns.
                let changed = self.call(|| {
                    unsafe { sys::cuGraphExecChildGraphNodeSetParams(chain.exec, node, part) }.result()
                });
                self.forget_graph(part);
                changed
            }
            (DriverCall::Kernel(_), DriverCall::Product(_))
            | (DriverCall::Product(_), DriverCall::Kernel(_)) => {
                Err(Failure::Other("a kernel of a graph cannot become a library's call".into()))
            }
        }
    }

    /// Enqueues all launches of a chain.
    ///
    /// # Errors
    /// The driver's failure.
    pub fn launch_chain(&self, chain: &mut Chain) -> Outcome<()> {
        // SAFETY: chain and stream live; what the parameters point to is the
        // caller's, as for a launch.
        self.call(|| unsafe { result::graph::launch(chain.exec, self.stream) })
    }

    /// Gives a chain back; launches under way go on.
    pub fn forget_chain(&self, chain: Chain) {
        // SAFETY: both were made by `chain`, and nobody else has them.
        let _ = self.call(|| unsafe {
            let exec = result::graph::exec_destroy(chain.exec);
            result::graph::destroy(chain.graph).and(exec)
        });
    }
}

/// Runs `then` on a launch as a node's parameters.
fn with_parameters<T>(
    call: &KernelCall,
    then: impl FnOnce(*const sys::CUDA_KERNEL_NODE_PARAMS) -> Result<T, result::DriverError>,
) -> Result<T, result::DriverError> {
    let mut places = call.places();
    let node = sys::CUDA_KERNEL_NODE_PARAMS {
        func: call.function.function,
        gridDimX: call.groups,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: call.workgroup,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: call.shared_bytes,
        kernelParams: places.as_mut_ptr(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    };
    then(&raw const node)
}
