//! What is read of a file by ranges.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::base::StateProblem;
use crate::io::door::{check_byte_order, problem};
use crate::io::mapped::Mapped;
use crate::io::range_reader::RangeReader;
use crate::runtime::host;

/// A file of a known size.
pub struct Remote<R> {
    reader: R,
    name: PathBuf,
    size: usize,
}

impl<R: RangeReader> Remote<R> {
    /// Asks how long a file is.
    ///
    /// # Errors
    /// The reader's; a size that no memory has; a machine on which numbers do not lie as in files.
    pub async fn open(mut reader: R) -> Result<Remote<R>, Box<StateProblem>> {
        let name = PathBuf::from(reader.name());
        let wrong = |error: String| Box::new(problem(&name, error));
        check_byte_order().map_err(wrong)?;
        let size = reader.size().await.map_err(|error| wrong(error.to_string()))?;
        let size = usize::try_from(size).map_err(|_| wrong(format!("{size} bytes are more than fit")))?;
        Ok(Remote { reader, name, size })
    }

    pub fn name(&self) -> &Path {
        &self.name
    }
    pub fn size(&self) -> usize {
        self.size
    }

    /// Reads on, until `head` has the first `end` bytes, or all there are.
    ///
    /// # Errors
    /// The reader's.
    pub async fn extend(&mut self, head: &mut Vec<u8>, end: usize) -> Result<(), String> {
        let (start, end) = (head.len(), end.min(self.size));
        if start < end {
            head.resize(end, 0);
            self.read(start, &mut head[start..]).await?;
        }
        Ok(())
    }

    /// A part of the file, in memory of its own.
    ///
    /// # Errors
    /// The reader's, and those of allocating.
    pub async fn part(&mut self, range: Range<usize>) -> Result<Mapped, String> {
        let mut block = host::allocate(range.len()).map_err(|error| error.to_string())?;
        if !range.is_empty() {
            self.read(range.start, host::zeroed(&mut block)).await?;
        }
        Ok(Mapped::of_block(block))
    }

    async fn read(&mut self, start: usize, into: &mut [u8]) -> Result<(), String> {
        let end = start + into.len();
        let read = self.reader.read(start as u64, into).await;
        read.map_err(|error| format!("bytes {start} to {end}: {error}"))
    }
}
