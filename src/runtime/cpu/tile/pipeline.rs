//! The passes from a kernel to its tile program, in the order in which they run.
//!
//! Kernel passes rewrite the kernel before it is tiled; program passes rewrite the program
//! that was built from it. Each is an [`Optimization`] that `KILN_DISABLE` switches off, and
//! debug builds verify the program after each.

use crate::base::Optimization;
use crate::kernel::Kernel;
use crate::runtime::cpu::tile::division::by_multiplication;
use crate::runtime::cpu::tile::fused_row_reduction::fuse_row_reductions;
use crate::runtime::cpu::tile::prefetch::insert_prefetches;
use crate::runtime::cpu::tile::program::TileProgram;
use crate::runtime::cpu::tile::single_trip::eliminate_single_trip_loops;
use crate::runtime::cpu::tile::tiling::TilePlan;
use crate::runtime::cpu::tile::two_stage_reduction::in_two_stages;
use crate::runtime::cpu::tile::verify::verify;

/// A rewrite of a kernel whose axes are in order; `None` where nothing changes.
pub type KernelPass = (Optimization, fn(&Kernel) -> Option<Kernel>);

/// What program passes may know besides the program.
pub struct PassContext {
    /// Which axes the tile has.
    pub tiling: TilePlan,
    /// Whether results are written by non-temporal stores.
    pub non_temporal: bool,
}

/// A rewrite of a program.
pub type ProgramPass = (Optimization, fn(&mut TileProgram, &PassContext));

/// 1. Divisions first: the ranges that they need are those of the kernel as it was lowered.
/// 2. Reductions in two stages, which tiling then sees as two levels.
pub const KERNEL_PASSES: &[KernelPass] = &[
    (Optimization::DivisionByMultiplication, by_multiplication),
    (Optimization::TwoStageReduction, in_two_stages),
];

/// Passes over every program:
///
/// 1. Single-trip loops first: the passes after it look at one body at a time.
/// 2. Prefetches, while each reduction is an instruction of its own.
/// 3. Row reductions fused, with what they prefetch.
pub const PROGRAM_PASSES: &[ProgramPass] = &[
    (Optimization::SingleTripElimination, |program, _| eliminate_single_trip_loops(program)),
    (Optimization::Prefetch, |program, context| {
        insert_prefetches(program, &context.tiling, context.non_temporal)
    }),
    (Optimization::FusedRowReduction, |program, _| fuse_row_reductions(program)),
];

/// Runs the [`PROGRAM_PASSES`] that are not switched off.
pub fn run(program: &mut TileProgram, context: &PassContext) {
    for (optimization, pass) in PROGRAM_PASSES {
        if optimization.is_on() {
            pass(program, context);
            if cfg!(debug_assertions) {
                verify(program, optimization.name());
            }
        }
    }
}
