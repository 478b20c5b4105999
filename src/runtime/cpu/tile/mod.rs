//! Tile programs: kernels as short lists of micro-ops over tiles that stay in
//! the L1 cache.
//!
//! A tile is a run of *columns* along one axis, times a run of *rows* along
//! another. The axes of the kernel's other levels and the rest of their own
//! are loops around the tile (outer levels) or inside of it (deeper levels),
//! and a value is a scalar, a vector or a whole tile according to the axes it
//! varies along (`TileShape`). Which axis becomes the columns decides the form:
//!
//! - level 0: elementwise kernels; with deeper levels, *vertical* reductions,
//!   which loop over row elements and accumulate lane by lane;
//! - a deeper level: *horizontal* reductions, a row of the kernel per tile.
//!   A row that fits one tile is kept from stage to stage; a longer one is
//!   streamed by chunks, and each stage computes again what it needs.
//!
//! Compilation resolves everything but addresses: `space` merges axes,
//! `tiling` picks the tile's axes, `build` emits instructions, `registers`
//! allocates scratch memory, `run` interprets. Passes on the way each have a file.

pub mod analysis;
mod build;
mod compile;
mod division;
mod fused_row_reduction;
mod partition;
mod pipeline;
mod prefetch;
mod print;
pub mod product;
mod program;
mod reduction;
mod registers;
mod rowwise_op;
mod run;
mod single_trip;
pub mod space;
mod tile_shape;
mod tiling;
mod two_stage_reduction;
mod verify;
pub mod window;

pub use compile::compile;
pub use program::TileProgram;
pub use run::launch;
