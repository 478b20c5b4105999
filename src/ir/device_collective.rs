//! Collectives between devices: what a device that reaches those of other ranks by itself, as NVIDIA's do
//! through NCCL, shows of it to a group.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::base::Device;

/// What a library that moves data between devices gives, or says.
pub type Said<T> = Result<T, String>;

/// A rank's part of a collective, whose operand is where the device takes it from.
pub trait DeviceCollective: Send {
    /// The device.
    fn device(&self) -> Device;
    /// By what the ranks of a group find each other: made on one rank, for all.
    ///
    /// # Errors
    /// What the library says.
    fn invitation(&self) -> Said<Vec<u8>>;
    /// Meets the other ranks that have the invitation, and waits for them.
    ///
    /// # Errors
    /// What the library says.
    fn join(&self, invitation: &[u8], rank: usize, size: usize) -> Said<Arc<dyn Communicator>>;
    /// Takes part, and waits until the result is there.
    ///
    /// # Errors
    /// What the library or the driver says.
    fn run(self: Box<Self>, communicator: &dyn Communicator) -> Said<()>;
}

/// A device among those of a group's other ranks.
pub trait Communicator: Any + fmt::Debug + Send + Sync {
    /// Ends what runs, on whichever thread: it fails there, as everything does from then on.
    fn abort(&self);
}
