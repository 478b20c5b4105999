//! The mapping from recorded calls to kiln, by topic.

mod activation;
mod create;
mod elementwise;
mod index;
mod linalg;
mod loss;
mod movement;
mod norm;
mod reduce;
mod spatial;
mod spectra;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::LazyLock;

use kiln::tensor::Tensor;

use super::call::{Call, Outcome};

/// How one PyTorch function is called in kiln.
pub struct Entry {
    /// The function (`nn.functional.relu`).
    pub name: &'static str,
    /// Its parameters in order, apart by spaces; a star takes the rest.
    pub parameters: &'static str,
    /// The call in kiln.
    pub run: Run,
    /// Whether it gives complex results as pairs.
    pub complex: bool,
}

/// A call, which may have to look at values.
pub enum Run {
    /// It only builds.
    Built(fn(&Call) -> Outcome),
    /// It waits for values.
    Awaited(for<'a> fn(&'a Call<'a>) -> AwaitedOutcome<'a>),
}

/// What comes of a call that waits.
pub type AwaitedOutcome<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

const fn entry(name: &'static str, parameters: &'static str, run: fn(&Call) -> Outcome) -> Entry {
    Entry { name, parameters, run: Run::Built(run), complex: false }
}

const fn awaited(
    name: &'static str,
    parameters: &'static str,
    run: for<'a> fn(&'a Call<'a>) -> AwaitedOutcome<'a>,
) -> Entry {
    Entry { name, parameters, run: Run::Awaited(run), complex: false }
}

/// A call with one result.
fn one(tensor: Tensor) -> Outcome {
    Ok(vec![tensor])
}

/// A call with two results.
fn pair((first, second): (Tensor, Tensor)) -> Outcome {
    Ok(vec![first, second])
}

/// Options with a value set, if there is one.
fn with<Opts, Value>(opts: Opts, value: Option<Value>, set: impl FnOnce(Opts, Value) -> Opts) -> Opts {
    match value {
        Some(value) => set(opts, value),
        None => opts,
    }
}

static ENTRIES: LazyLock<HashMap<&str, &Entry>> = LazyLock::new(|| {
    let tables = [
        activation::PLAIN,
        activation::WITH_OPTIONS,
        activation::SEQUENCES,
        create::CREATION,
        create::CASTS,
        elementwise::UNARY,
        elementwise::BINARY,
        elementwise::PAIRS,
        elementwise::OTHER,
        index::READS,
        index::WRITES,
        index::SORTS,
        linalg::PRODUCTS,
        linalg::SYSTEMS,
        movement::SHAPES,
        movement::REARRANGED,
        movement::JOINED,
        loss::REGRESSION,
        loss::CLASSES,
        loss::MARGINS,
        norm::NORMS,
        reduce::REDUCTIONS,
        reduce::EXTREMES,
        reduce::MOMENTS,
        reduce::SCANS,
        spatial::CONVOLUTIONS,
        spatial::POOLS,
        spatial::RESAMPLING,
        spectra::SPECTRA,
    ];
    tables.into_iter().flatten().map(|entry| (entry.name, entry)).collect()
});

/// The mapping of `call`, if there is one.
pub fn find(call: &str) -> Option<&'static Entry> {
    ENTRIES.get(call).copied()
}
