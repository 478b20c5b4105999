//! Shapes: extents of the axes, and the arithmetic on them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::str::FromStr;

use smallvec::SmallVec;

use crate::base::error::Error;

/// A short list of extents, strides or axis numbers, inline up to four.
pub type Dims = SmallVec<[usize; 4]>;

/// The extents of a tensor's axes. Rank 0 (a single element) and extents of
/// 0 (no elements) are shapes like any other. Derefs to `[usize]`.
#[derive(Eq, Default)]
pub struct Shape(pub Dims);

impl PartialEq for Shape {
    /// Every node compares shapes, and a call to compare memory takes longer
    /// than looking at a few extents.
    #[inline]
    fn eq(&self, other: &Shape) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(one, other)| one == other)
    }
}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Clone for Shape {
    /// Every node clones a shape, and the list's own `clone` goes one extent
    /// at a time.
    #[inline]
    fn clone(&self) -> Shape {
        if self.0.spilled() {
            return Shape(self.0.clone());
        }
        let mut inline = [0; 4];
        inline.iter_mut().zip(&self.0).for_each(|(copy, &extent)| *copy = extent);
        Shape(Dims::from_buf_and_len(inline, self.0.len()))
    }
}

impl Shape {
    /// The most axes of a tensor: their numbers are bytes.
    pub const MAX_RANK: usize = u8::MAX as usize;

    /// The shape of a single element.
    pub fn scalar() -> Shape {
        Shape(Dims::new())
    }
    /// A shape from its extents.
    pub fn new(dims: &[usize]) -> Shape {
        Shape(Dims::from_slice(dims))
    }
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }
    /// Number of elements; saturates at `usize::MAX`, and inference refuses such
    /// shapes.
    pub fn numel(&self) -> usize {
        volume(&self.0)
    }
    /// Row-major strides, in elements.
    pub fn strides(&self) -> SmallVec<[i64; 4]> {
        let mut strides: SmallVec<[i64; 4]> = SmallVec::from_elem(1, self.rank());
        for axis in (0..self.rank().saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1].saturating_mul(self.0[axis + 1].max(1) as i64);
        }
        strides
    }
    /// The shape both operands expand to, aligning axes from the right;
    /// `None` when some pair of extents differs and neither is 1.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        if self == other {
            return Some(self.clone());
        }
        let rank = self.rank().max(other.rank());
        let at = |s: &Shape, i: usize| if i + s.rank() < rank { 1 } else { s.0[i + s.rank() - rank] };
        let mut dims = Dims::with_capacity(rank);
        for i in 0..rank {
            dims.push(match (at(self, i), at(other, i)) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                (_, _) => return None,
            });
        }
        Some(Shape(dims))
    }
}

/// The number of elements that extents span; saturates at `usize::MAX`.
pub(crate) fn volume(extents: &[usize]) -> usize {
    product(extents.iter().copied())
}

/// [`volume`] of extents one by one.
pub(crate) fn product(extents: impl IntoIterator<Item = usize>) -> usize {
    // Zeros make 0 of what has saturated too.
    extents.into_iter().fold(1, usize::saturating_mul)
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.pad(&format!("[{}]", text.join(", ")))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Shape {
    type Err = Error;
    /// Reads what `Display` writes (`[2, 3]`), with or without the brackets.
    fn from_str(text: &str) -> Result<Shape, Error> {
        let fail = || Error::Parse {
            what: "shape",
            expected: "extents of at least 0 such as [2, 3]".into(),
            found: text.into(),
        };
        let bare = text.trim();
        let inner = match bare.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or_else(fail)?.trim(),
            None => bare,
        };
        if inner.is_empty() {
            return if bare.is_empty() { Err(fail()) } else { Ok(Shape::scalar()) };
        }
        inner
            .split(',')
            .map(|extent| extent.trim().parse().map_err(|_| fail()))
            .collect::<Result<_, _>>()
            .map(Shape)
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape::new(dims)
    }
}
impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Shape {
        Shape::new(&dims)
    }
}
impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Shape {
        Shape(Dims::from_vec(dims))
    }
}
impl From<&Vec<usize>> for Shape {
    fn from(dims: &Vec<usize>) -> Shape {
        Shape::new(dims)
    }
}
impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Shape {
        shape.clone()
    }
}
impl From<Dims> for Shape {
    fn from(dims: Dims) -> Shape {
        Shape(dims)
    }
}
impl From<()> for Shape {
    fn from((): ()) -> Shape {
        Shape::scalar()
    }
}
impl From<usize> for Shape {
    fn from(n: usize) -> Shape {
        Shape::new(&[n])
    }
}
