//! Positions along a node's axes while lowering: affine in the kernel's axes,
//! with computed parts where they cannot be.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::Shape;
use crate::kernel::affine::{Affine, AxisId};
use crate::kernel::expr::ExprId;
use crate::kernel::nest::LoopAxis;

/// A computed part of a position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Computed {
    /// An `I64` expression, in `0..extent`.
    pub index: ExprId,
    /// Its factor.
    pub factor: i64,
    /// Positions the expression ranges over.
    pub extent: usize,
    /// Whether it comes from data, and so may be out of range.
    pub checked: bool,
    /// The mixed-radix digit it is, if a number was delinearized for it.
    pub digit: Option<MixedRadixDigit>,
}

/// A digit of a number in a mixed radix, `number / divisor % extent`: what delinearizing gives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MixedRadixDigit {
    /// The number.
    pub number: Arc<Position>,
    /// The product of the extents after the digit's.
    pub divisor: i64,
    /// The product of all digits' extents.
    pub count: i64,
}

/// A position along one axis of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Position {
    /// What the kernel's axes determine.
    pub affine: Affine,
    /// What is computed.
    pub computed: SmallVec<[Computed; 1]>,
}

/// Positions along all axes of a node.
pub type Positions = SmallVec<[Position; 4]>;

impl From<Affine> for Position {
    fn from(affine: Affine) -> Position {
        Position { affine, computed: SmallVec::new() }
    }
}

impl Position {
    /// Always `offset`.
    pub fn constant(offset: i64) -> Position {
        Affine::constant(offset).into()
    }
    /// `self * factor`.
    #[must_use]
    pub fn times(&self, factor: i64) -> Position {
        let mut computed = self.computed.clone();
        computed.iter_mut().for_each(|part| part.factor *= factor);
        if factor == 0 {
            computed.clear();
        }
        Position { affine: self.affine.times(factor), computed }
    }
    /// `self + other`.
    #[must_use]
    pub fn plus(&self, other: &Position) -> Position {
        let mut sum = self.clone();
        sum.affine = sum.affine.plus(&other.affine);
        sum.computed.extend(other.computed.iter().cloned());
        sum
    }
    /// The digit that it is, with its extent.
    fn digit(&self) -> Option<(&MixedRadixDigit, i64)> {
        let [part] = &self.computed[..] else { return None };
        let alone = part.factor == 1 && self.affine == Affine::default();
        part.digit.as_ref().filter(|_| alone).map(|digit| (digit, part.extent as i64))
    }
    /// `self + offset`.
    #[must_use]
    pub fn offset(&self, offset: i64) -> Position {
        let mut sum = self.clone();
        sum.affine.offset += offset;
        sum
    }
}

/// The row-major number of an element, from its positions.
pub fn linear(positions: &[Position], shape: &Shape) -> Position {
    let strides = shape.strides();
    let terms = positions.iter().zip(&strides).map(|(p, &s)| p.times(s));
    terms.fold(Position::default(), |sum, term| sum.plus(&term))
}

/// Positions and their strides; where all mixed-radix digits of a number index contiguous
/// memory, the number itself.
pub fn relinearize<'a>(at: &'a Positions, strides: &[i64]) -> SmallVec<[(&'a Position, i64); 4]> {
    let mut parts = SmallVec::new();
    let mut end = at.len();
    while end > 0 {
        let stride = strides[end - 1];
        match trailing_digits(&at[..end], strides) {
            Some((number, start)) => (parts.push((number, stride)), end = start),
            None => (parts.push((&at[end - 1], stride)), end -= 1),
        };
    }
    parts.reverse();
    parts
}

/// The number whose digits end these positions, and where they start.
fn trailing_digits<'a>(at: &'a [Position], strides: &[i64]) -> Option<(&'a Position, usize)> {
    let (MixedRadixDigit { number, count, .. }, _) = at.last()?.digit()?;
    let mut reached = 1;
    for (i, position) in at.iter().enumerate().rev() {
        if let Some((digit, extent)) = position.digit() {
            let next = digit.number == *number && digit.divisor == reached;
            if !next || strides[i] != reached * strides[at.len() - 1] {
                return None;
            }
            reached *= extent;
        } else if *position != Position::default() {
            return None;
        }
        if reached == *count {
            return Some((number, i));
        }
    }
    None
}

/// The result of dividing an affine position.
pub enum Division {
    /// An affine quotient.
    Affine(Affine),
    /// Affine once this axis is split into an outer and an inner one of this extent.
    Split(AxisId, usize),
    /// Not affine.
    NotAffine,
}

/// `floor(value / divisor) mod modulus`, for values that are never negative.
pub fn divide(value: &Affine, divisor: i64, modulus: i64, axes: &[LoopAxis]) -> Division {
    let (quotient, rest) = separate(value, divisor);
    if !fits(&rest, divisor, axes) {
        return split(&rest, divisor, axes);
    }
    let (low, high) = quotient.range(axes);
    if low >= 0 && high < modulus {
        return Division::Affine(quotient);
    }
    let (_, kept) = separate(&quotient, modulus);
    if fits(&kept, modulus, axes) { Division::Affine(kept) } else { split(&kept, modulus, axes) }
}

/// The terms that `divisor` divides, divided; and the others, with the
/// remainder of the offset.
fn separate(value: &Affine, divisor: i64) -> (Affine, Affine) {
    let mut quotient = Affine::constant(value.offset.div_euclid(divisor));
    let mut rest = Affine::constant(value.offset.rem_euclid(divisor));
    for &(axis, c) in &value.terms {
        if c % divisor == 0 {
            quotient.terms.push((axis, c / divisor));
        } else {
            rest.terms.push((axis, c));
        }
    }
    (quotient, rest)
}

fn fits(rest: &Affine, divisor: i64, axes: &[LoopAxis]) -> bool {
    let (low, high) = rest.range(axes);
    low >= 0 && high < divisor
}

/// The first axis that a split at the divisor's boundary would make affine.
fn split(rest: &Affine, divisor: i64, axes: &[LoopAxis]) -> Division {
    for &(axis, c) in &rest.terms {
        let extent = axes[axis.index()].extent;
        let inner = divisor / c.abs();
        let divides = divisor % c.abs() == 0 && inner > 1;
        if divides && (inner as usize) < extent && extent.is_multiple_of(inner as usize) {
            return Division::Split(axis, inner as usize);
        }
    }
    Division::NotAffine
}

/// The axes of a position that runs over `extent` values exactly once each,
/// outermost first; `None` for any other position.
pub fn bijective_axes(position: &Position, extent: usize, axes: &[LoopAxis]) -> Option<Vec<AxisId>> {
    if position.affine.offset != 0 || !position.computed.is_empty() {
        return None;
    }
    let mut terms = position.affine.terms.clone();
    terms.sort_by_key(|term| std::cmp::Reverse(term.1));
    let mut reached = 1i64;
    for &(axis, c) in terms.iter().rev() {
        if c != reached {
            return None;
        }
        reached *= axes[axis.index()].extent as i64;
    }
    (reached == extent as i64).then(|| terms.iter().map(|term| term.0).collect())
}
