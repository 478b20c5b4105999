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
    /// Kernels whose points are too few for a GPU as several kernels.
    Split,
    /// What WebGPU does not promise, 64-bit numbers among it, on wgpu: without, shaders are those of a page, and
    /// there are no 64-bit floats.
    OptionalFeatures,
    /// Products of one row that need not wait for each other as one launch.
    JointLaunches,
    /// Convolutions by Winograd's transforms, on the CPU.
    Winograd,
    /// Convolutions as sums of shifted rows, on the CPU.
    Stencils,
    /// Distances of all pairs as products, on the CPU.
    DistanceProducts,
    /// Grids cut where conditions are decided, on the CPU.
    IndexSetSplitting,
    /// Divisions by numbers as products and shifts, on the CPU.
    DivisionByMultiplication,
    /// Reductions over several axes in two stages, on the CPU.
    TwoStageReduction,
    /// Large results written past the caches, on the CPU.
    NonTemporalStores,
    /// Loops of one iteration put in their place, on the CPU.
    SingleTripElimination,
    /// Prefetches of what the next tile reads, on the CPU.
    Prefetch,
    /// Reductions that begin and end with a row as one instruction, on the CPU.
    FusedRowReduction,
    /// Blocks that share regions of huge pages, on the CPU: without, each is the system allocator's own, as tools
    /// that watch it expect.
    Regions,
}

impl Optimization {
    /// All of them, with the names that `KILN_DISABLE` takes.
    pub const ALL: &[(&str, Optimization)] = &[
        ("templates", Optimization::Templates),
        ("simplification", Optimization::Simplification),
        ("fusion", Optimization::Fusion),
        ("horizontal-fusion", Optimization::HorizontalFusion),
        ("producer-sinking", Optimization::ProducerSinking),
        ("donation", Optimization::Donation),
        ("plan-reuse", Optimization::PlanReuse),
        ("split", Optimization::Split),
        ("optional-features", Optimization::OptionalFeatures),
        ("joint-launches", Optimization::JointLaunches),
        ("winograd", Optimization::Winograd),
        ("stencils", Optimization::Stencils),
        ("distance-products", Optimization::DistanceProducts),
        ("index-set-splitting", Optimization::IndexSetSplitting),
        ("division-by-multiplication", Optimization::DivisionByMultiplication),
        ("two-stage-reduction", Optimization::TwoStageReduction),
        ("non-temporal-stores", Optimization::NonTemporalStores),
        ("single-trip-elimination", Optimization::SingleTripElimination),
        ("prefetch", Optimization::Prefetch),
        ("fused-row-reduction", Optimization::FusedRowReduction),
        ("regions", Optimization::Regions),
    ];

    /// The name that `KILN_DISABLE` takes.
    pub fn name(self) -> &'static str {
        let named = Optimization::ALL.iter().find(|(_, optimization)| *optimization == self);
        named.map_or("an optimization", |(name, _)| name)
    }

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
        assert_eq!(
            optimizations("fusion, templates,").unwrap(),
            [Optimization::Fusion, Optimization::Templates]
        );
        let error = optimizations("fusion,fuse").unwrap_err().to_string();
        assert!(error.contains("plan-reuse") && error.ends_with("found \"fuse\""), "{error}");
    }
}
