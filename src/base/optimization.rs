//! Optimizations that `KILN_DISABLE` switches off, to find out which one is wrong.

use crate::base::config::config;
use crate::base::error::{Error, Result};

/// A pass that programs are right without. What it does is told where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Optimization {
    /// Composites computed by a device's template, such as attention.
    Templates,
    /// The rules of [`crate::ir::simplify`].
    Simplification,
    /// Several operations in one kernel, of which one reads the other.
    Fusion,
    /// Kernels that read the same value merged to one.
    HorizontalFusion,
    /// Work before a product moved into the kernel that stores what it reads.
    ProducerSinking,
    /// Results in the memory of inputs that nobody reads any more.
    Donation,
    /// Decisions taken over from a plan for other sizes.
    PlanReuse,
}

use Optimization::{
    Donation, Fusion, HorizontalFusion, PlanReuse, ProducerSinking, Simplification, Templates,
};

impl Optimization {
    /// All of them, with the names that `KILN_DISABLE` takes.
    pub const ALL: &[(&str, Optimization)] = &[
        ("templates", Templates),
        ("simplification", Simplification),
        ("fusion", Fusion),
        ("horizontal-fusion", HorizontalFusion),
        ("producer-sinking", ProducerSinking),
        ("donation", Donation),
        ("plan-reuse", PlanReuse),
    ];

    /// Whether it is not switched off.
    #[inline]
    pub fn is_on(self) -> bool {
        !config().disabled.contains(&self)
    }
}

/// Reads `templates,fusion`.
///
/// # Errors
/// [`Error::Parse`] with all names for one that is none of them.
pub fn optimizations(text: &str) -> Result<Vec<Optimization>> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let known = |name: &str| {
        let found = Optimization::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, optimization)| *optimization).ok_or_else(|| unknown(name))
    };
    names.map(known).collect()
}

fn unknown(name: &str) -> Error {
    let all: Vec<&str> = Optimization::ALL.iter().map(|(name, _)| *name).collect();
    Error::Parse {
        what: "optimization",
        expected: format!("names of {}", all.join(", ")),
        found: name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_and_listed() {
        assert_eq!(optimizations("fusion, templates,").unwrap(), [Fusion, Templates]);
        let error = optimizations("fusion,fuse").unwrap_err().to_string();
        assert!(error.contains("plan-reuse") && error.ends_with("found \"fuse\""), "{error}");
    }
}
