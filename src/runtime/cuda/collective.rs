//! Collectives by NCCL, on a stream of their own beside kernels.
//!
//! The operand is copied to where the result will be, or beside it, in the order of kernels. So the memory of
//! the operand is free for what comes next, whenever the other ranks come.

use std::any::Any;
use std::sync::Arc;

use crate::base::{Device, Result};
use crate::ir::DeviceBuffer;
use crate::ir::collective::CollectiveKind;
use crate::ir::device_collective::{Communicator, DeviceCollective, Said};
use crate::runtime::RankCollective;
use crate::runtime::cuda::driver::nccl::{self, NcclCall, NcclCommunicator, NcclKind, NcclReduce};
use crate::runtime::cuda::driver::{Failure, StreamEvent};
use crate::runtime::cuda::gpu::{CudaGpu, allocate};

/// A rank's part of a collective, ready to begin.
pub struct CudaCollective {
    gpu: Arc<CudaGpu>,
    call: NcclCall,
    /// When the operand is there.
    after: StreamEvent,
    /// What it reads and writes, kept until it is done.
    _memory: Vec<Arc<DeviceBuffer>>,
}

/// Whether collectives of that kind go by NCCL.
pub fn is_known(kind: CollectiveKind) -> bool {
    call_of(kind).is_some()
}

/// The library's call for a kind. `None` where there is none that means the same.
fn call_of(kind: CollectiveKind) -> Option<NcclKind> {
    match kind {
        CollectiveKind::AllReduce(reduce) => NcclReduce::of(reduce).map(NcclKind::AllReduce),
        CollectiveKind::ReduceScatter(reduce) => NcclReduce::of(reduce).map(NcclKind::ReduceScatter),
        CollectiveKind::AllGather => Some(NcclKind::AllGather),
        CollectiveKind::Broadcast { root } => Some(NcclKind::Broadcast(root)),
        CollectiveKind::AllToAll | CollectiveKind::SumTo { .. } | CollectiveKind::Barrier => None,
    }
}

/// Puts a collective's operand where NCCL finds it. `None` for what NCCL does not do.
///
/// # Errors
/// No memory; the driver's failure.
pub fn prepare(gpu: &Arc<CudaGpu>, part: &RankCollective<'_>) -> Result<Option<CudaCollective>> {
    let Some(kind) = call_of(part.kind) else { return Ok(None) };
    let (bytes, elements) = (part.ty.bytes(), part.ty.shape.numel());
    let (result, offset) = part.result;
    let to = result.handle + offset as u64;
    let mut memory = vec![result.clone()];
    let (from, count) = match kind {
        NcclKind::AllReduce(_) | NcclKind::Broadcast(_) => (to, elements),
        NcclKind::AllGather => (to + (part.rank * bytes) as u64, elements),
        NcclKind::ReduceScatter(_) => {
            let beside = Arc::new(allocate(gpu, bytes)?);
            memory.push(beside.clone());
            (beside.handle, elements / part.size)
        }
    };
    let operand = part.operand.buffer.handle + part.operand.offset as u64;
    let copied = if from == operand { Ok(()) } else { gpu.driver.copy(operand, from, bytes) };
    let after = copied.and_then(|()| gpu.driver.now()).map_err(|failure| gpu.error("", failure))?;
    let call = NcclCall { kind, dtype: part.ty.dtype, count, from, to };
    Ok(Some(CudaCollective { gpu: gpu.clone(), call, after, _memory: memory }))
}

/// A device among those of other ranks.
#[derive(Debug)]
struct CudaCommunicator(NcclCommunicator);

impl Communicator for CudaCommunicator {
    fn abort(&self) {
        self.0.abort();
    }
}

impl DeviceCollective for CudaCollective {
    fn device(&self) -> Device {
        self.gpu.name
    }
    fn invitation(&self) -> Said<Vec<u8>> {
        nccl::invitation().map_err(|failure| self.text(failure))
    }
    fn join(&self, invitation: &[u8], rank: usize, size: usize) -> Said<Arc<dyn Communicator>> {
        // Of ranks in one process NCCL may read the buffers themselves.
        self.gpu.open_to_others();
        let joined = NcclCommunicator::join(&self.gpu.driver, invitation, rank, size);
        Ok(Arc::new(CudaCommunicator(joined.map_err(|failure| self.text(failure))?)))
    }
    fn run(self: Box<Self>, communicator: &dyn Communicator) -> Said<()> {
        let Some(communicator) = (communicator as &dyn Any).downcast_ref::<CudaCommunicator>() else {
            return Err(format!("{} meets no ranks by NCCL", self.gpu.name));
        };
        let done = communicator.0.run(&self.gpu.driver, &self.call, &self.after);
        done.map_err(|failure| self.text(failure))
    }
}

impl CudaCollective {
    fn text(&self, failure: Failure) -> String {
        match failure {
            Failure::OutOfMemory => format!("{} has no memory left", self.gpu.name),
            Failure::Lost(reason) => format!("{} is lost: {reason}", self.gpu.name),
            Failure::Other(reason) => format!("{}: {reason}", self.gpu.name),
        }
    }
}
