//! Scopes in which transfers, or waiting for a device, are errors: what a
//! training loop or a server must not do by accident.

use crate::base::scope::{Scope, Scopes};
use crate::base::system::THREADS_WAIT;
use crate::base::{Device, Error, Result, Span};
use crate::ir::collective::CollectiveKind;
use crate::plan::Plan;
use crate::plan::build::bodies_of;
use crate::plan::context;
use crate::plan::run::CallOf;
use crate::runtime::Waiting;
use crate::schedule::{Step, StepAction};

thread_local! {
    static TRANSFERS: Scopes<()> = const { Scopes::new() };
    static COLLECTIVES: Scopes<()> = const { Scopes::new() };
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

/// Runs the closure; what would make this thread take part in an operation of a group of ranks
/// ([`dist`](crate::dist)) meanwhile is [`Error::CollectiveDenied`], before anything has run: what one rank does
/// alone, such as a validation, must meet no other.
///
/// ```
/// use kiln::prelude::*;
/// kiln::dist::spawn(1, |group| {
///     let sum = group.all_reduce(&Tensor::from([1.0f32]), kiln::dist::Reduce::Sum);
///     assert!(kiln::deny_collectives(|| sum.to_vec::<f32>()).is_err());
///     assert_eq!(sum.to_vec::<f32>()?, [1.0]);
///     Ok(())
/// })?;
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn deny_collectives<R>(body: impl FnOnce() -> R) -> R {
    let _denial = Scope::open(&COLLECTIVES, ());
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

/// Whether this thread may wait for a device: in a page of a browser, only as a future.
///
/// # Errors
/// [`Error::SyncDenied`], [`Error::CannotBlock`].
pub(crate) fn may_wait(call: &'static str, device: Device, span: Span, waiting: Waiting) -> Result<()> {
    if !SYNC.with(Scopes::is_empty) {
        return Err(Error::SyncDenied { call, device, span });
    }
    if THREADS_WAIT || waiting == Waiting::Yield || can_block(device) {
        return Ok(());
    }
    let instead = match call {
        "item" => "item_async",
        "synchronize" => "synchronize_async",
        "a transfer" => "realize_async",
        "nonzero" => "nonzero_async",
        "nonzero_axes" => "nonzero_axes_async",
        "masked_select" => "masked_select_async",
        "unique" => "unique_async",
        "unique_consecutive" => "unique_consecutive_async",
        _ => "to_vec_async",
    };
    Err(Error::CannotBlock { call, instead, device, span })
}

/// Whether a thread can wait for a device; of one that is not there, that tells the error.
fn can_block(device: Device) -> bool {
    context::current().backend(device).map_or(true, |backend| backend.capabilities().can_block)
}

/// Whether this thread may make the transfers of a plan, and meet other ranks as it asks. `call` gives the
/// user's calls.
///
/// # Errors
/// The first that it may not, or that would need data which is nowhere.
pub(crate) fn may_transfer(plan: &Plan, call: CallOf<'_>, waiting: Waiting) -> Result<()> {
    let graph = &plan.schedule.graph;
    for step in &plan.schedule.steps {
        let from = match step.action {
            StepAction::Collective(kind) => {
                may_meet(plan, step, kind, call, waiting)?;
                continue;
            }
            StepAction::Transfer { from } => from,
            StepAction::Launch(_) | StepAction::Repeat(_) => continue,
        };
        let (output, to) = (step.outputs[0], step.device);
        let (ty, span) = (graph.ty(output), call(output).map_or(graph.node(output).span, |call| call.span));
        if from.is_meta() {
            return Err(Error::NoData { call: "to", shape: ty.shape.clone(), span });
        }
        if !TRANSFERS.with(Scopes::is_empty) {
            return Err(Error::TransferDenied { from, to, bytes: ty.bytes() as u64, span });
        }
        if from != Device::cpu() {
            may_wait("a transfer", from, span, waiting)?;
        }
    }
    bodies_of(plan).try_for_each(|body| may_transfer(body, &|_| None, waiting))
}

/// Whether this thread may take part in a collective.
fn may_meet(
    plan: &Plan,
    step: &Step,
    kind: CollectiveKind,
    call: CallOf<'_>,
    waiting: Waiting,
) -> Result<()> {
    let output = step.outputs[0];
    let node = plan.schedule.graph.node(output);
    let span = call(output).map_or(node.span, |call| call.span);
    if !COLLECTIVES.with(Scopes::is_empty) {
        return Err(Error::CollectiveDenied { operation: kind.name(), bytes: node.ty.bytes() as u64, span });
    }
    if step.device == Device::cpu() { Ok(()) } else { may_wait("a collective", step.device, span, waiting) }
}
