//! Whether a result is the expected one.

use super::array::{Array, Values};
use super::manifest::{Recorded, Tolerance};

/// A result may err this many times as much as PyTorch's own kernel did.
const RECORDED_FACTOR: f64 = 4.0;

/// How near a result must come: within one of the tolerances, or within a
/// multiple of the error recorded for PyTorch. Integers are always exact.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// PyTorch's tolerance for the type and its exception for the operation.
    pub tolerances: Vec<Tolerance>,
    /// The error recorded for PyTorch's own kernel.
    pub recorded: Option<Recorded>,
}

/// Compares type, shape and elements.
///
/// # Errors
/// How they differ.
pub fn compare(found: &Array, expected: &Array, bounds: &Bounds) -> Result<(), String> {
    if found.dtype != expected.dtype {
        return Err(format!("dtype {}, expected {}", found.dtype, expected.dtype));
    }
    if found.shape != expected.shape {
        return Err(format!("shape {:?}, expected {:?}", found.shape, expected.shape));
    }
    match (found.values(), expected.values()) {
        (Values::Integers(found), Values::Integers(expected)) => integers(&found, &expected),
        (Values::Floats(found), Values::Floats(expected)) => floats(&found, &expected, bounds),
        (Values::Integers(_), Values::Floats(_)) | (Values::Floats(_), Values::Integers(_)) => {
            unreachable!("the types are the same")
        }
    }
}

fn integers(found: &[i64], expected: &[i64]) -> Result<(), String> {
    let differing: Vec<usize> = (0..expected.len()).filter(|&i| found[i] != expected[i]).collect();
    match differing.first() {
        None => Ok(()),
        Some(&i) => Err(format!(
            "{} of {} elements differ: [{i}] is {}, expected {}",
            differing.len(),
            expected.len(),
            found[i],
            expected[i]
        )),
    }
}

fn floats(found: &[f64], expected: &[f64], bounds: &Bounds) -> Result<(), String> {
    let pairs = || found.iter().copied().zip(expected.iter().copied());
    let within = |t: &Tolerance| pairs().all(|(f, e)| close(f, e, *t));
    if pairs().all(|(f, e)| same(f, e)) || bounds.tolerances.iter().any(within) {
        return Ok(());
    }
    if bounds.recorded.is_some_and(|recorded| within_recorded(pairs(), recorded)) {
        return Ok(());
    }
    Err(describe(found, expected, bounds))
}

fn same(found: f64, expected: f64) -> bool {
    found == expected || (found.is_nan() && expected.is_nan())
}

fn close(found: f64, expected: f64, tolerance: Tolerance) -> bool {
    let allowed = tolerance.absolute + tolerance.relative * expected.abs();
    same(found, expected) || (expected.is_finite() && (found - expected).abs() <= allowed)
}

/// Both the largest absolute and the largest relative error stay within the
/// multiple. As in the recording, elements expected to be zero have no
/// relative error.
fn within_recorded(pairs: impl Iterator<Item = (f64, f64)>, recorded: Recorded) -> bool {
    let (mut absolute, mut relative) = (0.0f64, 0.0f64);
    for (found, expected) in pairs.filter(|&(f, e)| !same(f, e)) {
        let difference = (found - expected).abs();
        if !difference.is_finite() {
            return false;
        }
        absolute = absolute.max(difference);
        if expected != 0.0 {
            relative = relative.max(difference / expected.abs());
        }
    }
    absolute <= RECORDED_FACTOR * recorded.absolute && relative <= RECORDED_FACTOR * recorded.relative
}

fn describe(found: &[f64], expected: &[f64], bounds: &Bounds) -> String {
    let loose = |i: &usize| !bounds.tolerances.iter().any(|t| close(found[*i], expected[*i], *t));
    let outside: Vec<usize> = (0..expected.len()).filter(loose).collect();
    // NaN against a number first, then the largest difference.
    let distance = |i: usize| match (found[i] - expected[i]).abs() {
        difference if difference.is_nan() => f64::INFINITY,
        difference => difference,
    };
    let worst = outside.iter().copied().max_by(|&a, &b| distance(a).total_cmp(&distance(b)));
    let worst = worst.unwrap_or_default();
    format!(
        "{} of {} elements outside the tolerance: [{worst}] is {:e}, expected {:e} (PyTorch's error {:?})",
        outside.len(),
        expected.len(),
        found[worst],
        expected[worst],
        bounds.recorded.map(|r| (r.absolute, r.relative)),
    )
}
