//! Pooling.

use crate::module;
use crate::nn::module::Layer;
use crate::tensor::Tensor;
use crate::tensor::adaptive::OutputSizes;
use crate::tensor::pool::{AvgPoolOpts, MaxPoolOpts};
use crate::tensor::spatial::Sizes;

macro_rules! pools {
    ($($name:ident $method:ident $opts:ident;)*) => {$(
        #[doc = concat!("[`Tensor::", stringify!($method), "`] as a layer.")]
        #[derive(Debug)]
        pub struct $name {
            kernel: Sizes,
            opts: $opts,
        }
        module!($name { ; skip kernel, opts });

        impl $name {
            /// Over windows of this size.
            pub fn new(kernel: impl Into<Sizes>, opts: $opts) -> $name {
                $name { kernel: kernel.into(), opts }
            }
        }

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.kernel.clone(), self.opts.clone())
            }
        }
    )*};
}

macro_rules! adaptive_pools {
    ($($name:ident $method:ident;)*) => {$(
        #[doc = concat!("[`Tensor::", stringify!($method), "`] as a layer.")]
        #[derive(Debug)]
        pub struct $name {
            sizes: OutputSizes,
        }
        module!($name { ; skip sizes });

        impl $name {
            /// To outputs of these sizes.
            pub fn new(sizes: impl Into<OutputSizes>) -> $name {
                $name { sizes: sizes.into() }
            }
        }

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$method(self.sizes.clone())
            }
        }
    )*};
}

pools! {
    MaxPool1d max_pool1d MaxPoolOpts;
    MaxPool2d max_pool2d MaxPoolOpts;
    MaxPool3d max_pool3d MaxPoolOpts;
    AvgPool1d avg_pool1d AvgPoolOpts;
    AvgPool2d avg_pool2d AvgPoolOpts;
    AvgPool3d avg_pool3d AvgPoolOpts;
}

adaptive_pools! {
    AdaptiveAvgPool1d adaptive_avg_pool1d;
    AdaptiveAvgPool2d adaptive_avg_pool2d;
    AdaptiveAvgPool3d adaptive_avg_pool3d;
    AdaptiveMaxPool1d adaptive_max_pool1d;
    AdaptiveMaxPool2d adaptive_max_pool2d;
    AdaptiveMaxPool3d adaptive_max_pool3d;
}
