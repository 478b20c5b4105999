//! Scatters: elements combined into computed positions, in order.

use half::{bf16, f16};

use crate::DType;
use crate::micro::lane::Number;
use crate::micro::memory::MemoryElement;
use crate::micro::monoid::{Largest, Monoid, Product, Smallest, Sum};
use crate::micro::reduce::ReduceKind;

/// Combines values into memory: `fn(to, positions, values, n)`; a negative
/// position is skipped.
///
/// # Safety
/// `positions` and `values` (in register form) hold `n` elements, and `to` one at every position.
pub type ScatterFn = unsafe fn(to: *mut u8, positions: *const i64, values: *const u8, n: usize);

/// The loop that combines values into elements of type `dtype` by a reduction of one component, or
/// replaces them where there is none.
///
/// # Panics
/// Panics for reductions of several components.
pub fn scatter(kind: Option<ReduceKind>, dtype: DType) -> ScatterFn {
    match dtype {
        DType::Bool | DType::U8 => of::<u8>(kind),
        DType::I32 => of::<i32>(kind),
        DType::U32 => of::<u32>(kind),
        DType::I64 => of::<i64>(kind),
        DType::F16 => of::<f16>(kind),
        DType::BF16 => of::<bf16>(kind),
        DType::F32 => of::<f32>(kind),
        DType::F64 => of::<f64>(kind),
    }
}

fn of<T: MemoryElement<Register: Number>>(kind: Option<ReduceKind>) -> ScatterFn {
    match kind {
        None => replace::<T>,
        Some(ReduceKind::Sum) => combine::<T, Sum>,
        Some(ReduceKind::Prod) => combine::<T, Product>,
        Some(ReduceKind::Max) => combine::<T, Largest>,
        Some(ReduceKind::Min) => combine::<T, Smallest>,
        Some(kind @ (ReduceKind::ArgMax | ReduceKind::ArgMin)) => panic!("no scatter by {kind:?}"),
        Some(kind @ (ReduceKind::Moments | ReduceKind::LogSumExp)) => panic!("no scatter by {kind:?}"),
    }
}

unsafe fn replace<T: MemoryElement>(to: *mut u8, positions: *const i64, values: *const u8, n: usize) {
    // SAFETY: the contract of `ScatterFn`.
    unsafe { update(to, positions, values, n, |_: T, value| value) }
}

unsafe fn combine<T: MemoryElement, M: Monoid<T::Register>>(
    to: *mut u8,
    positions: *const i64,
    values: *const u8,
    n: usize,
) {
    // SAFETY: the contract of `ScatterFn`.
    unsafe { update(to, positions, values, n, |old: T, value| M::combine(old.widen(), value)) }
}

/// # Safety
/// The contract of [`ScatterFn`].
#[inline(always)]
unsafe fn update<T: MemoryElement>(
    to: *mut u8,
    positions: *const i64,
    values: *const u8,
    n: usize,
    new: impl Fn(T, T::Register) -> T::Register,
) {
    for i in 0..n {
        // SAFETY: the caller's promise.
        unsafe {
            let (position, value) = (positions.add(i).read(), values.cast::<T::Register>().add(i).read());
            if position >= 0 {
                let at = to.cast::<T>().offset(position as isize);
                at.write(T::narrow(new(at.read(), value)));
            }
        }
    }
}
