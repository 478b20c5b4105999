//! Parallel reduction: a pass over level 1 shared between threads.

use kiln_simd::micro::{self, STATE_BYTES};

use crate::runtime::cpu::regions::ALIGN;
use crate::runtime::cpu::threads;
use crate::runtime::cpu::tile::program::{LoopBody, ReductionForm};
use crate::runtime::cpu::tile::run::reduce::pointers;
use crate::runtime::cpu::tile::run::{Frame, TileLaunch, frame};

/// Partial states, a place for each job.
struct Partials {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: each job writes its own place.
unsafe impl Sync for Partials {}

impl Partials {
    /// A job's place.
    fn of(&self, job: usize) -> *mut u8 {
        self.start.wrapping_add(job * self.bytes)
    }
}

/// A frame that jobs read from.
struct Parent<'f>(&'f Frame);

// SAFETY: jobs only read what the parent computed before they began.
unsafe impl Sync for Parent<'_> {}

impl Parent<'_> {
    fn frame(&self) -> &Frame {
        self.0
    }
}

impl TileLaunch<'_> {
    /// Runs `rows` points of a body's level per job, and combines the jobs'
    /// states in order.
    pub fn reduce_in_parallel(
        &self,
        frame: &mut Frame,
        body: &LoopBody,
        reductions: &[u32],
        points: usize,
        rows: usize,
    ) {
        let jobs = points.div_ceil(rows);
        let bytes: usize = reductions.iter().map(|&r| self.state_bytes(frame, r)).sum();
        let mut room: Vec<u64> = vec![0; (jobs * bytes + ALIGN).div_ceil(8)];
        let aligned = room.as_mut_ptr().cast::<u8>();
        let partials = Partials { start: aligned.wrapping_add(aligned.align_offset(ALIGN)), bytes };
        let parent = Parent(frame);
        let counts = |job: usize| (points.min((job + 1) * rows) - job * rows) as i64;
        threads::parallel_for(jobs, |job| {
            frame::with(self, |frame| {
                frame.inherit(self.program, parent.frame());
                for &reduction in reductions {
                    self.begin(frame, reduction);
                }
                self.run_body(frame, body, job * rows..job * rows + counts(job) as usize);
                let mut at = partials.of(job);
                for &reduction in reductions {
                    self.complete(frame, reduction);
                    self.save(frame, reduction, at);
                    at = at.wrapping_add(self.state_bytes(frame, reduction));
                }
            });
            micro::nt_fence();
        });
        for job in 0..jobs {
            let mut at = partials.of(job);
            for &reduction in reductions {
                self.combine(frame, reduction, at, counts(job));
                at = at.wrapping_add(self.state_bytes(frame, reduction));
            }
        }
    }

    /// Bytes of a reduction's states.
    fn state_bytes(&self, frame: &Frame, number: u32) -> usize {
        let reduction = &self.program.reductions[number as usize];
        match &reduction.form {
            ReductionForm::Horizontal { rows, .. } => frame.count(*rows) * STATE_BYTES,
            ReductionForm::Vertical { components, .. } => {
                let count = frame.count(reduction.shape);
                components.iter().map(|bytes| (count * bytes).next_multiple_of(ALIGN)).sum()
            }
        }
    }

    /// Copies a reduction's states to a job's place.
    fn save(&self, frame: &Frame, number: u32, mut to: *mut u8) {
        let reduction = &self.program.reductions[number as usize];
        match &reduction.form {
            ReductionForm::Horizontal { state, rows, .. } => {
                // SAFETY: the place has room for the states.
                unsafe { to.copy_from_nonoverlapping(frame.slot(*state), frame.count(*rows) * STATE_BYTES) }
            }
            ReductionForm::Vertical { states, totals, components, .. } => {
                let from = pointers(frame, totals.as_ref().unwrap_or(states));
                let count = frame.count(reduction.shape);
                for (from, bytes) in from.into_iter().zip(components) {
                    // SAFETY: as above.
                    unsafe { to.copy_from_nonoverlapping(from, count * bytes) };
                    to = to.wrapping_add((count * bytes).next_multiple_of(ALIGN));
                }
            }
        }
    }

    /// Takes a job's states, of so many points, into the frame's.
    fn combine(&self, frame: &mut Frame, number: u32, from: *const u8, points: i64) {
        let reduction = &self.program.reductions[number as usize];
        match &reduction.form {
            ReductionForm::Horizontal { reducer, state, rows, .. } => {
                for row in 0..frame.count(*rows) {
                    // SAFETY: both are states of this reducer.
                    unsafe {
                        let at = row * STATE_BYTES;
                        (reducer.combine)(frame.slot(*state).add(at), from.add(at));
                    }
                }
            }
            ReductionForm::Vertical { accumulator, states, totals, components, .. } => {
                let count = frame.count(reduction.shape);
                let mut at = from;
                let mut next = [from; 3];
                for (next, bytes) in next.iter_mut().zip(components) {
                    *next = at;
                    at = at.wrapping_add((count * bytes).next_multiple_of(ALIGN));
                }
                let [_, done] = frame.rows[number as usize];
                let into = pointers(frame, totals.as_ref().unwrap_or(states));
                // SAFETY: both are states of this accumulator, of `count` columns.
                unsafe { (accumulator.merge)(into, next, count, [done, points]) };
                frame.rows[number as usize] = [0, done + points];
            }
        }
    }
}
