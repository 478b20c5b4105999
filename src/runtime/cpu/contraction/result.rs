//! Where results go.

use crate::runtime::Bindings;
use crate::runtime::cpu::contraction::Strides;
use crate::runtime::cpu::tile::product::{BlockLaunch, BlockProgram};

/// Where the result goes.
#[derive(Debug)]
pub(in crate::runtime::cpu) enum ResultTarget {
    /// The first output, written in place.
    Strided(Strides),
    /// A tile program that reads blocks.
    Blocks(BlockProgram),
}

/// A target of `f32` results, on some memory.
pub(in crate::runtime::cpu) enum ResultSink<'a> {
    /// The output: the element that a batch's offset counts from.
    Memory(*mut f32, &'a Strides),
    /// A tile program.
    Blocks(BlockLaunch<'a>),
}

impl ResultTarget {
    /// The target as text.
    pub fn source(&self) -> String {
        match self {
            ResultTarget::Strided(strides) => format!("c: in place, {}\n", strides.text()),
            ResultTarget::Blocks(program) => format!("c: blocks\n{}\n", program.source()),
        }
    }

    /// The target on some memory.
    pub fn on<'a>(&'a self, bindings: &Bindings<'a>) -> ResultSink<'a> {
        match self {
            ResultTarget::Strided(strides) => ResultSink::Memory(strides.start(bindings), strides),
            ResultTarget::Blocks(program) => ResultSink::Blocks(program.launch(bindings)),
        }
    }
}
