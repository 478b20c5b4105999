//! Scopes in which transfers, or waiting for a device, are errors: what a
//! training loop or a server must not do by accident.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::base::{Device, Error, Result, Span};
use crate::plan::Plan;
use crate::plan::build::bodies_of;
use crate::plan::run::Line;
use crate::schedule::Action;

thread_local! {
    static TRANSFERS: Cell<u32> = const { Cell::new(0) };
    static SYNC: Cell<u32> = const { Cell::new(0) };
}

/// Lifts a denial when dropped.
#[must_use]
#[derive(Debug)]
pub struct Denial {
    depth: &'static std::thread::LocalKey<Cell<u32>>,
    // Denials are per thread, so the guard stays on its thread.
    not_send: PhantomData<*const ()>,
}

impl Denial {
    fn new(depth: &'static std::thread::LocalKey<Cell<u32>>) -> Denial {
        depth.set(depth.get() + 1);
        Denial { depth, not_send: PhantomData }
    }
}

impl Drop for Denial {
    fn drop(&mut self) {
        self.depth.set(self.depth.get() - 1);
    }
}

/// Runs the closure; what would move data between devices on this thread
/// meanwhile is [`Error::TransferDenied`], before anything has run. Reading
/// values out ([`deny_sync`] is for that) is no such transfer.
pub fn deny_transfers<R>(body: impl FnOnce() -> R) -> R {
    let _denial = Denial::new(&TRANSFERS);
    body()
}

/// Until the guard is dropped, what makes this thread wait for a device
/// (`item`, `to_vec`, `synchronize`, a transfer that passes through the host)
/// is [`Error::SyncDenied`]. It is so on every device: on the CPU, where
/// values are there when `realize` returns, a program can be tested for what
/// it would do on a GPU.
pub fn deny_sync() -> Denial {
    Denial::new(&SYNC)
}

/// Whether this thread may wait for a device.
///
/// # Errors
/// [`Error::SyncDenied`].
pub(crate) fn may_wait(call: &'static str, device: Device, span: Span) -> Result<()> {
    if SYNC.get() > 0 { Err(Error::SyncDenied { call, device, span }) } else { Ok(()) }
}

/// Whether this thread may make the transfers of a plan. `line` gives the
/// user's lines.
///
/// # Errors
/// The first that it may not, or that would need data which is nowhere.
pub(crate) fn may_transfer(plan: &Plan, line: Line<'_>) -> Result<()> {
    let graph = &plan.schedule.graph;
    for step in &plan.schedule.steps {
        let Action::Transfer { from } = step.action else { continue };
        let (output, to) = (step.outputs[0], step.device);
        let (ty, span) = (graph.ty(output), line(output).unwrap_or(graph.node(output).span));
        if from.is_meta() {
            return Err(Error::NoData { call: "to", shape: ty.shape.clone(), span });
        }
        if TRANSFERS.get() > 0 {
            return Err(Error::TransferDenied { from, to, bytes: ty.bytes() as u64, span });
        }
        if from != Device::cpu() {
            may_wait("a transfer", from, span)?;
        }
    }
    bodies_of(plan).try_for_each(|body| may_transfer(body, &|_| None))
}
