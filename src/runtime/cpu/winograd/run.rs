//! Running it: a task is some rows of tiles, whose inputs are transformed, multiplied and
//! transformed back while they are in cache.

use std::ops::Range;

use kiln_simd::micro::winograd::{self, PRODUCTS, TILES, TileRow};

use crate::runtime::Bindings;
use crate::runtime::cpu::contraction::{OperandSource, ResultSink, WriteBlockFn};
use crate::runtime::cpu::convolution::ConvolutionExtents;
use crate::runtime::cpu::gemm::{self, GemmOperand, GemmOutput, GemmProblem, PackRequest, scratch};
use crate::runtime::cpu::threads;
use crate::runtime::cpu::thresholds::{
    CACHE_SET_SKEW, WINOGRAD_CACHED_ELEMENTS, WINOGRAD_CHANNELS, WINOGRAD_FILTERS_PER_JOB,
    WINOGRAD_MIN_TASKS, WINOGRAD_PRODUCT_ELEMENTS, WINOGRAD_TASK_TILES,
};
use crate::runtime::cpu::tile::product::{BlockLaunch, StridedBlock};
use crate::runtime::cpu::winograd::Winograd;

/// How a launch is cut into tasks: it depends on extents only.
#[derive(Clone, Copy)]
struct TaskGrid {
    /// Tiles of a task side by side.
    width: usize,
    /// Rows of tiles of a task, of several images perhaps.
    rows: usize,
    /// Parts of a row of tiles.
    across: usize,
    tasks: usize,
}

impl TaskGrid {
    fn of(extents: &ConvolutionExtents) -> TaskGrid {
        let [down, tiles] = extents.tiles();
        let width = gemm::even_split(tiles, WINOGRAD_TASK_TILES.end, TILES).min(tiles);
        let across = tiles.div_ceil(width);
        let all = extents.images * down;
        let about = (WINOGRAD_CACHED_ELEMENTS / extents.channels)
            .clamp(WINOGRAD_TASK_TILES.start, WINOGRAD_TASK_TILES.end)
            .div_ceil(width);
        // Vectors of products that are not full take as long as full ones.
        let padding = |rows: usize| 1024 * (rows * width).next_multiple_of(TILES) / (rows * width);
        let choices = about.div_ceil(2)..=2 * about;
        let rows = choices.min_by_key(|&rows| (padding(rows), rows.abs_diff(about))).unwrap_or(about);
        let rows = rows.min((all * across).div_ceil(WINOGRAD_MIN_TASKS)).max(1);
        TaskGrid { width, rows, across, tasks: all.div_ceil(rows) * across }
    }
}

/// Rows of tiles of one image, and columns of tiles.
#[derive(Clone)]
struct TileRegion {
    image: usize,
    rows: Range<usize>,
    cols: Range<usize>,
    /// Rows of tiles of the task before these.
    before: usize,
}

/// A launch, for one batch.
struct WinogradLaunch<'a> {
    of: &'a Winograd,
    batch: usize,
    /// Transformed filters: by product, filter and channel.
    filters: *const f32,
    read: &'a WriteBlockFn<'a>,
    to: ResultSink<'a>,
    windows: [GemmOperand<'a, f32>; 2],
}

// SAFETY: filters are only read; threads write disjoint parts of the output.
unsafe impl Sync for WinogradLaunch<'_> {}

/// Scratch memory of a task.
struct TaskBuffers {
    /// A few channels' rows of the input.
    input: *mut f32,
    /// Transformed inputs: by product, channel and tile.
    factors: *mut f32,
    /// Products of some filters: by filter and tile.
    products: *mut f32,
    /// Two rows of outputs.
    pair: *mut f32,
    /// A block of outputs.
    block: *mut f32,
}

/// Elements from line to line in a task's scratch memory.
#[derive(Clone, Copy)]
struct WinogradLayout {
    /// From an input row to the next, and from a channel to the next.
    row: usize,
    channel: usize,
    /// From a channel, or a filter, to the next.
    tiles: usize,
    /// From a product to the next, in the factors and in the products.
    factors: usize,
    products: usize,
    /// Filters at a time.
    filters: usize,
    /// Elements of a row of outputs, at most and rounded up.
    pair: usize,
}

impl WinogradLayout {
    fn of(extents: &ConvolutionExtents, grid: &TaskGrid) -> WinogradLayout {
        let padded = grid.width.next_multiple_of(TILES);
        // Whole rows, one behind the other, are read as one run.
        let whole = grid.across == 1 && extents.cols.is_multiple_of(2);
        let row = if whole { extents.cols + 2 } else { 2 * padded + 2 };
        let tiles = ((grid.rows - 1) * grid.width + padded).next_multiple_of(TILES);
        let filters = (WINOGRAD_PRODUCT_ELEMENTS / tiles).next_multiple_of(8).min(extents.filters);
        WinogradLayout {
            row,
            channel: (2 * grid.rows + 2) * row + CACHE_SET_SKEW,
            tiles,
            factors: extents.channels * tiles + CACHE_SET_SKEW,
            products: filters * tiles + CACHE_SET_SKEW,
            filters,
            pair: 2 * padded,
        }
    }

    /// Calls `body` with room for tasks, inputs zero.
    fn with_scratch(&self, body: impl FnOnce(&TaskBuffers)) {
        let block = self.filters * 4 * self.tiles;
        let sizes = [
            // Of short rows as many tiles are read as a transform computes.
            WINOGRAD_CHANNELS * self.channel + 2 * TILES,
            PRODUCTS * self.factors,
            PRODUCTS * self.products,
            2 * self.pair,
            block,
        ];
        let sizes = sizes.map(scratch::padded::<f32>);
        scratch::with(sizes.iter().sum(), |start: *mut f32| {
            let mut next = start;
            let [input, factors, products, pair, block] = sizes.map(|size| {
                next = next.wrapping_add(size);
                next.wrapping_sub(size)
            });
            // SAFETY: the room is as large.
            unsafe { input.write_bytes(0, sizes[0]) };
            body(&TaskBuffers { input, factors, products, pair, block });
        });
    }
}

impl Winograd {
    /// Runs the convolution on the current pool's threads.
    pub(super) fn run(&self, bindings: &Bindings<'_>) {
        let ConvolutionExtents { batch, channels, filters, .. } = self.extents;
        let [weights, data] = &self.windows;
        let fills = [weights, data].map(|side| side.filler::<f32>(bindings));
        let offsets = [weights, data].map(OperandSource::offsets);
        let operand =
            |i: usize, side: &OperandSource| side.operand(bindings, &offsets[i], fills[i].as_deref());
        let windows = [operand(0, weights), operand(1, data)];
        let (read, taps) = (self.input.on(bindings), self.filters.on(bindings));
        scratch::with(PRODUCTS * channels * filters, |scratch: *mut f32| {
            for batch in 0..batch {
                let to = self.target.on(bindings);
                let launch = WinogradLaunch { of: self, batch, filters: scratch, read: &*read, to, windows };
                launch.transform_filters(scratch, &*taps);
                launch.run();
            }
        });
    }
}

impl WinogradLaunch<'_> {
    fn transform_filters(&self, scratch: *mut f32, taps: &WriteBlockFn<'_>) {
        let ConvolutionExtents { channels, filters, .. } = self.of.extents;
        let scratch = SharedPtr(scratch);
        threads::parallel_for(filters.div_ceil(WINOGRAD_FILTERS_PER_JOB), |job| {
            let some = job * WINOGRAD_FILTERS_PER_JOB..filters.min((job + 1) * WINOGRAD_FILTERS_PER_JOB);
            scratch::with(some.len() * 9 * channels, |lines: *mut f32| {
                let block =
                    StridedBlock { start: lines.cast(), row_stride: 9 * channels, lane: size_of::<f32>() };
                taps(self.batch, some.clone(), 0..9 * channels, block);
                for filter in some.clone() {
                    let from = lines.wrapping_add((filter - some.start) * 9 * channels);
                    let to = scratch.get().wrapping_add(filter * channels);
                    self.transform_filter(from, to);
                }
            });
        });
    }

    /// Transforms one filter, with taps in the order in which sums move over the input.
    fn transform_filter(&self, from: *const f32, to: *mut f32) {
        let ConvolutionExtents { channels, filters, .. } = self.of.extents;
        let [up, left] = self.of.flipped;
        let taps = std::array::from_fn(|tap| {
            let (row, col) = (tap / 3, tap % 3);
            let (row, col) = (if up { 2 - row } else { row }, if left { 2 - col } else { col });
            from.wrapping_add((3 * row + col) * channels)
        });
        // SAFETY: lines of `channels` elements, of rooms apart.
        unsafe { winograd::filter()(&taps, to, channels * filters, channels) }
    }

    fn run(&self) {
        let extents = &self.of.extents;
        let grid = TaskGrid::of(extents);
        let layout = WinogradLayout::of(extents, &grid);
        threads::for_each_worker(grid.tasks, |tasks| {
            layout.with_scratch(|scratch| tasks.for_each(|task| self.task(&grid, &layout, task, scratch)));
        });
    }

    /// The parts of a task, one for each image that it reaches into.
    fn parts(&self, grid: &TaskGrid, task: usize) -> Vec<TileRegion> {
        let extents = &self.of.extents;
        let [down, across] = extents.tiles();
        let start = task % grid.across * grid.width;
        let cols = start..across.min(start + grid.width);
        let first = task / grid.across * grid.rows;
        let end = (first + grid.rows).min(extents.images * down);
        let mut parts = Vec::new();
        let mut next = first;
        while next < end {
            let row = next % down;
            let count = (down - row).min(end - next);
            let (image, rows) = (next / down, row..row + count);
            parts.push(TileRegion { image, rows, cols: cols.clone(), before: next - first });
            next += count;
        }
        parts
    }

    fn task(&self, grid: &TaskGrid, layout: &WinogradLayout, task: usize, scratch: &TaskBuffers) {
        let ConvolutionExtents { channels, filters, .. } = self.of.extents;
        let parts = self.parts(grid, task);
        for part in &parts {
            for start in (0..channels).step_by(WINOGRAD_CHANNELS) {
                self.transform_inputs(layout, part, start..channels.min(start + WINOGRAD_CHANNELS), scratch);
            }
        }
        let tiles: usize = parts.iter().map(|part| part.rows.len() * part.cols.len()).sum();
        for start in (0..filters).step_by(layout.filters) {
            let some = start..filters.min(start + layout.filters);
            self.multiply(layout, &some, tiles, scratch);
            for part in &parts {
                self.transform_outputs(layout, part, &some, scratch);
            }
        }
    }

    /// Reads some channels of a part's input, and puts zeros where the last tiles reach beyond:
    /// they go into outputs that are not, which are to be finite too.
    fn read_inputs(
        &self,
        layout: &WinogradLayout,
        part: &TileRegion,
        channels: Range<usize>,
        scratch: &TaskBuffers,
    ) {
        let ConvolutionExtents { images, rows, cols, .. } = self.of.extents;
        let image = self.batch * images + part.image;
        let (top, left) = (2 * part.rows.start, 2 * part.cols.start);
        let height = (2 * part.rows.len() + 2).min(rows + 2 - top);
        let width = (2 * part.cols.len() + 2).min(cols + 2 - left);
        let whole = width == cols + 2 && width == layout.row;
        let (runs, length) = if whole { (1, height * width) } else { (height, width) };
        for run in 0..runs {
            let start = scratch.input.wrapping_add(run * layout.row);
            let block =
                StridedBlock { start: start.cast(), row_stride: layout.channel, lane: size_of::<f32>() };
            let from = (top + run) * (cols + 2) + left;
            (self.read)(image, channels.clone(), from..from + length, block);
        }
        let needed = [2 * part.rows.len() + 2, 2 * part.cols.len() + 2];
        if needed != [height, width] {
            let rows = (0..channels.len()).flat_map(|channel| {
                (0..needed[0]).map(move |row| (row, channel * layout.channel + row * layout.row))
            });
            for (row, start) in rows {
                let read = if row < height { width } else { 0 };
                // SAFETY: each row of the room is as long as needed.
                unsafe { scratch.input.add(start + read).write_bytes(0, needed[1] - read) };
            }
        }
    }

    /// Reads and transforms some channels of a part's input.
    fn transform_inputs(
        &self,
        layout: &WinogradLayout,
        part: &TileRegion,
        channels: Range<usize>,
        scratch: &TaskBuffers,
    ) {
        self.read_inputs(layout, part, channels.clone(), scratch);
        let transform = winograd::input();
        for channel in channels.clone() {
            let from = scratch.input.wrapping_add((channel - channels.start) * layout.channel);
            let to = scratch.factors.wrapping_add(channel * layout.tiles);
            // In this order each row covers what padding the one before has left.
            for row in 0..part.rows.len() {
                let tiles = TileRow {
                    from: from.wrapping_add(2 * row * layout.row),
                    from_step: layout.row,
                    to: to.wrapping_add((part.before + row) * part.cols.len()),
                    to_step: layout.factors,
                    tiles: part.cols.len(),
                };
                // SAFETY: the room is laid out so, with padding for whole blocks.
                unsafe { transform(&tiles) };
            }
        }
    }

    /// The 16 products of some filters with a task's inputs.
    fn multiply(&self, layout: &WinogradLayout, some: &Range<usize>, tiles: usize, scratch: &TaskBuffers) {
        let ConvolutionExtents { channels, filters, .. } = self.of.extents;
        let step = |step: usize| move |product: usize| (product * step) as isize;
        let [a, b, c] = [channels * filters, layout.factors, layout.products].map(step);
        let problem = GemmProblem {
            batch: PRODUCTS,
            m: some.len(),
            n: tiles,
            k: channels,
            a: GemmOperand::Strided {
                ptr: self.filters.wrapping_add(some.start * channels),
                row_stride: channels as isize,
                k_stride: 1,
                batch: &a,
            },
            b: GemmOperand::Strided {
                ptr: scratch.factors,
                row_stride: 1,
                k_stride: layout.tiles as isize,
                batch: &b,
            },
            out: GemmOutput::Strided {
                ptr: scratch.products,
                row_stride: layout.tiles as isize,
                col_stride: 1,
                batch: &c,
            },
        };
        // SAFETY: the rooms hold as much.
        unsafe { gemm::run_alone(&problem) }
    }

    /// Transforms some filters' products of a part, and hands the outputs on.
    fn transform_outputs(
        &self,
        layout: &WinogradLayout,
        part: &TileRegion,
        some: &Range<usize>,
        scratch: &TaskBuffers,
    ) {
        let ConvolutionExtents { images, rows, cols, .. } = self.of.extents;
        let image = self.batch * images + part.image;
        let (top, left) = (2 * part.rows.start, 2 * part.cols.start);
        let width = (2 * part.cols.len()).min(cols - left);
        let outputs = Outputs { rows: top..rows.min(2 * part.rows.end), cols: left..left + width };
        let (start, filter_step, row_step) = match &self.to {
            ResultSink::Memory(start, write) => {
                let first = write.batch(image) + some.start as isize * write.row();
                (start.wrapping_offset(first + (top * cols + left) as isize), write.row(), cols)
            }
            ResultSink::Blocks(_) => (scratch.block, (outputs.rows.len() * width) as isize, width),
        };
        let mut finite = true;
        for filter in some.clone() {
            let nth = filter - some.start;
            let to = start.wrapping_offset(nth as isize * filter_step);
            let from = scratch.products.wrapping_add(nth * layout.tiles + part.before * part.cols.len());
            finite &= transform_rows(layout, part, &outputs, from, scratch.pair, to, row_step);
        }
        if !finite {
            self.from_windows(part.image, some, &outputs, start, filter_step, row_step);
        }
        if let ResultSink::Blocks(program) = &self.to {
            self.store_block(program, image, some, &outputs, start, filter_step as usize);
        }
    }

    /// Gives a block of outputs to the program that reads them.
    fn store_block(
        &self,
        program: &BlockLaunch<'_>,
        image: usize,
        some: &Range<usize>,
        outputs: &Outputs,
        start: *mut f32,
        line: usize,
    ) {
        let ConvolutionExtents { cols, .. } = self.of.extents;
        let width = outputs.cols.len();
        let block = |row: usize| {
            let start = start.wrapping_add((row - outputs.rows.start) * width);
            StridedBlock { start: start.cast(), row_stride: line, lane: size_of::<f32>() }
        };
        let Range { start: top, end } = outputs.rows;
        if width == cols {
            return program.run(image, some.clone(), top * cols..end * cols, block(top));
        }
        for row in top..end {
            let from = row * cols + outputs.cols.start;
            program.run(image, some.clone(), from..from + width, block(row));
        }
    }

    /// Computes outputs from windows.
    fn from_windows(
        &self,
        image: usize,
        some: &Range<usize>,
        outputs: &Outputs,
        start: *mut f32,
        filter_step: isize,
        row_step: usize,
    ) {
        let ConvolutionExtents { channels, rows, cols, .. } = self.of.extents;
        let [weights, data] = self.windows;
        for row in outputs.rows.clone() {
            let point = (image * rows + row) * cols + outputs.cols.start;
            let (at_a, at_b) = ([self.batch, some.start, 0], [self.batch, point, 0]);
            let fill_a = |fill: PackRequest<f32>| weights.request(at_a, fill);
            let fill_b = |fill: PackRequest<f32>| data.request(at_b, fill);
            let problem = GemmProblem {
                batch: 1,
                m: some.len(),
                n: outputs.cols.len(),
                k: 9 * channels,
                a: weights.sub_operand(at_a, &fill_a),
                b: data.sub_operand(at_b, &fill_b),
                out: GemmOutput::Strided {
                    ptr: start.wrapping_add((row - outputs.rows.start) * row_step),
                    row_stride: filter_step,
                    col_stride: 1,
                    batch: &|_| 0,
                },
            };
            // SAFETY: the block is part of the outputs, and this thread's.
            unsafe { gemm::run_alone(&problem) }
        }
    }
}

/// Rows and columns of an image of the result.
struct Outputs {
    rows: Range<usize>,
    cols: Range<usize>,
}

/// Transforms one filter's products of a part; whether its outputs are finite.
fn transform_rows(
    layout: &WinogradLayout,
    part: &TileRegion,
    outputs: &Outputs,
    from: *const f32,
    pair: *mut f32,
    to: *mut f32,
    row_step: usize,
) -> bool {
    let transform = winograd::output();
    let (tiles, width) = (part.cols.len(), outputs.cols.len());
    let mut finite = true;
    for row in 0..part.rows.len() {
        let height = 2.min(outputs.rows.len() - 2 * row);
        let to = to.wrapping_add(2 * row * row_step);
        // Tiles may reach beyond the outputs.
        let in_place = tiles >= TILES && width == 2 * tiles && height == 2;
        let (start, to_step) = if in_place { (to, row_step) } else { (pair, layout.pair) };
        let from = from.wrapping_add(row * tiles);
        let run = TileRow { from, from_step: layout.products, to: start, to_step, tiles };
        // SAFETY: the room is laid out so, with padding for whole blocks; outputs have the
        // rows and columns written, which are this thread's.
        unsafe {
            transform(&run, &mut finite);
            for half in if in_place { 0..0 } else { 0..height } {
                let to = to.wrapping_add(half * row_step);
                to.copy_from_nonoverlapping(pair.add(half * layout.pair), width);
            }
        }
    }
    finite
}

/// Room that jobs write disjoint parts of.
struct SharedPtr(*mut f32);

// SAFETY: as it says.
unsafe impl Sync for SharedPtr {}

impl SharedPtr {
    fn get(&self) -> *mut f32 {
        self.0
    }
}
