//! The Rust types that are element types.

use std::fmt;

use half::{bf16, f16};
use kiln_simd::DType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is an element type.
pub trait Element: sealed::Sealed + bytemuck::NoUninit + Default + Send + Sync + fmt::Debug {
    /// The element type this Rust type stands for.
    const DTYPE: DType;
    /// The values whose bytes, in the machine's order, these are.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! element {
    ($($t:ty => $d:ident),* $(,)?) => {$(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            const DTYPE: DType = DType::$d;
            fn from_bytes(bytes: &[u8]) -> Vec<$t> {
                bytemuck::allocation::pod_collect_to_vec(bytes)
            }
        }
    )*};
}

element!(u8 => U8, i32 => I32, u32 => U32, i64 => I64, f16 => F16, bf16 => BF16, f32 => F32, f64 => F64);

impl sealed::Sealed for bool {}
impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn from_bytes(bytes: &[u8]) -> Vec<bool> {
        bytes.iter().map(|&byte| byte != 0).collect()
    }
}
