//! Progress of long work, for whoever wants to show it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Work that may take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Task {
    /// Tensors of a state are loaded into a module.
    Load,
    /// Operations of a graph are planned.
    Plan,
    /// Steps of a plan are compiled.
    Compile,
    /// Steps of a training are made.
    Train,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Task::Load => "loading",
            Task::Plan => "planning",
            Task::Compile => "compiling",
            Task::Train => "training",
        })
    }
}

/// Shows the progress of long work. Nothing is shown unless [`set_progress`] is given one.
///
/// # Examples
/// ```
/// use kiln::progress::{Progress, Task, set_progress};
/// use kiln::prelude::*;
/// use std::sync::{Arc, Mutex};
///
/// /// Lines of what is large.
/// #[derive(Default)]
/// struct Lines(Mutex<Vec<String>>);
/// impl Progress for Lines {
///     fn report(&self, task: Task, done: u64, total: u64) {
///         self.0.lock().unwrap().push(format!("{task} {done}/{total}"));
///     }
/// }
///
/// let lines = Arc::new(Lines::default());
/// set_progress(Some(lines.clone()));
/// (Tensor::ones([2, 3], ()) + 1.0).sum(..).item::<f32>()?;
/// set_progress(None);
/// assert!(lines.0.lock().unwrap().contains(&"compiling 1/1".to_string()));
/// # Ok::<(), kiln::Error>(())
/// ```
pub trait Progress: Send + Sync {
    /// So much of a task is done: at its beginning nothing, at its end all. Called often, and from several
    /// threads; it should return soon. Small tasks report too: what shows them should wait a moment.
    fn report(&self, task: Task, done: u64, total: u64);
}

static IS_SHOWN: AtomicBool = AtomicBool::new(false);
static SHOWN_BY: RwLock<Option<Arc<dyn Progress>>> = RwLock::new(None);

/// Shows the progress of all work of this process from now on, or of none.
pub fn set_progress(progress: Option<Arc<dyn Progress>>) {
    drop(replace_progress(progress));
}

/// [`set_progress`]; what showed it before.
pub(crate) fn replace_progress(progress: Option<Arc<dyn Progress>>) -> Option<Arc<dyn Progress>> {
    IS_SHOWN.store(progress.is_some(), Ordering::Relaxed);
    let mut shown_by = SHOWN_BY.write().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *shown_by, progress)
}

/// Tells how far a task is, if somebody shows it.
pub(crate) fn report(task: Task, done: usize, total: usize) {
    if IS_SHOWN.load(Ordering::Relaxed) {
        // Taken out, so that whoever shows it may set another.
        let shown_by = SHOWN_BY.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(progress) = shown_by {
            progress.report(task, done as u64, total as u64);
        }
    }
}
