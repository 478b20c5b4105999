//! Products of several rows with packed numbers, whose rows are rounded to 8 bits and multiplied in integers.

use std::ops::Range;

use kiln_simd::gemm::GemmElement;
use kiln_simd::micro::{
    IntegerDotFn, IntegerPanels, PANEL_COLUMNS, PanelBlock, PanelProduct, QUANTIZED_BLOCK, QuantizedMatrix,
    RoundedBlock, RoundedRows,
};

use super::blocked::{OutputSum, store_block};
use super::grid::{OutputGrid, TaskArea, even_split, for_each, workers};
use super::{GemmOperand, GemmOutput, scratch};
use crate::runtime::cpu::row_product::RowProduct;
use crate::runtime::cpu::thresholds::{
    INTEGER_ROUNDED_ROWS, INTEGER_SERIAL_MULTIPLY_ADDS, INTEGER_TASK_COLUMNS, INTEGER_TASK_ROWS,
    INTEGER_TASKS_PER_THREAD,
};

/// What multiplies in integers.
#[derive(Clone, Copy)]
pub struct IntegerLoops {
    /// Rows one by one.
    pub dot: IntegerDotFn,
    /// Several rows together, where the machine is fast enough.
    pub panels: Option<IntegerPanels>,
}

/// A batch of products of `m` rows of `k` with the `n` lines of a packed matrix.
pub struct IntegerProblem<'a> {
    /// How many products.
    pub batch: usize,
    /// Rows of A and C.
    pub m: usize,
    /// Lines of the packed matrix, columns of C.
    pub n: usize,
    /// Elements of a row, whole blocks.
    pub k: usize,
    /// What multiplies.
    pub loops: IntegerLoops,
    /// The rows; several are contiguous along k where a function writes them.
    pub a: GemmOperand<'a, f32>,
    /// Some lines of a batch's matrix, whose products with a row go to a place.
    pub b: &'a (dyn Fn(usize, Range<usize>, *mut f32) -> QuantizedMatrix + Sync),
    /// Where C goes.
    pub out: GemmOutput<'a, f32>,
}

impl IntegerProblem<'_> {
    /// Computes the products on the device's threads.
    ///
    /// # Safety
    /// As [`super::run`]; codes and scales are readable for all lines.
    pub unsafe fn run(&self) {
        for batch in 0..self.batch {
            // SAFETY: the caller's promise.
            unsafe { self.with_rounded(batch, |rows| self.multiply(batch, rows)) };
        }
    }

    /// Passes the product as one of one row, if it is.
    ///
    /// # Safety
    /// As [`IntegerProblem::run`], until what is passed is computed.
    pub unsafe fn with_row_product(&self, use_it: impl FnOnce(Option<&dyn RowProduct>)) {
        if self.batch != 1 || self.m != 1 {
            return use_it(None);
        }
        // SAFETY: the caller's promise.
        unsafe { self.with_rounded(0, |rows| use_it(Some(&RoundedRow { problem: self, rows }))) };
    }

    /// Passes a batch's rows, rounded.
    unsafe fn with_rounded(&self, batch: usize, use_them: impl FnOnce(&SharedRows)) {
        scratch::with(self.m * self.k, |codes| {
            scratch::with(self.m * self.k / QUANTIZED_BLOCK, |blocks: *mut RoundedBlock| {
                let rows = SharedRows(RoundedRows { codes, blocks });
                // SAFETY: there is room for all rows; the caller's promise.
                unsafe { self.round(batch, &rows) };
                use_them(&rows);
            });
        });
    }

    /// Rounds all rows, once for all tasks.
    unsafe fn round(&self, batch: usize, to: &SharedRows) {
        let (k, blocks) = (self.k, self.k / QUANTIZED_BLOCK);
        for_each(self.workers(), self.m.div_ceil(INTEGER_ROUNDED_ROWS), 1, |job| {
            let start = job * INTEGER_ROUNDED_ROWS;
            let count = INTEGER_ROUNDED_ROWS.min(self.m - start);
            scratch::with(count * k, |room: *mut f32| {
                // SAFETY: there is room for so many rows, here and among the rounded; the caller's promise.
                unsafe {
                    let (from, step) = self.a.rows(batch, start..start + count, k, room);
                    for row in 0..count {
                        let from = from.wrapping_offset(row as isize * step);
                        to.0.from(start + row, blocks).round(std::slice::from_raw_parts(from, k));
                    }
                }
            });
        });
    }

    /// Multiplies rounded rows.
    unsafe fn multiply(&self, batch: usize, rows: &SharedRows) {
        let workers = self.workers();
        let most = self.most_columns(workers);
        let panels = self.loops.panels.filter(|_| self.m > 1);
        let col_step = match panels {
            Some(_) => even_split(self.n, most.min(INTEGER_TASK_COLUMNS), PANEL_COLUMNS),
            None => most.next_multiple_of(4),
        };
        let grid = OutputGrid {
            batches: batch..batch + 1,
            rows: self.m,
            cols: 0..self.n,
            row_step: even_split(self.m, INTEGER_TASK_ROWS, 1),
            col_step,
        };
        // SAFETY: the caller's promise, and areas do not overlap.
        for_each(workers, grid.tasks(), 1, |task| unsafe { self.block(panels, &grid.area(task), rows) });
    }

    /// Most columns of a task.
    fn most_columns(&self, workers: usize) -> usize {
        if workers == 1 { self.n } else { self.n.div_ceil(INTEGER_TASKS_PER_THREAD * workers) }
    }

    /// Computes a block of C and stores it.
    unsafe fn block(&self, panels: Option<IntegerPanels>, area: &TaskArea, rows: &SharedRows) {
        let ld = scratch::padded::<f32>(area.cols.len());
        scratch::with(area.rows.len() * ld, |ptr: *mut f32| {
            let sum = OutputSum { ptr, ld: ld as isize };
            // SAFETY: there is room for all products; the caller's promise.
            unsafe {
                match panels {
                    Some(panels) => self.multiply_panels(panels, area, rows, sum),
                    None => self.multiply_rows(area, rows, sum),
                }
                store_block(&self.out, &f32::kernels()[0], area, sum);
            }
        });
    }

    /// Computes a block of C, over all of k, row by row.
    unsafe fn multiply_rows(&self, area: &TaskArea, rows: &SharedRows, sum: OutputSum<f32>) {
        for (line, row) in area.rows.clone().enumerate() {
            let to = sum.ptr.wrapping_offset(line as isize * sum.ld);
            let matrix = (self.b)(area.batch, area.cols.clone(), to);
            // SAFETY: the caller's promise.
            unsafe { (self.loops.dot)(&matrix, rows.0.from(row, self.k / QUANTIZED_BLOCK)) };
        }
    }

    /// Computes a block of C, over all of k, a panel of the packed matrix after the other.
    unsafe fn multiply_panels(
        &self,
        panels: IntegerPanels,
        area: &TaskArea,
        rows: &SharedRows,
        sum: OutputSum<f32>,
    ) {
        let blocks = self.k / QUANTIZED_BLOCK;
        scratch::with(blocks, |panel: *mut PanelBlock| {
            for start in area.cols.clone().step_by(PANEL_COLUMNS) {
                let lines = start..area.cols.end.min(start + PANEL_COLUMNS);
                let to = sum.ptr.wrapping_add(start - area.cols.start);
                let matrix = (self.b)(area.batch, lines.clone(), to);
                let product = PanelProduct {
                    panel,
                    columns: lines.len(),
                    blocks,
                    zero: matrix.first.zero as i32,
                    has_offsets: matrix.first.offsets.is_some(),
                    rows: rows.0.from(area.rows.start, blocks),
                    count: area.rows.len(),
                    to,
                    to_step: sum.ld,
                };
                // SAFETY: there is room for a panel; the caller's promise.
                unsafe {
                    (panels.pack)(&matrix, panel);
                    (panels.multiply)(&product);
                }
            }
        });
    }

    fn workers(&self) -> usize {
        workers(self.m * self.n * self.k, INTEGER_SERIAL_MULTIPLY_ADDS)
    }
}

/// One rounded row, and the product that it is of.
struct RoundedRow<'a> {
    problem: &'a IntegerProblem<'a>,
    rows: &'a SharedRows,
}

impl RowProduct for RoundedRow<'_> {
    fn columns(&self) -> usize {
        self.problem.n
    }
    fn multiply_adds(&self) -> usize {
        self.problem.n * self.problem.k
    }
    fn step(&self, workers: usize) -> usize {
        self.problem.most_columns(workers).next_multiple_of(4)
    }
    unsafe fn compute(&self, cols: Range<usize>) {
        let area = TaskArea { batch: 0, rows: 0..1, cols };
        // SAFETY: the caller's promise.
        unsafe { self.problem.block(None, &area, self.rows) };
    }
}

/// Rows that threads write, each its own, and then only read.
struct SharedRows(RoundedRows);

// SAFETY: as above.
unsafe impl Sync for SharedRows {}
