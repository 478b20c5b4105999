//! Labels: names for parts of a program.

use std::sync::Arc;

use crate::base::Span;
use crate::base::region::{InRegion, Region};
use crate::runtime::trace::{self, Activity, HostSpan};

/// Runs the closure under a name. Labels nest. Since graphs are lazy, a label reaches the kernels of what
/// is built inside it, wherever they run; and gradients have the labels of what they are gradients of. Layers whose
/// model was asked for its parameters, by an optimizer for example, have their paths as labels of their own:
/// `forward/encoder.0.linear1`.
///
/// Where nobody profiles, it costs the load of an atomic. PyTorch: `torch.profiler.record_function`.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::profile::{GroupBy, SortBy, profile, record_function};
///
/// # fn main() -> kiln::Result<()> {
/// let x = Tensor::ones([64, 64], ());
/// let (_, profile) = profile(|| {
///     let y = record_function("project", || x.matmul(&x));
///     y.realize().map(|_| ()) // read outside, labeled all the same
/// })?;
/// assert_eq!(profile.kernels().next().and_then(|run| run.kernel.label.as_deref()), Some("project"));
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn record_function<R>(name: &str, body: impl FnOnce() -> R) -> R {
    let _label = label(name);
    body()
}

/// [`record_function`] until the guard is dropped.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::profile::{label, profile};
///
/// # fn main() -> kiln::Result<()> {
/// let (_, profile) = profile(|| {
///     let _label = label("numbers");
///     Tensor::arange(0, 10, 1, ()).sum(..).item::<i64>()
/// })?;
/// assert!(profile.host_events().any(|event| event.label.as_deref() == Some("numbers")));
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn label(name: &str) -> Label {
    Label(trace::is_on().then(|| open(name, Span::caller())))
}

#[cold]
fn open(name: &str, at: Span) -> (HostSpan, InRegion) {
    let region = Region::current().inside(name).enter();
    (trace::span(Activity::Region).at(at).named(|| Arc::from(name)), region)
}

/// Ends a label when it is dropped.
#[must_use = "the label ends when the guard is dropped"]
#[derive(Debug)]
pub struct Label(#[expect(dead_code, reason = "held to be dropped")] Option<(HostSpan, InRegion)>);
