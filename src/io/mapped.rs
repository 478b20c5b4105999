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

enum Map {
    File(Mmap),
    #[cfg(any(feature = "npy", feature = "safetensors", feature = "gguf"))]
    Memory(DeviceBuffer),
}

impl Reclaim for Map {
    fn reclaim(&self, _handle: u64, _bytes: usize) {
        // It goes when the map is dropped.
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        match self {
            Map::File(map) => map,
            #[cfg(any(feature = "npy", feature = "safetensors", feature = "gguf"))]
            Map::Memory(buffer) => host::bytes(buffer),
        }
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
        Ok(Mapped::of(Map::File(map)))
    }

    /// A copy of bytes, which is used as if it were a file.
    ///
    /// # Errors
    /// Out of memory.
    #[cfg(feature = "npy")]
    pub fn from_bytes(bytes: &[u8]) -> Result<Mapped> {
        host::upload(bytes).map(|buffer| Mapped::of(Map::Memory(buffer)))
    }

    /// A block of host memory, which is used as if it were a file.
    #[cfg(any(feature = "safetensors", feature = "gguf"))]
    pub fn of_block(block: DeviceBuffer) -> Mapped {
        Mapped::of(Map::Memory(block))
    }

    fn of(map: Map) -> Mapped {
        let map = Arc::new(map);
        let bytes: &[u8] = (*map).as_ref();
        let buffer = DeviceBuffer::new(Device::cpu(), bytes.len(), bytes.as_ptr() as u64, map.clone());
        Mapped { map, buffer: Arc::new(buffer) }
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        (*self.map).as_ref()
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
        Ok(leaf(buffer, layout, shape, dtype, span))
    }

    /// The elements of a view: from byte `start` on, with these distances in elements along the axes. The
    /// file must hold all of them. Copied only where they are not aligned.
    ///
    /// # Errors
    /// Out of memory.
    #[cfg(any(feature = "npy", feature = "torch"))]
    pub fn strided(
        &self,
        start: usize,
        dtype: DType,
        dims: &[usize],
        strides: &[usize],
        span: Span,
    ) -> Result<Tensor> {
        let shape = Shape(Dims::from_slice(dims));
        if !start.is_multiple_of(dtype.size()) {
            let bytes = gathered(self.bytes(), start, dtype.size(), dims, strides);
            let layout = Layout::contiguous(&shape);
            return Ok(leaf(Arc::new(host::upload(&bytes)?), layout, shape, dtype, span));
        }
        let strides = strides.iter().map(|&stride| stride as i64).collect();
        let layout = Layout { offset: (start / dtype.size()) as i64, strides };
        Ok(leaf(self.buffer.clone(), layout, shape, dtype, span))
    }

    /// The bytes of a view, in row-major order, as a tensor of a type that kiln does not compute with.
    #[cfg(any(feature = "npy", feature = "torch"))]
    pub fn raw_strided(
        &self,
        start: usize,
        (dtype, size): (&str, usize),
        dims: &[usize],
        strides: &[usize],
    ) -> RawTensor {
        let bytes = gathered(self.bytes(), start, size, dims, strides);
        let range = 0..bytes.len();
        RawTensor::within(dtype, Shape::new(dims), Arc::new(bytes), range)
    }

    /// The bytes from `start` to `end`, which the file must hold, as a tensor
    /// of a type that kiln does not compute with.
    pub fn raw(&self, start: usize, end: usize, dtype: &str, dims: &[usize]) -> RawTensor {
        RawTensor::within(dtype, Shape::new(dims), self.map.clone(), start..end)
    }
}

fn leaf(buffer: Arc<DeviceBuffer>, layout: Layout, shape: Shape, dtype: DType, span: Span) -> Tensor {
    let leaf = Leaf { buffer, layout };
    Tensor::from_node(Node::leaf(Type::new(shape, dtype, Device::cpu()), leaf, span))
}

/// The bytes of all elements of a view, in row-major order.
#[cfg(any(feature = "npy", feature = "torch"))]
fn gathered(file: &[u8], start: usize, size: usize, dims: &[usize], strides: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut index = vec![0; dims.len()];
    for _ in 0..Shape::new(dims).numel() {
        let at = start + size * index.iter().zip(strides).map(|(i, stride)| i * stride).sum::<usize>();
        bytes.extend_from_slice(&file[at..at + size]);
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    bytes
}
