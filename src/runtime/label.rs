//! Labels of allocations.

use std::cell::RefCell;

use crate::base::{Shape, Span};

/// What a block holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The operation or the kind of memory.
    pub name: &'static str,
    /// The shape of the tensor in it, or its bytes.
    pub shape: Shape,
    /// The user's line, if there is one.
    pub span: Option<Span>,
}

impl Default for Label {
    fn default() -> Label {
        Label { name: "scratch", shape: Shape::default(), span: None }
    }
}

thread_local! {
    static CURRENT: RefCell<Label> = RefCell::new(Label::default());
}

/// What this thread allocates for.
pub fn current() -> Label {
    CURRENT.with_borrow(Label::clone)
}

/// Runs the closure; what it allocates on this thread is for `label`.
pub fn allocating<R>(label: Label, body: impl FnOnce() -> R) -> R {
    /// Puts the former label back, also when the closure panics.
    struct RestoreLabel(Option<Label>);
    impl Drop for RestoreLabel {
        fn drop(&mut self) {
            if let Some(label) = self.0.take() {
                CURRENT.set(label);
            }
        }
    }
    let _restore = RestoreLabel(Some(CURRENT.replace(label)));
    body()
}
