//! How C is cut into tasks, and how tasks are spread over threads.

use std::ops::Range;

use crate::runtime::cpu::threads;

/// A rectangle of one batch's C.
#[derive(Clone)]
pub(super) struct TaskArea {
    pub batch: usize,
    pub rows: Range<usize>,
    pub cols: Range<usize>,
}

/// Equal rectangles of C, except at its edges.
pub(super) struct OutputGrid {
    /// Which batches.
    pub batches: Range<usize>,
    /// How many rows, from 0.
    pub rows: usize,
    /// Which columns.
    pub cols: Range<usize>,
    /// Rows of a task.
    pub row_step: usize,
    /// Columns of a task.
    pub col_step: usize,
}

impl OutputGrid {
    /// How many tasks there are.
    pub(super) fn tasks(&self) -> usize {
        let [down, across] = self.extents();
        self.batches.len() * down * across
    }

    /// A task's part of C.
    pub(super) fn area(&self, index: usize) -> TaskArea {
        let [down, across] = self.extents();
        let (batch, place) = (self.batches.start + index / (down * across), index % (down * across));
        let row = place / across * self.row_step;
        let col = self.cols.start + place % across * self.col_step;
        let rows = row..self.rows.min(row + self.row_step);
        TaskArea { batch, rows, cols: col..self.cols.end.min(col + self.col_step) }
    }

    fn extents(&self) -> [usize; 2] {
        [self.rows.div_ceil(self.row_step), self.cols.len().div_ceil(self.col_step)]
    }
}

/// The length of about equal parts of `total`, multiples of `unit`, as few as
/// can be of at most `most` (rounded up to a multiple).
pub fn even_split(total: usize, most: usize, unit: usize) -> usize {
    let parts = total.div_ceil(most.next_multiple_of(unit));
    total.div_ceil(parts.max(1)).next_multiple_of(unit)
}

/// Calls `body` for `0..count`, in groups of `group`, on the device's threads if there are
/// several workers.
pub fn for_each(workers: usize, count: usize, group: usize, body: impl Fn(usize) + Sync) {
    if workers == 1 || count <= 1 {
        (0..count).for_each(body);
    } else {
        threads::parallel_for(count.div_ceil(group), |job| {
            (job * group..count.min((job + 1) * group)).for_each(&body)
        });
    }
}

/// How many threads to use for `work` multiply-adds, where up to `serial` of
/// them take less time than another thread takes to wake.
pub fn workers(work: usize, serial: usize) -> usize {
    if work <= serial { 1 } else { threads::count() }
}
