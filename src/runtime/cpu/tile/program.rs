//! What a compiled tile program consists of.
//!
//! Instructions refer to addresses, slots and bodies by number; extents, strides and
//! offsets are in tables apart from them.

use kiln_simd::micro::{
    AccumulateFn, BatchedRowsFn, ExpandFn, GatherFn, MAX_OPERANDS, MicroFn, ScatterFn, StridedFn, TransposeFn,
};
use smallvec::SmallVec;

use crate::base::DType;
use crate::kernel::{AxisId, LoopAxis};

pub use crate::runtime::cpu::tile::partition::WorkPartition;
pub use crate::runtime::cpu::tile::prefetch::Prefetch;
pub use crate::runtime::cpu::tile::reduction::{Finish, ReductionForm, ScanForm, TileReduction, TileScan};
pub use crate::runtime::cpu::tile::rowwise_op::{RowStride, RowwiseOp};
pub use crate::runtime::cpu::tile::tile_shape::TileShape;

/// Number of a pointer of the frame: a register, a constant, or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameSlot(pub u32);

/// Number of an address: an affine value kept current while a body runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressId(pub u32);

/// The numbers of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The value where all axes are 0.
    pub offset: i64,
    /// The instruction along each axis of the space.
    pub strides: SmallVec<[i64; 6]>,
}

/// What a slot points at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SlotStorage {
    /// Scratch memory at this offset.
    Register(usize),
    /// A constant in scratch memory at this offset, and its bits.
    Constant(usize, u64),
    /// A scalar argument of the launch, kept at this offset, of this type.
    Argument(usize, u32, DType),
    /// Memory, set by a load.
    Memory,
    /// The states that a reduction leaves.
    ReductionState,
}

/// A slot of the program.
#[derive(Clone, Copy, Debug)]
pub struct SlotInfo {
    /// What it points at before the first instruction.
    pub storage: SlotStorage,
    /// Shape of the value.
    pub shape: TileShape,
    /// Type of the value.
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
    pub fn trip_count(&self) -> usize {
        (self.end - self.start).div_ceil(self.chunk)
    }
}

/// The loops of one level, outermost first; a tile's axes are the last.
pub type LoopNest = SmallVec<[Loop; 4]>;

/// Number of iterations of some loops.
pub fn trip_count(loops: &LoopNest) -> usize {
    loops.iter().map(Loop::trip_count).product()
}

/// A condition on axes: an address within bounds.
#[derive(Clone, Copy, Debug)]
pub struct RangePredicate {
    /// What is compared.
    pub value: AddressId,
    /// The least value inside.
    pub low: i64,
    /// The first value above the inside.
    pub high: i64,
}

/// A computed part of an address.
#[derive(Clone, Copy, Debug)]
pub struct IndexTerm {
    /// The positions, `I64`.
    pub index: FrameSlot,
    /// Their shape.
    pub shape: TileShape,
    /// Elements from one position to the next.
    pub stride: i64,
    /// Positions there are.
    pub extent: usize,
    /// Whether positions are checked, clamped and recorded.
    pub checked: bool,
}

/// How the elements along a row of a tile lie in memory.
#[derive(Clone, Copy, Debug)]
pub enum RowLayout<F> {
    /// One after another.
    Contiguous(F),
    /// At equal distances.
    Strided(StridedFn),
    /// Rows are one after another, elements of a row are not.
    Transposed(TransposeFn),
}

/// A load of a tile or vector.
#[derive(Clone, Debug)]
pub struct TileLoad {
    /// Where the values go, or the slot that is made to point at memory.
    pub to: FrameSlot,
    /// Number of the buffer among inputs and outputs.
    pub memory: u32,
    /// Type of the elements in memory.
    pub dtype: DType,
    /// Bytes of an element in a register.
    pub lane: usize,
    /// Shape of the result.
    pub shape: TileShape,
    /// Whether all that read the result go row by row, and read it in place.
    pub in_place: bool,
    /// Whether the instruction before forwards the destination.
    pub forwarded: bool,
    /// The part of the address that axes determine.
    pub address: AddressId,
    /// What to prefetch.
    pub prefetch: Option<Prefetch>,
    /// The rows' layout; the function of `Unit` is `None` where the slot may
    /// point at the memory.
    pub layout: RowLayout<Option<MicroFn>>,
    /// The copy of all rows, where those are short and have gaps between them.
    pub batched: Option<BatchedRowsFn>,
    /// Conditions under which the elements are there; 0 elsewhere.
    pub bounds: SmallVec<[RangePredicate; 2]>,
    /// Computed conditions, scalars or one per row.
    pub masks: SmallVec<[(FrameSlot, TileShape); 1]>,
    /// Computed parts of the address, scalars or one per row.
    pub indices: SmallVec<[IndexTerm; 1]>,
}

impl TileLoad {
    /// Whether it has no conditions and no computed positions.
    pub fn plain(&self) -> bool {
        self.bounds.is_empty() && self.masks.is_empty() && self.indices.is_empty()
    }
}

/// A load whose address or condition is computed element by element.
#[derive(Clone, Debug)]
pub struct Gather {
    /// All but how rows lie.
    pub load: TileLoad,
    /// Positions in memory, `I64`, as wide as the result.
    pub positions: FrameSlot,
    /// The loop.
    pub function: GatherFn,
}

/// A store of a tile or vector.
#[derive(Clone, Debug)]
pub struct TileStore {
    /// The values.
    pub from: FrameSlot,
    /// Number of the buffer among inputs and outputs.
    pub memory: u32,
    /// Type of the elements in memory.
    pub dtype: DType,
    /// Bytes of an element in a register.
    pub lane: usize,
    /// Shape of the values.
    pub shape: TileShape,
    /// Where the first goes.
    pub address: AddressId,
    /// The rows' layout.
    pub layout: RowLayout<MicroFn>,
    /// The loop over all rows, where those are short and have gaps between them.
    pub batched: Option<BatchedRowsFn>,
    /// Whether stores should are written by non-temporal stores.
    pub non_temporal: bool,
}

/// Destination forwarding: lets the instruction that computes a store's values write them in place.
#[derive(Clone, Debug)]
pub struct DestForwarding {
    /// The store.
    pub store: TileStore,
    /// What that instruction, and where it matters any after it, reads.
    pub operands: SmallVec<[FrameSlot; MAX_OPERANDS]>,
    /// Whether memory between its rows is left to other kernels.
    pub partial_rows: bool,
}

/// A block of a matrix that a product provides or requests.
#[derive(Clone, Copy, Debug)]
pub struct BlockTransfer {
    /// The register side.
    pub slot: FrameSlot,
    /// Shape of the values.
    pub shape: TileShape,
    /// Bytes of an element.
    pub lane: usize,
}

/// A scatter of a tile or vector.
#[derive(Clone, Debug)]
pub struct Scatter {
    /// The values.
    pub value: FrameSlot,
    /// Their shape.
    pub shape: TileShape,
    /// Bytes of one in a register.
    pub lane: usize,
    /// Bytes from a row of the value to the next where they are read in place; else rows
    /// follow each other.
    pub row_stride: Option<usize>,
    /// Positions along the scattered axis.
    pub index: FrameSlot,
    /// Their shape.
    pub index_shape: TileShape,
    /// Room for positions in the buffer.
    pub positions: FrameSlot,
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
    pub contiguous: Option<AccumulateFn>,
}

/// One instruction of a body.
#[derive(Clone, Debug)]
pub enum Instr {
    /// A micro-op.
    Micro {
        /// The loop.
        function: MicroFn,
        /// The loop with non-temporal stores, for where it writes a store's values in place.
        non_temporal: Option<MicroFn>,
        /// Its printed name.
        name: &'static str,
        /// The destination.
        to: FrameSlot,
        /// The operands; unused ones repeat the first.
        from: [FrameSlot; MAX_OPERANDS],
        /// How many elements.
        shape: TileShape,
        /// Whether the loop prefetches while it computes.
        prefetches: bool,
        /// What to prefetch.
        prefetch: Option<Prefetch>,
    },
    /// A micro-op done row by row, for operands that do not have an element
    /// for each of the tile's.
    Rowwise(Box<RowwiseOp>),
    /// A vector of rows or columns broadcast over the tile.
    Expand {
        /// The loop.
        function: ExpandFn,
        /// The destination.
        to: FrameSlot,
        /// The vector.
        from: FrameSlot,
    },
    /// The values of an address, as `I64`.
    Index {
        /// The destination.
        to: FrameSlot,
        /// The address.
        value: AddressId,
        /// How many elements.
        shape: TileShape,
    },
    /// Whether a condition holds, as `Bool`.
    Inside {
        /// The destination.
        to: FrameSlot,
        /// The condition.
        bound: RangePredicate,
        /// How many elements.
        shape: TileShape,
    },
    /// Records indices, `I64`, that are outside `0..extent` as the kernel's index error.
    Check(FrameSlot, usize, TileShape),
    /// A load.
    Load(Box<TileLoad>),
    /// A load at computed positions.
    Gather(Box<Gather>),
    /// Lets the next instruction write where a store would.
    ForwardDest(Box<DestForwarding>),
    /// A store.
    Store(Box<TileStore>),
    /// A block that a product provides.
    FromBlock(BlockTransfer),
    /// Lets the next instruction write where a block would be copied to.
    ForwardBlockDest(BlockTransfer),
    /// A block that a product requests.
    ToBlock(BlockTransfer),
    /// A scatter.
    Scatter(Box<Scatter>),
    /// Takes an instruction's elements into a reduction.
    Update(u32),
    /// A reduction all of whose elements each row has.
    ReduceRows(u32),
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
    /// A pass over a level of one point begins, the instructions of which follow.
    BeginPass {
        /// The reductions that the pass completes.
        reductions: SmallVec<[u32; 4]>,
        /// The scans in it.
        scans: SmallVec<[u32; 1]>,
    },
    /// The result of a reduction that such a pass completes.
    FinishReduction(u32),
}

/// Steps for every point, or every tile, of one level.
#[derive(Clone, Debug, Default)]
pub struct LoopBody {
    /// The level.
    pub level: u8,
    /// The addresses its instructions use.
    pub addresses: SmallVec<[AddressId; 8]>,
    /// Steps that depend on no more than the first so many loops, each list
    /// run when one of those advances.
    pub hoisted: Vec<(usize, Vec<Instr>)>,
    /// The other instructions.
    pub instrs: Vec<Instr>,
}

/// A compiled kernel.
#[derive(Clone, Debug)]
pub struct TileProgram {
    /// the kernel's name.
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
    pub loops: Vec<LoopNest>,
    /// All addresses.
    pub addresses: Vec<Address>,
    /// All slots.
    pub slots: Vec<SlotInfo>,
    /// Bytes of scratch memory.
    pub scratch: usize,
    /// The bodies; the first is level 0's.
    pub bodies: Vec<LoopBody>,
    /// All reductions.
    pub reductions: Vec<TileReduction>,
    /// All scans.
    pub scans: Vec<TileScan>,
    /// In a scatter, the axes along which writes may conflict.
    pub conflict_axes: Vec<AxisId>,
    /// How the work is shared between threads.
    pub partition: WorkPartition,
    /// Number of inputs: memory below is theirs, from there on the outputs'.
    pub inputs: usize,
    /// Whether a launch has anything to do.
    pub empty: bool,
}

impl TileProgram {
    /// The instruction of an address along an axis; 0 without an axis.
    pub fn stride_along(&self, address: AddressId, axis: Option<AxisId>) -> i64 {
        axis.map_or(0, |axis| self.addresses[address.0 as usize].strides[axis.index()])
    }
}
