//! Memory as the graph sees it: an opaque handle on a device, freed when the
//! last view of it is dropped.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::{Device, Shape, process};

/// Takes memory back; implemented by each device's pool.
pub trait Reclaim: Send + Sync {
    /// Called once, when nothing refers to the memory any more.
    fn reclaim(&self, handle: u64, bytes: usize);
    /// Whether the memory is the host's, for devices to copy from by themselves.
    fn is_pinned(&self) -> bool {
        false
    }
}

/// A block of device memory. What the handle means is the device's business.
pub struct DeviceBuffer {
    /// Where the memory is.
    pub device: Device,
    /// Usable size.
    pub bytes: usize,
    /// The device's name for the block.
    pub handle: u64,
    owner: Arc<dyn Reclaim>,
}

impl DeviceBuffer {
    /// A block that goes back to `owner` when dropped.
    pub fn new(device: Device, bytes: usize, handle: u64, owner: Arc<dyn Reclaim>) -> DeviceBuffer {
        DeviceBuffer { device, bytes, handle, owner }
    }
    /// Whether it is host memory that was allocated to be copied from by
    /// devices.
    pub fn is_pinned(&self) -> bool {
        self.owner.is_pinned()
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // A forked process may wait for ever for a lock of the owner's.
        if process::is_forked() {
            return;
        }
        self.owner.reclaim(self.handle, self.bytes);
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBuffer({}, {} bytes)", self.device, self.bytes)
    }
}

/// The layout of elements in a buffer: element `i` is at
/// `offset + sum(i[axis] * strides[axis])`, counted in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Position of element `[0, 0, ...]`.
    pub offset: i64,
    /// Distance between neighbours along each axis; 0 repeats, negative reverses.
    pub strides: SmallVec<[i64; 4]>,
}

impl Layout {
    /// Row-major from the start of the buffer.
    pub fn contiguous(shape: &Shape) -> Layout {
        Layout { offset: 0, strides: shape.strides() }
    }
    /// The least position of any element: that of element `[0, 0, ...]`
    /// unless some axis runs backwards.
    pub fn lowest(&self, shape: &Shape) -> i64 {
        let reach = |(&extent, &stride): (&usize, &i64)| (stride * (extent as i64 - 1)).min(0);
        if shape.numel() == 0 {
            0
        } else {
            self.offset + shape.iter().zip(&self.strides).map(reach).sum::<i64>()
        }
    }
    /// Whether this is row-major without gaps (axes of extent 1 do not count).
    pub fn is_contiguous(&self, shape: &Shape) -> bool {
        let dense = shape.strides();
        shape.numel() == 0 || (0..shape.rank()).all(|i| shape[i] == 1 || self.strides[i] == dense[i])
    }
}

/// A view of a buffer: the value of a realized node.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The memory.
    pub buffer: Arc<DeviceBuffer>,
    /// The layout of its elements.
    pub layout: Layout,
}
