//! Scopes in which transfers, or waiting for a device, are errors: what a
//! training loop or a server must not do by accident.

use crate::base::scope::{Scope, Scopes};
use crate::base::{Device, Error, Result, Span};
use crate::plan::Plan;
use crate::plan::build::bodies_of;
use crate::plan::run::CallOf;
use crate::schedule::StepAction;

thread_local! {
    static TRANSFERS: Scopes<()> = const { Scopes::new() };
    static SYNC: Scopes<()> = const { Scopes::new() };
}

/// Lifts a denial when dropped.
#[must_use]
#[derive(Debug)]
pub struct Denial(#[expect(dead_code, reason = "held to be dropped")] Scope<()>);

/// Runs the closure; what would move data between devices on this thread
/// meanwhile is [`Error::TransferDenied`], before anything has run. Reading
/// values out ([`deny_sync`] is for that) is no such transfer.
pub fn deny_transfers<R>(body: impl FnOnce() -> R) -> R {
    let _denial = Scope::open(&TRANSFERS, ());
    body()
}

/// Until the guard is dropped, what makes this thread wait for a device
/// (`item`, `to_vec`, `synchronize`, a transfer that passes through the host)
/// is [`Error::SyncDenied`]. It is so on every device: on the CPU, where
/// values are there when `realize` returns, a program can be tested for what
/// it would do on a GPU.
pub fn deny_sync() -> Denial {
    Denial(Scope::open(&SYNC, ()))
}

/// Whether this thread may wait for a device.
///
/// # Errors
/// [`Error::SyncDenied`].
pub(crate) fn may_wait(call: &'static str, device: Device, span: Span) -> Result<()> {
    if SYNC.with(Scopes::is_empty) { Ok(()) } else { Err(Error::SyncDenied { call, device, span }) }
}

/// Whether this thread may make the transfers of a plan. `call` gives the
/// user's calls.
///
/// # Errors
/// The first that it may not, or that would need data which is nowhere.
pub(crate) fn may_transfer(plan: &Plan, call: CallOf<'_>) -> Result<()> {
    let graph = &plan.schedule.graph;
    for step in &plan.schedule.steps {
        let StepAction::Transfer { from } = step.action else { continue };
        let (output, to) = (step.outputs[0], step.device);
        let (ty, span) = (graph.ty(output), call(output).map_or(graph.node(output).span, |call| call.span));
        if from.is_meta() {
            return Err(Error::NoData { call: "to", shape: ty.shape.clone(), span });
        }
        if !TRANSFERS.with(Scopes::is_empty) {
            return Err(Error::TransferDenied { from, to, bytes: ty.bytes() as u64, span });
        }
        if from != Device::cpu() {
            may_wait("a transfer", from, span)?;
        }
    }
    bodies_of(plan).try_for_each(|body| may_transfer(body, &|_| None))
}
