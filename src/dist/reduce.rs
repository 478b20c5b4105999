//! Values of several ranks combined, element by element, in the order of the ranks.

use half::{bf16, f16};

use crate::base::DType;
use crate::ir::collective::Reduce;

/// The elements of all ranks combined; as many bytes as each of them has.
pub(crate) fn reduce(reduce: Reduce, dtype: DType, ranks: &[&[u8]]) -> Vec<u8> {
    match dtype {
        DType::Bool | DType::U8 => combine::<u8>(reduce, ranks),
        DType::I32 => combine::<i32>(reduce, ranks),
        DType::U32 => combine::<u32>(reduce, ranks),
        DType::I64 => combine::<i64>(reduce, ranks),
        DType::F16 => combine::<f16>(reduce, ranks),
        DType::BF16 => combine::<bf16>(reduce, ranks),
        DType::F32 => combine::<f32>(reduce, ranks),
        DType::F64 => combine::<f64>(reduce, ranks),
    }
}

/// An element, and the number that it is combined as.
trait Element: bytemuck::Pod {
    type Wide: Copy;
    fn wide(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    /// Joins the next rank's numbers to those of the ranks before.
    fn join(reduce: Reduce, all: &mut [Self::Wide], next: impl Iterator<Item = Self::Wide>);
    /// A sum over a count; integers have no mean, and stay.
    fn over(sum: Self::Wide, count: usize) -> Self::Wide;
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Element for $ty {
            type Wide = $ty;
            fn wide(self) -> $ty {
                self
            }
            fn narrow(wide: $ty) -> $ty {
                wide
            }
            fn join(reduce: Reduce, all: &mut [$ty], next: impl Iterator<Item = $ty>) {
                match reduce {
                    Reduce::Sum | Reduce::Mean => each(all, next, <$ty>::wrapping_add),
                    Reduce::Product => each(all, next, <$ty>::wrapping_mul),
                    Reduce::Min => each(all, next, Ord::min),
                    Reduce::Max => each(all, next, Ord::max),
                }
            }
            fn over(sum: $ty, _: usize) -> $ty {
                sum
            }
        }
    )*};
}

macro_rules! floats {
    ($($ty:ty, $wide:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Element for $ty {
            type Wide = $wide;
            fn wide(self) -> $wide {
                $widen(self)
            }
            fn narrow(wide: $wide) -> $ty {
                $narrow(wide)
            }
            fn join(reduce: Reduce, all: &mut [$wide], next: impl Iterator<Item = $wide>) {
                match reduce {
                    Reduce::Sum | Reduce::Mean => each(all, next, |a, b| a + b),
                    Reduce::Product => each(all, next, |a, b| a * b),
                    // A NaN on either side is the result.
                    Reduce::Min => each(all, next, |a, b| if a.is_nan() || a < b { a } else { b }),
                    Reduce::Max => each(all, next, |a, b| if a.is_nan() || a > b { a } else { b }),
                }
            }
            fn over(sum: $wide, count: usize) -> $wide {
                sum / count as $wide
            }
        }
    )*};
}

integers! { u8 i32 u32 i64 }
floats! {
    f16, f32, f16::to_f32, f16::from_f32;
    bf16, f32, bf16::to_f32, bf16::from_f32;
    f32, f32, std::convert::identity, std::convert::identity;
    f64, f64, std::convert::identity, std::convert::identity;
}

fn each<W: Copy>(all: &mut [W], next: impl Iterator<Item = W>, join: impl Fn(W, W) -> W) {
    all.iter_mut().zip(next).for_each(|(value, other)| *value = join(*value, other));
}

/// The elements of a message, which may start anywhere in memory.
fn elements<T: Element>(bytes: &[u8]) -> impl Iterator<Item = T::Wide> {
    bytes.chunks_exact(size_of::<T>()).map(|element| bytemuck::pod_read_unaligned::<T>(element).wide())
}

fn combine<T: Element>(reduce: Reduce, ranks: &[&[u8]]) -> Vec<u8> {
    let Some((first, rest)) = ranks.split_first() else { return Vec::new() };
    let mut values: Vec<T::Wide> = elements::<T>(first).collect();
    rest.iter().for_each(|rank| T::join(reduce, &mut values, elements::<T>(rank)));
    let finish = |value| if reduce == Reduce::Mean { T::over(value, ranks.len()) } else { value };
    let values: Vec<T> = values.into_iter().map(|value| T::narrow(finish(value))).collect();
    bytemuck::allocation::try_cast_vec(values)
        .unwrap_or_else(|(_, values)| bytemuck::cast_slice(&values).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined<T: bytemuck::Pod>(how: Reduce, dtype: DType, ranks: &[&[T]]) -> Vec<T> {
        let bytes: Vec<&[u8]> = ranks.iter().map(|rank| bytemuck::cast_slice(rank)).collect();
        bytemuck::pod_collect_to_vec(&reduce(how, dtype, &bytes))
    }

    #[test]
    fn elements_are_combined_in_the_order_of_the_ranks() {
        // Another order would give 1: 1e8 swallows it only if it comes first.
        let floats = |how| combined(how, DType::F32, &[&[1e8f32], &[1.0], &[-1e8]]);
        assert_eq!(floats(Reduce::Sum), [0.0]);
        assert_eq!(floats(Reduce::Min), [-1e8]);
        assert_eq!(floats(Reduce::Max), [1e8]);
        assert_eq!(combined(Reduce::Product, DType::I64, &[&[2i64, i64::MAX], &[3, 2]]), [6, -2]);
        assert_eq!(combined(Reduce::Sum, DType::U8, &[&[250u8], &[10]]), [4]);
        assert_eq!(combined(Reduce::Mean, DType::F64, &[&[1.0f64], &[2.0]]), [1.5]);
    }

    #[test]
    fn sixteen_bits_round_once() {
        let (one, step) = (bf16::from_f32(1.0), bf16::from_f32(1.0 / 512.0));
        // Each step alone would round away.
        let ranks = [[one], [step], [step], [step], [step]];
        let ranks: Vec<&[bf16]> = ranks.iter().map(|rank| &rank[..]).collect();
        assert_eq!(combined(Reduce::Sum, DType::BF16, &ranks), [bf16::from_f32(1.0 + 4.0 / 512.0)]);
        let half = |x: f32| f16::from_f32(x);
        assert_eq!(
            combined(Reduce::Mean, DType::F16, &[&[half(60000.0)], &[half(60000.0)]]),
            [half(60000.0)]
        );
    }

    #[test]
    fn nan_of_any_rank_is_the_extreme() {
        for how in [Reduce::Min, Reduce::Max] {
            for ranks in [[f32::NAN, 1.0], [1.0, f32::NAN]] {
                assert!(combined(how, DType::F32, &[&ranks[..1], &ranks[1..]])[0].is_nan());
            }
        }
    }
}
