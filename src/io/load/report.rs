//! What was loaded, and what was not.

use std::fmt;

use crate::base::{DType, StateProblem};

/// A tensor whose type was converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The module's name of it.
    pub name: String,
    /// The file's type.
    pub from: String,
    /// The module's type.
    pub to: DType,
}

/// What [`ModuleExt::load_with`](crate::nn::ModuleExt::load_with) found. With
/// [`strict`](crate::LoadOpts::strict), the last three are empty.
///
/// # Examples
/// ```
/// use kiln::nn::{Linear, ModuleExt};
/// use kiln::prelude::*;
/// use kiln::{LoadOpts, StateDict};
/// let mut file = StateDict::new();
/// file.insert("weight", &Tensor::ones([1, 2], ()))?;
/// file.insert("step", &Tensor::ones([1], ()))?;
/// let report = Linear::new(2, 1, ()).load_state_dict_with(&file, LoadOpts::default().strict(false))?;
/// assert_eq!(report.to_string(), "1 loaded\nmissing: bias\nunexpected: step\n");
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadReport {
    /// The module's names of what was loaded.
    pub loaded: Vec<String>,
    /// What was converted.
    pub converted: Vec<Conversion>,
    /// The module's names of what the file does not have; these tensors are as they were.
    pub missing: Vec<String>,
    /// The file's names of what the module does not have.
    pub unexpected: Vec<String>,
    /// Tensors of a shape or type that does not fit; these are as they were.
    pub mismatched: Vec<StateProblem>,
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} loaded", self.loaded.len())?;
        for Conversion { name, from, to } in &self.converted {
            writeln!(f, "converted from {from} to {to}: {name}")?;
        }
        self.missing.iter().try_for_each(|name| writeln!(f, "missing: {name}"))?;
        self.unexpected.iter().try_for_each(|name| writeln!(f, "unexpected: {name}"))?;
        self.mismatched.iter().try_for_each(|problem| writeln!(f, "mismatched: {problem}"))
    }
}
