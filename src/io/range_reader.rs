//! Files that lie elsewhere.

use std::io::{Error, ErrorKind, Result};

/// A file of which ranges of bytes can be had, sooner or later: by address, from a disk of a page's visitor.
///
/// [`StateDict::open_async`](crate::StateDict::open_async) and its kin take one. They ask for the size once, then
/// for the header and for tensor after tensor, front to back, each into memory of its own, so that the file is
/// never there twice. Errors become one of kiln's with the name and, in its words, the reason. Bytes in memory
/// are one too.
///
/// # Examples
/// ```
/// use kiln::StateDict;
/// use kiln::io::RangeReader;
/// use kiln::prelude::*;
/// use std::io::{Read, Seek, SeekFrom};
///
/// /// A file that is read, where it could be mapped.
/// struct Slow(std::fs::File);
///
/// impl RangeReader for Slow {
///     fn name(&self) -> String {
///         "slow.safetensors".into()
///     }
///     async fn size(&mut self) -> std::io::Result<u64> {
///         Ok(self.0.metadata()?.len())
///     }
///     async fn read(&mut self, start: u64, into: &mut [u8]) -> std::io::Result<()> {
///         self.0.seek(SeekFrom::Start(start))?;
///         self.0.read_exact(into)
///     }
/// }
/// # let path = std::env::temp_dir().join(format!("kiln-slow-{}.safetensors", std::process::id()));
/// let mut state = StateDict::new();
/// state.insert("weight", &Tensor::ones([2], ()))?;
/// state.save(&path)?;
///
/// let file = Slow(std::fs::File::open(&path).unwrap());
/// let again = pollster::block_on(StateDict::open_async(file))?;
/// assert_eq!(again.get("weight").unwrap().to_vec::<f32>()?, [1.0, 1.0]);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), kiln::Error>(())
/// ```
pub trait RangeReader {
    /// What errors call it: an address, a path.
    fn name(&self) -> String;

    /// How many bytes it has.
    ///
    /// # Errors
    /// It is not there, or does not tell.
    fn size(&mut self) -> impl Future<Output = Result<u64>>;

    /// Fills `into` with the bytes from `start` on.
    ///
    /// # Errors
    /// They cannot be had, or end too early.
    fn read(&mut self, start: u64, into: &mut [u8]) -> impl Future<Output = Result<()>>;
}

impl RangeReader for &[u8] {
    fn name(&self) -> String {
        "bytes in memory".into()
    }
    async fn size(&mut self) -> Result<u64> {
        Ok(self.len() as u64)
    }
    async fn read(&mut self, start: u64, into: &mut [u8]) -> Result<()> {
        let rest = usize::try_from(start).ok().and_then(|start| self.get(start..));
        let bytes = rest.and_then(|rest| rest.get(..into.len())).ok_or(ErrorKind::UnexpectedEof);
        into.copy_from_slice(bytes.map_err(Error::from)?);
        Ok(())
    }
}
