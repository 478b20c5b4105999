//! Activation functions, and other functions with few or no parameters, as
//! layers.

use crate::module;
use crate::nn::module::Layer;
use crate::nn::param::Param;
use crate::tensor::{Place, Tensor};

macro_rules! functions {
    ($($name:ident $method:ident;)*) => {$(
        #[doc = concat!("[`Tensor::", stringify!($method), "`] as a layer.")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;
        module!($name {});

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method()
            }
        }
    )*};
}

/// The arguments' defaults are PyTorch's.
macro_rules! functions_with_arguments {
    ($($name:ident $method:ident ($($(#[doc = $doc:literal])+ $field:ident: $ty:ty = $default:expr),+);)*) => {$(
        #[doc = concat!("[`Tensor::", stringify!($method), "`] as a layer.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $ty,)+
        }
        module!($name { ; skip $($field),+ });

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default),+ }
            }
        }

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method($(self.$field),+)
            }
        }
    )*};
}

functions! {
    Relu relu;
    Relu6 relu6;
    Sigmoid sigmoid;
    Tanh tanh;
    Silu silu;
    Gelu gelu;
    GeluTanh gelu_tanh;
    Mish mish;
    Hardswish hardswish;
    Hardsigmoid hardsigmoid;
    Softsign softsign;
    Tanhshrink tanhshrink;
    LogSigmoid logsigmoid;
    Selu selu;
}

functions_with_arguments! {
    LeakyRelu leaky_relu (
        /// Slope below 0.
        slope: f64 = 0.01
    );
    Elu elu (
        /// Distance of the limit below 0.
        alpha: f64 = 1.0
    );
    Celu celu (
        /// Distance of the limit below 0.
        alpha: f64 = 1.0
    );
    Softplus softplus (
        /// Factor of the argument.
        beta: f64 = 1.0,
        /// Where it becomes the identity.
        threshold: f64 = 20.0
    );
    Hardtanh hardtanh (
        /// The least value.
        min: f64 = -1.0,
        /// The largest value.
        max: f64 = 1.0
    );
    Hardshrink hardshrink (
        /// Half the width of what becomes 0.
        lambda: f64 = 0.5
    );
    Softshrink softshrink (
        /// Half the width of what becomes 0.
        lambda: f64 = 0.5
    );
    Softmax softmax (
        /// The axis that sums to 1.
        axis: i64 = -1
    );
    LogSoftmax log_softmax (
        /// The axis whose exponentials sum to 1.
        axis: i64 = -1
    );
    Softmin softmin (
        /// The axis that sums to 1.
        axis: i64 = -1
    );
    Glu glu (
        /// The axis that is halved.
        axis: i64 = -1
    );
    Flatten flatten (
        /// The first axis that is joined.
        start: i64 = 1,
        /// The last axis that is joined.
        end: i64 = -1
    );
}

/// [`Tensor::prelu`] with slopes that are trained.
#[derive(Debug)]
pub struct Prelu {
    /// `[slopes]`; starts as 0.25.
    pub weight: Param,
}
module!(Prelu { weight });

impl Prelu {
    /// One slope for all channels, or one for each.
    #[track_caller]
    pub fn new(slopes: usize, place: impl Into<Place>) -> Prelu {
        let quarters = Tensor::ones([slopes], place) * 0.25;
        Prelu { weight: Param::new(quarters) }
    }
}

impl Layer for Prelu {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.prelu(&self.weight.get())
    }
}
