//! The options of operations, layers, optimizers and loaders, in one place.
//!
//! Each is a structure of optional arguments with PyTorch's defaults; a setter changes one:
//!
//! ```
//! use kiln::opts::{ConvOpts, Padding};
//! use kiln::prelude::*;
//! let (x, w) = (Tensor::ones([1, 1, 5], ()), Tensor::ones([1, 1, 3], ()));
//! let y = x.conv1d(&w, None, ConvOpts::default().padding(Padding::Same));
//! assert_eq!(y.to_vec::<f32>()?, [2.0, 3.0, 3.0, 3.0, 2.0]);
//! # Ok::<(), kiln::Error>(())
//! ```

pub use crate::data::LoaderOpts;
pub use crate::grad::GradOpts;
pub use crate::io::LoadOpts;
pub use crate::nn::LoraOpts;
pub use crate::nn::QuantizeOpts;
pub use crate::nn::attention::{AttentionInput, AttentionLayerOpts};
pub use crate::nn::transformer::TransformerOpts;
pub use crate::optim::AdagradOpts;
pub use crate::optim::GradScalerOpts;
pub use crate::optim::LionOpts;
pub use crate::optim::RmsPropOpts;
pub use crate::optim::SgdOpts;
pub use crate::optim::{AdamOpts, AdamWOpts};
pub use crate::plan::budget::Budget;
pub use crate::tensor::affine::AddmmOpts;
pub use crate::tensor::attention::AttentionOpts;
pub use crate::tensor::autocast::AutocastOpts;
pub use crate::tensor::compare::IsCloseOpts;
pub use crate::tensor::conv::{ConvOpts, ConvTransposeOpts, Padding};
pub use crate::tensor::covariance::CovOpts;
pub use crate::tensor::cross_entropy::{BinaryCrossEntropyOpts, CrossEntropyOpts, NllLossOpts};
pub use crate::tensor::ctc::CtcLossOpts;
#[cfg(feature = "linalg")]
pub use crate::tensor::decomposition::ToleranceOpts;
pub use crate::tensor::diagonal::DiagonalOpts;
pub use crate::tensor::distance::PairwiseDistanceOpts;
pub use crate::tensor::embedding::{BagMode, EmbeddingBagOpts};
pub use crate::tensor::extreme::NanToNumOpts;
pub use crate::tensor::grid_sample::{GridSampleOpts, SampleMode, SamplePadding};
pub use crate::tensor::im2col::Im2colOpts;
pub use crate::tensor::increment::DiffOpts;
pub use crate::tensor::interpolate::{InterpolateMode, InterpolateOpts};
pub use crate::tensor::join::Indexing;
pub use crate::tensor::linalg::TensordotAxes;
pub use crate::tensor::local_response::LocalResponseNormOpts;
pub use crate::tensor::loss::{
    GaussianNllLossOpts, HuberLossOpts, KlDivOpts, PoissonNllLossOpts, Reduction, SmoothL1LossOpts,
};
pub use crate::tensor::magnitude::MatrixNorm;
pub use crate::tensor::margin_loss::{MarginOpts, MultiMarginLossOpts, TripletMarginLossOpts};
pub use crate::tensor::moments::VarOpts;
pub use crate::tensor::multihead::{HeadProjections, MultiHeadOpts};
pub use crate::tensor::norm::{NormOpts, RunningNormOpts};
pub use crate::tensor::pad::PadMode;
pub use crate::tensor::pool::{AvgPoolOpts, MaxPoolOpts};
pub use crate::tensor::print::PrintOpts;
pub use crate::tensor::rounding::Rounding;
pub use crate::tensor::scatter::ScatterReduce;
pub use crate::tensor::search::SearchOpts;
pub use crate::tensor::solve::SolveTriangularOpts;
pub use crate::tensor::sort::TopkOpts;
pub use crate::tensor::statistics::{Interpolation, QuantileOpts};
