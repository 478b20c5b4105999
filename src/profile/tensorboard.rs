//! Traces where TensorBoard's PyTorch plugin looks for them.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::base::{Error, Result, Span};
use crate::profile::Profile;

/// What writes each profile to a folder as TensorBoard's PyTorch plugin names and reads them, for
/// [`Profiler::on_trace_ready`](crate::profile::Profiler::on_trace_ready).
/// PyTorch: `torch.profiler.tensorboard_trace_handler`.
///
/// # Errors
/// What it gives fails where the folder cannot be made or the file not be written.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::profile::{Profiler, tensorboard_trace_handler};
///
/// # fn main() -> kiln::Result<()> {
/// let folder = std::env::temp_dir().join(format!("kiln-traces-{}", std::process::id()));
/// let profiler = Profiler::builder().on_trace_ready(tensorboard_trace_handler(&folder)).start();
/// Tensor::ones([64, 64], ()).exp().realize()?;
/// profiler.stop()?;
/// let names: Vec<_> = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|file| file.file_name()).collect();
/// assert!(names.len() == 1 && names[0].to_string_lossy().ends_with(".pt.trace.json"));
/// # std::fs::remove_dir_all(folder).ok();
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn tensorboard_trace_handler(folder: impl AsRef<Path>) -> Box<dyn FnMut(&Profile) -> Result<()>> {
    let (folder, span) = (folder.as_ref().to_path_buf(), Span::caller());
    Box::new(move |profile| {
        let failed = |error: std::io::Error| Error::File {
            path: folder.display().to_string(),
            message: error.to_string(),
            span,
        };
        std::fs::create_dir_all(&folder).map_err(failed)?;
        profile.write_chrome_trace(path(&folder)).map_err(|error| error.at(span))
    })
}

/// `<host>_<process>.<milliseconds>.pt.trace.json`; the milliseconds are such that no other has them.
fn path(folder: &Path) -> PathBuf {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("COMPUTERNAME").ok()).unwrap_or_default();
    let host: String =
        host.trim().chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
    let host = if host.is_empty() { "localhost".into() } else { host };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let name = |millis| folder.join(format!("{host}_{}.{millis}.pt.trace.json", std::process::id()));
    (now..).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(now))
}
