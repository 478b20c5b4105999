//! What [`claim`](super::claim) synchronizes by. `crates/claims-check` compiles that file against the same names
//! of a model checker, which tries the orders in which threads may run.

pub use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
pub use std::sync::{Condvar, Mutex, MutexGuard};
