//! Tensors at places of a mapped file.

use crate::base::{DType, Shape, Span};
use crate::io::format;
use crate::io::mapped::Mapped;
use crate::io::state_dict::StateDict;

/// A tensor in a file.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    pub name: &'a str,
    /// The safetensors format's name of its type.
    pub dtype: &'a str,
    pub dims: &'a [usize],
    /// Elements from one to the next along each axis; row-major without.
    pub strides: Option<&'a [usize]>,
    /// The byte that its first element begins with, and where the part of the file ends that it is in.
    pub start: usize,
    pub end: usize,
}

impl Placed<'_> {
    /// Adds it to a state: a tensor that is mapped, or a raw one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn insert(&self, state: &mut StateDict, map: &Mapped, span: Span) -> Result<(), String> {
        let size = format::size_of(self.dtype).ok_or_else(|| format!("unknown type {}", self.dtype))?;
        // Only then do extents have a product.
        format::check_size(self.dtype, self.dims)?;
        let whole = self.end.min(map.bytes().len());
        let end =
            self.reach(size).and_then(|bytes| self.start.checked_add(bytes)).filter(|&end| end <= whole);
        let end = end.ok_or_else(|| format!("its data end behind byte {whole}, where others begin"))?;
        self.check_copies(size, whole)?;
        let text = |error: crate::Error| error.to_string();
        let Some(dtype) = format::dtype_of(self.dtype) else {
            let raw = match self.strides {
                None => map.raw(self.start, end, self.dtype, self.dims),
                Some(strides) => map.raw_strided(self.start, (self.dtype, size), self.dims, strides),
            };
            return state.insert_raw(self.name, &raw).map_err(text);
        };
        if dtype == DType::Bool && map.bytes()[self.start..end].iter().any(|&byte| byte > 1) {
            return Err("it is of truth values, and some are neither 0 nor 1".into());
        }
        let tensor = match self.strides {
            None => map.tensor(self.start, dtype, self.dims, span),
            Some(strides) => map.strided(self.start, dtype, self.dims, strides, span),
        };
        state.insert(self.name, &tensor.map_err(text)?).map_err(text)
    }

    /// Fails where a view would be copied, and repeats elements so often that it would be larger than the file.
    fn check_copies(&self, size: usize, file: usize) -> Result<(), String> {
        let aligned = self.start.is_multiple_of(size) && format::dtype_of(self.dtype).is_some();
        if aligned || self.strides.is_none() || Shape::new(self.dims).numel() * size <= file {
            return Ok(());
        }
        Err(format!("a view of shape {} is larger than its file", Shape::new(self.dims)))
    }

    /// Bytes from the first to behind the last that any element has.
    fn reach(&self, size: usize) -> Option<usize> {
        let shape = Shape::new(self.dims);
        if shape.numel() == 0 {
            return Some(0);
        }
        let Some(strides) = self.strides else { return shape.numel().checked_mul(size) };
        let last = self.dims.iter().zip(strides).try_fold(0usize, |last, (&extent, &stride)| {
            last.checked_add((extent - 1).checked_mul(stride)?)
        })?;
        last.checked_add(1)?.checked_mul(size)
    }
}
