//! Layers in sequence.

use std::any::Any;
use std::fmt;
use std::ops::Index;

use crate::base::{Region, Span};
use crate::nn::module::{Layer, Module, ModuleExt, Visitor};
use crate::runtime::trace;
use crate::tensor::Tensor;

/// Layers one after the other; their names are their numbers.
#[derive(Default)]
pub struct Sequential {
    layers: Vec<Box<dyn Held>>,
}

/// A layer whose type can be asked for.
trait Held: Layer {
    fn as_layer(&self) -> &(dyn Layer + 'static);
    fn as_any(&self) -> &dyn Any;
}

impl<L: Layer + 'static> Held for L {
    fn as_layer(&self) -> &(dyn Layer + 'static) {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
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
    /// Number of layers.
    pub fn len(&self) -> usize {
        self.layers.len()
    }
    /// Whether there are no layers.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }
    /// The layers, first to last.
    pub fn iter(&self) -> impl Iterator<Item = &(dyn Layer + 'static)> {
        self.layers.iter().map(|layer| layer.as_layer())
    }
    /// The `n`-th layer, if it is there and of this type; `net[n]` is it whatever its type.
    ///
    /// ```
    /// use kiln::nn::{Linear, Relu, Sequential};
    /// let net = Sequential::new().push(Linear::new(4, 8, ())).push(Relu);
    /// assert_eq!(net.get::<Linear>(0).map(|layer| layer.weight.shape().numel()), Some(32));
    /// assert!(net.get::<Linear>(1).is_none());
    /// assert!(net[1].kind().ends_with("Relu"));
    /// ```
    pub fn get<L: Layer + 'static>(&self, n: usize) -> Option<&L> {
        self.layers.get(n)?.as_any().downcast_ref()
    }
}

/// # Panics
/// As slices do, where there are not so many layers.
impl Index<usize> for Sequential {
    type Output = dyn Layer;
    fn index(&self, n: usize) -> &(dyn Layer + 'static) {
        self.layers[n].as_layer()
    }
}

impl fmt::Debug for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sequential({} layers)", self.layers.len())
    }
}

impl fmt::Display for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree().fmt(f)
    }
}

impl Module for Sequential {
    fn visit(&self, visitor: &mut dyn Visitor) {
        for (number, layer) in self.layers.iter().enumerate() {
            visitor.child(&number.to_string(), layer.as_layer());
        }
    }
}

impl Layer for Sequential {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = Span::caller().enter();
        self.layers.iter().enumerate().fold(x.clone(), |x, (number, layer)| {
            let _region = trace::is_on().then(|| Region::current().in_child(&number.to_string()).enter());
            layer.forward(&x)
        })
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
