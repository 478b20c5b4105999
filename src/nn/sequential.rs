//! Layers in sequence.

use std::fmt;

use crate::base::Span;
use crate::nn::module::{Layer, Module, Visitor};
use crate::tensor::Tensor;

/// Layers one after the other; their names are their numbers.
#[derive(Default)]
pub struct Sequential {
    layers: Vec<Box<dyn Layer>>,
}

impl Sequential {
    /// No layers: the identity.
    pub fn new() -> Sequential {
        Sequential::default()
    }
    /// With one more layer at the end.
    #[must_use]
    pub fn push(mut self, layer: impl Layer + 'static) -> Sequential {
        self.layers.push(Box::new(layer));
        self
    }
    /// With a function at the end, such as [`Tensor::relu`].
    #[must_use]
    pub fn then(self, function: fn(&Tensor) -> Tensor) -> Sequential {
        self.push(FunctionLayer(function))
    }
}

impl fmt::Debug for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sequential({} layers)", self.layers.len())
    }
}

impl Module for Sequential {
    fn visit(&self, visitor: &mut dyn Visitor) {
        for (number, layer) in self.layers.iter().enumerate() {
            visitor.child(&number.to_string(), &**layer);
        }
    }
}

impl Layer for Sequential {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = Span::caller().enter();
        self.layers.iter().fold(x.clone(), |x, layer| layer.forward(&x))
    }
}

/// A function without parameters as a layer.
struct FunctionLayer(fn(&Tensor) -> Tensor);

impl Module for FunctionLayer {
    fn visit(&self, _visitor: &mut dyn Visitor) {}
}
impl Layer for FunctionLayer {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        (self.0)(x)
    }
}
