//! What the GPU languages share: the program of a kernel, as text.
//!
//! - [`writer`]: lines and indentation.
//! - [`emit`]: expressions, one definition each; positions; elements per thread.
//! - [`address`]: where loads and stores go.
//! - [`nest`]: loops over rows, reductions in stages, stores.
//! - [`register_cache`]: rows that stay in registers between loops.
//! - [`unroll`]: unrolled loops over such rows.
//! - [`tree_reduction`]: the states of a workgroup or warp become one.
//! - [`reduction_state`]: the states of reductions and scans.
//! - [`hook`]: parts of a kernel as bodies of functions that templates call.
//!
//! A language is a [`Dialect`]: how it spells types, numbers, operations and
//! declarations. Everything else is stated here, once.

pub mod address;
mod blocked_sum;
pub mod emit;
pub mod hook;
pub mod nest;
pub mod reduction_state;
pub mod register_cache;
pub mod tree_reduction;
pub mod unroll;
pub mod writer;

pub use emit::{Coarsening, ElementIndex, Emitter};

use crate::base::DType;
use crate::ir::AluOp;
use crate::kernel::{AxisId, Kernel};

/// The axes with more than one position.
pub fn wide(kernel: &Kernel, axes: impl Iterator<Item = AxisId>) -> Vec<AxisId> {
    axes.filter(|axis| kernel.axes[axis.index()].extent != 1).collect()
}

/// How a language spells things.
///
/// Values have register types: `F16` and `BF16` values are `F32`, `U8` is a
/// 32-bit unsigned integer below 256, the others are themselves. What a
/// spelling gives can be an operand of another as it is.
/// Positions are signed integers, of 32 bits unless a language says otherwise.
pub trait Dialect {
    /// The register type that holds values of a type.
    fn register(&self, dtype: DType) -> &'static str;
    /// The type of positions.
    fn position_type(&self) -> &'static str {
        self.register(DType::I32)
    }
    /// A position as a literal.
    fn position(&self, value: i64) -> String {
        emit::position(value)
    }
    /// The number whose bits, as `dtype`, these are.
    fn constant(&self, dtype: DType, bits: u64) -> String;
    /// A scalar argument of the launch.
    fn argument(&self, slot: u32, dtype: DType) -> String;
    /// An operation on operands of type `dtype` (for `Where`, of the values).
    fn alu(&self, op: AluOp, dtype: DType, x: &[String]) -> String;
    /// A conversion.
    fn cast(&self, from: DType, to: DType, x: &str) -> String;
    /// The same bits as another type of that width.
    fn bitcast(&self, from: DType, to: DType, x: &str) -> String;
    /// One of two values.
    fn select(&self, condition: &str, yes: &str, no: &str) -> String;
    /// A position as `I64`.
    fn widen(&self, position: &str) -> String;
    /// An index of type `of`, known to be one, as a position.
    fn narrow(&self, index: &str, of: DType) -> String;
    /// An index of type `of` clamped to `0..extent`, as a position.
    fn clamp(&self, index: &str, of: DType, extent: usize) -> String;
    /// Whether two indices of a type differ.
    fn differ(&self, _of: DType, x: &str, y: &str) -> String {
        format!("{x} != {y}")
    }
    /// The lesser of two positions.
    fn lesser(&self, x: &str, y: &str) -> String {
        format!("min({x}, {y})")
    }
    /// A position, never negative, over a constant.
    fn quotient(&self, position: &str, by: usize) -> String;
    /// Reports an index of type `of` outside `0..extent`, as a statement.
    fn report(&self, index: &str, of: DType, extent: usize) -> String;
    /// A constant definition, as a statement.
    fn define(&self, name: &str, ty: &str, value: &str) -> String;
    /// A variable's definition, as a statement.
    fn variable(&self, name: &str, ty: &str, value: &str) -> String;
    /// The definition of an array of an invocation's own, as a statement.
    fn array(&self, name: &str, ty: &str, count: usize) -> String;
    /// The head of a loop that is to be unrolled, so that arrays are registers.
    fn unrolled(&self, head: String) -> String {
        head
    }
    /// The head of a loop over `start`, `start + step`, ... below `end`.
    fn for_loop(&self, name: &str, start: &str, end: &str, step: usize) -> String;
    /// An element of an input.
    fn load(&self, input: u32, address: &str) -> String;
    /// Of an input accessed by groups of neighbours: the number of a group, counted from
    /// where its memory begins.
    fn vector_index(&self, _input: u32, group: &str) -> String {
        group.into()
    }
    /// Four neighbours of an input, from four times this position on.
    fn load4(&self, input: u32, quad: &str) -> String;
    /// The type of four neighbours.
    fn register4(&self, dtype: DType) -> String;
    /// Eight neighbours of an input, from eight times this position on: `low` and `high`, four of them each.
    fn load8(&self, _input: u32, _eighth: &str) -> String {
        panic!("a language without accesses of eight elements")
    }
    /// The type of eight neighbours.
    fn register8(&self, _dtype: DType) -> String {
        panic!("a language without accesses of eight elements")
    }
    /// Writes an element of an output, as a statement.
    fn store(&self, output: usize, address: &str, value: &str) -> String;
    /// Writes four neighbours of an output.
    fn store4(&self, output: usize, quad: &str, values: &[String; 4]) -> String;
    /// Writes eight neighbours of an output.
    fn store8(&self, _output: usize, _eighth: &str, _values: &[String; 8]) -> String {
        panic!("a language without accesses of eight elements")
    }
    /// A call of a function of the language's prelude, in its version for a
    /// type.
    fn call(&self, function: &str, dtype: DType, operands: &[&str]) -> String;
    /// Waits until all of a workgroup have come here, as a statement.
    fn barrier(&self) -> String;
    /// Whether invocations of a warp can exchange values of a type.
    fn exchanges(&self, _dtype: DType) -> bool {
        false
    }
    /// Of a type that is exchanged: the value of the lane `distance` above,
    /// where so many lanes of the warp take part.
    fn lane_above(&self, _lanes: usize, _value: &str, _distance: usize) -> String {
        panic!("a language without warps")
    }
    /// Of a type that is exchanged: the value of the warp's first lane.
    fn first_lane(&self, _lanes: usize, _value: &str) -> String {
        panic!("a language without warps")
    }
}
