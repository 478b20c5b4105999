//! Loops over held rows, written turn by turn: some drivers neither unroll loops nor keep
//! arrays in registers. Where accesses start is named before the first turn, so that those of
//! each turn are a constant further.

use crate::kernel::{Affine, AxisId};
use crate::render::c_like::emit::Emitter;
use crate::render::c_like::writer::Place;

/// Numbers of turns that are written out: few, since each is a text of its own.
const COUNTS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// The turns that are written out where so many are needed; `None` if there are too many.
pub fn written(needed: usize) -> Option<usize> {
    COUNTS.into_iter().find(|&count| count >= needed)
}

/// The turns that every loop has for which so many are written out.
fn certain(written: usize) -> usize {
    COUNTS.into_iter().rev().find(|&count| count < written).unwrap_or(0)
}

/// A loop that is being written.
#[derive(Debug)]
pub struct Turns {
    /// The turn.
    pub number: usize,
    /// Rows that all invocations take in a turn.
    step: usize,
    /// The axis along which rows are neighbours, if there is one alone.
    axis: Option<AxisId>,
    /// Where what all turns share is written.
    before: Place,
    /// What is written there: values and their names.
    starts: Vec<(String, String)>,
}

impl Emitter<'_> {
    /// Opens the block around a loop's turns.
    pub(super) fn open_turns_written(&mut self, axes: &[AxisId], lanes: usize) {
        self.out.open("");
        self.row_of_turn(0, lanes);
        self.positions("row", axes, lanes);
        let axis = if let [axis] = axes { Some(*axis) } else { None };
        let before = self.out.place();
        self.turns = Some(Turns { number: 0, step: self.team * lanes, axis, before, starts: Vec::new() });
    }

    /// Opens the block of a turn; gives the number of blocks opened.
    pub(super) fn open_turn(&mut self, number: usize, of: usize, axes: &[AxisId], lanes: usize) -> usize {
        let rows = self.kernel.level_points(1);
        if let Some(turns) = &mut self.turns {
            turns.number = number;
        }
        self.out.open("");
        self.row_of_turn(number, lanes);
        let partial = of * self.team * lanes > rows && number >= certain(of);
        if partial {
            self.out.open(format!("if (row < {})", self.dialect.position(rows as i64)));
        }
        self.positions("row", axes, lanes);
        1 + usize::from(partial)
    }

    /// Closes the block around a loop's turns.
    pub(super) fn close_turns(&mut self) {
        self.turns = None;
        self.out.close();
    }

    fn row_of_turn(&mut self, number: usize, lanes: usize) {
        let first = match self.team {
            1 => format!("{}", number * lanes),
            team => format!("(lane + {}) * {lanes}", number * team),
        };
        let line = self.dialect.define("row", self.dialect.position_type(), &first);
        self.out.line(line);
    }

    /// The name of a value that says where groups of `count` neighbours start that an
    /// address leads to. What is used once some drivers compute where it is used, for each
    /// invocation of a vector by itself; a name that is used more often they do not.
    pub(super) fn start(&mut self, address: &Affine, value: String, count: usize) -> String {
        let Some(mut turns) = self.turns.take() else { return self.start_here(&value) };
        let moves = turns.axis.is_some_and(|axis| address.coefficient(axis) == 1);
        let name = if !moves {
            self.start_here(&value)
        } else {
            let known = turns.starts.iter().find(|(other, _)| *other == value).map(|(_, name)| name.clone());
            let name = known.unwrap_or_else(|| {
                let name = self.fresh("at");
                let line = self.dialect.define(&name, self.dialect.position_type(), &value);
                self.out.line_at(&mut turns.before, line);
                turns.starts.push((value, name.clone()));
                name
            });
            match turns.number * turns.step / count {
                0 => name,
                further => format!("{name} + {further}"),
            }
        };
        self.turns = Some(turns);
        name
    }

    fn start_here(&mut self, value: &str) -> String {
        let name = self.fresh("at");
        let line = self.dialect.define(&name, self.dialect.position_type(), value);
        self.out.line(line);
        name
    }
}
