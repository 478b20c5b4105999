//! The operations that rows, columns, scans and scatters combine elements by, each stated once.

use crate::micro::lane::Number;

/// An associative operation on elements of type `T`, with its identity.
pub(super) trait Monoid<T>: Copy + 'static {
    /// What combined with any element is that element.
    const IDENTITY: T;
    /// Combines two elements.
    fn combine(x: T, y: T) -> T;
}

macro_rules! monoids {
    ($($(#[$doc:meta])* $name:ident, $identity:ident, $combine:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name;
        impl<T: Number> Monoid<T> for $name {
            const IDENTITY: T = T::$identity;
            #[inline(always)]
            fn combine(x: T, y: T) -> T { x.$combine(y) }
        }
    )*};
}
monoids! {
    /// The sum.
    Sum, ZERO, plus;
    /// The product.
    Product, ONE, times;
    /// The largest element; NaN is larger than any number.
    Largest, LOWEST, larger;
    /// The smallest element; NaN is smaller than any number.
    Smallest, HIGHEST, smaller;
}

/// The smallest of truth values, of which there is none above 1.
#[derive(Clone, Copy)]
pub(super) struct AllTrue;
impl Monoid<u8> for AllTrue {
    const IDENTITY: u8 = 1;
    #[inline(always)]
    fn combine(x: u8, y: u8) -> u8 {
        x.smaller(y)
    }
}

/// A monoid of extremes: which of two elements is the better one.
pub(super) trait Extreme: Copy + 'static {
    /// Whether `x` is strictly better than `y`; false if one is NaN.
    fn strictly_better<T: Number>(x: T, y: T) -> bool;
    /// Whether `x` is strictly better than `y`, with NaN better than any number.
    #[inline(always)]
    fn beats<T: Number>(x: T, y: T) -> bool {
        Self::strictly_better(x, y) | (x.nan() & !y.nan())
    }
}

macro_rules! extremes {
    ($($name:ident, $above:tt;)*) => {$(
        impl Extreme for $name {
            #[inline(always)]
            fn strictly_better<T: Number>(x: T, y: T) -> bool { x $above y }
        }
    )*};
}
extremes! {
    Largest, >;
    Smallest, <;
    AllTrue, <;
}
