//! Activation functions by the names that configurations have for them.

use kiln::tensor::Tensor;

use crate::config::Config;
use crate::error::Result;

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `gelu`: with the error function.
    Gelu,
    /// `gelu_new`, `gelu_pytorch_tanh` and the like: by a hyperbolic tangent.
    GeluTanh,
    /// `quick_gelu`: `x * sigmoid(1.702 x)`.
    QuickGelu,
    /// `relu`.
    Relu,
    /// `silu` or `swish`.
    Silu,
    /// `tanh`.
    Tanh,
}

impl Activation {
    /// What an entry of a configuration names.
    ///
    /// # Errors
    /// Another name.
    pub fn read(config: &Config, key: &str, default: &str) -> Result<Activation> {
        match config.text_or(key, default)?.as_str() {
            "gelu" => Ok(Activation::Gelu),
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" | "gelu_accurate" => Ok(Activation::GeluTanh),
            "quick_gelu" => Ok(Activation::QuickGelu),
            "relu" => Ok(Activation::Relu),
            "silu" | "swish" => Ok(Activation::Silu),
            "tanh" => Ok(Activation::Tanh),
            other => Err(config.wrong(key, "gelu, gelu_new, quick_gelu, relu, silu or tanh", other)),
        }
    }

    /// The function.
    #[track_caller]
    pub fn apply(self, x: &Tensor) -> Tensor {
        match self {
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::QuickGelu => x * (x * 1.702).sigmoid(),
            Activation::Relu => x.relu(),
            Activation::Silu => x.silu(),
            Activation::Tanh => x.tanh(),
        }
    }
}
