//! Blocks of a matrix whose numbers are packed codes with scales, as
//! [`QuantizedTensor::dequantize`](crate::QuantizedTensor::dequantize) writes them: found by their shape
//! among the expressions of a kernel, and dequantized whole blocks at a time.

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;

use half::f16;
use kiln_simd::micro::{
    self, BlockedVector, CodeLayout, QUANTIZED_BLOCK, QuantizedDotFn, QuantizedMatrix, QuantizedRow,
};

use super::{Strides, element};
use crate::base::{DType, Scalar};
use crate::ir::AluOp;
use crate::kernel::{AxisId, Expr, ExprId, Kernel};
use crate::runtime::Bindings;
use crate::runtime::cpu::gemm::IntegerLoops;
use crate::runtime::cpu::tile::product::StridedBlock;

/// A matrix of quantized numbers, whose lines are rows of blocks.
#[derive(Debug)]
pub struct QuantizedRows {
    codes: Part,
    scales: Part,
    offsets: Option<Part>,
    zero: f32,
    layout: CodeLayout,
}

/// An input, and how it lies: the first element of each line.
#[derive(Debug)]
struct Part {
    input: u32,
    strides: Strides,
}

/// The axes of a block writer: those along a line are blocks and places in a block.
struct Axes<'a> {
    batch: &'a [AxisId],
    lines: &'a [AxisId],
    /// The blocks of a line.
    blocks: AxisId,
    /// Places in a block, outermost first: 32, or 2 halves of 16.
    places: &'a [AxisId],
}

impl QuantizedRows {
    /// The quantized matrix that a value is, if it is one: a kernel's axes, all of level 0, are those of the
    /// batch, the lines and along them.
    pub fn of(
        kernel: &Kernel,
        [batch, lines, along]: &[Vec<AxisId>; 3],
        value: ExprId,
    ) -> Option<QuantizedRows> {
        let (&blocks, places) = along.split_first()?;
        let axes = Axes { batch, lines, blocks, places };
        let extents: Vec<usize> = places.iter().map(|axis| kernel.axes[axis.index()].extent).collect();
        let layout = match extents[..] {
            [QUANTIZED_BLOCK] => CodeLayout::Bytes,
            [2, half] if half == QUANTIZED_BLOCK / 2 => CodeLayout::Nibbles,
            _ => return None,
        };
        if lines.len() > 1 || kernel.exprs[value.index()].dtype != DType::F32 {
            return None;
        }
        let (codes, zero, scales, offsets) = scaled(kernel, value)?;
        Some(QuantizedRows {
            codes: codes_part(kernel, &axes, codes, layout)?,
            scales: per_block(kernel, &axes, scales)?,
            offsets: match offsets {
                Some(offsets) => Some(per_block(kernel, &axes, offsets)?),
                None => None,
            },
            zero,
            layout,
        })
    }

    /// The loop that multiplies a row with a vector, if there is one.
    pub fn dot(&self) -> Option<QuantizedDotFn> {
        micro::quantized_dot(self.layout, self.zero)
    }

    /// The loops that multiply rows rounded to 8 bits, if there are any.
    pub fn integer_loops(&self) -> Option<IntegerLoops> {
        Some(IntegerLoops {
            dot: micro::integer_dot(self.layout, self.zero)?,
            panels: micro::integer_panels(self.layout, self.zero),
        })
    }

    /// The matrix in memory.
    pub fn on<'a>(&'a self, bindings: &Bindings<'a>) -> QuantizedMemory<'a> {
        let start = |part: &Part| element::<f16>(&bindings.inputs[part.input as usize], part.strides.offset);
        QuantizedMemory {
            rows: self,
            codes: element(&bindings.inputs[self.codes.input as usize], self.codes.strides.offset),
            scales: start(&self.scales),
            offsets: self.offsets.as_ref().map(|part| (start(part).cast_const(), part)),
        }
    }
}

impl fmt::Display for QuantizedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |part: &Part| format!("in{}, {}", part.input, part.strides.text());
        writeln!(f, "{:?} of blocks of {QUANTIZED_BLOCK}, zero at {}", self.layout, self.zero)?;
        write!(f, "  codes {}\n  scales {}", part(&self.codes), part(&self.scales))?;
        self.offsets.as_ref().map_or(Ok(()), |offsets| write!(f, "\n  offsets {}", part(offsets)))
    }
}

/// Codes, the code of zero, scales and offsets of `(codes - zero) * scales` or `codes * scales + offsets`.
fn scaled(kernel: &Kernel, value: ExprId) -> Option<(ExprId, f32, ExprId, Option<ExprId>)> {
    match *kernel.expr(value) {
        Expr::Alu(AluOp::Mul, [a, b, _]) => {
            let shifted = |x: ExprId| match *kernel.expr(x) {
                Expr::Alu(AluOp::Sub, [codes, zero, _]) => Some((codes, constant(kernel, zero)?)),
                _ => None,
            };
            let (codes, zero, scales) = match (shifted(a), shifted(b)) {
                (Some((codes, zero)), _) => (codes, zero, b),
                (_, Some((codes, zero))) => (codes, zero, a),
                (None, None) => return None,
            };
            Some((codes, zero, scales, None))
        }
        Expr::Alu(AluOp::Add, [a, b, _]) => {
            let product = |x: ExprId| match *kernel.expr(x) {
                Expr::Alu(AluOp::Mul, [x, y, _]) => Some((x, y)),
                _ => None,
            };
            let ((x, y), offsets) = product(a).map(|xy| (xy, b)).or_else(|| Some((product(b)?, a)))?;
            let is_scale = |x: ExprId| matches!(kernel.expr(x), Expr::Cast(y) if kernel.exprs[y.index()].dtype == DType::F16);
            let (codes, scales) = if is_scale(x) { (y, x) } else { (x, y) };
            Some((codes, 0.0, scales, Some(offsets)))
        }
        _ => None,
    }
}

fn constant(kernel: &Kernel, value: ExprId) -> Option<f32> {
    match *kernel.expr(value) {
        Expr::Const(bits) => Some(Scalar::from_bits(bits, kernel.exprs[value.index()].dtype).as_f64() as f32),
        _ => None,
    }
}

/// An input that is read without conditions, of a type, at steps of its own along blocks and places.
fn part(kernel: &Kernel, axes: &Axes, value: ExprId, dtype: DType, steps: &[i64]) -> Option<Part> {
    let Expr::Load(input, access) = kernel.expr(value) else { return None };
    let along = std::iter::once(&axes.blocks).chain(axes.places);
    let same = along.zip(steps).all(|(&axis, &step)| access.affine.coefficient(axis) == step);
    let plain = access.guard.is_always() && access.dynamic.is_empty();
    if !same || !plain || kernel.inputs[*input as usize].dtype != dtype {
        return None;
    }
    let step = |axis: &AxisId| (kernel.axes[axis.index()].extent, access.affine.coefficient(*axis));
    let row = axes.lines.first().map_or(0, |&axis| access.affine.coefficient(axis));
    let batch = axes.batch.iter().map(step).collect();
    Some(Part { input: *input, strides: Strides { offset: access.affine.offset, batch, row, col: 0 } })
}

/// One number for each block, one after the other.
fn per_block(kernel: &Kernel, axes: &Axes, value: ExprId) -> Option<Part> {
    let Expr::Cast(value) = *kernel.expr(value) else { return None };
    part(kernel, axes, value, DType::F16, &[1, 0, 0][..=axes.places.len()])
}

/// Codes as floats: bytes, or the halves of bytes.
fn codes_part(kernel: &Kernel, axes: &Axes, value: ExprId, layout: CodeLayout) -> Option<Part> {
    let Expr::Cast(value) = *kernel.expr(value) else { return None };
    let block = layout.block_bytes() as i64;
    match layout {
        CodeLayout::Bytes => part(kernel, axes, value, DType::U8, &[block, 1]),
        CodeLayout::Nibbles => {
            let Expr::Alu(AluOp::Where, [first, lower, upper]) = *kernel.expr(value) else { return None };
            let with = |x: ExprId, op: AluOp, bits: f32| match *kernel.expr(x) {
                Expr::Alu(found, [pairs, by, _]) if found == op && constant(kernel, by) == Some(bits) => {
                    Some(pairs)
                }
                _ => None,
            };
            let pairs =
                with(lower, AluOp::And, 15.0).filter(|&pairs| with(upper, AluOp::Shr, 4.0) == Some(pairs))?;
            let halves = is_first(kernel, first, axes.places[0]);
            part(kernel, axes, pairs, DType::U8, &[block, 0, 1]).filter(|_| halves)
        }
    }
}

/// Whether a condition is that an axis is at its first position.
fn is_first(kernel: &Kernel, condition: ExprId, axis: AxisId) -> bool {
    let Expr::Alu(AluOp::Eq, [position, zero, _]) = *kernel.expr(condition) else { return false };
    let position = match *kernel.expr(position) {
        Expr::Cast(inner) => inner,
        _ => position,
    };
    let Expr::Index(affine) = kernel.expr(position) else { return false };
    affine.offset == 0 && affine.terms[..] == [(axis, 1)] && constant(kernel, zero) == Some(0.0)
}

/// A quantized matrix in memory.
pub struct QuantizedMemory<'a> {
    rows: &'a QuantizedRows,
    codes: *const u8,
    scales: *const f16,
    offsets: Option<(*const f16, &'a Part)>,
}

// SAFETY: addresses by themselves; `write` states why it may go through them.
unsafe impl Send for QuantizedMemory<'_> {}
// SAFETY: as above.
unsafe impl Sync for QuantizedMemory<'_> {}

impl QuantizedMemory<'_> {
    /// Writes the numbers of some lines, from the first to the last place along them.
    ///
    /// # Safety
    /// The kernel's accesses lie inside its buffers, and the block is the caller's to write.
    pub unsafe fn write(&self, batch: usize, lines: Range<usize>, along: Range<usize>, to: StridedBlock) {
        let whole = along.start.is_multiple_of(QUANTIZED_BLOCK) && along.end.is_multiple_of(QUANTIZED_BLOCK);
        for line in lines.clone() {
            let to = to.start.wrapping_add((line - lines.start) * to.row_stride * to.lane).cast::<f32>();
            let first = self.row(batch, line, along.start / QUANTIZED_BLOCK);
            // SAFETY: the caller's promise.
            unsafe {
                match whole {
                    true => {
                        self.dequantize(&QuantizedRow { blocks: along.len() / QUANTIZED_BLOCK, to, ..first })
                    }
                    false => self.write_part(first, &along, to),
                }
            }
        }
    }

    /// Writes the dot products of some lines, of `k` elements each, with a vector.
    ///
    /// # Safety
    /// As [`QuantizedMemory::write`]; the vector is readable, and the results are the caller's to write.
    pub unsafe fn dots(&self, batch: usize, lines: Range<usize>, vector: *const f32, k: usize, to: *mut f32) {
        let Some(dot) = self.rows.dot() else { unreachable!("asked for a loop that is not there") };
        let blocks = k / QUANTIZED_BLOCK;
        // SAFETY: the caller's promise.
        let elements = unsafe { std::slice::from_raw_parts(vector, k) };
        let sum = |block: &[f32]| block.iter().sum();
        let sums: Vec<f32> =
            self.offsets.map_or_else(Vec::new, |_| elements.chunks_exact(QUANTIZED_BLOCK).map(sum).collect());
        let vector = BlockedVector { elements: vector, sums: sums.as_ptr() };
        let matrix = self.matrix(batch, lines, blocks, to);
        for number in 0..matrix.count {
            // SAFETY: the caller's promise.
            unsafe { dot(&matrix.row(number), &vector) };
        }
    }

    /// Some lines of so many blocks each, whose results go one after the other.
    pub fn matrix(&self, batch: usize, lines: Range<usize>, blocks: usize, to: *mut f32) -> QuantizedMatrix {
        let QuantizedRows { codes, scales, .. } = self.rows;
        QuantizedMatrix {
            first: QuantizedRow { blocks, to, ..self.row(batch, lines.start, 0) },
            count: lines.len(),
            codes_step: codes.strides.row(),
            scales_step: scales.strides.row(),
            offsets_step: self.offsets.map_or(0, |(_, part)| part.strides.row()),
        }
    }

    /// Writes a range of a line whose ends may lie within blocks, the first of which is `row`'s.
    ///
    /// # Safety
    /// As [`QuantizedMemory::write`].
    unsafe fn write_part(&self, mut row: QuantizedRow, along: &Range<usize>, to: *mut f32) {
        let mut numbers = [0f32; QUANTIZED_BLOCK];
        (row.blocks, row.to) = (1, numbers.as_mut_ptr());
        let mut place = along.start;
        while place < along.end {
            let (within, end) = (place % QUANTIZED_BLOCK, place.next_multiple_of(QUANTIZED_BLOCK));
            let end = if within == 0 { place + QUANTIZED_BLOCK } else { end };
            let count = end.min(along.end) - place;
            // SAFETY: the caller's promise; the room holds a block.
            unsafe {
                self.dequantize(&row);
                let from = row.to.add(within);
                to.add(place - along.start).copy_from_nonoverlapping(from, count);
            }
            place = end;
            row.codes = row.codes.wrapping_add(self.rows.layout.block_bytes());
            row.scales = row.scales.wrapping_add(1);
            row.offsets = row.offsets.and_then(|offset| NonNull::new(offset.as_ptr().wrapping_add(1)));
        }
    }

    /// # Safety
    /// As [`micro::dequantize`].
    unsafe fn dequantize(&self, row: &QuantizedRow) {
        // SAFETY: the caller's promise.
        unsafe { micro::dequantize(self.rows.layout)(row) }
    }

    /// The blocks of a line from one on.
    fn row(&self, batch: usize, line: usize, block: usize) -> QuantizedRow {
        let at = |strides: &Strides| strides.batch(batch) + line as isize * strides.row();
        let QuantizedRows { codes, scales, layout, zero, .. } = self.rows;
        let offsets =
            self.offsets.map(|(start, part)| start.wrapping_offset(at(&part.strides)).wrapping_add(block));
        QuantizedRow {
            codes: self.codes.wrapping_offset(at(&codes.strides)).wrapping_add(block * layout.block_bytes()),
            scales: self.scales.wrapping_offset(at(&scales.strides)).wrapping_add(block),
            offsets: offsets.and_then(|start| NonNull::new(start.cast_mut())),
            zero: *zero,
            blocks: 0,
            to: std::ptr::null_mut(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_may_begin_and_end_within_blocks() {
        let (count, row) = (2, 3 * QUANTIZED_BLOCK);
        let codes: Vec<u8> = (0..count * row).map(|i| (i * 37 % 251) as u8).collect();
        let scales: Vec<f16> = (0..count * 3).map(|i| f16::from_f32(0.5 + i as f32)).collect();
        let part = |row: usize| Part {
            input: 0,
            strides: Strides { offset: 0, batch: Vec::new(), row: row as i64, col: 0 },
        };
        let (layout, zero) = (CodeLayout::Bytes, 128.0);
        let rows = QuantizedRows { codes: part(row), scales: part(3), offsets: None, zero, layout };
        let memory =
            QuantizedMemory { rows: &rows, codes: codes.as_ptr(), scales: scales.as_ptr(), offsets: None };
        let written = |lines: Range<usize>, along: Range<usize>| {
            let mut to = vec![f32::NAN; lines.len() * along.len()];
            let block = StridedBlock {
                start: to.as_mut_ptr().cast(),
                row_stride: along.len(),
                lane: size_of::<f32>(),
            };
            // SAFETY: the matrix has these lines, and the block has room for them.
            unsafe { memory.write(0, lines, along, block) };
            to
        };
        let whole = written(0..count, 0..row);
        assert_eq!(whole[row + 40], (f32::from(codes[row + 40]) - zero) * scales[4].to_f32());
        for along in [0..32, 5..9, 5..60, 31..33, 32..50, 40..96, 0..96] {
            let expected: Vec<f32> =
                (0..count).flat_map(|line| whole[line * row..][along.clone()].to_vec()).collect();
            assert_eq!(written(0..count, along.clone()), expected, "{along:?}");
        }
    }
}
