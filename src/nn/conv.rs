//! Convolutions.

use crate::base::shape::volume;
use crate::base::{Result, Span};
use crate::module;
use crate::nn::init;
use crate::nn::module::Layer;
use crate::nn::module_region::in_module_of;
use crate::nn::param::Param;
use crate::tensor::conv::{ConvOpts, ConvTransposeOpts};
use crate::tensor::{Place, Tensor};

/// Channels of `[n, c, ..]` or `[c, ..]` with so many axes after them; 0 where
/// there are none.
fn channels(x: &Tensor, spatial: usize) -> usize {
    let shape = x.shape();
    shape.rank().checked_sub(spatial + 1).map_or(0, |axis| shape[axis])
}

macro_rules! convolution {
    ($($conv:ident $transposed:ident $method:ident $transposed_method:ident $rank:literal;)*) => {$(
        #[doc = concat!("Convolution over ", stringify!($rank), " axes; see [`Tensor::", stringify!($method), "`].")]
        #[derive(Debug)]
        pub struct $conv {
            /// `[out, in / groups, kernel ..]`.
            pub weight: Param,
            /// `[out]`.
            pub bias: Option<Param>,
            opts: ConvOpts,
        }
        module!($conv { weight, bias; skip opts });

        impl $conv {
            /// With a bias; both uniform within one over the root of the
            /// elements that one output sums, as in PyTorch.
            #[track_caller]
            pub fn new(
                inputs: usize,
                outputs: usize,
                kernel: [usize; $rank],
                opts: ConvOpts,
                place: impl Into<Place>,
            ) -> $conv {
                let place = place.into();
                let mut shape = vec![outputs, inputs / opts.groups.max(1)];
                shape.extend(kernel);
                let fan_in = volume(&shape[1..]);
                let bias = Some(Param::new(init::fan_in_uniform([outputs], fan_in, place)));
                $conv { weight: Param::new(init::fan_in_uniform(shape, fan_in, place)), bias, opts }
            }

            /// As [`Self::new`], with as many inputs as the first input has
            /// channels: until then the weight's second extent is 0.
            #[track_caller]
            pub fn lazy(
                outputs: usize,
                kernel: [usize; $rank],
                opts: ConvOpts,
                place: impl Into<Place>,
            ) -> $conv {
                $conv::new(0, outputs, kernel, opts, place)
            }

            /// Starts the parameters if the inputs were not known before.
            fn settle(&self, x: &Tensor, span: Span) -> Result<()> {
                let (mut shape, channels) = (self.weight.shape(), channels(x, $rank));
                if shape.get(1) != Some(&0) || channels == 0 {
                    return Ok(());
                }
                shape.0[1] = channels / self.opts.groups.max(1);
                init::start_late(&self.weight, self.bias.as_ref(), &shape, span)
            }
        }

        impl Layer for $conv {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                let _module = in_module_of(&self.weight, 0);
                if let Err(error) = self.settle(x, Span::caller()) {
                    return Tensor::invalid(error);
                }
                let bias = self.bias.as_ref().map(Param::get);
                x.$method(&self.weight.get(), bias.as_ref(), self.opts.clone())
            }
        }

        #[doc = concat!("Transposed convolution over ", stringify!($rank), " axes; see [`Tensor::", stringify!($transposed_method), "`].")]
        #[derive(Debug)]
        pub struct $transposed {
            /// `[in, out / groups, kernel ..]`.
            pub weight: Param,
            /// `[out]`.
            pub bias: Option<Param>,
            opts: ConvTransposeOpts,
        }
        module!($transposed { weight, bias; skip opts });

        impl $transposed {
            /// With a bias; both uniform within one over the root of the
            /// extents of the weight's axes but the first, as in PyTorch.
            #[track_caller]
            pub fn new(
                inputs: usize,
                outputs: usize,
                kernel: [usize; $rank],
                opts: ConvTransposeOpts,
                place: impl Into<Place>,
            ) -> $transposed {
                let place = place.into();
                let mut shape = vec![inputs, outputs / opts.groups.max(1)];
                shape.extend(kernel);
                let fan_in = volume(&shape[1..]);
                let bias = Some(Param::new(init::fan_in_uniform([outputs], fan_in, place)));
                $transposed { weight: Param::new(init::fan_in_uniform(shape, fan_in, place)), bias, opts }
            }
        }

        impl Layer for $transposed {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                let _module = in_module_of(&self.weight, 0);
                let bias = self.bias.as_ref().map(Param::get);
                x.$transposed_method(&self.weight.get(), bias.as_ref(), self.opts.clone())
            }
        }
    )*};
}

convolution! {
    Conv1d ConvTranspose1d conv1d conv_transpose1d 1;
    Conv2d ConvTranspose2d conv2d conv_transpose2d 2;
    Conv3d ConvTranspose3d conv3d conv_transpose3d 3;
}
