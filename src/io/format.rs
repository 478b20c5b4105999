//! The element types of the safetensors format.

use crate::base::{DType, Shape};

/// The longest header that the format's own library reads.
#[cfg(feature = "mapped")]
pub const LONGEST: usize = 100_000_000;

/// Their names and bits, in the order of the format's own library: a file
/// begins with the tensors of the last of them, so that all are aligned.
const TYPES: [(&str, usize); 22] = [
    ("BOOL", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("U8", 8),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("I16", 16),
    ("U16", 16),
    ("F16", 16),
    ("BF16", 16),
    ("I32", 32),
    ("U32", 32),
    ("F32", 32),
    ("C64", 64),
    ("F64", 64),
    ("I64", 64),
    ("U64", 64),
];

/// The format's name of a type.
pub fn name_of(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "BOOL",
        DType::U8 => "U8",
        DType::I32 => "I32",
        DType::U32 => "U32",
        DType::I64 => "I64",
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::F32 => "F32",
        DType::F64 => "F64",
    }
}

/// The type of a name; `None` for one that kiln does not compute with.
pub fn dtype_of(name: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|&dtype| name_of(dtype) == name)
}

/// Where a file has the tensors of this type: those of higher positions come
/// first, those of types that the format does not know last.
pub fn position(name: &str) -> Option<usize> {
    TYPES.iter().position(|&(known, _)| known == name)
}

/// Bytes of an element; `None` for types that the format does not know or that share bytes.
#[cfg(any(feature = "npy", feature = "gguf", feature = "torch"))]
pub fn size_of(name: &str) -> Option<usize> {
    let bits = position(name).map(|position| TYPES[position].1);
    bits.filter(|bits| bits.is_multiple_of(8)).map(|bits| bits / 8)
}

/// Fails unless a tensor of this type and shape is one that kiln can hold.
///
/// # Errors
/// What is wrong.
pub fn check_size(name: &str, dims: &[usize]) -> Result<(), String> {
    if dims.len() > Shape::MAX_RANK {
        return Err(format!("expected at most {} axes, found {}", Shape::MAX_RANK, dims.len()));
    }
    let bits = position(name).map_or(8, |position| TYPES[position].1);
    // An axis of no elements does not excuse the others: strides count them.
    let volume = dims.iter().filter(|&&extent| extent > 0).try_fold(1u128, |n, &e| n.checked_mul(e as u128));
    let most = isize::MAX as u128 * 8;
    let takes = volume.and_then(|n| n.checked_mul(bits.max(8) as u128));
    if takes.is_none_or(|takes| takes > most) {
        return Err(format!("expected at most 2^63 - 1 bytes, found shape {}", Shape::new(dims)));
    }
    Ok(())
}

/// [`check_size`], and fails unless the tensor takes `bytes`. Of a type that the format does not know the
/// size is not known either.
///
/// # Errors
/// What is wrong.
pub fn check(name: &str, dims: &[usize], bytes: usize) -> Result<(), String> {
    check_size(name, dims)?;
    let Some(bits) = position(name).map(|position| TYPES[position].1) else { return Ok(()) };
    let takes = Shape::new(dims).numel() as u128 * bits as u128;
    if takes != bytes as u128 * 8 {
        let takes = takes.div_ceil(8);
        return Err(format!("{name}{} takes {takes} bytes, and {bytes} are given", Shape::new(dims)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked_without_overflow() {
        assert_eq!(check("F32", &[2, 3], 24), Ok(()));
        assert_eq!(check("F4", &[3, 2], 3), Ok(()));
        assert_eq!(check("F32", &[], 4), Ok(()));
        assert_eq!(check("F32", &[1 << 60, 0], 0), Ok(()));
        assert_eq!(check("NEW", &[3], 17), Ok(()));
        assert_eq!(check("F4", &[3], 2), Err("F4[3] takes 2 bytes, and 2 are given".into()));
        assert_eq!(check("F32", &[2, 3], 20), Err("F32[2, 3] takes 24 bytes, and 20 are given".into()));
        for dims in [&[usize::MAX, 0][..], &[0, usize::MAX, usize::MAX], &[1 << 61], &[1 << 32, 1 << 32]] {
            assert!(check("F32", dims, 0).unwrap_err().contains("at most 2^63 - 1 bytes"), "{dims:?}");
            assert!(check("NEW", &[dims, dims].concat(), 0).is_err());
        }
        assert!(check("F32", &[1; 255], 4).is_ok() && check("F32", &[1; 256], 4).is_err());
    }
}
