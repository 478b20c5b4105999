//! Gradient mode: whether a thread's new nodes are tracked.

use crate::base::scope::{Scope, Scopes};
use crate::ir::history::{set_tracking, tracking};

thread_local! {
    static MODES: Scopes<bool> = const { Scopes::told(innermost) };
}

/// Outside of all scopes tensors are tracked.
fn innermost(mode: Option<&bool>) {
    set_tracking(*mode.unwrap_or(&true));
}

/// Until it is dropped, says whether tensors built on this thread are tracked. Of
/// several, in whatever order they are dropped, the last one made decides.
#[must_use = "the mode lasts until the guard is dropped"]
#[derive(Debug)]
pub struct GradMode(#[expect(dead_code, reason = "held to be dropped")] Scope<bool>);

impl GradMode {
    fn set(on: bool) -> GradMode {
        GradMode(Scope::open(&MODES, on))
    }
}

/// Until the guard is dropped, tensors built on this thread are not tracked:
/// gradients treat them as constants.
///
/// ```
/// use kiln::prelude::*;
/// let w = Tensor::ones([2], ()).with_requires_grad();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_dropped_in_another_order_leave_no_mode_behind() {
        let (off, on) = (no_grad(), enable_grad());
        drop(off);
        assert!(is_grad_enabled());
        drop(on);
        assert!(is_grad_enabled());
        let (on, off) = (enable_grad(), no_grad());
        drop(on);
        assert!(!is_grad_enabled());
        assert!(with_grad(is_grad_enabled) && !without_grad(is_grad_enabled));
        drop(off);
        assert!(is_grad_enabled());
    }
}
