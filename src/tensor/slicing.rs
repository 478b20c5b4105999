//! Slicing: `x.i((.., r(1, -1), 0))`, with Python's rules for ranges.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use smallvec::SmallVec;

use crate::base::{Dims, Result, Shape};
use crate::ir::{Op, SliceAxis};
use crate::tensor::Tensor;
use crate::tensor::advanced;
use crate::tensor::compose::CallSite;
use crate::tensor::spec::Extent;

/// A range of positions: `start`, `start + step`, ... before `stop`.
///
/// Negative positions count from the end; what lies outside the axis is cut off, never an error.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::from([0i64, 1, 2, 3, 4]);
/// assert_eq!(x.i(r(1, -1).step(2)).to_vec::<i64>()?, [1, 3]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceRange {
    /// First position; the first there is, in the direction of the step, if `None`.
    pub start: Option<i64>,
    /// First position not taken; beyond the last there is if `None`.
    pub stop: Option<i64>,
    /// Distance between positions; negative goes backwards.
    pub step: i64,
}

/// What is taken along one axis.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::tensor::slicing::Index;
/// let x = Tensor::zeros([2, 3], ());
/// assert_eq!(x.i(vec![Index::At(0), Index::NewAxis]).dims()?, [1, 3]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Index {
    /// A range; the axis stays.
    Range(SliceRange),
    /// One position, counted from the end when negative; the axis goes.
    At(i64),
    /// No axis taken, one of extent 1 added.
    NewAxis,
    /// As many full ranges as there are axes left.
    Ellipsis,
    /// The positions an integer tensor holds; its axes replace this one.
    Tensor(Tensor),
}

/// A new axis of extent 1 in [`Tensor::i`].
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// assert_eq!(Tensor::zeros([2, 3], ()).i((.., NewAxis)).dims()?, [2, 1, 3]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NewAxis;

/// All axes not named in [`Tensor::i`]: Python's `...`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// assert_eq!(Tensor::zeros([2, 3, 4], ()).i((Ellipsis, 0)).dims()?, [2, 3]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ellipsis;

/// One end of a range: a number, or `..` for none.
pub trait Bound {
    /// The position, if there is one.
    fn bound(self) -> Option<i64>;
}
impl Bound for RangeFull {
    fn bound(self) -> Option<i64> {
        None
    }
}
impl<T: Extent> Bound for T {
    fn bound(self) -> Option<i64> {
        Some(self.extent())
    }
}

/// The range from `start` to before `stop`.
///
/// Either may be negative or `..`: `r(1, -1)`, `r(.., 5).step(2)`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::from([0i64, 1, 2, 3, 4]);
/// assert_eq!(x.i(r(-2, ..)).to_vec::<i64>()?, [3, 4]);
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn r(start: impl Bound, stop: impl Bound) -> SliceRange {
    SliceRange { start: start.bound(), stop: stop.bound(), step: 1 }
}

/// What can say what is taken along an axis: `..` (all), ranges of Rust's
/// usual integers, [`r`], an integer, [`NewAxis`], [`Ellipsis`], a tensor of
/// positions.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::zeros([4, 5], ());
/// assert_eq!(x.i((1..3, r(.., -1))).dims()?, [2, 4]);
/// assert_eq!(x.i((0, NewAxis)).dims()?, [1, 5]);
/// # Ok::<(), kiln::Error>(())
/// ```
pub trait IntoIndex {
    /// What is taken.
    fn into_index(self) -> Index;

    /// Every `step`-th position of a range, backwards if negative.
    fn step(self, step: i64) -> Index
    where
        Self: Sized,
    {
        match self.into_index() {
            Index::Range(range) => Index::Range(range.step(step)),
            other @ (Index::At(_) | Index::NewAxis | Index::Ellipsis | Index::Tensor(_)) => other,
        }
    }
}

impl IntoIndex for Index {
    fn into_index(self) -> Index {
        self
    }
}
impl IntoIndex for SliceRange {
    fn into_index(self) -> Index {
        Index::Range(self)
    }
}
impl IntoIndex for NewAxis {
    fn into_index(self) -> Index {
        Index::NewAxis
    }
}
impl IntoIndex for Ellipsis {
    fn into_index(self) -> Index {
        Index::Ellipsis
    }
}
impl IntoIndex for Tensor {
    fn into_index(self) -> Index {
        Index::Tensor(self)
    }
}
impl IntoIndex for &Tensor {
    fn into_index(self) -> Index {
        Index::Tensor(self.clone())
    }
}
impl IntoIndex for RangeFull {
    fn into_index(self) -> Index {
        Index::Range(r(.., ..))
    }
}
impl<T: Extent> IntoIndex for T {
    fn into_index(self) -> Index {
        Index::At(self.extent())
    }
}
impl<T: Extent> IntoIndex for Range<T> {
    fn into_index(self) -> Index {
        Index::Range(r(self.start, self.end))
    }
}
impl<T: Extent> IntoIndex for RangeFrom<T> {
    fn into_index(self) -> Index {
        Index::Range(r(self.start, ..))
    }
}
impl<T: Extent> IntoIndex for RangeTo<T> {
    fn into_index(self) -> Index {
        Index::Range(r(.., self.end))
    }
}
impl<T: Extent> IntoIndex for RangeInclusive<T> {
    fn into_index(self) -> Index {
        Index::Range(SliceRange { stop: after(*self.end()), ..r(*self.start(), ..) })
    }
}
impl<T: Extent> IntoIndex for RangeToInclusive<T> {
    fn into_index(self) -> Index {
        Index::Range(SliceRange { stop: after(self.end), ..r(.., ..) })
    }
}

/// The position after one that is taken; after -1, the last, there is none.
fn after(last: impl Extent) -> Option<i64> {
    last.extent().checked_add(1).filter(|&stop| stop != 0)
}

/// What [`Tensor::i`] takes: one [`IntoIndex`], a tuple of up to eight, or a
/// list of [`Index`].
pub trait IntoIndices {
    /// What is taken along each axis.
    fn into_indices(self) -> SmallVec<[Index; 4]>;
}

impl<T: IntoIndex> IntoIndices for T {
    fn into_indices(self) -> SmallVec<[Index; 4]> {
        SmallVec::from_iter([self.into_index()])
    }
}
impl IntoIndices for &[Index] {
    fn into_indices(self) -> SmallVec<[Index; 4]> {
        self.iter().cloned().collect()
    }
}
impl IntoIndices for Vec<Index> {
    fn into_indices(self) -> SmallVec<[Index; 4]> {
        self.into()
    }
}

macro_rules! tuple_indices {
    ($(($($t:ident $i:tt),*))*) => {$(
        impl<$($t: IntoIndex),*> IntoIndices for ($($t,)*) {
            fn into_indices(self) -> SmallVec<[Index; 4]> {
                SmallVec::from_iter([$(self.$i.into_index()),*])
            }
        }
    )*};
}
tuple_indices! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

impl Tensor {
    /// A part of the tensor: `x.i((.., r(1, -1), 0))`.
    ///
    /// Ranges, positions, new axes and tensors of positions, one for each axis; axes not named are
    /// taken whole. Tensors of positions replace their axes as in PyTorch: they broadcast together,
    /// and their axes stand where the first of them stood if they are neighbours, else at the
    /// front; negative positions count from the end.
    ///
    /// Invalid for more indices than axes or a position out of range. PyTorch: `x[..]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[0i64, 1, 2], [3, 4, 5]]);
    /// assert_eq!(x.i((.., r(1, ..))).to_vec::<i64>()?, [1, 2, 4, 5]);
    /// assert_eq!(x.i((-1, 0)).to_vec::<i64>()?, [3]);
    /// assert_eq!(x.i((.., Tensor::from([2i64, 0]))).to_vec::<i64>()?, [2, 0, 5, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn i(&self, indices: impl IntoIndices) -> Tensor {
        let site = CallSite::here("i");
        let indices = indices.into_indices();
        site.build(&[self], || {
            let indices = one_per_axis(site, self, indices)?;
            let (part, tensors) = basic(site, self, &indices)?;
            if tensors.iter().all(Option::is_none) {
                return Ok(part);
            }
            advanced::take_at(site, &part, &tensors)
        })
    }
}

/// The indices with the ellipsis, or the missing end, written out.
fn one_per_axis(site: CallSite, x: &Tensor, indices: SmallVec<[Index; 4]>) -> Result<SmallVec<[Index; 4]>> {
    let takes = |index: &&Index| !matches!(index, Index::NewAxis | Index::Ellipsis);
    let named = indices.iter().filter(takes).count();
    let dots = indices.iter().filter(|index| matches!(index, Index::Ellipsis)).count();
    if named > x.rank() || dots > 1 {
        let expected = format!("one index for each of {} axes at most, and one ellipsis", x.rank());
        return Err(site.error(expected, format!("{named} and {dots}"), &[x]));
    }
    let rest = || std::iter::repeat_n(Index::Range(r(.., ..)), x.rank() - named);
    let mut full: SmallVec<[Index; 4]> = SmallVec::new();
    for index in indices {
        match index {
            Index::Ellipsis => full.extend(rest()),
            Index::Range(_) | Index::At(_) | Index::NewAxis | Index::Tensor(_) => full.push(index),
        }
    }
    if dots == 0 {
        full.extend(rest());
    }
    Ok(full)
}

/// The ranges, positions and new axes applied; the tensors left, by axis of
/// the result.
fn basic(site: CallSite, x: &Tensor, indices: &[Index]) -> Result<(Tensor, Vec<Option<Tensor>>)> {
    let shape = x.shape();
    let (mut slices, mut flips) = (Vec::with_capacity(shape.rank()), Vec::new());
    let (mut dims, mut tensors) = (Dims::new(), Vec::new());
    for index in indices {
        let axis = slices.len();
        let mut kept = None;
        let steps = match index {
            Index::NewAxis => {
                dims.push(1);
                tensors.push(None);
                continue;
            }
            Index::At(position) => Steps::at(self::position(site, x, axis, *position)?),
            Index::Range(range) => {
                let steps = range.resolve(site, x, axis)?;
                kept = Some(steps.count());
                steps
            }
            // The ellipsis is written out by now.
            Index::Tensor(_) | Index::Ellipsis => {
                kept = Some(shape[axis]);
                r(.., ..).resolve(site, x, axis)?
            }
        };
        if let Some(extent) = kept {
            dims.push(extent);
            tensors.push(if let Index::Tensor(tensor) = index { Some(tensor.clone()) } else { None });
        }
        if steps.backwards {
            flips.push(axis);
        }
        slices.push(SliceAxis { start: steps.start, stop: steps.stop, step: steps.step });
    }
    let whole = slices.iter().zip(&*shape).all(|(s, &n)| s.start == 0 && s.stop == n && s.step == 1);
    let part = if whole { x.clone() } else { site.apply(Op::Slice(slices.into()), &[x]) };
    Ok((site.reshape(&site.flip(&part, &flips), &Shape(dims)), tensors))
}

/// A position counted from the end when negative.
///
/// # Errors
/// A position outside the axis.
pub(crate) fn position(site: CallSite, x: &Tensor, axis: usize, position: i64) -> Result<usize> {
    let extent = x.shape()[axis] as i64;
    if (-extent..extent).contains(&position) {
        return Ok(position.rem_euclid(extent) as usize);
    }
    let expected = match extent {
        0 => format!("no position on axis {axis}, whose extent is 0"),
        _ => format!("a position in {}..={} on axis {axis} of extent {extent}", -extent, extent - 1),
    };
    Err(site.error(expected, position.to_string(), &[x]))
}

/// The position a bound of a range stands for: counted from the end when
/// negative, and cut off at the ends.
pub(crate) fn clamped(bound: i64, extent: usize) -> usize {
    let extent = extent as i64;
    let wrapped = if bound < 0 { bound.saturating_add(extent) } else { bound };
    wrapped.clamp(0, extent) as usize
}

/// A range within an axis: ascending positions, to be reversed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    /// Lowest position.
    pub start: usize,
    /// First position above all taken.
    pub stop: usize,
    /// Distance between positions, at least 1.
    pub step: usize,
    /// Taken from the highest to the lowest.
    pub backwards: bool,
}

impl Steps {
    fn at(position: usize) -> Steps {
        Steps { start: position, stop: position + 1, step: 1, backwards: false }
    }

    /// Number of positions.
    pub(crate) fn count(self) -> usize {
        (self.stop - self.start).div_ceil(self.step)
    }

    /// These positions along an axis of `x`.
    pub(crate) fn take(self, site: CallSite, x: &Tensor, axis: usize) -> Tensor {
        let part = site.slice(x, axis, self.start, self.stop, self.step);
        if self.backwards { site.flip(&part, &[axis]) } else { part }
    }
}

impl SliceRange {
    /// Every `step`-th of the positions, backwards if negative.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0i64, 1, 2, 3, 4]);
    /// assert_eq!(x.i(r(.., ..).step(-2)).to_vec::<i64>()?, [4, 2, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn step(self, step: i64) -> SliceRange {
        SliceRange { step: self.step.saturating_mul(step), ..self }
    }

    /// The positions this range takes from an axis of `x`.
    ///
    /// # Errors
    /// A step of 0.
    pub(crate) fn resolve(self, site: CallSite, x: &Tensor, axis: usize) -> Result<Steps> {
        let extent = x.shape()[axis];
        if self.step == 0 {
            return Err(site.error("a step other than 0", format!("0 on axis {axis}"), &[x]));
        }
        let step = usize::try_from(self.step.unsigned_abs()).unwrap_or(usize::MAX);
        let at = |bound: Option<i64>, missing: usize| bound.map_or(missing, |b| clamped(b, extent));
        if self.step > 0 {
            let start = at(self.start, 0);
            return Ok(Steps { start, stop: at(self.stop, extent).max(start), step, backwards: false });
        }
        // Backwards, shifted by one so that 0 stands for "before the first".
        let shifted = |bound: i64| clamped(bound, extent).saturating_add(1).min(extent);
        let before = |bound: i64| if bound < -(extent as i64) { 0 } else { shifted(bound) };
        let first = self.start.map_or(extent, before);
        let last = self.stop.map_or(0, before);
        let count = first.saturating_sub(last).div_ceil(step);
        if count == 0 {
            return Ok(Steps { start: 0, stop: 0, step: 1, backwards: false });
        }
        Ok(Steps { start: first - 1 - (count - 1) * step, stop: first, step, backwards: true })
    }
}

#[cfg(test)]
mod tests;
