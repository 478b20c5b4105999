//! Keys or values of a cache: as they are, or as codes of 8 bits.

use crate::base::{DType, Device, Result};
use crate::grad::is_grad_enabled;
use crate::tensor::compose::CallSite;
use crate::tensor::quantized::round_to_bytes;
use crate::tensor::slice_update::written_at;
use crate::tensor::var::Var;
use crate::tensor::{Place, Tensor};

/// Rows of keys or values, one for each position and head.
#[derive(Debug)]
pub(super) struct CachedRows {
    extents: [usize; 4],
    /// `[n, heads, capacity, e]`: the numbers, or codes of `U8`.
    held: Var,
    /// `[n, heads, capacity, 1]` of `F32`: what codes, less [`ZERO`], are multiplied by.
    scales: Option<Var>,
}

/// What [`CachedRows`] hold at one time.
#[derive(Clone, Debug)]
pub(super) struct HeldRows {
    pub(super) held: Tensor,
    scales: Option<Tensor>,
}

/// The code of zero.
const ZERO: i32 = 128;

/// Axis of the positions.
const POSITIONS: usize = 2;

impl CachedRows {
    pub(super) fn new(shape: [usize; 4], place: Place) -> CachedRows {
        let [n, heads, capacity, _] = shape;
        let scales = || Var::new(Tensor::zeros([n, heads, capacity, 1], (place.device(), DType::F32)));
        let is_codes = place.dtype == Some(DType::U8);
        let held = Var::new(Tensor::zeros(shape, place));
        CachedRows { extents: shape, held, scales: is_codes.then(scales) }
    }

    /// The same rows, kept in another type.
    pub(super) fn to_dtype(&self, site: CallSite, dtype: DType) -> CachedRows {
        let exact = if self.scales.is_some() { DType::F32 } else { self.held.dtype() };
        let rows = self.content().read(site, self.extents[POSITIONS], exact);
        let (held, scales) = parts(site, &rows.detach(), dtype);
        CachedRows { extents: self.extents, held: Var::new(held), scales: scales.map(Var::new) }
    }

    /// The numbers or codes as one tensor.
    pub(super) fn held(&self) -> Tensor {
        self.held.get()
    }
    /// `[n, heads, capacity, e]`.
    pub(super) fn extents(&self) -> [usize; 4] {
        self.extents
    }
    pub(super) fn device(&self) -> Device {
        self.held.device()
    }

    pub(super) fn content(&self) -> HeldRows {
        HeldRows { held: self.held.get(), scales: self.scales.as_ref().map(Var::get) }
    }

    /// Cells of their own that hold the same.
    pub(super) fn fork(&self) -> CachedRows {
        let HeldRows { held, scales } = self.content();
        CachedRows { extents: self.extents, held: Var::new(held), scales: scales.map(Var::new) }
    }

    /// Forgets where gradients would go.
    pub(super) fn detach(&self) {
        for held in [Some(&self.held), self.scales.as_ref()].into_iter().flatten() {
            // What it holds is valid, so this is too.
            let _valid = held.replace(held.get().detach());
        }
    }

    /// # Errors
    /// An error recorded in what was written.
    pub(super) fn set(&self, written: &HeldRows) -> Result<()> {
        self.held.set(written.held.clone())?;
        match (&self.scales, &written.scales) {
            (Some(scales), Some(written)) => scales.set(written.clone()),
            (Some(_) | None, _) => Ok(()),
        }
    }
}

impl HeldRows {
    /// The sequences of these numbers, `[n]`, in place of those that are there.
    pub(super) fn of_sequences(&self, rows: &Tensor) -> HeldRows {
        let taken = |held: &Tensor| held.index_select(0, rows);
        HeldRows { held: taken(&self.held), scales: self.scales.as_ref().map(taken) }
    }

    /// The tensors: numbers, or codes and their scales.
    pub(super) fn tensors(&self) -> impl Iterator<Item = Tensor> {
        std::iter::once(self.held.clone()).chain(self.scales.clone())
    }

    /// Rows of the same kind that are these tensors, the first of those given.
    pub(super) fn with_tensors(&self, tensors: &mut impl Iterator<Item = Tensor>) -> HeldRows {
        let mut next = |like: &Tensor| tensors.next().unwrap_or_else(|| like.clone());
        let held = next(&self.held);
        HeldRows { held, scales: self.scales.as_ref().map(next) }
    }

    /// The rows with new ones `[n, heads, l, e]` from `start` on.
    ///
    /// # Errors
    /// Another shape; a type in which rows are not kept; codes of rows that are tracked.
    pub(super) fn written(&self, site: CallSite, new: &Tensor, start: &Tensor) -> Result<HeldRows> {
        let HeldRows { held, scales } = self;
        let [n, heads, _, width] = held.dims()?;
        let [.., count, _] = new.dims::<4>()?;
        if new.shape()[..] != [n, heads, count, width] {
            let expected = format!("[{n}, {heads}, {count}, {width}]");
            return Err(site.error(expected, new.shape().to_string(), &[new]));
        }
        takes(site, held.dtype(), new)?;
        let (new, new_scales) = parts(site, new, held.dtype());
        let held = written_at(site, held, POSITIONS, start, &new);
        held.check()?;
        let scales = scales.as_ref().zip(new_scales);
        let scales = scales.map(|(scales, new)| written_at(site, scales, POSITIONS, start, &new));
        Ok(HeldRows { held, scales })
    }

    /// The first `count` rows as numbers.
    pub(super) fn read(&self, site: CallSite, count: usize, dtype: DType) -> Tensor {
        let first = |all: &Tensor| site.slice(all, POSITIONS, 0, count, 1);
        let Some(scales) = &self.scales else { return site.cast(&first(&self.held), dtype) };
        let steps = site.sub(site.cast(&first(&self.held), DType::F32), ZERO);
        site.cast(&site.mul(&steps, first(scales)), dtype)
    }
}

/// Whether rows can be kept in a type.
fn takes(site: CallSite, dtype: DType, new: &Tensor) -> Result<()> {
    let (expected, found) = match dtype {
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => return Ok(()),
        DType::U8 if new.is_tracked() && is_grad_enabled() => {
            ("rows without gradients for a cache of u8, under no_grad", "rows that are tracked".into())
        }
        DType::U8 => return Ok(()),
        DType::Bool | DType::I32 | DType::U32 | DType::I64 => {
            ("a cache of floats, or of u8 for codes of 8 bits", format!("a cache of {dtype}"))
        }
    };
    Err(site.error(expected, found, &[new]))
}

/// What is held of rows in a type: the rows, or their codes and scales.
fn parts(site: CallSite, rows: &Tensor, dtype: DType) -> (Tensor, Option<Tensor>) {
    if dtype != DType::U8 {
        return (site.cast(rows, dtype), None);
    }
    let (codes, scales) = round_to_bytes(site, &site.cast(&rows.detach(), DType::F32));
    (codes, Some(scales))
}
