//! Affine maps.

use std::fmt;

use crate::base::Span;
use crate::module;
use crate::nn::init;
use crate::nn::lora::AdapterSlot;
use crate::nn::module::{Layer, Module, ModuleExt, Part, Visitor};
use crate::nn::module_region::in_module_of;
use crate::nn::param::Param;
use crate::tensor::{Place, Tensor};

/// `x weight^T + bias` over the last axis: `[.., in]` to `[.., out]`.
#[derive(Debug)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Param,
    /// `[out]`.
    pub bias: Option<Param>,
    pub(super) adapter: AdapterSlot,
}

impl Module for Linear {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.weight.visit_as("weight", visitor);
        self.bias.visit_as("bias", visitor);
        if let Some(adapter) = self.adapter.get() {
            adapter.visit(visitor);
        }
    }
    fn as_linear(&self) -> Option<&Linear> {
        Some(self)
    }
}

impl fmt::Display for Linear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree().fmt(f)
    }
}

impl Linear {
    /// Of parameters that are there: `[out, in]` and `[out]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::{Layer, Linear, Param};
    /// use kiln::prelude::*;
    /// let layer = Linear::of(Param::new(Tensor::from([[1.0f32, 2.0]])), None);
    /// assert_eq!(layer.forward(&Tensor::from([[3.0f32, 4.0]])).to_vec::<f32>()?, [11.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn of(weight: Param, bias: Option<Param>) -> Linear {
        Linear { weight, bias, adapter: AdapterSlot::default() }
    }

    /// With a bias; both uniform within `1 / sqrt(in)`, as in PyTorch.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, place: impl Into<Place>) -> Linear {
        let place = place.into();
        let bias = Some(Param::new(init::fan_in_uniform([outputs], inputs, place)));
        Linear { bias, ..Linear::without_bias(inputs, outputs, place) }
    }

    /// With a bias, and as many inputs as the first input has: until then the
    /// weight is `[out, 0]`. A pass that is not computed is enough to settle
    /// it; parameters do not change their identity.
    #[track_caller]
    pub fn lazy(outputs: usize, place: impl Into<Place>) -> Linear {
        Linear::new(0, outputs, place)
    }

    /// Without a bias.
    #[track_caller]
    pub fn without_bias(inputs: usize, outputs: usize, place: impl Into<Place>) -> Linear {
        let weight = Param::new(init::fan_in_uniform([outputs, inputs], inputs, place.into()));
        Linear::of(weight, None)
    }
}

impl Layer for Linear {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _module = in_module_of(&self.weight, 0);
        if let ([outputs, 0], Some(&inputs)) = (&self.weight.shape()[..], x.shape().last())
            && let Err(error) =
                init::start_late(&self.weight, self.bias.as_ref(), &[*outputs, inputs], Span::caller())
        {
            return Tensor::invalid(error);
        }
        let base = x.linear(&self.weight.get(), self.bias.as_ref().map(Param::get).as_ref());
        match self.adapter.get() {
            Some(adapter) => adapter.beside(&base, x),
            None => base,
        }
    }
}

/// `x1^T weight[o] x2 + bias[o]` over the last axes: `[.., in1]` and
/// `[.., in2]` to `[.., out]`.
#[derive(Debug)]
pub struct Bilinear {
    /// `[out, in1, in2]`.
    pub weight: Param,
    /// `[out]`.
    pub bias: Option<Param>,
}
module!(Bilinear { weight, bias });

impl Bilinear {
    /// With a bias; both uniform within `1 / sqrt(in1)`, as in PyTorch.
    #[track_caller]
    pub fn new(inputs: (usize, usize), outputs: usize, place: impl Into<Place>) -> Bilinear {
        let place = place.into();
        let weight = Param::new(init::fan_in_uniform([outputs, inputs.0, inputs.1], inputs.0, place));
        let bias = Some(Param::new(init::fan_in_uniform([outputs], inputs.0, place)));
        Bilinear { weight, bias }
    }

    /// The output for a pair of inputs.
    #[track_caller]
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Tensor {
        let _module = in_module_of(&self.weight, 0);
        x1.bilinear(x2, &self.weight.get(), self.bias.as_ref().map(Param::get).as_ref())
    }
}

/// Rows of a table by number.
#[derive(Debug)]
pub struct Embedding {
    /// `[entries, width]`.
    pub weight: Param,
}
module!(Embedding { weight });

impl Embedding {
    /// A table of standard normal numbers.
    #[track_caller]
    pub fn new(entries: usize, width: usize, place: impl Into<Place>) -> Embedding {
        Embedding { weight: Param::new(Tensor::randn([entries, width], place)) }
    }
}

impl Layer for Embedding {
    /// Integers `[..]` to `[.., width]`.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _module = in_module_of(&self.weight, 0);
        x.embedding(&self.weight.get())
    }
}
