//! Running it: a task is some rows of tiles, whose inputs are transformed, multiplied and
//! transformed back while they are in cache.

use std::ops::Range;

use crate::runtime::Bindings;
use crate::runtime::cpu::contraction::{Read, Side, Strides, Target};
use crate::runtime::cpu::convolution::Extents;
use crate::runtime::cpu::gemm::{self, Fill, Operand, Output, Problem, scratch};
use crate::runtime::cpu::micro::winograd::{self, PRODUCTS, TILES, TileRow};
use crate::runtime::cpu::threads;
use crate::runtime::cpu::tile::product::{BlockLaunch, StridedBlock};
use crate::runtime::cpu::winograd::Winograd;

/// Tiles of a task, about: fewer where many channels fill the cache.
const TASK: Range<usize> = 48..96;

/// Transformed elements of each product that a task has in cache, about.
const CACHED: usize = 4096;

/// Tasks there should be at least, so that threads share them evenly.
const TASKS: usize = 8;

/// Channels whose inputs are brought together at a time.
const CHANNELS: usize = 16;

/// Products of some filters that are kept at a time, about.
const PRODUCED: usize = 2048;

/// Filters that a thread transforms at a time.
const FILTERS: usize = 8;

/// Elements by which lines of equal length are set apart, lest they share the places of one
/// cache set.
const SKEW: usize = 16;

/// How a launch is cut into tasks: it depends on extents only.
#[derive(Clone, Copy)]
struct Cut {
    /// Tiles of a task side by side.
    width: usize,
    /// Rows of tiles of a task, of several images perhaps.
    rows: usize,
    /// Parts of a row of tiles.
    across: usize,
    tasks: usize,
}

impl Cut {
    fn of(extents: &Extents) -> Cut {
        let [down, tiles] = extents.tiles();
        let width = gemm::even(tiles, TASK.end, TILES).min(tiles);
        let across = tiles.div_ceil(width);
        let all = extents.images * down;
        let about = (CACHED / extents.channels).clamp(TASK.start, TASK.end).div_ceil(width);
        // Vectors of products that are not full take as long as full ones.
        let padding = |rows: usize| 1024 * (rows * width).next_multiple_of(TILES) / (rows * width);
        let choices = about.div_ceil(2)..=2 * about;
        let rows = choices.min_by_key(|&rows| (padding(rows), rows.abs_diff(about))).unwrap_or(about);
        let rows = rows.min((all * across).div_ceil(TASKS)).max(1);
        Cut { width, rows, across, tasks: all.div_ceil(rows) * across }
    }
}

/// Rows of tiles of one image, and columns of tiles.
#[derive(Clone)]
struct Part {
    image: usize,
    rows: Range<usize>,
    cols: Range<usize>,
    /// Rows of tiles of the task before these.
    before: usize,
}

/// A launch, for one batch.
struct Launch<'a> {
    of: &'a Winograd,
    batch: usize,
    /// Transformed filters: by product, filter and channel.
    filters: *const f32,
    read: &'a Read<'a>,
    to: To<'a>,
    windows: [Operand<'a, f32>; 2],
}

// SAFETY: filters are only read; threads write disjoint parts of the output.
unsafe impl Sync for Launch<'_> {}

/// Where outputs go.
enum To<'a> {
    /// The output, whose first element this is, by steps of images, filters and columns.
    Memory(*mut f32, &'a Strides),
    /// A tile program.
    Blocks(BlockLaunch<'a>),
}

/// Room of a task.
struct Room {
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

/// Elements from line to line in a task's room.
#[derive(Clone, Copy)]
struct Pitch {
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

impl Pitch {
    fn of(extents: &Extents, cut: &Cut) -> Pitch {
        let padded = cut.width.next_multiple_of(TILES);
        // Whole rows, one behind the other, are read as one run.
        let whole = cut.across == 1 && extents.cols.is_multiple_of(2);
        let row = if whole { extents.cols + 2 } else { 2 * padded + 2 };
        let tiles = ((cut.rows - 1) * cut.width + padded).next_multiple_of(TILES);
        let filters = (PRODUCED / tiles).next_multiple_of(8).min(extents.filters);
        Pitch {
            row,
            channel: (2 * cut.rows + 2) * row + SKEW,
            tiles,
            factors: extents.channels * tiles + SKEW,
            products: filters * tiles + SKEW,
            filters,
            pair: 2 * padded,
        }
    }

    /// Calls `body` with room for tasks, inputs zero.
    fn with_room(&self, body: impl FnOnce(&Room)) {
        let block = self.filters * 4 * self.tiles;
        let sizes = [
            // Of short rows as many tiles are read as a transform computes.
            CHANNELS * self.channel + 2 * TILES,
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
            body(&Room { input, factors, products, pair, block });
        });
    }
}

impl Winograd {
    /// Runs the convolution on the current pool's threads.
    pub(super) fn run(&self, bindings: &Bindings<'_>) {
        let Extents { batch, channels, filters, .. } = self.extents;
        let [weights, data] = &self.windows;
        let fills = [weights, data].map(|side| side.filler::<f32>(bindings));
        let offsets = [weights, data].map(Side::offsets);
        let operand = |i: usize, side: &Side| side.operand(bindings, &offsets[i], fills[i].as_deref());
        let windows = [operand(0, weights), operand(1, data)];
        let (read, taps) = (self.input.on(bindings), self.filters.on(bindings));
        scratch::with(PRODUCTS * channels * filters, |room: *mut f32| {
            for batch in 0..batch {
                let to = match &self.target {
                    Target::Strided(write) => To::Memory(write.start(bindings), write),
                    Target::Blocks(program) => To::Blocks(program.launch(bindings)),
                };
                let launch = Launch { of: self, batch, filters: room, read: &*read, to, windows };
                launch.transform_filters(room, &*taps);
                launch.run();
            }
        });
    }
}

impl Launch<'_> {
    fn transform_filters(&self, room: *mut f32, taps: &Read<'_>) {
        let Extents { channels, filters, .. } = self.of.extents;
        let room = Shared(room);
        threads::jobs(filters.div_ceil(FILTERS), |job| {
            let some = job * FILTERS..filters.min((job + 1) * FILTERS);
            scratch::with(some.len() * 9 * channels, |lines: *mut f32| {
                let block = StridedBlock { start: lines.cast(), line: 9 * channels, lane: size_of::<f32>() };
                taps(self.batch, some.clone(), 0..9 * channels, block);
                for filter in some.clone() {
                    let from = lines.wrapping_add((filter - some.start) * 9 * channels);
                    let to = room.get().wrapping_add(filter * channels);
                    self.transform_filter(from, to);
                }
            });
        });
    }

    /// Transforms one filter, with taps in the order in which sums move over the input.
    fn transform_filter(&self, from: *const f32, to: *mut f32) {
        let Extents { channels, filters, .. } = self.of.extents;
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
        let cut = Cut::of(extents);
        let pitch = Pitch::of(extents, &cut);
        threads::share(cut.tasks, |tasks| {
            pitch.with_room(|room| tasks.for_each(|task| self.task(&cut, &pitch, task, room)));
        });
    }

    /// The parts of a task, one for each image that it reaches into.
    fn parts(&self, cut: &Cut, task: usize) -> Vec<Part> {
        let extents = &self.of.extents;
        let [down, across] = extents.tiles();
        let start = task % cut.across * cut.width;
        let cols = start..across.min(start + cut.width);
        let first = task / cut.across * cut.rows;
        let end = (first + cut.rows).min(extents.images * down);
        let mut parts = Vec::new();
        let mut next = first;
        while next < end {
            let row = next % down;
            let count = (down - row).min(end - next);
            let (image, rows) = (next / down, row..row + count);
            parts.push(Part { image, rows, cols: cols.clone(), before: next - first });
            next += count;
        }
        parts
    }

    fn task(&self, cut: &Cut, pitch: &Pitch, task: usize, room: &Room) {
        let Extents { channels, filters, .. } = self.of.extents;
        let parts = self.parts(cut, task);
        for part in &parts {
            for start in (0..channels).step_by(CHANNELS) {
                self.transform_inputs(pitch, part, start..channels.min(start + CHANNELS), room);
            }
        }
        let tiles: usize = parts.iter().map(|part| part.rows.len() * part.cols.len()).sum();
        for start in (0..filters).step_by(pitch.filters) {
            let some = start..filters.min(start + pitch.filters);
            self.multiply(pitch, &some, tiles, room);
            for part in &parts {
                self.transform_outputs(pitch, part, &some, room);
            }
        }
    }

    /// Reads some channels of a part's input, and puts zeros where the last tiles reach beyond:
    /// they go into outputs that are not, which are to be finite too.
    fn read_inputs(&self, pitch: &Pitch, part: &Part, channels: Range<usize>, room: &Room) {
        let Extents { images, rows, cols, .. } = self.of.extents;
        let image = self.batch * images + part.image;
        let (top, left) = (2 * part.rows.start, 2 * part.cols.start);
        let height = (2 * part.rows.len() + 2).min(rows + 2 - top);
        let width = (2 * part.cols.len() + 2).min(cols + 2 - left);
        let whole = width == cols + 2 && width == pitch.row;
        let (runs, length) = if whole { (1, height * width) } else { (height, width) };
        for run in 0..runs {
            let start = room.input.wrapping_add(run * pitch.row);
            let block = StridedBlock { start: start.cast(), line: pitch.channel, lane: size_of::<f32>() };
            let from = (top + run) * (cols + 2) + left;
            (self.read)(image, channels.clone(), from..from + length, block);
        }
        let needed = [2 * part.rows.len() + 2, 2 * part.cols.len() + 2];
        if needed != [height, width] {
            let rows = (0..channels.len()).flat_map(|channel| {
                (0..needed[0]).map(move |row| (row, channel * pitch.channel + row * pitch.row))
            });
            for (row, start) in rows {
                let read = if row < height { width } else { 0 };
                // SAFETY: each row of the room is as long as needed.
                unsafe { room.input.add(start + read).write_bytes(0, needed[1] - read) };
            }
        }
    }

    /// Reads and transforms some channels of a part's input.
    fn transform_inputs(&self, pitch: &Pitch, part: &Part, channels: Range<usize>, room: &Room) {
        self.read_inputs(pitch, part, channels.clone(), room);
        let transform = winograd::input();
        for channel in channels.clone() {
            let from = room.input.wrapping_add((channel - channels.start) * pitch.channel);
            let to = room.factors.wrapping_add(channel * pitch.tiles);
            // In this order each row covers what padding the one before has left.
            for row in 0..part.rows.len() {
                let tiles = TileRow {
                    from: from.wrapping_add(2 * row * pitch.row),
                    from_step: pitch.row,
                    to: to.wrapping_add((part.before + row) * part.cols.len()),
                    to_step: pitch.factors,
                    tiles: part.cols.len(),
                };
                // SAFETY: the room is laid out so, with padding for whole blocks.
                unsafe { transform(&tiles) };
            }
        }
    }

    /// The 16 products of some filters with a task's inputs.
    fn multiply(&self, pitch: &Pitch, some: &Range<usize>, tiles: usize, room: &Room) {
        let Extents { channels, filters, .. } = self.of.extents;
        let step = |step: usize| move |product: usize| (product * step) as isize;
        let [a, b, c] = [channels * filters, pitch.factors, pitch.products].map(step);
        let problem = Problem {
            batch: PRODUCTS,
            m: some.len(),
            n: tiles,
            k: channels,
            a: Operand::Strided {
                ptr: self.filters.wrapping_add(some.start * channels),
                row_stride: channels as isize,
                depth_stride: 1,
                batch: &a,
            },
            b: Operand::Strided {
                ptr: room.factors,
                row_stride: 1,
                depth_stride: pitch.tiles as isize,
                batch: &b,
            },
            out: Output::Strided {
                ptr: room.products,
                row_stride: pitch.tiles as isize,
                col_stride: 1,
                batch: &c,
            },
        };
        // SAFETY: the rooms hold as much.
        unsafe { gemm::run_alone(&problem) }
    }

    /// Transforms some filters' products of a part, and hands the outputs on.
    fn transform_outputs(&self, pitch: &Pitch, part: &Part, some: &Range<usize>, room: &Room) {
        let Extents { images, rows, cols, .. } = self.of.extents;
        let image = self.batch * images + part.image;
        let (top, left) = (2 * part.rows.start, 2 * part.cols.start);
        let width = (2 * part.cols.len()).min(cols - left);
        let outputs = Outputs { rows: top..rows.min(2 * part.rows.end), cols: left..left + width };
        let (start, filter_step, row_step) = match &self.to {
            To::Memory(start, write) => {
                let first = write.batch(image) + some.start as isize * write.row();
                (start.wrapping_offset(first + (top * cols + left) as isize), write.row(), cols)
            }
            To::Blocks(_) => (room.block, (outputs.rows.len() * width) as isize, width),
        };
        let mut finite = true;
        for filter in some.clone() {
            let nth = filter - some.start;
            let to = start.wrapping_offset(nth as isize * filter_step);
            let from = room.products.wrapping_add(nth * pitch.tiles + part.before * part.cols.len());
            finite &= transform_rows(pitch, part, &outputs, from, room.pair, to, row_step);
        }
        if !finite {
            self.from_windows(part.image, some, &outputs, start, filter_step, row_step);
        }
        if let To::Blocks(program) = &self.to {
            self.hand_on(program, image, some, &outputs, start, filter_step as usize);
        }
    }

    /// Gives a block of outputs to the program that reads them.
    fn hand_on(
        &self,
        program: &BlockLaunch<'_>,
        image: usize,
        some: &Range<usize>,
        outputs: &Outputs,
        start: *mut f32,
        line: usize,
    ) {
        let Extents { cols, .. } = self.of.extents;
        let width = outputs.cols.len();
        let block = |row: usize| {
            let start = start.wrapping_add((row - outputs.rows.start) * width);
            StridedBlock { start: start.cast(), line, lane: size_of::<f32>() }
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
        let Extents { channels, rows, cols, .. } = self.of.extents;
        let [weights, data] = self.windows;
        for row in outputs.rows.clone() {
            let point = (image * rows + row) * cols + outputs.cols.start;
            let (at_a, at_b) = ([self.batch, some.start, 0], [self.batch, point, 0]);
            let fill_a = |fill: Fill<f32>| weights.request(at_a, fill);
            let fill_b = |fill: Fill<f32>| data.request(at_b, fill);
            let problem = Problem {
                batch: 1,
                m: some.len(),
                n: outputs.cols.len(),
                k: 9 * channels,
                a: weights.part(at_a, &fill_a),
                b: data.part(at_b, &fill_b),
                out: Output::Strided {
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
    pitch: &Pitch,
    part: &Part,
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
        let (start, to_step) = if in_place { (to, row_step) } else { (pair, pitch.pair) };
        let from = from.wrapping_add(row * tiles);
        let run = TileRow { from, from_step: pitch.products, to: start, to_step, tiles };
        // SAFETY: the room is laid out so, with padding for whole blocks; outputs have the
        // rows and columns written, which are this thread's.
        unsafe {
            transform(&run, &mut finite);
            for half in if in_place { 0..0 } else { 0..height } {
                let to = to.wrapping_add(half * row_step);
                to.copy_from_nonoverlapping(pair.add(half * pitch.pair), width);
            }
        }
    }
    finite
}

/// Room that jobs write disjoint parts of.
struct Shared(*mut f32);

// SAFETY: as it says.
unsafe impl Sync for Shared {}

impl Shared {
    fn get(&self) -> *mut f32 {
        self.0
    }
}
