//! How far downloads are.

use std::fmt;

/// How far the download of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Download<'a> {
    /// The file's name in the repository.
    pub file: &'a str,
    /// Bytes that are there, with those of a download that was broken off before.
    pub done: u64,
    /// Bytes of the file.
    pub total: u64,
}

/// Shows the progress of downloads: [`DownloadLine`](crate::io::DownloadLine) on a terminal, or a closure.
///
/// # Examples
/// ```
/// use kiln::io::{Download, HubOpts};
/// let opts = HubOpts::default().progress(|download: &Download<'_>| {
///     println!("{} {} of {} bytes", download.file, download.done, download.total);
/// });
/// assert!(opts.progress.is_some());
/// ```
pub trait DownloadProgress: Send + Sync {
    /// So much of a file is there: at the beginning, often between, and when all of it is.
    fn report(&self, download: &Download<'_>);
}

impl<F: Fn(&Download<'_>) + Send + Sync> DownloadProgress for F {
    fn report(&self, download: &Download<'_>) {
        self(download);
    }
}

impl fmt::Debug for dyn DownloadProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DownloadProgress")
    }
}
