//! What a compiled reduction or scan consists of.

use kiln_simd::micro::{self, Accumulator, MicroFn, Reducer, Scanner};
use smallvec::SmallVec;

use crate::ir::Monoid;
use crate::runtime::cpu::tile::program::{AddressId, FrameSlot, Instr, Prefetch, TileShape};

/// A reduction, with its state.
#[derive(Clone, Debug)]
pub struct TileReduction {
    /// What is combined.
    pub operand: FrameSlot,
    /// Shape of the operand.
    pub shape: TileShape,
    /// The result.
    pub result: FrameSlot,
    /// Where in its level's order the first element of a step is; `None`
    /// where no one needs it.
    pub position: Option<AddressId>,
    /// How it is done.
    pub form: ReductionForm,
    /// What to prefetch.
    pub prefetch: Option<Prefetch>,
}

impl TileReduction {
    /// What is prefetched after each row: how many bytes on, and how many.
    pub fn row_prefetch(&self) -> (isize, usize) {
        self.prefetch.map_or((0, 0), |prefetch| (prefetch.distance, prefetch.bytes.unwrap_or(0)))
    }
}

/// The two forms of reductions.
#[derive(Clone, Debug)]
pub enum ReductionForm {
    /// Along the columns: one state, or one per row.
    Horizontal {
        /// The loops.
        reducer: Reducer,
        /// The states.
        state: FrameSlot,
        /// Shape of the result.
        rows: TileShape,
        /// Which component is the result, and the bytes of one.
        component: (usize, usize),
        /// Whether an index of -1 (no element) becomes 0.
        index: bool,
    },
    /// Lane by lane.
    Vertical {
        /// The loops.
        accumulator: Accumulator,
        /// The states' components.
        states: [FrameSlot; 3],
        /// Components of finished blocks, where there are many rows.
        totals: Option<[FrameSlot; 3]>,
        /// Number of components, and the bytes of one of each.
        components: SmallVec<[usize; 3]>,
        /// How the result follows from the components.
        finish: Finish,
        /// The step that computes the elements and takes them in at once, if it is not
        /// the accumulator's.
        take: Option<Box<Instr>>,
    },
}

/// How the result of a vertical reduction follows from its components.
#[derive(Clone, Copy, Debug)]
pub enum Finish {
    /// It is this one.
    Component(usize),
    /// It is this one, with -1 (no element) as 0.
    Index(usize),
    /// It is the first plus the logarithm of the second: the two loops, and
    /// a register between them.
    LogSum(MicroFn, MicroFn, FrameSlot),
}

/// A running reduction.
#[derive(Clone, Debug)]
pub struct TileScan {
    /// What is combined.
    pub operand: FrameSlot,
    /// The results.
    pub result: FrameSlot,
    /// Shape of both.
    pub shape: TileShape,
    /// Bytes of an element.
    pub lane: usize,
    /// How it is done.
    pub form: ScanForm,
}

/// The two forms of scans.
#[derive(Clone, Debug)]
pub enum ScanForm {
    /// Along the columns: one state, or one per row.
    Horizontal(Scanner, FrameSlot),
    /// Lane by lane: the states after each row are the results.
    Vertical(Accumulator, [FrameSlot; 3], Finish),
}

/// The micro-ops' name for a row of the monoid table.
pub fn reduction_kind(monoid: Monoid) -> micro::ReduceKind {
    match monoid {
        Monoid::Sum => micro::ReduceKind::Sum,
        Monoid::Prod => micro::ReduceKind::Prod,
        Monoid::Max => micro::ReduceKind::Max,
        Monoid::Min => micro::ReduceKind::Min,
        Monoid::ArgMax => micro::ReduceKind::ArgMax,
        Monoid::ArgMin => micro::ReduceKind::ArgMin,
        Monoid::M2 => micro::ReduceKind::Moments,
        Monoid::LogSumExp => micro::ReduceKind::LogSumExp,
    }
}
