//! Where values of 16-bit floating types are rounded.

use std::sync::atomic::{AtomicU8, Ordering};

/// Where results of 16-bit floating types (F16, BF16) are rounded to their type.
///
/// A kernel computes in 32 bits. What it keeps to itself it need not round, which is faster and
/// mostly more exact; but then a value depends on which operations share a kernel, and so on what
/// else was realized.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::{Float16Rounding, set_float16_rounding};
/// let x = Tensor::from([1.0f32, 3.3]).to_dtype(DType::F16);
/// let sum = || &x + 2048.0;
/// let rest = |sum: &Tensor| (sum - 2048.0).to_dtype(DType::F32).to_vec::<f32>();
/// // Within a kernel the sum keeps 24 bits; as a value of its own, 11.
/// assert_eq!(rest(&sum())?, [1.0, 3.3007812]);
/// assert_eq!(rest(sum().realize()?)?, [0.0, 4.0]);
/// set_float16_rounding(Float16Rounding::EveryOperation);
/// assert_eq!(rest(&sum())?, [0.0, 4.0]);
/// # set_float16_rounding(Float16Rounding::Stored);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Float16Rounding {
    /// Where a kernel stores them.
    #[default]
    Stored,
    /// After every operation that the user calls, gradients' included, as PyTorch does where it runs
    /// one operation at a time. An operation of several steps, such as `gelu`, computes in 32 bits and
    /// rounds once. Numbers beside a tensor keep 32 bits.
    EveryOperation,
}

static CURRENT: AtomicU8 = AtomicU8::new(Float16Rounding::Stored as u8);

/// Says where values of 16-bit floating types are rounded in operations built from now on, in the
/// whole process. Operations built before keep what they have.
///
/// # Examples
/// ```
/// use kiln::{Float16Rounding, float16_rounding, set_float16_rounding};
/// set_float16_rounding(Float16Rounding::EveryOperation);
/// assert_eq!(float16_rounding(), Float16Rounding::EveryOperation);
/// # set_float16_rounding(Float16Rounding::Stored);
/// ```
pub fn set_float16_rounding(rounding: Float16Rounding) {
    CURRENT.store(rounding as u8, Ordering::Relaxed);
}

/// What [`set_float16_rounding`] said last.
///
/// # Examples
/// ```
/// assert_eq!(kiln::float16_rounding(), kiln::Float16Rounding::Stored);
/// ```
#[inline]
pub fn float16_rounding() -> Float16Rounding {
    match CURRENT.load(Ordering::Relaxed) {
        0 => Float16Rounding::Stored,
        _ => Float16Rounding::EveryOperation,
    }
}
