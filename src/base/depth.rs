//! Nesting depth of users' functions.

use std::cell::Cell;
use std::thread::LocalKey;

/// Until it is dropped, this thread is one deeper in something that nests.
#[must_use = "the depth lasts as long as this"]
#[derive(Debug)]
pub(crate) struct Deeper(&'static LocalKey<Cell<usize>>);

impl Deeper {
    /// One deeper, unless that is more than `most`.
    pub fn within(depth: &'static LocalKey<Cell<usize>>, most: usize) -> Option<Deeper> {
        (depth.get() < most).then(|| {
            depth.set(depth.get() + 1);
            Deeper(depth)
        })
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
