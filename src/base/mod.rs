//! Layer 0: the vocabulary every other layer speaks (types, shapes, devices,
//! errors). Imports nothing from the crate.

pub mod collective_error;
pub mod config;
pub mod cow_arc;
pub(crate) mod depth;
pub mod device;
pub mod direction;
pub mod dtype;
pub mod error;
pub mod file;
mod float16_rounding;
pub mod free_list;
pub mod hub_error;
mod op_name;
pub mod optimization;
mod precision;
pub mod process;
pub mod progress;
pub mod region;
pub mod scope;
pub mod shape;
pub mod span;
pub mod state_problem;
pub mod system;
pub mod temporary;
pub mod tuning;
pub mod unique_arc;
mod wrong_step;

pub use collective_error::{CollectiveError, CollectiveProblem};
pub use cow_arc::{CowArc, Interner};
pub use device::{Device, DeviceKind};
pub use direction::Direction;
pub use dtype::Element;
pub use error::{Error, OpError, Result};
pub use float16_rounding::{Float16Rounding, float16_rounding, set_float16_rounding};
pub use hub_error::{HubError, HubProblem};
#[doc(inline)]
pub use kiln_simd::{DType, Kind, Scalar};
pub use op_name::OpName;
pub use optimization::Optimization;
pub use precision::{Precision, float32_matmul_precision, set_float32_matmul_precision};
pub use region::Region;
pub use shape::{Dims, Shape};
pub use span::Span;
pub use state_problem::StateProblem;
pub use tuning::{is_deterministic, set_benchmark, set_deterministic};
pub use wrong_step::WrongStep;
