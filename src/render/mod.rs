//! Layer 3: kernels as text in a GPU's language.
//!
//! A renderer takes a kernel and a [`GpuTarget`] and gives a [`Shader`]: source
//! texts and what a launch must know. It talks to no driver.
//!
//! - [`target`]: what is known of the device rendered for.
//! - [`thresholds`]: the tuning numbers of what languages share.
//! - [`shader`]: what a renderer gives.
//! - [`coalesce`]: axes that memory runs through as one become one.
//! - [`mod@narrow`]: positions that fit 32 bits are computed in 32 bits.
//! - [`mod@split`]: long or narrow kernels become several.
//! - [`choice`]: which of a template's sizes a kernel gets.
//! - [`iterations`]: how often one invocation's loops run.
//! - [`product`]: tiles of matrix products, for templates.
//! - [`attention`]: sizes of attention's template.
//! - [`joint`]: shaders of several kernels as one launch's.
//! - [`mod@scan`]: which scans a template serves.
//! - [`thread_mapping`]: which axes go to threads, elements per thread and loops.
//! - [`mod@c_like`]: the program of a kernel, in any C-like language.
//! - [`mod@wgsl`]: WGSL, the portable language.
//! - [`mod@cuda`]: CUDA C.

pub mod attention;
pub mod c_like;
pub mod choice;
pub mod coalesce;
pub mod cuda;
pub mod iterations;
pub mod joint;
pub mod narrow;
pub mod product;
pub mod scan;
pub mod shader;
pub mod split;
pub mod target;
pub mod thread_mapping;
pub mod thresholds;
pub mod wgsl;

pub use choice::TemplateChoice;
pub use shader::{BufferBinding, Pass, PassBuffer, Shader, Unsupported};
pub use target::{Adapter, GpuTarget};
