//! Files mapped into memory.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use memmap2::{Mmap, MmapOptions};

use crate::base::file::expect_file;
use crate::base::{DType, Device, Dims, Result, Shape, Span};
use crate::io::raw::RawTensor;
use crate::ir::buffer::Reclaim;
use crate::ir::{DeviceBuffer, Layout, Leaf, Node, Type};
use crate::runtime::host;
use crate::tensor::Tensor;

/// A file in memory, as long as a tensor refers to it.
pub struct Mapped {
    map: Arc<Map>,
    buffer: Arc<DeviceBuffer>,
}

struct Map(Mmap);

impl Reclaim for Map {
    fn reclaim(&self, _handle: u64, _bytes: usize) {
        // The file is closed when the map is dropped.
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Mapped {
    /// Maps a file. Another process that shortens the file in place, instead
    /// of replacing it, ends this one when it reads what is gone.
    ///
    /// # Errors
    /// Those of the file system, and something else than a file.
    pub fn open(path: &Path) -> std::io::Result<Mapped> {
        expect_file(path)?;
        let file = File::open(path)?;
        // SAFETY: the pages are this process's own, so nobody changes what was
        // read; nothing here writes to them, since a leaf that is less than
        // its buffer is never overwritten.
        let map = unsafe { MmapOptions::new().map_copy_read_only(&file)? };
        let map = Arc::new(Map(map));
        let address = map.0.as_ptr() as u64;
        let buffer = DeviceBuffer::new(Device::cpu(), map.0.len(), address, map.clone());
        Ok(Mapped { map, buffer: Arc::new(buffer) })
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.map.0
    }

    /// The elements from byte `start` on, which the file must hold, behind at
    /// least one other byte. Copied only where they are not aligned.
    ///
    /// # Errors
    /// Out of memory.
    pub fn tensor(&self, start: usize, dtype: DType, dims: &[usize], span: Span) -> Result<Tensor> {
        let shape = Shape(Dims::from_slice(dims));
        let mut layout = Layout::contiguous(&shape);
        let buffer = if start.is_multiple_of(dtype.size()) {
            layout.offset = (start / dtype.size()) as i64;
            self.buffer.clone()
        } else {
            Arc::new(host::upload(&self.bytes()[start..start + shape.numel() * dtype.size()])?)
        };
        let leaf = Leaf { buffer, layout };
        Ok(Tensor::from_node(Node::leaf(Type::new(shape, dtype, Device::cpu()), leaf, span)))
    }

    /// The bytes from `start` to `end`, which the file must hold, as a tensor
    /// of a type that kiln does not compute with.
    pub fn raw(&self, start: usize, end: usize, dtype: &str, dims: &[usize]) -> RawTensor {
        RawTensor::within(dtype, Shape::new(dims), self.map.clone(), start..end)
    }
}
