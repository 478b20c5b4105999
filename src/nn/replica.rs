//! A module on another device than its own, for the time of a forward pass.

use std::cell::Cell;

use crate::base::Device;
use crate::base::scope::{Scope, Scopes};
use crate::tensor::Tensor;

thread_local! {
    static REPLICAS: Scopes<Device> = const { Scopes::told(|innermost| DEVICE.set(innermost.copied())) };
    /// The innermost of them, which every parameter asks for.
    static DEVICE: Cell<Option<Device>> = const { Cell::new(None) };
}

/// Until it is dropped, parameters and buffers give copies on a device on this thread, through which gradients
/// flow back, and what is set into a buffer is lost.
pub(crate) struct Replica(#[expect(dead_code, reason = "held to be dropped")] Scope<Device>);

impl Replica {
    pub fn on(device: Device) -> Replica {
        Replica(Scope::open(&REPLICAS, device))
    }
}

/// What a cell's tensor is to who asks now.
pub(super) fn seen(tensor: Tensor) -> Tensor {
    match DEVICE.get() {
        Some(device) => tensor.to(device),
        None => tensor,
    }
}

/// Whether cells are asked by a replica.
pub(super) fn is_replica() -> bool {
    DEVICE.get().is_some()
}
