//! Reductions and scans.

use std::ops::Range;

use kiln_simd::micro::{self, MAX_OPERANDS, STATE_BYTES};
use kiln_simd::thresholds::SHORT_REDUCED_ROW;

use crate::runtime::cpu::thresholds::REDUCTION_BLOCK_ROWS;
use crate::runtime::cpu::tile::program::{
    Finish, FrameSlot, Instr, Loop, LoopBody, LoopNest, ReductionForm, RowLayout, RowwiseOp, ScanForm,
    TileLoad, TileReduction, TileShape,
};
use crate::runtime::cpu::tile::run::{Frame, TileLaunch};

impl TileLaunch<'_> {
    fn reduction(&self, number: u32) -> &TileReduction {
        &self.program.reductions[number as usize]
    }

    /// Makes a reduction's states those of no elements.
    pub fn begin(&self, frame: &mut Frame, number: u32) {
        let reduction = self.reduction(number);
        frame.rows[number as usize] = [0, 0];
        match &reduction.form {
            ReductionForm::Horizontal { reducer, state, rows, .. } => {
                for row in 0..frame.count(*rows) {
                    // SAFETY: the program's contract: a state per row.
                    unsafe { (reducer.init)(frame.slot(*state).add(row * STATE_BYTES)) }
                }
            }
            ReductionForm::Vertical { accumulator, states, totals, .. } => {
                let count = frame.count(reduction.shape);
                for states in [Some(states), totals.as_ref()].into_iter().flatten() {
                    // SAFETY: the program's contract: room for a tile of states.
                    unsafe { (accumulator.init)(pointers(frame, states), count) }
                }
            }
        }
    }

    /// Reductions of the tile's rows, each of which has all its elements.
    #[inline(never)]
    pub fn reduce(&self, frame: &mut Frame, number: u32) {
        let reduction = self.reduction(number);
        let ReductionForm::Horizontal { reducer, rows, component: (component, bytes), index, .. } =
            &reduction.form
        else {
            return;
        };
        let to = frame.slot(reduction.result);
        let (lines, len) = (frame.count(*rows), frame.count(TileShape::Column));
        if let Some(short) = reducer.short_rows
            && rows.rows()
            && len <= SHORT_REDUCED_ROW
            && lines >= micro::ROW_BLOCK
        {
            let x = frame.slot(reduction.operand).cast_const();
            // SAFETY: the program's contract; a result per row.
            unsafe { short(to, x, len, lines) }
            let (distance, bytes) = reduction.row_prefetch();
            return micro::prefetch_l1(x.wrapping_offset(distance), lines * bytes);
        }
        self.along(frame, reduction, *rows, |line, x, len, position| {
            let mut out = [std::ptr::null_mut(); 3];
            out[*component] = to.wrapping_add(line * bytes);
            // SAFETY: the program's contract; a result per row.
            unsafe {
                (reducer.row)(x, len, position, &out);
                if *index {
                    at_least_zero(out[*component].cast(), 1);
                }
            }
        });
    }

    /// Calls `take` with each row of what a reduction combines: its number, its elements, how
    /// many they are, and where the first is in its level's order.
    #[inline]
    fn along(
        &self,
        frame: &Frame,
        reduction: &TileReduction,
        rows: TileShape,
        take: impl Fn(usize, *const u8, usize, i64),
    ) {
        let x = frame.slot(reduction.operand).cast_const();
        let position = reduction.position.map_or(0, |address| frame.offset(address));
        let len = if rows.rows() { frame.count(TileShape::Column) } else { frame.count(reduction.shape) };
        let lane = self.program.slots[reduction.operand.0 as usize].dtype.compute().size();
        let (distance, bytes) = reduction.row_prefetch();
        for line in 0..frame.count(rows) {
            let x = x.wrapping_add(line * len * lane);
            take(line, x, len, position);
            micro::prefetch_l1(x.wrapping_offset(distance), bytes);
        }
    }

    /// A loop over a row, which may have all elements of a reduction.
    ///
    /// # Safety
    /// That of `run`.
    #[inline]
    pub unsafe fn reduce_row(&self, frame: &Frame, op: &RowwiseOp, row: usize, run: impl FnOnce()) {
        let reduction = op.row_reduction.map(|number| self.reduction(number));
        let Some(TileReduction { result, form, .. }) = reduction else { return run() };
        let ReductionForm::Horizontal { reducer, state, component: (component, bytes), .. } = form else {
            return run();
        };
        let state = frame.slot(*state).wrapping_add(row * STATE_BYTES);
        let mut out = [std::ptr::null_mut(); 3];
        out[*component] = frame.slot(*result).wrapping_add(row * bytes);
        // SAFETY: the program's contract: a state and a result per row.
        unsafe {
            (reducer.init)(state);
            run();
            (reducer.finish)(state, &out);
        }
    }

    /// Takes the current tile in.
    #[inline(never)]
    pub fn update(&self, frame: &mut Frame, number: u32) {
        let reduction = self.reduction(number);
        let x = frame.slot(reduction.operand).cast_const();
        let position = reduction.position.map_or(0, |address| frame.offset(address));
        let count = frame.count(reduction.shape);
        match &reduction.form {
            ReductionForm::Horizontal { reducer, state, rows, .. } => {
                let state = frame.slot(*state);
                self.along(frame, reduction, *rows, |line, x, len, position| {
                    // SAFETY: the program's contract: a state per row.
                    unsafe { (reducer.update)(state.add(line * STATE_BYTES), x, len, position) }
                });
            }
            ReductionForm::Vertical { accumulator, states, take, .. } => {
                let [block, _] = frame.rows[number as usize];
                let k = if reduction.position.is_some() { position } else { block };
                match take {
                    Some(instr) => self.run_instrs(frame, std::slice::from_ref(&**instr)),
                    // SAFETY: the program's contract.
                    None => unsafe { (accumulator.step)(pointers(frame, states), x, count, k) },
                }
                self.count_rows(frame, number, 1);
            }
        }
    }

    /// Counts rows that vertical states took in, and begins the next block after a full one.
    fn count_rows(&self, frame: &mut Frame, number: u32, rows: usize) {
        let reduction = self.reduction(number);
        let ReductionForm::Vertical { accumulator, states, totals, .. } = &reduction.form else { return };
        frame.rows[number as usize][0] += rows as i64;
        if totals.is_some() && frame.rows[number as usize][0] == REDUCTION_BLOCK_ROWS {
            self.complete(frame, number);
            // SAFETY: the program's contract.
            unsafe { (accumulator.init)(pointers(frame, states), frame.count(reduction.shape)) }
        }
    }

    /// The load and the number of the reduction, if all that a body does is to take rows of
    /// memory into a reduction across them.
    pub fn row_accumulation<'s>(&self, body: &'s LoopBody, loops: &LoopNest) -> Option<(&'s TileLoad, u32)> {
        let ([Instr::Load(load), Instr::Update(number)], true) = (&body.instrs[..], body.hoisted.is_empty())
        else {
            return None;
        };
        let TileReduction { operand, shape, position, form, .. } = self.reduction(*number);
        let ReductionForm::Vertical { take: None, .. } = form else { return None };
        let in_place =
            load.plain() && matches!(load.layout, RowLayout::Contiguous(None)) && load.shape.cols();
        let same = load.to == *operand && load.shape == *shape && position.is_none();
        let apart = |inner: &Loop| self.program.stride_along(load.address, Some(inner.axis));
        let inner = loops.last().is_some_and(|inner| inner.chunk == 1 && apart(inner) >= 0);
        let contiguous = self.program.stride_along(load.address, self.program.col) == 1;
        (in_place && same && inner && contiguous).then_some((load, *number))
    }

    /// Takes the rows of some points of a body in.
    pub fn accumulate_rows(
        &self,
        frame: &mut Frame,
        body: &LoopBody,
        load: &TileLoad,
        number: u32,
        points: Range<usize>,
    ) {
        let loops = self.loops_of(body);
        let reduction = self.reduction(number);
        let ReductionForm::Vertical { accumulator, states, totals, components, .. } = &reduction.form else {
            return;
        };
        let Some(inner) = loops.last() else { return };
        let size = load.dtype.size() as i64;
        let apart = self.program.stride_along(load.address, Some(inner.axis)) * size;
        let mut point = points.start;
        while point < points.end {
            frame.enter(self.program, body, loops, point);
            let [block, _] = frame.rows[number as usize];
            let along = inner.end - frame.position[inner.axis.index()];
            let rows = along.min(points.end - point);
            let rows =
                if totals.is_some() { rows.min((REDUCTION_BLOCK_ROWS - block) as usize) } else { rows };
            let x = self.element(load, frame.offset(load.address)).cast_const();
            let access = self.tile_access(frame, load.address, load.shape);
            // Rows that follow each other in memory are one.
            let dense = access.row_stride == access.len as i64;
            let (count, len) = if dense { (1, access.rows * access.len) } else { (access.rows, access.len) };
            for line in 0..count {
                let x = x.wrapping_offset((line as i64 * access.row_stride * size) as isize);
                let states = advanced(pointers(frame, states), components, line * len);
                // SAFETY: the program's contract, for each of the rows.
                unsafe { (accumulator.rows)(states, x, [rows, apart as usize], len, block) };
            }
            self.count_rows(frame, number, rows);
            point += rows;
        }
    }

    /// Joins the current block of rows to the total.
    #[inline(never)]
    pub fn complete(&self, frame: &mut Frame, number: u32) {
        let reduction = self.reduction(number);
        let [block, done] = frame.rows[number as usize];
        if let ReductionForm::Vertical { accumulator, states, totals: Some(totals), .. } = &reduction.form
            && block > 0
        {
            let states = pointers(frame, states).map(|p| p.cast_const());
            let count = frame.count(reduction.shape);
            // SAFETY: the program's contract.
            unsafe { (accumulator.merge)(pointers(frame, totals), states, count, [done, block]) }
        }
        frame.rows[number as usize] = [0, done + block];
    }

    /// Writes a reduction's results.
    #[inline(never)]
    pub fn finish(&self, frame: &mut Frame, number: u32) {
        let reduction = self.reduction(number);
        let to = frame.slot(reduction.result);
        match &reduction.form {
            ReductionForm::Vertical { states, totals, finish: Finish::Component(component), .. } => {
                let states = totals.as_ref().unwrap_or(states);
                frame.point(reduction.result, frame.slot(states[*component]));
            }
            ReductionForm::Horizontal {
                reducer, state, rows, component: (component, bytes), index, ..
            } => {
                for row in 0..frame.count(*rows) {
                    let mut out = [std::ptr::null_mut(); 3];
                    // SAFETY: the program's contract.
                    unsafe {
                        out[*component] = to.add(row * bytes);
                        (reducer.finish)(frame.slot(*state).add(row * STATE_BYTES), &out);
                        if *index {
                            at_least_zero(out[*component].cast(), 1);
                        }
                    }
                }
            }
            ReductionForm::Vertical { states, totals, components, finish, .. } => {
                let from = pointers(frame, totals.as_ref().unwrap_or(states));
                let count = frame.count(reduction.shape);
                // SAFETY: the program's contract.
                unsafe { finish_vertical(frame, *finish, from, components[0], to, count) }
            }
        }
    }

    /// Makes a scan's states those before the first element.
    pub fn begin_scan(&self, frame: &mut Frame, number: u32) {
        let scan = &self.program.scans[number as usize];
        match &scan.form {
            ScanForm::Horizontal(scanner, state) => {
                let states = self.program.slots[state.0 as usize].shape;
                for row in 0..frame.count(states) {
                    // SAFETY: the program's contract: a state per row.
                    unsafe { (scanner.init)(frame.slot(*state).add(row * STATE_BYTES)) }
                }
            }
            ScanForm::Vertical(accumulator, states, _) => {
                // SAFETY: the program's contract.
                unsafe { (accumulator.init)(pointers(frame, states), frame.count(scan.shape)) }
            }
        }
    }

    /// A scan over the current tile.
    #[inline(never)]
    pub fn scan(&self, frame: &mut Frame, number: u32) {
        let scan = &self.program.scans[number as usize];
        let (x, to) = (frame.slot(scan.operand).cast_const(), frame.slot(scan.result));
        let count = frame.count(scan.shape);
        // SAFETY: the program's contract.
        unsafe {
            match &scan.form {
                ScanForm::Horizontal(scanner, state) => {
                    let lines = frame.count(self.program.slots[state.0 as usize].shape);
                    let len = count / lines.max(1);
                    for line in 0..lines {
                        let at = line * len * scan.lane;
                        let state = frame.slot(*state).add(line * STATE_BYTES);
                        (scanner.run)(to.add(at), x.add(at), len, state);
                    }
                }
                ScanForm::Vertical(accumulator, states, finish) => {
                    (accumulator.step)(pointers(frame, states), x, count, 0);
                    finish_vertical(frame, *finish, pointers(frame, states), scan.lane, to, count);
                }
            }
        }
    }
}

/// The pointers of a state's components.
pub fn pointers(frame: &Frame, slots: &[FrameSlot; 3]) -> [*mut u8; 3] {
    slots.map(|slot| frame.slot(slot))
}

/// The pointers of the components of a state so many elements further on, from the bytes of one
/// of each.
fn advanced(states: [*mut u8; 3], components: &[usize], elements: usize) -> [*mut u8; 3] {
    let bytes = |i: usize| components.get(i).map_or(0, |bytes| elements * bytes);
    std::array::from_fn(|i| states[i].wrapping_add(bytes(i)))
}

/// Writes the results of vertical states, whose first component has elements
/// of `lane` bytes.
///
/// # Safety
/// The program's contract: `count` states and results.
unsafe fn finish_vertical(
    frame: &Frame,
    finish: Finish,
    from: [*mut u8; 3],
    lane: usize,
    to: *mut u8,
    count: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match finish {
            Finish::Component(component) => to.copy_from_nonoverlapping(from[component], count * lane),
            Finish::Index(component) => {
                to.copy_from_nonoverlapping(from[component], count * 8);
                at_least_zero(to.cast(), count);
            }
            Finish::LogSum(log, add, between) => {
                let between = frame.slot(between);
                log(between, [from[1].cast_const(); MAX_OPERANDS], count, from[1]);
                add(to, [from[0].cast_const(), between, between, between], count, between);
            }
        }
    }
}

/// Replaces the index of no element.
///
/// # Safety
/// `count` indices.
unsafe fn at_least_zero(to: *mut i64, count: usize) {
    for i in 0..count {
        // SAFETY: the caller's promise.
        unsafe { to.add(i).write(to.add(i).read().max(0)) }
    }
}
