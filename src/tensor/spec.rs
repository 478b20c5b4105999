//! Shape and size arguments: `[2, -1]`, `(b, t, -1)`, `3`, a [`Shape`].

use smallvec::SmallVec;

use crate::base::Shape;

/// Extents as a user writes them; what -1 stands for is the operation's business.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::zeros([6, 4], ());
/// assert_eq!(x.reshape([2, 3, -1]).dims()?, [2, 3, 4]);
/// assert_eq!(x.reshape((2usize, -1)).dims()?, [2, 12]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ShapeSpec(pub SmallVec<[i64; 4]>);

/// One extent: any of Rust's usual integers.
pub trait Extent: Copy {
    /// The extent as `i64`; what does not fit becomes `i64::MAX`.
    fn extent(self) -> i64;
}

macro_rules! extent {
    ($($t:ty),*) => {$(
        impl Extent for $t {
            fn extent(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }
    )*};
}
extent!(i32, i64, u32, usize);

/// What can name a shape: an integer, an array, slice or vector of integers,
/// a tuple of integers of different types, a [`Shape`], or `()` for rank 0.
pub trait IntoShapeSpec {
    /// The extents named.
    fn into_shape_spec(self) -> ShapeSpec;
}

impl IntoShapeSpec for ShapeSpec {
    fn into_shape_spec(self) -> ShapeSpec {
        self
    }
}
impl IntoShapeSpec for () {
    fn into_shape_spec(self) -> ShapeSpec {
        ShapeSpec::default()
    }
}
impl IntoShapeSpec for Shape {
    fn into_shape_spec(self) -> ShapeSpec {
        self[..].into_shape_spec()
    }
}
impl IntoShapeSpec for &Shape {
    fn into_shape_spec(self) -> ShapeSpec {
        self[..].into_shape_spec()
    }
}
impl<T: Extent> IntoShapeSpec for T {
    fn into_shape_spec(self) -> ShapeSpec {
        ShapeSpec(SmallVec::from_slice(&[self.extent()]))
    }
}
impl<T: Extent> IntoShapeSpec for &[T] {
    fn into_shape_spec(self) -> ShapeSpec {
        ShapeSpec(self.iter().map(|&n| n.extent()).collect())
    }
}
impl<T: Extent, const N: usize> IntoShapeSpec for [T; N] {
    fn into_shape_spec(self) -> ShapeSpec {
        self[..].into_shape_spec()
    }
}
impl<T: Extent, const N: usize> IntoShapeSpec for &[T; N] {
    fn into_shape_spec(self) -> ShapeSpec {
        self[..].into_shape_spec()
    }
}
impl<T: Extent> IntoShapeSpec for Vec<T> {
    fn into_shape_spec(self) -> ShapeSpec {
        self[..].into_shape_spec()
    }
}
impl<T: Extent> IntoShapeSpec for &Vec<T> {
    fn into_shape_spec(self) -> ShapeSpec {
        self[..].into_shape_spec()
    }
}

macro_rules! tuple_spec {
    ($(($($t:ident $i:tt),*))*) => {$(
        impl<$($t: Extent),*> IntoShapeSpec for ($($t,)*) {
            fn into_shape_spec(self) -> ShapeSpec {
                ShapeSpec(SmallVec::from_slice(&[$(self.$i.extent()),*]))
            }
        }
    )*};
}
tuple_spec! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

/// One number, or a list of them: the argument of `split` and `tensor_split`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::zeros([5], ());
/// assert_eq!((x.split(2, 0).len(), x.split([1, 4], 0).len()), (3, 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OneOrMany {
    /// A number by itself.
    One(i64),
    /// A list of numbers.
    Many(SmallVec<[i64; 4]>),
}

/// What can be one number or a list of them.
pub trait IntoOneOrMany {
    /// The number or numbers.
    fn into_one_or_many(self) -> OneOrMany;
}

impl<T: Extent> IntoOneOrMany for T {
    fn into_one_or_many(self) -> OneOrMany {
        OneOrMany::One(self.extent())
    }
}
impl<T: Extent> IntoOneOrMany for &[T] {
    fn into_one_or_many(self) -> OneOrMany {
        OneOrMany::Many(self.into_shape_spec().0)
    }
}
impl<T: Extent, const N: usize> IntoOneOrMany for [T; N] {
    fn into_one_or_many(self) -> OneOrMany {
        OneOrMany::Many(self.into_shape_spec().0)
    }
}
impl<T: Extent> IntoOneOrMany for Vec<T> {
    fn into_one_or_many(self) -> OneOrMany {
        OneOrMany::Many(self.into_shape_spec().0)
    }
}
impl<T: Extent> IntoOneOrMany for &Vec<T> {
    fn into_one_or_many(self) -> OneOrMany {
        OneOrMany::Many(self.into_shape_spec().0)
    }
}
