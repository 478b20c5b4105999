//! Blocks of operands in the shape that the register tiles read.

use std::ops::Range;

use super::kernels::{Copying, Element, Kernel};
use super::{Fill, Operand, Order};

/// A block as a register tile reads it: lines of tiles, `step` apart.
#[derive(Clone, Copy)]
pub(super) struct View<T> {
    /// The first element.
    pub ptr: *const T,
    /// From a tile's first element to the next tile's.
    pub step: isize,
    /// From a row to the next within a tile.
    pub row: isize,
    /// From a depth to the next.
    pub depth: isize,
}

/// Which part of which batch of an operand.
#[derive(Clone)]
pub(super) struct Part {
    pub batch: usize,
    pub rows: Range<usize>,
    pub depth: Range<usize>,
}

/// Elements of room that [`left`] needs for a block.
pub(super) fn left_room(rows: usize, depth: usize) -> usize {
    // Each order pads its lines to less than this.
    (rows + 32) * (depth + 32)
}

/// A block of A, as it lies or copied into `room`.
///
/// Tiles read A one element at a time, so either stride may be the contiguous
/// one; copying only brings what lies far apart together.
///
/// # Safety
/// The operand is valid over the part and `room` has [`left_room`] elements.
pub(super) unsafe fn left<T: Element>(
    operand: &Operand<T>,
    kernel: &Kernel<T>,
    part: &Part,
    in_place: bool,
    room: *mut T,
) -> View<T> {
    let (rows, depth, tile) = (part.rows.len(), part.depth.len(), kernel.rows as isize);
    match *operand {
        Operand::Packed { order, fill } => {
            let ld = skewed(if order == Order::Rows { rows } else { depth });
            // SAFETY: the block's lines lie in `room`.
            unsafe { request(fill, part, room, ld) };
            match order {
                Order::Rows => View { ptr: room, step: tile, row: 1, depth: ld as isize },
                Order::Depth => View { ptr: room, step: tile * ld as isize, row: ld as isize, depth: 1 },
            }
        }
        Operand::Strided { ptr, row_stride, depth_stride, batch } => {
            let from = first(ptr, row_stride, depth_stride, batch, part);
            if in_place {
                return View { ptr: from, step: tile * row_stride, row: row_stride, depth: depth_stride };
            }
            // SAFETY: the source is readable over the part, by promise.
            unsafe {
                if row_stride == 1 && depth_stride != 1 {
                    let ld = skewed(rows);
                    copy_lines(kernel, from, [depth_stride, 1], [depth, rows], room, ld);
                    View { ptr: room, step: tile, row: 1, depth: ld as isize }
                } else {
                    let ld = skewed(depth);
                    copy_lines(kernel, from, [row_stride, depth_stride], [rows, depth], room, ld);
                    View { ptr: room, step: tile * ld as isize, row: ld as isize, depth: 1 }
                }
            }
        }
    }
}

/// How packed B lies: for each block of depths, lines or panels.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Columns of a line, padded; or of all panels.
    ld: usize,
    /// Columns of a panel, or none where each depth is one long line.
    panel: Option<usize>,
    /// Columns of a tile.
    tile: usize,
}

impl Layout {
    /// The layout of `cols` columns of `operand`.
    pub(super) fn new<T: Element>(operand: &Operand<T>, kernel: &Kernel<T>, cols: usize) -> Layout {
        let tile = kernel.columns;
        match operand {
            // A function writes long lines faster than a panel's short ones.
            Operand::Packed { order: Order::Rows, .. } => Layout { ld: skewed(cols), panel: None, tile },
            Operand::Packed { order: Order::Depth, .. } | Operand::Strided { .. } => {
                Layout { ld: cols.next_multiple_of(tile), panel: Some(tile), tile }
            }
        }
    }

    /// Elements that `depth` depths take.
    pub(super) fn room(&self, depth: usize) -> usize {
        self.ld * depth
    }

    /// A block of depths, `start..start + depth`, from a column that starts a
    /// tile, where `base` holds all depths from 0.
    pub(super) fn view<T>(&self, base: *const T, start: usize, depth: usize, col: usize) -> View<T> {
        let block = base.wrapping_add(start * self.ld);
        match self.panel {
            Some(panel) => View {
                ptr: block.wrapping_add(col * depth),
                step: (panel * depth) as isize,
                row: 1,
                depth: panel as isize,
            },
            None => View {
                ptr: block.wrapping_add(col),
                step: self.tile as isize,
                row: 1,
                depth: self.ld as isize,
            },
        }
    }
}

/// Elements of further room that packing B may need.
pub(super) fn right_room<T>(operand: &Operand<T>, cols: usize, depth: usize) -> usize {
    match operand {
        Operand::Packed { order: Order::Depth, .. } => cols * skewed(depth),
        Operand::Packed { order: Order::Rows, .. } | Operand::Strided { .. } => 0,
    }
}

/// Packs a block of B for `view` to read; the part starts at a tile's column.
///
/// # Safety
/// The operand is valid over the part, the view's memory is writable, and
/// `room` has [`right_room`] elements.
pub(super) unsafe fn right<T: Element>(
    operand: &Operand<T>,
    kernel: &Kernel<T>,
    part: &Part,
    view: View<T>,
    room: *mut T,
) {
    let to = view.ptr.cast_mut();
    let (cols, depth) = (part.rows.len(), part.depth.len());
    // SAFETY: the caller's promise.
    unsafe {
        match *operand {
            Operand::Packed { order: Order::Rows, fill } => {
                request(fill, part, to, view.depth as usize);
            }
            Operand::Packed { order: Order::Depth, fill } => {
                let ld = skewed(depth);
                request(fill, part, room, ld);
                transpose_panels(kernel, room, [ld as isize, 1], cols, depth, to);
            }
            Operand::Strided { ptr, row_stride, depth_stride, batch } => {
                let from = first(ptr, row_stride, depth_stride, batch, part);
                if row_stride == 1 || cols == 1 {
                    split_panels(kernel, from, depth_stride, cols, depth, to);
                } else {
                    transpose_panels(kernel, from, [row_stride, depth_stride], cols, depth, to);
                }
            }
        }
    }
}

/// The first element of a part.
pub(super) fn first<T>(
    ptr: *const T,
    row_stride: isize,
    depth_stride: isize,
    batch: &(dyn Fn(usize) -> isize + Sync),
    part: &Part,
) -> *const T {
    let offset = part.rows.start as isize * row_stride + part.depth.start as isize * depth_stride;
    ptr.wrapping_offset(batch(part.batch) + offset)
}

/// Copies a row-major block to where any strides place it.
///
///
/// # Safety
/// The block is readable, every place it goes to writable.
pub(super) unsafe fn scatter<T: Element>(
    kernel: &Kernel<T>,
    from: *const T,
    ld: isize,
    to: *mut T,
    strides: [isize; 2],
    extents: [usize; 2],
) {
    let lanes = kernel.lanes;
    for r in (0..extents[0]).step_by(lanes) {
        for j in (0..extents[1]).step_by(lanes) {
            let from = from.wrapping_offset(r as isize * ld + j as isize);
            let to = to.wrapping_offset(r as isize * strides[0] + j as isize * strides[1]);
            let [height, width] = [extents[0] - r, extents[1] - j].map(|rest| rest.min(lanes) as isize);
            // SAFETY: the caller vouches for both blocks.
            unsafe {
                if strides[0] == 1 && height.min(width) == lanes as isize {
                    (kernel.transpose)(from, ld, to, strides[1]);
                    continue;
                }
                for r in 0..height {
                    for j in 0..width {
                        *to.offset(r * strides[0] + j * strides[1]) = *from.offset(r * ld + j);
                    }
                }
            }
        }
    }
}

/// A line length that holds `count` elements, whole cache lines of them, an odd
/// number so that equal places of successive lines fall in different cache sets.
fn skewed(count: usize) -> usize {
    (count.div_ceil(16) | 1) * 16
}

unsafe fn request<T>(fill: &(dyn Fn(Fill<T>) + Sync), part: &Part, to: *mut T, ld: usize) {
    if !part.rows.is_empty() && !part.depth.is_empty() {
        let (rows, depth) = (part.rows.clone(), part.depth.clone());
        fill(Fill { batch: part.batch, rows, depth, to, ld });
    }
}

/// Copies `extents` (rows, depth) elements to lines of contiguous depths.
unsafe fn copy_lines<T: Element>(
    kernel: &Kernel<T>,
    from: *const T,
    strides: [isize; 2],
    extents: [usize; 2],
    to: *mut T,
    ld: usize,
) {
    let [rows, depth] = extents;
    // SAFETY: the caller vouches for source and destination.
    unsafe {
        if strides[1] == 1 {
            let from_row = strides[0];
            (kernel.copy)(&Copying { from, from_row, to, to_row: ld as isize, rows, width: depth });
        } else {
            for r in 0..rows {
                for k in 0..depth {
                    *to.add(r * ld + k) = *from.offset(r as isize * strides[0] + k as isize * strides[1]);
                }
            }
        }
    }
}

/// Copies contiguous columns to panels of a tile's columns.
unsafe fn split_panels<T: Element>(
    kernel: &Kernel<T>,
    from: *const T,
    from_row: isize,
    cols: usize,
    depth: usize,
    to: *mut T,
) {
    /// Depths at a time: few enough streams for the hardware to prefetch.
    const GROUP: usize = 8;
    let panel = kernel.columns;
    for k in (0..depth).step_by(GROUP) {
        let rows = GROUP.min(depth - k);
        let from = from.wrapping_offset(k as isize * from_row);
        for j in (0..cols).step_by(panel) {
            let (from, to) = (from.wrapping_add(j), to.wrapping_add(j * depth + k * panel));
            let width = panel.min(cols - j);
            // SAFETY: the caller vouches for source and destination.
            unsafe { (kernel.copy)(&Copying { from, from_row, to, to_row: panel as isize, rows, width }) };
        }
    }
}

/// Copies columns of any strides (column, depth) to panels of a tile's columns.
unsafe fn transpose_panels<T: Element>(
    kernel: &Kernel<T>,
    from: *const T,
    strides: [isize; 2],
    cols: usize,
    depth: usize,
    to: *mut T,
) {
    let (panel, lanes) = (kernel.columns, kernel.lanes);
    for j in (0..cols).step_by(lanes) {
        let width = lanes.min(cols - j);
        let from = from.wrapping_offset(j as isize * strides[0]);
        let to = to.wrapping_add(j / panel * panel * depth + j % panel);
        let whole = if width == lanes && strides[1] == 1 { depth / lanes * lanes } else { 0 };
        // SAFETY: the caller vouches for source and destination.
        unsafe {
            for k in (0..whole).step_by(lanes) {
                (kernel.transpose)(from.add(k), strides[0], to.add(k * panel), panel as isize);
            }
            for k in whole..depth {
                for i in 0..width {
                    *to.add(k * panel + i) = *from.offset(i as isize * strides[0] + k as isize * strides[1]);
                }
            }
        }
    }
}
