//! What most programs use: `use kiln::prelude::*;`.

pub use crate::base::{DType, Device, DeviceKind, Element, Scalar, Shape};
pub use crate::plan::PlanReport;
pub use crate::tensor::attention::AttentionOpts;
pub use crate::tensor::complex::Complex;
pub use crate::tensor::conv::{ConvOpts, ConvTransposeOpts, Padding};
pub use crate::tensor::loss::Reduction;
pub use crate::tensor::moments::VarOpts;
pub use crate::tensor::norm::{NormOpts, RunningNormOpts};
pub use crate::tensor::pad::PadMode;
pub use crate::tensor::place::with_device;
pub use crate::tensor::pool::{AvgPoolOpts, MaxPoolOpts};
pub use crate::tensor::read::{realize, realize_async};
pub use crate::tensor::scatter::ScatterReduce;
pub use crate::tensor::slicing::{Ellipsis, IntoIndex, NewAxis, r};
pub use crate::tensor::sort::TopkOpts;
pub use crate::tensor::var::Var;
pub use crate::tensor::{Place, Tensor};
