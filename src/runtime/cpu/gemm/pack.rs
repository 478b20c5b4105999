//! Packing: blocks of operands in the layout that the register tiles read.

use std::ops::Range;

use kiln_simd::gemm::{GemmElement, MicroKernel, RowCopy};

use super::{GemmOperand, PackOrder, PackRequest, scratch};
use crate::runtime::cpu::thresholds::GEMM_PACK_STREAMS;

/// A block as the register tiles read it.
#[derive(Clone, Copy)]
pub(super) struct PackedView<T> {
    /// The first element.
    pub ptr: *const T,
    /// From a tile's first element to the next tile's.
    pub tile_stride: isize,
    /// From a row to the next within a tile.
    pub row_stride: isize,
    /// From an element along k to the next.
    pub k_stride: isize,
}

/// A range of rows and of k of one batch of an operand.
#[derive(Clone)]
pub(super) struct OperandRange {
    pub batch: usize,
    pub rows: Range<usize>,
    pub k: Range<usize>,
}

/// Elements of scratch that [`pack_a`] needs for a block.
pub(super) fn a_scratch_len(rows: usize, k: usize) -> usize {
    // Each order pads its rows to less than this.
    (rows + 32) * (k + 32)
}

/// A block of A, read in place or copied to `packed`.
///
/// Most tiles read A one element at a time, so either stride may be the contiguous
/// one and copying only improves locality; others get rows that are contiguous along k.
///
/// # Safety
/// The operand is valid over the range and `packed` has [`a_scratch_len`] elements.
pub(super) unsafe fn pack_a<T: GemmElement>(
    operand: &GemmOperand<T>,
    kernel: &MicroKernel<T>,
    range: &OperandRange,
    in_place: bool,
    packed: *mut T,
) -> PackedView<T> {
    let (rows, k, tile) = (range.rows.len(), range.k.len(), kernel.rows as isize);
    let (row_ld, k_ld) = (skewed(rows), skewed(k));
    // The block as copied, with rows or with k contiguous.
    let by_rows =
        PackedView { ptr: packed.cast_const(), tile_stride: tile, row_stride: 1, k_stride: row_ld as isize };
    let by_k =
        PackedView { tile_stride: tile * k_ld as isize, row_stride: k_ld as isize, k_stride: 1, ..by_rows };
    // SAFETY: `packed` holds the block in either order, and the source is readable, by promise.
    unsafe {
        match *operand {
            GemmOperand::Packed { order: PackOrder::KContiguous, fill, .. } => {
                request(fill, range, packed, k_ld);
                by_k
            }
            GemmOperand::Packed { order: PackOrder::RowContiguous, fill, .. } if kernel.contiguous_k => {
                scratch::with(k * row_ld, |block| {
                    request(fill, range, block, row_ld);
                    transpose_to_rows(kernel, block, row_ld as isize, [k, rows], packed, k_ld);
                });
                by_k
            }
            GemmOperand::Packed { order: PackOrder::RowContiguous, fill, .. } => {
                request(fill, range, packed, row_ld);
                by_rows
            }
            GemmOperand::Strided { ptr, row_stride, k_stride, batch } => {
                let from = first(ptr, row_stride, k_stride, batch, range);
                if in_place {
                    return PackedView { ptr: from, tile_stride: tile * row_stride, row_stride, k_stride };
                }
                if row_stride != 1 || k_stride == 1 {
                    copy_matrix(kernel, from, [row_stride, k_stride], [rows, k], packed, k_ld);
                    return by_k;
                }
                if kernel.contiguous_k {
                    transpose_to_rows(kernel, from, k_stride, [k, rows], packed, k_ld);
                    return by_k;
                }
                copy_matrix(kernel, from, [k_stride, 1], [k, rows], packed, row_ld);
                by_rows
            }
        }
    }
}

/// Transposes a block of A that has rows contiguous.
unsafe fn transpose_to_rows<T: GemmElement>(
    kernel: &MicroKernel<T>,
    from: *const T,
    k_stride: isize,
    extents: [usize; 2],
    to: *mut T,
    ld: usize,
) {
    // SAFETY: the caller vouches for both blocks.
    unsafe { scatter(kernel, from, k_stride, to, [1, ld as isize], extents) }
}

/// The layout of packed B: for each block of k, rows or panels.
#[derive(Clone, Copy)]
pub(super) struct PanelLayout {
    /// Columns of a row, padded; or of all panels.
    ld: usize,
    /// Columns of a panel; none where each index of k is one long row.
    panel: Option<usize>,
    /// Columns of a tile.
    tile: usize,
}

impl PanelLayout {
    /// The layout of `cols` columns of `operand`.
    pub(super) fn new<T: GemmElement>(
        operand: &GemmOperand<T>,
        kernel: &MicroKernel<T>,
        cols: usize,
    ) -> PanelLayout {
        let tile = kernel.columns;
        match operand {
            // A function writes long rows faster than a panel's short ones.
            GemmOperand::Packed { order: PackOrder::RowContiguous, .. } => {
                PanelLayout { ld: skewed(cols), panel: None, tile }
            }
            GemmOperand::Packed { order: PackOrder::KContiguous, .. } | GemmOperand::Strided { .. } => {
                PanelLayout { ld: cols.next_multiple_of(tile), panel: Some(tile), tile }
            }
        }
    }

    /// Elements that `k` rows take.
    pub(super) fn len(&self, k: usize) -> usize {
        self.ld * k
    }

    /// The block `start..start + k` of k, from a column that starts a
    /// tile, where `base` holds all of k from 0.
    pub(super) fn view<T>(&self, base: *const T, start: usize, k: usize, col: usize) -> PackedView<T> {
        let block = base.wrapping_add(start * self.ld);
        match self.panel {
            Some(panel) => PackedView {
                ptr: block.wrapping_add(col * k),
                tile_stride: (panel * k) as isize,
                row_stride: 1,
                k_stride: panel as isize,
            },
            None => PackedView {
                ptr: block.wrapping_add(col),
                tile_stride: self.tile as isize,
                row_stride: 1,
                k_stride: self.ld as isize,
            },
        }
    }
}

/// Elements of further scratch that packing B may need.
pub(super) fn b_scratch_len<T>(operand: &GemmOperand<T>, cols: usize, k: usize) -> usize {
    match operand {
        GemmOperand::Packed { order: PackOrder::KContiguous, .. } => cols * skewed(k),
        GemmOperand::Packed { order: PackOrder::RowContiguous, .. } | GemmOperand::Strided { .. } => 0,
    }
}

/// Packs a block of B for `view` to read; the range starts at a tile's column.
///
/// # Safety
/// The operand is valid over the range, the view's memory is writable, and
/// `scratch` has [`b_scratch_len`] elements.
pub(super) unsafe fn pack_b<T: GemmElement>(
    operand: &GemmOperand<T>,
    kernel: &MicroKernel<T>,
    range: &OperandRange,
    view: PackedView<T>,
    scratch: *mut T,
) {
    let to = view.ptr.cast_mut();
    let (cols, k) = (range.rows.len(), range.k.len());
    // SAFETY: the caller's promise.
    unsafe {
        match *operand {
            GemmOperand::Packed { order: PackOrder::RowContiguous, fill, .. } => {
                request(fill, range, to, view.k_stride as usize);
            }
            GemmOperand::Packed { order: PackOrder::KContiguous, fill, .. } => {
                let ld = skewed(k);
                request(fill, range, scratch, ld);
                transpose_panels(kernel, scratch, [ld as isize, 1], cols, k, to);
            }
            GemmOperand::Strided { ptr, row_stride, k_stride, batch } => {
                let from = first(ptr, row_stride, k_stride, batch, range);
                if row_stride == 1 || cols == 1 {
                    split_panels(kernel, from, k_stride, cols, k, to);
                } else {
                    transpose_panels(kernel, from, [row_stride, k_stride], cols, k, to);
                }
            }
        }
    }
}

/// The first element of a range.
pub(super) fn first<T>(
    ptr: *const T,
    row_stride: isize,
    k_stride: isize,
    batch: &(dyn Fn(usize) -> isize + Sync),
    range: &OperandRange,
) -> *const T {
    let offset = range.rows.start as isize * row_stride + range.k.start as isize * k_stride;
    ptr.wrapping_offset(batch(range.batch) + offset)
}

/// Copies a row-major block to memory of any strides.
///
/// # Safety
/// The block is readable, every destination writable.
pub(super) unsafe fn scatter<T: GemmElement>(
    kernel: &MicroKernel<T>,
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

/// A leading dimension of at least `count` elements: an odd number of cache lines, so that equal
/// columns of successive rows fall in different cache sets.
fn skewed(count: usize) -> usize {
    (count.div_ceil(16) | 1) * 16
}

unsafe fn request<T>(fill: &(dyn Fn(PackRequest<T>) + Sync), range: &OperandRange, to: *mut T, ld: usize) {
    if !range.rows.is_empty() && !range.k.is_empty() {
        let (rows, k) = (range.rows.clone(), range.k.clone());
        fill(PackRequest { batch: range.batch, rows, k, to, ld });
    }
}

/// Copies `extents` elements to contiguous rows, `ld` elements apart.
unsafe fn copy_matrix<T: GemmElement>(
    kernel: &MicroKernel<T>,
    from: *const T,
    strides: [isize; 2],
    extents: [usize; 2],
    to: *mut T,
    ld: usize,
) {
    let [rows, k] = extents;
    // SAFETY: the caller vouches for source and destination.
    unsafe {
        if strides[1] == 1 {
            let from_row = strides[0];
            (kernel.copy)(&RowCopy { from, from_row, to, to_row: ld as isize, rows, width: k });
        } else {
            for r in 0..rows {
                for p in 0..k {
                    *to.add(r * ld + p) = *from.offset(r as isize * strides[0] + p as isize * strides[1]);
                }
            }
        }
    }
}

/// Copies contiguous columns to panels of a tile's columns.
unsafe fn split_panels<T: GemmElement>(
    kernel: &MicroKernel<T>,
    from: *const T,
    from_row: isize,
    cols: usize,
    k: usize,
    to: *mut T,
) {
    let panel = kernel.columns;
    for p in (0..k).step_by(GEMM_PACK_STREAMS) {
        let rows = GEMM_PACK_STREAMS.min(k - p);
        let from = from.wrapping_offset(p as isize * from_row);
        for j in (0..cols).step_by(panel) {
            let (from, to) = (from.wrapping_add(j), to.wrapping_add(j * k + p * panel));
            let width = panel.min(cols - j);
            // SAFETY: the caller vouches for source and destination.
            unsafe { (kernel.copy)(&RowCopy { from, from_row, to, to_row: panel as isize, rows, width }) };
        }
    }
}

/// Copies columns of any strides (column, k) to panels of a tile's columns.
unsafe fn transpose_panels<T: GemmElement>(
    kernel: &MicroKernel<T>,
    from: *const T,
    strides: [isize; 2],
    cols: usize,
    k: usize,
    to: *mut T,
) {
    let (panel, lanes) = (kernel.columns, kernel.lanes);
    for j in (0..cols).step_by(lanes) {
        let width = lanes.min(cols - j);
        let from = from.wrapping_offset(j as isize * strides[0]);
        let to = to.wrapping_add(j / panel * panel * k + j % panel);
        let whole = if width == lanes && strides[1] == 1 { k / lanes * lanes } else { 0 };
        // SAFETY: the caller vouches for source and destination.
        unsafe {
            for p in (0..whole).step_by(lanes) {
                (kernel.transpose)(from.add(p), strides[0], to.add(p * panel), panel as isize);
            }
            for p in whole..k {
                for i in 0..width {
                    *to.add(p * panel + i) = *from.offset(i as isize * strides[0] + p as isize * strides[1]);
                }
            }
        }
    }
}
