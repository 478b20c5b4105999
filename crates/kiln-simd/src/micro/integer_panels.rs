//! Products of several rows with packed numbers, in integers: the rows are rounded to 8 bits, codes are
//! multiplied and summed exactly, and two float operations a block put the sums to their scale.
//!
//! One row is a [dot product](super::integer_dot). Of several, a panel of the matrix is rearranged once, so
//! that each lane of a register sums a column of its own and nothing is left to be added across lanes. ggml
//! stores its matrices so (`Q4_0_8_8`); here the matrix stays as it is, and a panel lives in the cache.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod vnni;

use crate::micro::dequantize::{CodeLayout, QUANTIZED_BLOCK, QuantizedMatrix};
use crate::micro::integer_dot::RoundedRows;

/// Columns of a panel: lines of the packed matrix.
pub const PANEL_COLUMNS: usize = 32;
/// Successive codes that an instruction multiplies for a lane.
const GROUP: usize = 4;

/// A block of each column of a panel.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct PanelBlock {
    /// By group of codes, by column.
    codes: [[[u8; GROUP]; PANEL_COLUMNS]; QUANTIZED_BLOCK / GROUP],
    /// By column.
    scales: [f32; PANEL_COLUMNS],
    /// By column; read where there are offsets.
    offsets: [f32; PANEL_COLUMNS],
}

/// The products of rows with the columns of a panel.
#[derive(Clone, Copy, Debug)]
pub struct PanelProduct {
    /// The panel, block by block.
    pub panel: *const PanelBlock,
    /// How many columns it has.
    pub columns: usize,
    /// How many blocks.
    pub blocks: usize,
    /// The code of zero.
    pub zero: i32,
    /// Whether blocks have offsets.
    pub has_offsets: bool,
    /// The rows.
    pub rows: RoundedRows,
    /// How many.
    pub count: usize,
    /// Where the first product goes; a row's follow each other.
    pub to: *mut f32,
    /// From a row of products to the next.
    pub to_step: isize,
}

/// Loops that multiply in integers.
#[derive(Clone, Copy, Debug)]
pub struct IntegerPanels {
    /// Rearranges the lines of a matrix, at most [`PANEL_COLUMNS`], to as many blocks as a line has.
    ///
    /// # Safety
    /// Codes, scales and offsets are readable for all lines, and the blocks writable.
    pub pack: unsafe fn(&QuantizedMatrix, *mut PanelBlock),
    /// Writes products.
    ///
    /// # Safety
    /// The panel was packed, the rows rounded, and the products are writable.
    pub multiply: unsafe fn(&PanelProduct),
}

/// The loops for a layout and a code of zero, where the machine multiplies bytes fast enough.
pub fn integer_panels(layout: CodeLayout, zero: f32) -> Option<IntegerPanels> {
    let fits = (0.0..=128.0).contains(&zero) && zero.fract() == 0.0;
    #[cfg(target_arch = "x86_64")]
    let loops = vnni::panels(layout).or_else(|| avx2::panels(layout));
    #[cfg(not(target_arch = "x86_64"))]
    let loops = {
        let _ = layout;
        None
    };
    loops.filter(|_| fits)
}

/// All loops for a layout that the machine can run.
#[cfg(all(test, target_arch = "x86_64"))]
pub(in crate::micro) fn all_panels(layout: CodeLayout) -> Vec<IntegerPanels> {
    [vnni::panels(layout), avx2::by_vnni(layout), avx2::by_pairs(layout)].into_iter().flatten().collect()
}
