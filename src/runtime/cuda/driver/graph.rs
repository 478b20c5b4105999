//! Launches that follow each other as one object of the driver's (a CUDA
//! graph), whose parameters can be changed.

use std::ffi::c_void;
use std::ptr::null_mut;

use cudarc::driver::{result, sys};

use super::{Driver, Function, Outcome};

/// A launch as the driver takes it: each parameter as 8 bytes, of which the
/// function takes as many as it declares.
#[derive(Clone, Debug)]
pub struct Call {
    /// The kernel's name, for errors.
    pub name: std::sync::Arc<str>,
    /// What runs.
    pub function: std::sync::Arc<Function>,
    /// Blocks.
    pub groups: u32,
    /// Threads of a block.
    pub workgroup: u32,
    /// Bytes of shared memory for each block, besides what the function declares.
    pub shared_bytes: u32,
    /// The function's parameters.
    pub parameters: Vec<u64>,
}

impl PartialEq for Call {
    fn eq(&self, other: &Call) -> bool {
        std::sync::Arc::ptr_eq(&self.function, &other.function)
            && (self.groups, self.workgroup, self.shared_bytes)
                == (other.groups, other.workgroup, other.shared_bytes)
            && self.parameters == other.parameters
    }
}

/// Kernels in a row, ready to be launched by one call. Must be given to
/// [`Driver::forget_chain`] in the end.
#[derive(Debug)]
pub struct Chain {
    /// What `exec` was made from; its nodes name those of `exec`.
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
    pub fn chain(&self, calls: &[Call]) -> Outcome<Chain> {
        let mut graph = null_mut();
        // SAFETY: the pointer is to a live handle; no flags are defined.
        self.call(|| unsafe { sys::cuGraphCreate(&mut graph, 0).result() })?;
        let made = self.call(|| {
            let mut nodes: Vec<sys::CUgraphNode> = Vec::with_capacity(calls.len());
            for call in calls {
                let node = with_parameters(call, |parameters| {
                    let mut node = null_mut();
                    let before = nodes.last().map_or(std::ptr::null(), std::ptr::from_ref);
                    let count = usize::from(!nodes.is_empty());
                    // SAFETY: the graph is alive, `before` is a node of it; the
                    // driver copies parameters before it returns.
                    unsafe { sys::cuGraphAddKernelNode_v2(&mut node, graph, before, count, parameters) }
                        .result()?;
                    Ok(node)
                })?;
                nodes.push(node);
            }
            // SAFETY: the graph is alive and whole.
            let exec = unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) }?;
            Ok(Chain { graph, exec, nodes })
        });
        if made.is_err() {
            // SAFETY: nobody knows the graph yet.
            let _ = self.call(|| unsafe { result::graph::destroy(graph) });
        }
        made
    }

    /// Gives the `number`-th launch of a chain other parameters, from its next
    /// launch on.
    ///
    /// # Errors
    /// The driver's failure; the launch is then as before or as asked for.
    pub fn change_link(&self, chain: &mut Chain, number: usize, call: &Call) -> Outcome<()> {
        self.call(|| {
            with_parameters(call, |parameters| {
                // SAFETY: the node belongs to the graph that `exec` was made
                // from; launches under way keep the parameters they have.
                unsafe { sys::cuGraphExecKernelNodeSetParams_v2(chain.exec, chain.nodes[number], parameters) }
                    .result()
            })
        })
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
    call: &Call,
    then: impl FnOnce(*const sys::CUDA_KERNEL_NODE_PARAMS) -> Result<T, result::DriverError>,
) -> Result<T, result::DriverError> {
    let mut parameters = call.parameters.clone();
    let mut places: Vec<*mut c_void> =
        parameters.iter_mut().map(|parameter| (&raw mut *parameter).cast()).collect();
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
