//! Running it: a task is a block of queries of one attention, for all their keys.

use std::ops::Range;

use crate::runtime::Bindings;
use crate::runtime::cpu::attention::{Attention, Extents, Mask};
use crate::runtime::cpu::contraction::{Read, Strides, Target};
use crate::runtime::cpu::gemm::{self, Fill, Operand, Output, Problem, scratch};
use crate::runtime::cpu::micro::softmax::{self, QUERY_LANES, RescaledRows, SoftmaxBlock};
use crate::runtime::cpu::threads;
use crate::runtime::cpu::tile::product::{BlockLaunch, StridedBlock};

/// Queries of a task, about. Few in tests, whose attentions are small.
const ROWS: usize = if cfg!(test) { 32 } else { 64 };

/// Keys whose scores are kept at a time: with the keys themselves and their values they stay in
/// the second-level cache. Few in tests.
const KEYS: usize = if cfg!(test) { 24 } else { 256 };

/// Elements by which lines are set apart, lest they share the places of one cache set.
const SKEW: usize = 16;

/// Multiply-adds that one thread does as fast as two.
const SERIAL: usize = 1 << 20;

/// A launch.
struct Launch<'a> {
    of: &'a Attention,
    queries: Box<Read<'a>>,
    keys: Operand<'a, f32>,
    values: Operand<'a, f32>,
    mask: Option<(Box<Read<'a>>, &'a Mask)>,
    to: To<'a>,
}

// SAFETY: threads write disjoint parts of the output.
unsafe impl Sync for Launch<'_> {}

/// Where results go.
enum To<'a> {
    /// The output, from this element on.
    Memory(*mut f32, &'a Strides),
    /// A tile program.
    Blocks(BlockLaunch<'a>),
}

/// Elements from line to line in a task's room.
#[derive(Clone, Copy)]
struct Pitch {
    /// Queries of a task.
    rows: usize,
    /// Keys at a time.
    keys: usize,
    /// From a query to the next.
    query: usize,
    /// From a key's scores to the next's.
    scores: usize,
    /// From a row of the result to the next.
    result: usize,
}

/// Room of a task.
struct Room {
    queries: *mut f32,
    scores: *mut f32,
    mask: *mut f32,
    /// What the keys so far give.
    result: *mut f32,
    /// What some keys give.
    part: *mut f32,
    /// Of each query, the greatest score so far.
    most: *mut f32,
    /// The sum of the scores' exponentials.
    sum: *mut f32,
    /// What is left of sums once scores turn out greater.
    left: *mut f32,
}

/// A block of queries of one attention.
struct Block {
    batch: usize,
    rows: Range<usize>,
}

impl Pitch {
    fn of(extents: &Extents) -> Pitch {
        let rows = gemm::even(extents.rows, ROWS, QUERY_LANES);
        Pitch {
            rows,
            keys: KEYS.min(extents.keys),
            query: scratch::padded::<f32>(extents.depth),
            scores: rows + SKEW,
            result: scratch::padded::<f32>(extents.columns),
        }
    }

    /// Calls `body` with room for a task.
    fn with_room(&self, body: impl FnOnce(&Room)) {
        let result = self.rows * self.result;
        let scores = self.keys * self.scores;
        let sizes = [self.rows * self.query, scores, scores, result, result, self.rows, self.rows, self.rows];
        scratch::with(sizes.iter().sum(), |start: *mut f32| {
            let mut next = start;
            let [queries, scores, mask, result, part, most, sum, left] = sizes.map(|size| {
                next = next.wrapping_add(size);
                next.wrapping_sub(size)
            });
            body(&Room { queries, scores, mask, result, part, most, sum, left });
        });
    }
}

impl Attention {
    /// Runs the attention on the current pool's threads.
    pub(super) fn run(&self, bindings: &Bindings<'_>) {
        let fills = [&self.keys, &self.values].map(|side| side.filler::<f32>(bindings));
        let offsets = [&self.keys, &self.values].map(|side| side.offsets());
        let launch = Launch {
            of: self,
            queries: self.queries.on(bindings),
            keys: self.keys.operand(bindings, &offsets[0], fills[0].as_deref()),
            values: self.values.operand(bindings, &offsets[1], fills[1].as_deref()),
            mask: self.mask.as_ref().map(|mask| (mask.writer.on(bindings), mask)),
            to: match &self.target {
                Target::Strided(strides) => To::Memory(strides.start(bindings), strides),
                Target::Blocks(program) => To::Blocks(program.launch(bindings)),
            },
        };
        let Extents { batch, rows, keys, depth, columns } = self.extents;
        let pitch = Pitch::of(&self.extents);
        let blocks = rows.div_ceil(pitch.rows);
        let task = |task: usize| {
            let start = task % blocks * pitch.rows;
            let block = Block { batch: task / blocks, rows: start..rows.min(start + pitch.rows) };
            pitch.with_room(|room| launch.task(&pitch, &block, room));
        };
        let work = [batch, rows, keys, depth + columns].into_iter().fold(1, usize::saturating_mul);
        if work <= SERIAL { (0..batch * blocks).for_each(task) } else { threads::jobs(batch * blocks, task) }
    }
}

impl Launch<'_> {
    fn task(&self, pitch: &Pitch, block: &Block, room: &Room) {
        self.read_queries(pitch, block, room);
        // SAFETY: the room is as large.
        unsafe {
            std::slice::from_raw_parts_mut(room.most, pitch.rows).fill(f32::NEG_INFINITY);
            std::slice::from_raw_parts_mut(room.sum, pitch.rows).fill(0.0);
        }
        let all = self.of.extents.keys;
        let end = if self.of.causal { all.min(block.rows.end) } else { all };
        for start in (0..end).step_by(pitch.keys) {
            let keys = start..end.min(start + pitch.keys);
            self.score(pitch, block, &keys, room);
            self.hide(pitch, block, &keys, room);
            let weights = SoftmaxBlock {
                scores: room.scores,
                step: pitch.scores,
                keys: keys.len(),
                queries: pitch.rows,
                running_max: room.most,
                sum: room.sum,
                rescale: room.left,
            };
            // SAFETY: the room is as large, and whole vectors of queries are there.
            unsafe { softmax::online_softmax_update()(&weights) };
            self.add_values(pitch, block, &keys, room);
        }
        self.deliver(pitch, block, room);
    }

    /// The block's queries, scaled; zeros up to a whole vector of queries.
    fn read_queries(&self, pitch: &Pitch, block: &Block, room: &Room) {
        let depth = self.of.extents.depth;
        let lines = StridedBlock { start: room.queries.cast(), line: pitch.query, lane: size_of::<f32>() };
        (self.queries)(block.batch, block.rows.clone(), 0..depth, lines);
        for row in 0..pitch.rows {
            // SAFETY: the room has so many lines, of which the first are written.
            unsafe {
                let line = room.queries.add(row * pitch.query);
                if row >= block.rows.len() {
                    line.write_bytes(0, depth);
                    continue;
                }
                let line = std::slice::from_raw_parts_mut(line, depth);
                line.iter_mut().for_each(|x| *x *= self.of.scale);
            }
        }
    }

    /// The scores of some keys.
    fn score(&self, pitch: &Pitch, block: &Block, keys: &Range<usize>, room: &Room) {
        let at = [block.batch, keys.start, 0];
        let fill = |fill: Fill<f32>| self.keys.request(at, fill);
        let problem = Problem {
            batch: 1,
            m: keys.len(),
            n: pitch.rows,
            k: self.of.extents.depth,
            a: self.keys.part(at, &fill),
            b: Operand::Strided {
                ptr: room.queries,
                row_stride: pitch.query as isize,
                depth_stride: 1,
                batch: &|_| 0,
            },
            out: Output::Strided {
                ptr: room.scores,
                row_stride: pitch.scores as isize,
                col_stride: 1,
                batch: &|_| 0,
            },
        };
        // SAFETY: the rooms hold as much; the kernel's accesses lie inside its buffers.
        unsafe { gemm::run_alone(&problem) }
    }

    /// Does to scores what the mask says, and hides keys that come later.
    fn hide(&self, pitch: &Pitch, block: &Block, keys: &Range<usize>, room: &Room) {
        let rows = block.rows.len();
        let line = |key: usize| {
            // SAFETY: a line of scores has so many elements, which nothing else looks at.
            unsafe {
                std::slice::from_raw_parts_mut(room.scores.add((key - keys.start) * pitch.scores), rows)
            }
        };
        if let Some((read, Mask { hides, .. })) = &self.mask {
            let lane = if *hides { size_of::<u8>() } else { size_of::<f32>() };
            let lines = StridedBlock { start: room.mask.cast(), line: pitch.scores, lane };
            read(block.batch, keys.clone(), block.rows.clone(), lines);
            for key in keys.clone() {
                let first = (key - keys.start) * pitch.scores;
                // SAFETY: these lines were just written.
                unsafe {
                    if *hides {
                        let open = std::slice::from_raw_parts(room.mask.cast::<u8>().add(first), rows);
                        let hidden = line(key).iter_mut().zip(open).filter(|(_, open)| **open == 0);
                        hidden.for_each(|(score, _)| *score = f32::NEG_INFINITY);
                    } else {
                        let added = std::slice::from_raw_parts(room.mask.add(first), rows);
                        line(key).iter_mut().zip(added).for_each(|(score, x)| *score += x);
                    }
                }
            }
        }
        if self.of.causal {
            for key in keys.start.max(block.rows.start + 1)..keys.end {
                line(key)[..key - block.rows.start].fill(f32::NEG_INFINITY);
            }
        }
    }

    /// Adds what some keys give to the result.
    fn add_values(&self, pitch: &Pitch, block: &Block, keys: &Range<usize>, room: &Room) {
        let Extents { columns, .. } = self.of.extents;
        let first = keys.start == 0;
        let to = if first { room.result } else { room.part };
        let at = [block.batch, 0, keys.start];
        let fill = |fill: Fill<f32>| self.values.request(at, fill);
        let problem = Problem {
            batch: 1,
            m: block.rows.len(),
            n: columns,
            k: keys.len(),
            a: Operand::Strided {
                ptr: room.scores,
                row_stride: 1,
                depth_stride: pitch.scores as isize,
                batch: &|_| 0,
            },
            b: self.values.part(at, &fill),
            out: Output::Strided { ptr: to, row_stride: pitch.result as isize, col_stride: 1, batch: &|_| 0 },
        };
        let lines = RescaledRows {
            to: room.result,
            from: room.part,
            step: pitch.result,
            factors: room.left,
            rows: block.rows.len(),
            columns,
        };
        // SAFETY: the rooms hold as much; the kernel's accesses lie inside its buffers.
        unsafe {
            gemm::run_alone(&problem);
            if !first {
                softmax::rescale_add()(&lines);
            }
        }
    }

    /// Divides the result by the sums and hands it on. What may look nowhere is zero.
    fn deliver(&self, pitch: &Pitch, block: &Block, room: &Room) {
        let Extents { columns, .. } = self.of.extents;
        for row in 0..block.rows.len() {
            // SAFETY: the rooms have so many rows; so has the output, and they are this thread's.
            unsafe {
                let line = std::slice::from_raw_parts_mut(room.result.add(row * pitch.result), columns);
                let sum = room.sum.add(row).read();
                if sum == 0.0 && self.mask.is_some() {
                    line.fill(0.0);
                } else {
                    let factor = 1.0 / sum;
                    line.iter_mut().for_each(|x| *x *= factor);
                }
                if let To::Memory(start, strides) = &self.to {
                    let first =
                        strides.batch(block.batch) + (block.rows.start + row) as isize * strides.row();
                    let to = start.wrapping_offset(first);
                    if strides.contiguous() {
                        to.copy_from_nonoverlapping(line.as_ptr(), columns);
                        continue;
                    }
                    for (column, x) in line.iter().enumerate() {
                        to.wrapping_offset(column as isize * strides.col()).write(*x);
                    }
                }
            }
        }
        if let To::Blocks(program) = &self.to {
            let lines =
                StridedBlock { start: room.result.cast(), line: pitch.result, lane: size_of::<f32>() };
            program.run(block.batch, block.rows.clone(), 0..columns, lines);
        }
    }
}
