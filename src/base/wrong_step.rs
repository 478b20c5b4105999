//! What `KILN_CHECK` says of the first step that is wrong.

use std::fmt;

use crate::base::device::Device;
use crate::base::shape::Shape;
use crate::base::span::Span;

/// A step of a plan that computed something else than its operations mean.
#[derive(Clone, Debug, PartialEq)]
pub struct WrongStep {
    /// The step, as plans name it.
    pub step: String,
    /// Where it ran.
    pub device: Device,
    /// The shape of the result that is wrong.
    pub shape: Shape,
    /// The first wrong element, counted row by row.
    pub element: usize,
    /// What the interpreter computes.
    pub expected: f64,
    /// How far a device's result may be from that.
    pub bound: f64,
    /// What the step computed.
    pub found: f64,
    /// What it read: types and first values, in the order of its bindings.
    pub inputs: Vec<String>,
    /// What it computes: operations, types and the user's lines.
    pub operations: Vec<String>,
    /// The user's line that asked for the result.
    pub span: Span,
}

impl WrongStep {
    /// The wrong element's index along each axis.
    pub fn index(&self) -> Vec<usize> {
        let mut rest = self.element;
        let mut index: Vec<usize> = (0..self.shape.rank())
            .rev()
            .map(|axis| {
                let at = rest % self.shape[axis];
                rest /= self.shape[axis];
                at
            })
            .collect();
        index.reverse();
        index
    }
}

impl fmt::Display for WrongStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongStep { step, device, shape, expected, bound, found, span, .. } = self;
        let index = self.index();
        let right = if *bound == 0.0 { format!("{expected}") } else { format!("{expected} ± {bound:.1e}") };
        writeln!(f, "{step} on {device} computed {found}, not {right}, at {index:?} of {shape}")?;
        self.inputs.iter().enumerate().try_for_each(|(i, input)| writeln!(f, "  input {i}: {input}"))?;
        self.operations.iter().try_for_each(|operation| writeln!(f, "  computes {operation}"))?;
        write!(f, "  at {span}")
    }
}
