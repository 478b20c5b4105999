//! Running it: a task is a block of queries of one attention, for all their keys; for a part of them where there
//! are few such tasks, as in decoding (Dao et al., "Flash-Decoding for long-context inference", 2023).

use std::ops::Range;

use kiln_simd::micro::softmax::{self, QUERY_LANES, RescaledRows, SoftmaxBlock};

use crate::runtime::Bindings;
use crate::runtime::cpu::attention::{AttentionProgram, AttentionSizes, Mask, MaskLines};
use crate::runtime::cpu::contraction::{ResultSink, WriteBlockFn};
use crate::runtime::cpu::gemm::{self, GemmOperand, GemmOutput, GemmProblem, PackRequest, scratch};
use crate::runtime::cpu::threads;
use crate::runtime::cpu::thresholds::{
    ATTENTION_KEYS, ATTENTION_PART_KEYS, ATTENTION_QUERIES, ATTENTION_SERIAL_MULTIPLY_ADDS, ATTENTION_TASKS,
    CACHE_SET_SKEW, GEMV_MAX_VECTORS,
};
use crate::runtime::cpu::tile::product::StridedBlock;

/// A launch.
struct AttentionLaunch<'a> {
    of: &'a AttentionProgram,
    queries: Box<WriteBlockFn<'a>>,
    keys: GemmOperand<'a, f32>,
    values: GemmOperand<'a, f32>,
    mask: Option<(Box<WriteBlockFn<'a>>, &'a Mask)>,
    to: ResultSink<'a>,
}

// SAFETY: threads write disjoint parts of the output.
unsafe impl Sync for AttentionLaunch<'_> {}

/// Elements from line to line in a task's scratch memory.
#[derive(Clone, Copy)]
struct AttentionLayout {
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

/// Scratch memory of a task.
struct AttentionScratch {
    queries: *mut f32,
    scores: *mut f32,
    mask: *mut f32,
    /// The result over some keys.
    partial: *mut f32,
    /// The factors that rescale sums to a new maximum.
    rescale: *mut f32,
    state: QueryState,
}

/// What is known of a block's queries after some keys.
#[derive(Clone, Copy)]
struct QueryState {
    /// The result, not divided yet.
    result: *mut f32,
    /// The running maximum of each query's scores.
    running_max: *mut f32,
    /// The running sum of the scores' exponentials.
    sum: *mut f32,
}

// SAFETY: each is one task's at a time.
unsafe impl Sync for QueryState {}

impl QueryState {
    /// The state that lies so many elements after this one.
    fn after(&self, elements: usize) -> QueryState {
        let [result, running_max, sum] =
            [self.result, self.running_max, self.sum].map(|start| start.wrapping_add(elements));
        QueryState { result, running_max, sum }
    }
}

/// A mask of some rows and keys.
struct WrittenMask {
    start: *const u8,
    /// Elements from a key to the next.
    key: usize,
    /// Elements from a row to the next.
    row: usize,
    hides: bool,
}

impl WrittenMask {
    /// Does to the scores of a key, the first of which is the first row's, what the mask says.
    ///
    /// # Safety
    /// The mask has this key, and as many rows.
    unsafe fn apply(&self, key: usize, scores: &mut [f32]) {
        for (row, score) in scores.iter_mut().enumerate() {
            let at = key * self.key + row * self.row;
            // SAFETY: the caller's promise.
            unsafe {
                if !self.hides {
                    *score += *self.start.cast::<f32>().add(at);
                } else if *self.start.add(at) == 0 {
                    *score = f32::NEG_INFINITY;
                }
            }
        }
    }
}

/// A block of queries of one attention, and the keys that it looks at.
struct QueryBlock {
    batch: usize,
    rows: Range<usize>,
    keys: Range<usize>,
}

impl AttentionLayout {
    fn of(extents: &AttentionSizes) -> AttentionLayout {
        let rows = gemm::even_split(extents.rows, ATTENTION_QUERIES, QUERY_LANES);
        AttentionLayout {
            rows,
            keys: ATTENTION_KEYS.min(extents.keys),
            query: scratch::padded::<f32>(extents.depth),
            scores: rows + CACHE_SET_SKEW,
            result: scratch::padded::<f32>(extents.columns),
        }
    }

    /// Elements of a state.
    fn state_size(&self) -> usize {
        self.rows * (self.result + 2)
    }

    /// The state that begins here.
    fn state(&self, start: *mut f32) -> QueryState {
        let running_max = start.wrapping_add(self.rows * self.result);
        QueryState { result: start, running_max, sum: running_max.wrapping_add(self.rows) }
    }

    /// Calls `body` with room for a task.
    fn with_scratch(&self, body: impl FnOnce(AttentionScratch)) {
        let scores = self.keys * self.scores;
        let sizes = [self.rows * self.query, scores, scores, self.rows * self.result, self.rows];
        let all = sizes.iter().sum::<usize>() + self.state_size();
        scratch::with(all, |start: *mut f32| {
            let mut next = start;
            let [queries, scores, mask, partial, rescale] = sizes.map(|size| {
                next = next.wrapping_add(size);
                next.wrapping_sub(size)
            });
            body(AttentionScratch { queries, scores, mask, partial, rescale, state: self.state(next) });
        });
    }
}

impl AttentionProgram {
    /// Runs the attention on the current pool's threads.
    pub(super) fn run(&self, bindings: &Bindings<'_>) {
        let fills = [&self.keys, &self.values].map(|side| side.filler::<f32>(bindings));
        let offsets = [&self.keys, &self.values].map(|side| side.offsets());
        let launch = AttentionLaunch {
            of: self,
            queries: self.queries.on(bindings),
            keys: self.keys.operand(bindings, &offsets[0], fills[0].as_deref()),
            values: self.values.operand(bindings, &offsets[1], fills[1].as_deref()),
            mask: self.mask.as_ref().map(|mask| (mask.writer.on(bindings), mask)),
            to: self.target.on(bindings),
        };
        let AttentionSizes { batch, rows, keys, depth, columns } = self.extents;
        let layout = AttentionLayout::of(&self.extents);
        let tasks = batch * rows.div_ceil(layout.rows);
        let work = [batch, rows, keys, depth + columns].into_iter().fold(1, usize::saturating_mul);
        // Not by threads, of whose number bits must not depend.
        let parts = (ATTENTION_TASKS / tasks).min(keys / ATTENTION_PART_KEYS);
        let whole = |task: usize| {
            let block = self.block(&layout, task, 0, 1);
            layout.with_scratch(|scratch| {
                launch.attend(&layout, &block, &scratch);
                launch.store_result(&layout, &block, &scratch.state);
            });
        };
        if work <= ATTENTION_SERIAL_MULTIPLY_ADDS {
            (0..tasks).for_each(whole);
        } else if parts > 1 {
            launch.run_parts(&layout, tasks, parts);
        } else {
            threads::parallel_for(tasks, whole);
        }
    }

    /// What a task does of one of several parts of its keys.
    fn block(&self, layout: &AttentionLayout, task: usize, part: usize, parts: usize) -> QueryBlock {
        let AttentionSizes { rows, keys, .. } = self.extents;
        let blocks = rows.div_ceil(layout.rows);
        let start = task % blocks * layout.rows;
        let end = rows.min(start + layout.rows);
        let keys = if self.causal { keys.min(end) } else { keys };
        let keys = keys * part / parts..keys * (part + 1) / parts;
        QueryBlock { batch: task / blocks, rows: start..end, keys }
    }
}

impl AttentionLaunch<'_> {
    /// Each task's keys in several parts, whose results are then put together.
    fn run_parts(&self, layout: &AttentionLayout, tasks: usize, parts: usize) {
        let size = layout.state_size();
        scratch::with(tasks * parts * size, |start: *mut f32| {
            let states = layout.state(start);
            let state = |number: usize| states.after(number * size);
            threads::parallel_for(tasks * parts, |number| {
                let block = self.of.block(layout, number / parts, number % parts, parts);
                layout.with_scratch(|scratch| {
                    let state = state(number);
                    self.attend(layout, &block, &AttentionScratch { state, ..scratch });
                });
            });
            for task in 0..tasks {
                let (block, first) = (self.of.block(layout, task, 0, 1), state(task * parts));
                for part in 1..parts {
                    self.merge(layout, &block, &first, &state(task * parts + part));
                }
                self.store_result(layout, &block, &first);
            }
        });
    }

    /// Adds what is known after other keys.
    fn merge(&self, layout: &AttentionLayout, block: &QueryBlock, to: &QueryState, from: &QueryState) {
        for row in 0..block.rows.len() {
            let line = row * layout.result;
            // SAFETY: both states have so many rows, and only this thread looks at them.
            unsafe {
                let maxima = [to, from].map(|state| *state.running_max.add(row));
                let largest = if maxima[1] > maxima[0] { maxima[1] } else { maxima[0] };
                let shift = if largest == f32::NEG_INFINITY { 0.0 } else { largest };
                let [kept, added] = maxima.map(|maximum| (maximum - shift).exp());
                *to.running_max.add(row) = largest;
                *to.sum.add(row) = *to.sum.add(row) * kept + *from.sum.add(row) * added;
                let columns = self.of.extents.columns;
                let result = std::slice::from_raw_parts_mut(to.result.add(line), columns);
                let others = std::slice::from_raw_parts(from.result.add(line), columns);
                result.iter_mut().zip(others).for_each(|(x, other)| *x = *x * kept + other * added);
            }
        }
    }

    /// Leaves what is known of a block's queries after its keys.
    fn attend(&self, layout: &AttentionLayout, block: &QueryBlock, scratch: &AttentionScratch) {
        self.read_queries(layout, block, scratch);
        let state = &scratch.state;
        // SAFETY: the room is as large.
        unsafe {
            std::slice::from_raw_parts_mut(state.running_max, layout.rows).fill(f32::NEG_INFINITY);
            std::slice::from_raw_parts_mut(state.sum, layout.rows).fill(0.0);
            if block.keys.is_empty() {
                state.result.write_bytes(0, layout.rows * layout.result);
            }
        }
        for start in block.keys.clone().step_by(layout.keys) {
            let keys = start..block.keys.end.min(start + layout.keys);
            self.score(layout, block, &keys, scratch);
            self.apply_mask(layout, block, &keys, scratch);
            let weights = SoftmaxBlock {
                scores: scratch.scores,
                step: layout.scores,
                keys: keys.len(),
                queries: layout.rows,
                running_max: state.running_max,
                sum: state.sum,
                rescale: scratch.rescale,
            };
            // SAFETY: the room is as large, and whole vectors of queries are there.
            unsafe { softmax::online_softmax_update()(&weights) };
            self.add_values(layout, block, &keys, scratch);
        }
    }

    /// The block's queries, scaled; zeros up to a whole vector of queries.
    fn read_queries(&self, layout: &AttentionLayout, block: &QueryBlock, scratch: &AttentionScratch) {
        let depth = self.of.extents.depth;
        let lines =
            StridedBlock { start: scratch.queries.cast(), row_stride: layout.query, lane: size_of::<f32>() };
        (self.queries)(block.batch, block.rows.clone(), 0..depth, lines);
        for row in 0..layout.rows {
            // SAFETY: the room has so many lines, of which the first are written.
            unsafe {
                let line = scratch.queries.add(row * layout.query);
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
    fn score(
        &self,
        layout: &AttentionLayout,
        block: &QueryBlock,
        keys: &Range<usize>,
        scratch: &AttentionScratch,
    ) {
        let at = [block.batch, keys.start, 0];
        let fill = |fill: PackRequest<f32>| self.keys.request(at, fill);
        let few = block.rows.len() <= GEMV_MAX_VECTORS;
        let queries = GemmOperand::Strided {
            ptr: scratch.queries,
            row_stride: layout.query as isize,
            k_stride: 1,
            batch: &|_| 0,
        };
        let sides = [(keys.len(), self.keys.sub_operand(at, &fill)), (layout.rows, queries)];
        let strides = [layout.scores as isize, 1];
        // Vectors have rows of the result.
        let order = if few { [1, 0] } else { [0, 1] };
        let [(m, a), (n, b)] = order.map(|side| sides[side]);
        let [row_stride, col_stride] = order.map(|side| strides[side]);
        let out = GemmOutput::Strided { ptr: scratch.scores, row_stride, col_stride, batch: &|_| 0 };
        let m = if few { block.rows.len() } else { m };
        let problem = GemmProblem { batch: 1, m, n, k: self.of.extents.depth, a, b, out };
        // SAFETY: the rooms hold as much; the kernel's accesses lie inside its buffers.
        unsafe {
            if few {
                // Lanes that are no queries.
                scratch.scores.write_bytes(0, keys.len() * layout.scores);
            }
            gemm::run_alone(&problem);
        }
    }

    /// Does to scores what the mask says, and hides keys that come later.
    fn apply_mask(
        &self,
        layout: &AttentionLayout,
        block: &QueryBlock,
        keys: &Range<usize>,
        scratch: &AttentionScratch,
    ) {
        let rows = block.rows.len();
        let line = |key: usize| {
            // SAFETY: a line of scores has so many elements, which nothing else looks at.
            unsafe {
                std::slice::from_raw_parts_mut(scratch.scores.add((key - keys.start) * layout.scores), rows)
            }
        };
        if let Some((read, mask)) = &self.mask {
            let written = self.read_mask(layout, block, keys, (read, mask), scratch);
            for key in keys.clone() {
                // SAFETY: all that is read was just written.
                unsafe { written.apply(key - keys.start, line(key)) };
            }
        }
        if self.of.causal {
            for key in keys.start.max(block.rows.start + 1)..keys.end {
                line(key)[..key - block.rows.start].fill(f32::NEG_INFINITY);
            }
        }
    }

    /// Writes the mask of a block's rows and some keys.
    fn read_mask(
        &self,
        layout: &AttentionLayout,
        block: &QueryBlock,
        keys: &Range<usize>,
        (read, mask): (&WriteBlockFn<'_>, &Mask),
        scratch: &AttentionScratch,
    ) -> WrittenMask {
        let (keys, rows) = (keys.clone(), block.rows.clone());
        let (lines, along, row_stride, [key, row]) = match mask.lines {
            MaskLines::Keys => (keys, rows, layout.scores, [layout.scores, 1]),
            MaskLines::Rows => (rows, keys, layout.keys, [1, layout.keys]),
            MaskLines::One => (0..1, keys, layout.keys, [1, 0]),
        };
        let (start, lane) = (scratch.mask.cast(), if mask.hides { 1 } else { size_of::<f32>() });
        read(block.batch, lines, along, StridedBlock { start, row_stride, lane });
        WrittenMask { start, key, row, hides: mask.hides }
    }

    /// Rescales the result and adds that of some keys.
    fn add_values(
        &self,
        layout: &AttentionLayout,
        block: &QueryBlock,
        keys: &Range<usize>,
        scratch: &AttentionScratch,
    ) {
        let AttentionSizes { columns, .. } = self.of.extents;
        let (first, rows) = (keys.start == block.keys.start, block.rows.len());
        let to = if first { scratch.state.result } else { scratch.partial };
        let at = [block.batch, 0, keys.start];
        let fill = |fill: PackRequest<f32>| self.values.request(at, fill);
        // A few rows one by one: values are read as they lie.
        let m = if rows <= GEMV_MAX_VECTORS { 1 } else { rows };
        for row in (0..rows).step_by(m) {
            let problem = GemmProblem {
                batch: 1,
                m,
                n: columns,
                k: keys.len(),
                a: GemmOperand::Strided {
                    ptr: scratch.scores.wrapping_add(row),
                    row_stride: 1,
                    k_stride: layout.scores as isize,
                    batch: &|_| 0,
                },
                b: self.values.sub_operand(at, &fill),
                out: GemmOutput::Strided {
                    ptr: to.wrapping_add(row * layout.result),
                    row_stride: layout.result as isize,
                    col_stride: 1,
                    batch: &|_| 0,
                },
            };
            // SAFETY: the rooms hold as much; the kernel's accesses lie inside its buffers.
            unsafe { gemm::run_alone(&problem) };
        }
        let lines = RescaledRows {
            to: scratch.state.result,
            from: scratch.partial,
            step: layout.result,
            factors: scratch.rescale,
            rows,
            columns,
        };
        if !first {
            // SAFETY: the rooms have so many rows.
            unsafe { softmax::rescale_add()(&lines) };
        }
    }

    /// Divides the result by the sums and hands it on. What may look nowhere is zero.
    fn store_result(&self, layout: &AttentionLayout, block: &QueryBlock, state: &QueryState) {
        let AttentionSizes { columns, .. } = self.of.extents;
        for row in 0..block.rows.len() {
            // SAFETY: the rooms have so many rows; so has the output, and they are this thread's.
            unsafe {
                let line = std::slice::from_raw_parts_mut(state.result.add(row * layout.result), columns);
                let sum = state.sum.add(row).read();
                if sum == 0.0 && self.mask.is_some() {
                    line.fill(0.0);
                } else {
                    let factor = 1.0 / sum;
                    line.iter_mut().for_each(|x| *x *= factor);
                }
                if let ResultSink::Memory(start, strides) = &self.to {
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
        if let ResultSink::Blocks(program) = &self.to {
            let lines = StridedBlock {
                start: state.result.cast(),
                row_stride: layout.result,
                lane: size_of::<f32>(),
            };
            program.run(block.batch, block.rows.clone(), 0..columns, lines);
        }
    }
}
