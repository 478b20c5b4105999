//! What a compiled tile program consists of.
//!
//! Steps refer to addresses, slots and bodies by number; extents, strides and
//! offsets are in tables apart from them.

use smallvec::SmallVec;

use crate::base::DType;
use crate::kernel::{AxisId, LoopAxis};
use crate::runtime::cpu::micro::{
    AccumulateFn, BatchedRowsFn, ExpandFn, GatherFn, MAX_OPERANDS, MicroFn, NonTemporalLoop, OverlapFn,
    StridedFn, TransposeFn,
};
use crate::runtime::cpu::tile::run::ScatterFn;

pub use crate::runtime::cpu::tile::ahead::{Ahead, Asks};
pub use crate::runtime::cpu::tile::class::Class;
pub use crate::runtime::cpu::tile::overlap::PutOff;
pub use crate::runtime::cpu::tile::reduction::{Finish, Reduction, ReductionForm, Scan, ScanForm};

/// Number of a pointer of the frame: a register, a constant, or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// Number of an address: an affine value kept current while a body runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressId(pub u32);

/// The numbers of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The value where all axes are 0.
    pub offset: i64,
    /// The step along each axis of the space.
    pub steps: SmallVec<[i64; 6]>,
}

/// What a slot points at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// Scratch memory at this offset.
    Register(usize),
    /// A constant in scratch memory at this offset, and its bits.
    Constant(usize, u64),
    /// A scalar argument of the launch, kept at this offset, of this type.
    Argument(usize, u32, DType),
    /// Memory, set by a load.
    Memory,
    /// The states that a reduction leaves.
    States,
}

/// A slot of the program.
#[derive(Clone, Copy, Debug)]
pub struct SlotInfo {
    /// What it points at before the first step.
    pub place: Place,
    /// Class of the value.
    pub class: Class,
    /// Type of the value, for people.
    pub dtype: DType,
    /// Level of the body that defines it.
    pub level: u8,
}

/// A loop of a level: an axis, or the chunks of a tile's axis.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// The axis.
    pub axis: AxisId,
    /// Where it starts.
    pub start: usize,
    /// Its end.
    pub end: usize,
    /// Positions per iteration: 1 but for the tile's axes.
    pub chunk: usize,
}

impl Loop {
    /// Number of iterations.
    pub fn count(&self) -> usize {
        (self.end - self.start).div_ceil(self.chunk)
    }
}

/// The loops of one level, outermost first; a tile's axes are the last.
pub type Loops = SmallVec<[Loop; 4]>;

/// Number of iterations of some loops.
pub fn units(loops: &Loops) -> usize {
    loops.iter().map(Loop::count).product()
}

/// A condition on axes: an address within bounds.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// What is compared.
    pub value: AddressId,
    /// The least value inside.
    pub low: i64,
    /// The first value above the inside.
    pub high: i64,
}

/// A computed part of an address.
#[derive(Clone, Copy, Debug)]
pub struct Indexed {
    /// The positions, `I64`.
    pub index: Slot,
    /// Their class.
    pub class: Class,
    /// Elements from one position to the next.
    pub stride: i64,
    /// Positions there are.
    pub extent: usize,
    /// Whether positions are checked, clamped and recorded.
    pub checked: bool,
}

/// How the elements along a line of a tile lie in memory.
#[derive(Clone, Copy, Debug)]
pub enum Line<Unit> {
    /// One after another.
    Unit(Unit),
    /// At equal distances.
    Strided(StridedFn),
    /// Lines are one after another, elements of a line are not.
    Transposed(TransposeFn),
}

/// A load of a tile or vector.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where the values go, or the slot that is made to point at memory.
    pub to: Slot,
    /// Number of the buffer among inputs and outputs.
    pub memory: u32,
    /// Type of the elements in memory.
    pub dtype: DType,
    /// Bytes of an element in a register.
    pub lane: usize,
    /// Class of the result.
    pub class: Class,
    /// Whether all that read the result go line by line, each line where it lies.
    pub in_place: bool,
    /// Whether the step before says where the values go.
    pub aimed: bool,
    /// The part of the address that axes determine.
    pub address: AddressId,
    /// Elements from here to where the next tile's are.
    pub ahead: i64,
    /// How lines lie; the function of `Unit` is `None` where the slot may
    /// point at the memory.
    pub line: Line<Option<MicroFn>>,
    /// The copy of all lines, where those are short and lie apart.
    pub short: Option<BatchedRowsFn>,
    /// Conditions under which the elements are there; 0 elsewhere.
    pub bounds: SmallVec<[Bound; 2]>,
    /// Computed conditions, scalars or one per line.
    pub masks: SmallVec<[(Slot, Class); 1]>,
    /// Computed parts of the address, scalars or one per line.
    pub indices: SmallVec<[Indexed; 1]>,
}

impl Load {
    /// Whether it has no conditions and no computed positions.
    pub fn plain(&self) -> bool {
        self.bounds.is_empty() && self.masks.is_empty() && self.indices.is_empty()
    }
}

/// A load whose address or condition is computed element by element.
#[derive(Clone, Debug)]
pub struct Gather {
    /// All but how lines lie.
    pub load: Load,
    /// Positions in memory, `I64`, as wide as the result.
    pub positions: Slot,
    /// The loop.
    pub function: GatherFn,
}

/// A store of a tile or vector.
#[derive(Clone, Debug)]
pub struct Store {
    /// The values.
    pub from: Slot,
    /// Number of the buffer among inputs and outputs.
    pub memory: u32,
    /// Type of the elements in memory.
    pub dtype: DType,
    /// Bytes of an element in a register.
    pub lane: usize,
    /// Class of the values.
    pub class: Class,
    /// Where the first goes.
    pub address: AddressId,
    /// How lines lie.
    pub line: Line<MicroFn>,
    /// The loop over all lines, where those are short and lie apart.
    pub short: Option<BatchedRowsFn>,
    /// Whether stores should pass the caches by.
    pub stream: bool,
    /// Whether a slot that points at memory means that the values are there already.
    pub aimed: bool,
}

/// What lets the step that computes a store's values write them in place.
#[derive(Clone, Debug)]
pub struct Aim {
    /// The store.
    pub store: Store,
    /// What that step, and where it matters any after it, reads.
    pub operands: SmallVec<[Slot; MAX_OPERANDS]>,
    /// Whether memory between its lines is left to other kernels.
    pub pieces: bool,
}

/// A micro-op over each line of a tile, or of a vector the only one.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The loop.
    pub function: MicroFn,
    /// The loop for where it writes a store's values in place, if that passes the caches by.
    pub streaming: Option<NonTemporalLoop>,
    /// The loop over all lines, where those are short.
    pub short: Option<BatchedRowsFn>,
    /// Its name, for people.
    pub name: &'static str,
    /// The destination.
    pub to: (Slot, Advance),
    /// The operands; unused ones repeat the first.
    pub from: [(Slot, Advance); MAX_OPERANDS],
    /// Class of what varies along lines, or between them.
    pub class: Class,
    /// What to ask for meanwhile.
    pub ahead: Option<Ahead>,
    /// Whether the loop itself does, while it computes; else it is done after each line.
    pub asks: bool,
    /// A store of the result whose lines lie apart, which may be written in place.
    pub aim: Option<Box<Aim>>,
    /// The reduction that each line is the whole of, whose state the loop takes elements into.
    pub whole: Option<u32>,
    /// The loop that does what was put off too.
    pub overlap: Option<OverlapFn>,
}

impl Lines {
    /// A micro-op over the lines of a class that asks for nothing.
    pub fn new(
        function: MicroFn,
        name: &'static str,
        to: (Slot, Advance),
        from: [(Slot, Advance); MAX_OPERANDS],
        class: Class,
    ) -> Lines {
        let (streaming, short, ahead, asks) = (None, None, None, false);
        let (aim, whole, overlap) = (None, None, None);
        Lines { function, streaming, short, name, to, from, class, ahead, asks, aim, whole, overlap }
    }
}

/// How an operand goes on from line to line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// By so many bytes, however long a line is.
    Bytes(usize),
    /// By a line of elements of so many bytes.
    Line(usize),
}

impl Advance {
    /// The bytes, for lines of so many elements.
    pub fn bytes(self, cols: usize) -> usize {
        match self {
            Advance::Bytes(bytes) => bytes,
            Advance::Line(lane) => cols * lane,
        }
    }
}

/// A block of a matrix that a product hands in or asks for.
#[derive(Clone, Copy, Debug)]
pub struct BlockStep {
    /// The register side.
    pub slot: Slot,
    /// Class of the values.
    pub class: Class,
    /// Bytes of an element.
    pub lane: usize,
}

/// A scatter of a tile or vector.
#[derive(Clone, Debug)]
pub struct Scatter {
    /// The values.
    pub value: Slot,
    /// Their class.
    pub class: Class,
    /// Bytes of one in a register.
    pub lane: usize,
    /// Bytes from a line of the value to the next where they lie apart in memory; else lines
    /// follow each other.
    pub line_step: Option<usize>,
    /// Positions along the scattered axis.
    pub index: Slot,
    /// Their class.
    pub index_class: Class,
    /// Room for positions in the buffer.
    pub positions: Slot,
    /// Number of the buffer among inputs and outputs.
    pub memory: u32,
    /// Type of the elements in memory.
    pub dtype: DType,
    /// The part of the address that axes determine.
    pub address: AddressId,
    /// Elements from a position along the scattered axis to the next.
    pub stride: i64,
    /// Positions there are.
    pub extent: usize,
    /// The loop for computed positions.
    pub function: ScatterFn,
    /// The loop for neighbours at one index, where there is one.
    pub run: Option<AccumulateFn>,
}

/// One step of a body.
#[derive(Clone, Debug)]
pub enum Step {
    /// A micro-op.
    Micro {
        /// The loop.
        function: MicroFn,
        /// The loop for where it writes a store's values in place, if that passes the caches by.
        streaming: Option<NonTemporalLoop>,
        /// Its name, for people.
        name: &'static str,
        /// The destination.
        to: Slot,
        /// The operands; unused ones repeat the first.
        from: [Slot; MAX_OPERANDS],
        /// How many elements.
        class: Class,
        /// What else it asks for.
        asks: Asks,
    },
    /// A micro-op done line by line, for operands that do not have an element
    /// for each of the tile's.
    Lines(Box<Lines>),
    /// A product left for the next iteration.
    PutOff(Box<PutOff>),
    /// A vector of rows or columns spread over the tile.
    Expand {
        /// The loop.
        function: ExpandFn,
        /// The destination.
        to: Slot,
        /// The vector.
        from: Slot,
    },
    /// The values of an address, as `I64`.
    Index {
        /// The destination.
        to: Slot,
        /// The address.
        value: AddressId,
        /// How many elements.
        class: Class,
    },
    /// Whether a condition holds, as `Bool`.
    Inside {
        /// The destination.
        to: Slot,
        /// The condition.
        bound: Bound,
        /// How many elements.
        class: Class,
    },
    /// Records indices, `I64`, that are outside `0..extent` as the kernel's index error.
    Check(Slot, usize, Class),
    /// A load.
    Load(Box<Load>),
    /// A load at computed positions.
    Gather(Box<Gather>),
    /// Lets the next step write where a store would.
    Aim(Box<Aim>),
    /// A store.
    Store(Box<Store>),
    /// A block that a product hands in.
    FromBlock(BlockStep),
    /// Lets the next step write where a block would be copied to.
    AimBlock(BlockStep),
    /// A block that a product asks for.
    ToBlock(BlockStep),
    /// A scatter.
    Scatter(Box<Scatter>),
    /// Takes a step's elements into a reduction.
    Update(u32),
    /// A reduction that each line is the whole of.
    Reduce(u32),
    /// A running reduction's next elements.
    Scan(u32),
    /// A pass over the next deeper level.
    Nest {
        /// What a point does.
        body: u32,
        /// The reductions that the pass completes.
        reductions: SmallVec<[u32; 4]>,
        /// The scans in it.
        scans: SmallVec<[u32; 1]>,
    },
    /// A pass over a level of one point begins, the steps of which follow.
    Begin {
        /// The reductions that the pass completes.
        reductions: SmallVec<[u32; 4]>,
        /// The scans in it.
        scans: SmallVec<[u32; 1]>,
    },
    /// The result of a reduction that such a pass completes.
    Finish(u32),
}

/// Steps for every point, or every tile, of one level.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// The level.
    pub level: u8,
    /// Its loops, where they are others than the level's.
    pub loops: Option<Loops>,
    /// The addresses its steps use.
    pub addresses: SmallVec<[AddressId; 8]>,
    /// Steps that depend on no more than the first so many loops, each list
    /// run when one of those advances.
    pub hoisted: Vec<(usize, Vec<Step>)>,
    /// Slots that go on by so many bytes where the innermost loop alone advances, while they
    /// point at memory.
    pub moves: SmallVec<[(Slot, isize); 4]>,
    /// The other steps.
    pub steps: Vec<Step>,
}

/// A compiled kernel.
#[derive(Clone, Debug)]
pub struct Program {
    /// For people: the kernel's name.
    pub name: String,
    /// The iteration space.
    pub axes: Vec<LoopAxis>,
    /// The tile's axis of rows.
    pub row: Option<AxisId>,
    /// The tile's axis of columns.
    pub col: Option<AxisId>,
    /// Rows and columns of a whole tile.
    pub tile: (usize, usize),
    /// The loops of each level.
    pub loops: Vec<Loops>,
    /// All addresses.
    pub addresses: Vec<Address>,
    /// All slots.
    pub slots: Vec<SlotInfo>,
    /// Bytes of scratch memory.
    pub scratch: usize,
    /// The bodies; the first is level 0's.
    pub bodies: Vec<Body>,
    /// All reductions.
    pub reductions: Vec<Reduction>,
    /// All scans.
    pub scans: Vec<Scan>,
    /// In a scatter, the axes along which points may meet.
    pub meeting: Vec<AxisId>,
    /// How the work is shared between threads.
    pub sharing: Sharing,
    /// Number of inputs: memory below is theirs, from there on the outputs'.
    pub inputs: usize,
    /// Whether a launch has anything to do.
    pub empty: bool,
}

/// How a program's work is shared between threads. It depends on shapes only,
/// so results do not depend on the number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One thread.
    Serial,
    /// So many tiles of level 0 a job.
    Tiles(usize),
    /// So many iterations of level 1 a job, whose partial states are then
    /// combined in order.
    Rows(usize),
    /// So many jobs that divide an axis along which points of a scatter
    /// never meet.
    Apart(usize),
}

impl Program {
    /// The step of an address along an axis; 0 without an axis.
    pub fn step_along(&self, address: AddressId, axis: Option<AxisId>) -> i64 {
        axis.map_or(0, |axis| self.addresses[address.0 as usize].steps[axis.index()])
    }
}
