//! Unrolled loops over cached rows: some drivers neither unroll loops nor keep arrays in
//! registers. Where accesses start is named before the first iteration, so that those of each
//! iteration are a constant further.

use crate::kernel::{Affine, AxisId};
use crate::render::c_like::emit::Emitter;
use crate::render::c_like::writer::InsertionPoint;
use crate::render::thresholds::UNROLL_COUNTS;

/// The iterations that are unrolled where so many are needed; `None` if there are too many.
pub fn unroll_count(needed: usize) -> Option<usize> {
    UNROLL_COUNTS.into_iter().find(|&count| count >= needed)
}

/// The iterations that no loop unrolled so often skips.
fn always_full_iterations(unrolled: usize) -> usize {
    UNROLL_COUNTS.into_iter().rev().find(|&count| count < unrolled).unwrap_or(0)
}

/// A loop that is being unrolled.
#[derive(Debug)]
pub struct UnrolledLoop {
    /// The iteration.
    pub number: usize,
    /// Rows that all invocations take in an iteration.
    step: usize,
    /// The axis along which rows are neighbours, if there is one alone.
    axis: Option<AxisId>,
    /// Where what all iterations share is written.
    before: InsertionPoint,
    /// What is written there: values and their names.
    starts: Vec<(String, String)>,
}

impl Emitter<'_> {
    /// Opens the block around a loop's iterations.
    pub(super) fn open_unrolled(&mut self, axes: &[AxisId], coarsening: usize) {
        self.out.open("");
        self.row_of_iteration(0, coarsening);
        self.positions("row", axes, coarsening);
        let axis = if let [axis] = axes { Some(*axis) } else { None };
        let before = self.out.insertion_point();
        self.unrolled = Some(UnrolledLoop {
            number: 0,
            step: self.reduction_threads * coarsening,
            axis,
            before,
            starts: Vec::new(),
        });
    }

    /// Opens the block of an iteration; gives the number of blocks opened.
    pub(super) fn open_iteration(
        &mut self,
        number: usize,
        of: usize,
        axes: &[AxisId],
        coarsening: usize,
    ) -> usize {
        let rows = self.kernel.level_points(1);
        if let Some(iterations) = &mut self.unrolled {
            iterations.number = number;
        }
        self.out.open("");
        self.row_of_iteration(number, coarsening);
        let partial = of * self.reduction_threads * coarsening > rows && number >= always_full_iterations(of);
        if partial {
            self.out.open(format!("if (row < {})", self.dialect.position(rows as i64)));
        }
        self.positions("row", axes, coarsening);
        1 + usize::from(partial)
    }

    /// Closes the block around a loop's iterations.
    pub(super) fn close_unrolled(&mut self) {
        self.unrolled = None;
        self.out.close();
    }

    fn row_of_iteration(&mut self, number: usize, coarsening: usize) {
        let first = match self.reduction_threads {
            1 => format!("{}", number * coarsening),
            reduction_threads => format!("(lane + {}) * {coarsening}", number * reduction_threads),
        };
        let line = self.dialect.define("row", self.dialect.position_type(), &first);
        self.out.line(line);
    }

    /// The name of a value that says where groups of `count` neighbours start that an
    /// address leads to. What is used once some drivers compute where it is used, for each
    /// invocation of a vector by itself; a name that is used more often they do not.
    pub(super) fn start(&mut self, address: &Affine, value: String, count: usize) -> String {
        let Some(mut iterations) = self.unrolled.take() else { return self.start_here(&value) };
        let moves = iterations.axis.is_some_and(|axis| address.coefficient(axis) == 1);
        let name = if !moves {
            self.start_here(&value)
        } else {
            let known =
                iterations.starts.iter().find(|(other, _)| *other == value).map(|(_, name)| name.clone());
            let name = known.unwrap_or_else(|| {
                let name = self.fresh("at");
                let line = self.dialect.define(&name, self.dialect.position_type(), &value);
                self.out.line_at(&mut iterations.before, line);
                iterations.starts.push((value, name.clone()));
                name
            });
            match iterations.number * iterations.step / count {
                0 => name,
                further => format!("{name} + {further}"),
            }
        };
        self.unrolled = Some(iterations);
        name
    }

    fn start_here(&mut self, value: &str) -> String {
        let name = self.fresh("at");
        let line = self.dialect.define(&name, self.dialect.position_type(), value);
        self.out.line(line);
        name
    }
}
