//! Futures that do not wait, and turns of those that do.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::plan::context::{Context, with_context};

/// What a future gives that is done at once: one in which everything that waits keeps its thread
/// ([`Waiting::Block`](crate::runtime::Waiting)).
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut std::task::Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("what keeps its thread is done at once"),
    }
}

/// A future that runs in a context, whoever polls it.
pub(crate) async fn within<T>(context: Arc<Context>, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    std::future::poll_fn(|polled| with_context(&context, || future.as_mut().poll(polled))).await
}

thread_local! {
    static TURNS: RefCell<Turns> = RefCell::default();
}

/// Who of a thread may hold claims while it is pending.
#[derive(Default)]
struct Turns {
    taken: bool,
    next: VecDeque<Waker>,
}

/// The right of one future of a thread to hold claims while it is pending, given back when dropped.
/// Another that met its claims could not tell them from its own.
pub(crate) struct Turn(());

impl Turn {
    /// Waits until no other future of the thread has it.
    pub(crate) async fn take() -> Turn {
        std::future::poll_fn(|polled| {
            TURNS.with_borrow_mut(|turns| {
                if turns.taken {
                    turns.next.push_back(polled.waker().clone());
                    return Poll::Pending;
                }
                turns.taken = true;
                Poll::Ready(Turn(()))
            })
        })
        .await
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = TURNS.with_borrow_mut(|turns| {
            turns.taken = false;
            std::mem::take(&mut turns.next)
        });
        // All of them: one may be a future that was dropped.
        next.into_iter().for_each(Waker::wake);
    }
}
