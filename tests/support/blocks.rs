//! Models of blocks whose interiors are kept for gradients, or computed again.

use kiln::nn::{Layer, Module, Sequential, Visitor};
use kiln::prelude::*;

/// A block whose interior is computed again for gradients.
struct Checkpointed<L>(L);

impl<L: Layer> Module for Checkpointed<L> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.0.visit(visitor);
    }
}
impl<L: Layer> Layer for Checkpointed<L> {
    fn forward(&self, x: &Tensor) -> Tensor {
        kiln::checkpoint(|x| self.0.forward(x), x)
    }
}

/// One block after another, checkpointed or not.
pub fn blocks<L: Layer + 'static>(checkpointed: bool, blocks: impl IntoIterator<Item = L>) -> Sequential {
    let blocks = blocks.into_iter();
    if checkpointed {
        blocks.fold(Sequential::new(), |model, block| model.push(Checkpointed(block)))
    } else {
        blocks.fold(Sequential::new(), Sequential::push)
    }
}
