//! Index arithmetic: affine combinations of a kernel's axes.

use std::fmt;

use smallvec::SmallVec;

use crate::kernel::nest::LoopAxis;

/// Number of an axis of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AxisId(pub u16);

impl AxisId {
    /// As an index into the kernel's axes.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// `offset + sum(coefficient * axis)`: terms ascending by axis, no
/// coefficient 0, no axis of extent 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Affine {
    /// The value where all axes are 0.
    pub offset: i64,
    /// LoopAxis and coefficient.
    pub terms: SmallVec<[(AxisId, i64); 2]>,
}

impl Affine {
    /// A number.
    pub fn constant(offset: i64) -> Affine {
        Affine { offset, terms: SmallVec::new() }
    }
    /// An axis by itself.
    pub fn axis(axis: AxisId) -> Affine {
        Affine { offset: 0, terms: SmallVec::from_slice(&[(axis, 1)]) }
    }
    /// The coefficient of an axis; 0 if it does not occur.
    pub fn coefficient(&self, axis: AxisId) -> i64 {
        self.terms.iter().find(|term| term.0 == axis).map_or(0, |term| term.1)
    }
    /// `self * factor`.
    #[must_use]
    pub fn times(&self, factor: i64) -> Affine {
        if factor == 0 {
            return Affine::default();
        }
        let terms = self.terms.iter().map(|&(axis, c)| (axis, c.wrapping_mul(factor))).collect();
        Affine { offset: self.offset.wrapping_mul(factor), terms }
    }
    /// `self + other`.
    #[must_use]
    pub fn plus(&self, other: &Affine) -> Affine {
        let mut sum = self.clone();
        sum.offset = sum.offset.wrapping_add(other.offset);
        for &(axis, c) in &other.terms {
            match sum.terms.binary_search_by_key(&axis, |term| term.0) {
                Ok(i) => {
                    sum.terms[i].1 += c;
                    if sum.terms[i].1 == 0 {
                        sum.terms.remove(i);
                    }
                }
                Err(i) => sum.terms.insert(i, (axis, c)),
            }
        }
        sum
    }
    /// The least and greatest value over the axes' ranges.
    pub fn range(&self, axes: &[LoopAxis]) -> (i64, i64) {
        self.range_of(|axis| (0, axes[axis.index()].extent as i64 - 1))
    }
    /// The least and greatest value where axes have so many first and last positions.
    pub fn range_of(&self, positions: impl Fn(AxisId) -> (i64, i64)) -> (i64, i64) {
        let (mut low, mut high) = (self.offset, self.offset);
        for &(axis, c) in &self.terms {
            let (first, last) = positions(axis);
            let (one, other) = (c.saturating_mul(first), c.saturating_mul(last));
            low = low.saturating_add(one.min(other));
            high = high.saturating_add(one.max(other));
        }
        (low, high)
    }
    /// The value at a point: one position per axis.
    pub fn at(&self, point: &[usize]) -> i64 {
        self.terms.iter().fold(self.offset, |sum, &(axis, c)| sum + c * point[axis.index()] as i64)
    }
}

impl fmt::Display for Affine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        for &(axis, c) in &self.terms {
            parts.push(if c == 1 { format!("i{}", axis.0) } else { format!("{c}*i{}", axis.0) });
        }
        if self.offset != 0 || parts.is_empty() {
            parts.push(self.offset.to_string());
        }
        write!(f, "{}", parts.join(" + "))
    }
}
