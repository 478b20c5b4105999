//! Validation of optimizers' options.

use crate::base::OpError;
use crate::tensor::compose::CallSite;

/// An option of a rule that makes no sense, as [`Rule::check`](crate::optim::Rule::check) finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What the option takes.
    pub expected: String,
    /// What it was given.
    pub found: String,
}

impl Refused {
    /// An option that takes something else.
    pub fn new(expected: impl Into<String>, found: impl Into<String>) -> Refused {
        Refused { expected: expected.into(), found: found.into() }
    }

    /// The error of the call that gave the option.
    pub(super) fn at(self, site: CallSite) -> OpError {
        OpError::new(site.name, site.span, self.expected, self.found)
    }
}

/// Fails unless all these numbers are finite and at least 0.
pub(super) fn at_least_0<const N: usize>(options: [(&str, f64); N]) -> Result<(), Refused> {
    let wrong = |(_, number): &(&str, f64)| !(number.is_finite() && *number >= 0.0);
    match options.into_iter().find(wrong) {
        Some((name, number)) => Err(Refused::new(format!("{name} of at least 0"), number.to_string())),
        None => Ok(()),
    }
}

/// Fails unless both are shares of what came before, less than all of it.
pub(super) fn betas((first, second): (f64, f64)) -> Result<(), Refused> {
    let share = |beta: f64| (0.0..1.0).contains(&beta);
    if share(first) && share(second) {
        return Ok(());
    }
    Err(Refused::new("betas of at least 0 and less than 1", format!("{first} and {second}")))
}
