//! Loading of states whose names, shapes and types are not those of what they are loaded into: the
//! options that say how they differ, the search for each tensor, and a report of what was found.

mod names;
mod opts;
mod recipe;
mod report;
mod resolve;

pub(crate) use names::Pattern;
pub use opts::LoadOpts;
pub use report::{Conversion, LoadReport};
pub(crate) use resolve::{Loaded, Source, load};
