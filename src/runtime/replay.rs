//! Replay: what a device keeps of launches that repeat, such as CUDA graphs.

use std::any::Any;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A place for what a device makes of launches that follow each other in a
/// plan: empty until the device leaves something. Whoever uses it takes it out,
/// so that no lock is held over a launch and no two threads use it at once.
#[derive(Default)]
pub struct Replay(Mutex<Option<Box<dyn Any + Send>>>);

impl Replay {
    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out what is there, if it is a `T`.
    pub fn take<T: Any + Send>(&self) -> Option<T> {
        let found = self.lock().take()?;
        found.downcast().ok().map(|found| *found)
    }

    /// Leaves something for the next time.
    pub fn put<T: Any + Send>(&self, left: T) {
        // What another thread left is dropped without the lock.
        let _before = self.lock().replace(Box::new(left));
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.lock().is_some() { "Replay(kept)" } else { "Replay(empty)" })
    }
}
