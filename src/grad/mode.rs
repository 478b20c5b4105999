//! Whether what is built remembers how gradients pass it; per thread.

use std::marker::PhantomData;

use crate::ir::history::{set_tracking, tracking};

/// Restores, when dropped, whether tensors built on this thread are tracked.
#[must_use = "the mode lasts until the guard is dropped"]
#[derive(Debug)]
pub struct GradMode {
    before: bool,
    /// The mode belongs to this thread.
    not_send: PhantomData<*const ()>,
}

impl GradMode {
    fn set(on: bool) -> GradMode {
        GradMode { before: set_tracking(on), not_send: PhantomData }
    }
}

impl Drop for GradMode {
    fn drop(&mut self) {
        set_tracking(self.before);
    }
}

/// Until the guard is dropped, tensors built on this thread are not tracked:
/// gradients treat them as constants.
///
/// ```
/// use kiln::prelude::*;
/// let w = Tensor::ones([2], ()).requires_grad();
/// let y = {
///     let _guard = kiln::no_grad();
///     &w * 2.0
/// };
/// assert!(!y.is_tracked() && (&w * 2.0).is_tracked());
/// ```
pub fn no_grad() -> GradMode {
    GradMode::set(false)
}

/// Until the guard is dropped, tensors built on this thread are tracked
/// again, inside [`no_grad`].
pub fn enable_grad() -> GradMode {
    GradMode::set(true)
}

/// Runs `body` under [`no_grad`].
pub fn without_grad<T>(body: impl FnOnce() -> T) -> T {
    let _guard = no_grad();
    body()
}

/// Runs `body` under [`enable_grad`].
pub fn with_grad<T>(body: impl FnOnce() -> T) -> T {
    let _guard = enable_grad();
    body()
}

/// Whether tensors built on this thread are tracked.
pub fn is_grad_enabled() -> bool {
    tracking()
}
