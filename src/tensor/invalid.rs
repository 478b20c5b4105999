//! Errors that flow through the graph, told if nobody asks for them.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::base::Error;

/// Errors told at most when they were dropped unseen.
const MOST_TOLD: usize = 100;

/// An error in building the graph, and whether anyone has looked at it.
pub(super) struct Invalid {
    pub error: Error,
    pub seen: AtomicBool,
}

impl Drop for Invalid {
    fn drop(&mut self) {
        if !*self.seen.get_mut() {
            let text = self.error.to_string();
            if is_news(&text) {
                eprintln!("kiln: an invalid tensor was dropped unseen: {text}");
            }
        }
    }
}

/// Whether a message is told for the first time: an error in a loop is one
/// error.
fn is_news(text: &str) -> bool {
    static TOLD: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    // Shapes that change every time would fill the memory.
    told.len() < MOST_TOLD && told.insert(text.into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_mistake_in_a_loop_is_told_once() {
        assert!(super::is_news("an error of this test"));
        assert!(!super::is_news("an error of this test"));
    }
}
