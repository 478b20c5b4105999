//! Tile programs over blocks of a matrix: what writes the operands of a
//! product and reads its result.

use std::ops::Range;

use kiln_simd::micro;

use crate::kernel::{AxisId, ExprId, Kernel};
use crate::runtime::Bindings;
use crate::runtime::cpu::thresholds::{BLOCK_FEW_COLUMNS, BLOCK_TILE_ELEMENTS};
use crate::runtime::cpu::tile::analysis;
use crate::runtime::cpu::tile::build::Root;
use crate::runtime::cpu::tile::compile::assemble;
use crate::runtime::cpu::tile::program::{Instr, LoopBody, RowLayout, TileProgram};
use crate::runtime::cpu::tile::run::{Frame, MatrixBlock, TileLaunch, frame};
use crate::runtime::cpu::tile::tiling::TilePlan;

/// A program over batches of matrices: their lines and the elements along a
/// line are each a row-major run over some axes.
#[derive(Debug)]
pub struct BlockProgram {
    program: TileProgram,
    batch: Vec<AxisId>,
    lines: Vec<AxisId>,
    along: Vec<AxisId>,
    /// Whether a tile's rows are of the last but one axis along a line, rather than of lines.
    within_line: bool,
}

/// The block's memory.
#[derive(Clone, Copy, Debug)]
pub struct StridedBlock {
    /// The first element.
    pub start: *mut u8,
    /// Elements from a row to the next.
    pub row_stride: usize,
    /// Bytes of an element.
    pub lane: usize,
}

/// A launch of a block program.
pub struct BlockLaunch<'a> {
    program: &'a BlockProgram,
    launch: TileLaunch<'a>,
}

impl BlockProgram {
    /// The program of a kernel whose axes, all of level 0, are those of the
    /// batch, the lines and along them: to write blocks of a value, or to
    /// store what blocks hold.
    pub fn new(
        kernel: &Kernel,
        [batch, lines, along]: [Vec<AxisId>; 3],
        value: Option<ExprId>,
    ) -> BlockProgram {
        let facts = analysis::analyze(kernel);
        let extent = |axis: Option<&AxisId>| axis.map_or(1, |axis| kernel.axes[axis.index()].extent.max(1));
        let cols = extent(along.last()).min(BLOCK_TILE_ELEMENTS);
        // A dispatch for each few columns would cost more than they do.
        let within = along.iter().rev().nth(1).filter(|_| cols <= BLOCK_FEW_COLUMNS);
        let (row_axis, within_line) = (within.or(lines.last()), within.is_some());
        let rows = (BLOCK_TILE_ELEMENTS / cols).clamp(1, extent(row_axis));
        let row = row_axis.copied().filter(|_| rows > 1);
        let tiling = TilePlan {
            col: along.last().copied(),
            level: 0,
            row,
            full_rows: false,
            rows,
            min_rows: rows,
            cols: Some(cols),
            transposing: false,
        };
        let root = value.map_or(Root::Stores, Root::Block);
        BlockProgram {
            program: assemble(kernel, kernel.stores.len(), &facts, tiling, root),
            batch,
            lines,
            along,
            within_line,
        }
    }

    /// The program on some memory.
    pub fn launch<'a>(&'a self, bindings: &Bindings<'a>) -> BlockLaunch<'a> {
        BlockLaunch { program: self, launch: TileLaunch::new(&self.program, bindings) }
    }

    /// The program as text.
    pub fn source(&self) -> String {
        self.program.to_string()
    }
}

impl BlockLaunch<'_> {
    /// Runs the program on a block: some lines, and some elements of each.
    pub fn run(&self, batch: usize, lines: Range<usize>, along: Range<usize>, block: StridedBlock) {
        let BlockProgram { program, batch: batch_axes, lines: line_axes, within_line, .. } = self.program;
        let (rows, _) = program.tile;
        let rows = if program.row.is_some() && !within_line { rows } else { 1 };
        frame::with(&self.launch, |frame| {
            seek(program, frame, batch_axes, batch, 1);
            let mut line = lines.start;
            while line < lines.end {
                let rows = seek(program, frame, line_axes, line, rows.min(lines.end - line));
                let start = block.start.wrapping_add((line - lines.start) * block.row_stride * block.lane);
                self.run_lines(frame, rows, &along, StridedBlock { start, ..block });
                line += rows;
            }
        });
        // non-temporal stores must be seen by whoever reads next.
        micro::nt_fence();
    }

    /// Runs the program on some elements of so many lines, of which the frame is at the first.
    fn run_lines(&self, frame: &mut Frame, lines: usize, along: &Range<usize>, block: StridedBlock) {
        let BlockProgram { program, along: axes, within_line, .. } = self.program;
        let (body, (most, cols)) = (self.launch.root(), program.tile);
        let mut at = along.start;
        while at < along.end {
            let left = along.end - at;
            let cols = seek(program, frame, axes, at, cols.min(left));
            let start = block.start.wrapping_add((at - along.start) * block.lane);
            let (mut rows, mut row_stride) = (lines, block.row_stride);
            if *within_line {
                (rows, row_stride) = (1, cols);
                if let [.., row, col] = axes[..]
                    && cols == program.axes[col.index()].extent
                {
                    let following = program.axes[row.index()].extent - frame.position[row.index()];
                    rows = (left / cols).min(following).min(most);
                }
            }
            frame.block = MatrixBlock { start, row_stride };
            frame.jump(program, body, rows, cols);
            self.prefetch(frame, body, lines);
            self.launch.run_hoisted(frame, body, 0);
            self.launch.run_instrs(frame, &body.instrs);
            at += if *within_line { rows * cols } else { cols };
        }
    }

    /// Prefetches what the tile some lines on will read: a block's rows are
    /// short pieces of memory's, too short for hardware to prefetch.
    fn prefetch(&self, frame: &Frame, body: &LoopBody, lines: usize) {
        let next = self.program.lines.last().copied();
        let program = &self.program.program;
        for instr in &body.instrs {
            if let Instr::Load(load) = instr
                && load.shape.cols()
                && matches!(load.layout, RowLayout::Contiguous(_))
            {
                let apart = program.stride_along(load.address, next) * lines as i64;
                let element = frame.offset(load.address) + apart;
                let size = load.dtype.size();
                let start = self.launch.memory[load.memory as usize].start;
                micro::prefetch_l1(
                    start.wrapping_offset(element as isize * size as isize),
                    frame.tile().1 * size,
                );
            }
        }
    }
}

/// Goes to a position of a row-major run over axes; gives how many of the
/// `most` next positions lie along the innermost axis.
fn seek(program: &TileProgram, frame: &mut Frame, axes: &[AxisId], position: usize, most: usize) -> usize {
    let mut rest = position;
    let mut run = 1;
    for (i, axis) in axes.iter().enumerate().rev() {
        let extent = program.axes[axis.index()].extent;
        frame.position[axis.index()] = rest % extent;
        if i + 1 == axes.len() {
            run = most.min(extent - rest % extent);
        }
        rest /= extent;
    }
    run
}
