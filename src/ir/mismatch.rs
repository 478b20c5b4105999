//! Errors of inference: how operands mismatch.

/// A type rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What the rule asks for.
    pub expected: String,
    /// What the operands are.
    pub found: String,
    /// Whether the operands are on different devices.
    pub devices_differ: bool,
}

impl Mismatch {
    /// A mismatch from its two halves.
    pub fn new(expected: impl Into<String>, found: impl Into<String>) -> Mismatch {
        Mismatch { expected: expected.into(), found: found.into(), devices_differ: false }
    }
}
