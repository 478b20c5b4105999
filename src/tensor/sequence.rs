//! Creation by position: ranges, the identity, indices of triangles.

use std::ops::Range;

use crate::base::{DType, Device, Error, Kind, Scalar, Shape};
use crate::runtime::{MemoryStats, host};
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::create::{filled, from_data};
use crate::tensor::term::Term;
use crate::tensor::{Place, Tensor};

impl Tensor {
    /// `start`, `start + step`, ... below (above, for a negative step) `end`.
    ///
    /// `I64` when all three are integers, else `F32`, unless the place names a type. Invalid for a
    /// step of 0, a step away from the end, or bounds that are not finite.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::arange(1, 10, 3, ()).to_vec::<i64>()?, [1, 4, 7]);
    /// assert_eq!(Tensor::arange(0.0, 1.0, 0.5, ()).to_vec::<f32>()?, [0.0, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn arange(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        place: impl Into<Place>,
    ) -> Tensor {
        finish(arange(CallSite::here("arange"), [start.into(), end.into(), step.into()], place.into()))
    }

    /// `steps` values from `start` to `end`, both included, evenly spaced.
    ///
    /// The second half is counted back from the end, as PyTorch does. `F32` unless the place names
    /// a type.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::linspace(0.0, 1.0, 5, ()).to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn linspace(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        steps: usize,
        place: impl Into<Place>,
    ) -> Tensor {
        let (site, place) = (CallSite::here("linspace"), place.into());
        let dtype = place.dtype_or(DType::F32);
        let points = spaced(site, start.into(), end.into(), steps, place);
        points.into_tensor().cast_as(site.name, dtype, site.span)
    }

    /// `base` to the power of [`Tensor::linspace`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::logspace(0.0, 3.0, 4, 2.0, ()).to_vec::<f32>()?, [1.0, 2.0, 4.0, 8.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn logspace(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        steps: usize,
        base: f64,
        place: impl Into<Place>,
    ) -> Tensor {
        let (site, place) = (CallSite::here("logspace"), place.into());
        let dtype = place.dtype_or(DType::F32);
        let exponents = spaced(site, start.into(), end.into(), steps, place);
        let powers = exponents.number(base).pow(exponents);
        powers.into_tensor().cast_as(site.name, dtype, site.span)
    }

    /// Ones where the row number is the column number, else zeros: `[rows, columns]`.
    ///
    /// `F32` unless the place names a type.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::eye(2, 2, ()).to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn eye(rows: usize, columns: usize, place: impl Into<Place>) -> Tensor {
        let (site, place) = (CallSite::here("eye"), place.into());
        let narrow = rows.max(columns) <= i32::MAX as usize;
        let counter = if narrow { DType::I32 } else { DType::I64 };
        let along = |extent, axis| {
            let number = site.iota_along(extent, axis, 2, counter, place.device());
            Term::new(site, site.expand(&number, &[rows, columns]))
        };
        let diagonal = along(rows, 0).eq(along(columns, 1));
        diagonal.cast(place.dtype_or(DType::F32)).into_tensor()
    }

    /// The row and the column numbers of a matrix's elements on and below a diagonal.
    ///
    /// The `offset`-th diagonal, in row-major order: `[2, elements]`, `I64` unless the place names
    /// a type.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::tril_indices(2, 2, 0, ()).to_vec::<i64>()?, [0, 1, 1, 0, 0, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn tril_indices(rows: usize, columns: usize, offset: i64, place: impl Into<Place>) -> Tensor {
        let below = move |row: usize| 0..border(row, offset.saturating_add(1), columns);
        let count = |all: u128| below_diagonal(rows, columns, offset).min(all);
        let filled = within(rows, -i128::from(offset))..rows;
        finish(triangle(
            CallSite::here("tril_indices"),
            (rows, columns),
            count,
            (filled, below),
            place.into(),
        ))
    }

    /// The row and the column numbers of a matrix's elements on and above a diagonal.
    ///
    /// See [`Tensor::tril_indices`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::triu_indices(2, 2, 0, ()).to_vec::<i64>()?, [0, 0, 1, 0, 1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn triu_indices(rows: usize, columns: usize, offset: i64, place: impl Into<Place>) -> Tensor {
        let above = move |row: usize| border(row, offset, columns)..columns;
        let count = |all: u128| all - below_diagonal(rows, columns, offset.saturating_sub(1));
        let filled = 0..within(rows, columns as i128 - i128::from(offset));
        finish(triangle(
            CallSite::here("triu_indices"),
            (rows, columns),
            count,
            (filled, above),
            place.into(),
        ))
    }
}

fn arange(site: CallSite, bounds: [Scalar; 3], place: Place) -> Checked<Tensor> {
    let whole = bounds.iter().all(|bound| bound.kind() != Kind::Float);
    let dtype = place.dtype_or(if whole { DType::I64 } else { DType::F32 });
    let count = range_length(site, bounds, whole)?;
    let [start, _, step] = bounds;
    // Integers count in their own type, as PyTorch's do: it cuts a fraction
    // off start and step; 16-bit floats count in F32.
    let index = Term::new(site, site.iota(count, dtype.compute(), place.device()));
    let (start, step) = (index.number(start), index.number(step));
    Ok((index * step + start).cast(dtype).into_tensor())
}

/// Number of values of a range.
fn range_length(site: CallSite, bounds: [Scalar; 3], whole: bool) -> Checked<usize> {
    let [start, end, step] = bounds;
    let found = || format!("{start}, {end}, {step}");
    let [a, b, by] = bounds.map(Scalar::as_f64);
    site.require(by != 0.0 && [a, b, by].iter().all(|x| x.is_finite()), &[], || {
        ("finite bounds and a step that is not 0".into(), found())
    })?;
    site.require(a == b || (b > a) == (by > 0.0), &[], || ("a step towards the end".into(), found()))?;
    let count = if whole {
        let [a, b, by] = bounds.map(|bound| i128::from(bound.as_i64()));
        (b - a).unsigned_abs().div_ceil(by.unsigned_abs()) as f64
    } else {
        ((b - a) / by).ceil()
    };
    let fits = count < i64::MAX as f64;
    site.require(fits, &[], || ("fewer than 2^63 values".into(), format!("{count:e}")))?;
    Ok(count as usize)
}

/// Evenly spaced values from ends of the place's type, in its arithmetic, or
/// in `F64` where that is integer.
fn spaced(site: CallSite, start: Scalar, end: Scalar, steps: usize, place: Place) -> Term {
    let (dtype, device) = (place.dtype_or(DType::F32), place.device());
    let arithmetic = if dtype.is_float() { dtype.compute() } else { DType::F64 };
    let [start, end] = [start, end].map(|bound| bound.cast(dtype).as_f64());
    if steps == 1 {
        let first = filled(site, Scalar::Float(start), Shape::from(1), arithmetic, device);
        return Term::new(site, first);
    }
    let last = steps.saturating_sub(1) as f64;
    let step = (end - start) / last.max(1.0);
    let index = Term::new(site, site.iota(steps, arithmetic, device));
    let back = end - (last - &index) * step;
    index.choose(&index.lt((steps / 2) as f64), &index * step + start, back)
}

/// The number of a row's elements left of the `offset`-th diagonal.
fn border(row: usize, offset: i64, columns: usize) -> usize {
    (row as i128 + i128::from(offset)).clamp(0, columns as i128) as usize
}

/// A number of rows that there are.
fn within(rows: usize, count: i128) -> usize {
    count.clamp(0, rows as i128) as usize
}

/// The number of elements on and below the `offset`-th diagonal: rows that
/// have none, then an arithmetic series, then full rows.
fn below_diagonal(rows: usize, columns: usize, offset: i64) -> u128 {
    let (rows, columns, first) = (rows as i128, columns as i128, i128::from(offset) + 1);
    let empty = (-first).clamp(0, rows);
    let growing = (columns - first).clamp(empty, rows) - empty;
    let shortest = empty + first;
    let series = growing * shortest + growing * (growing - 1).max(0) / 2;
    (series + (rows - empty - growing) * columns) as u128
}

/// The numbers of the elements in some of the rows, which all others lack.
fn triangle(
    site: CallSite,
    (rows, columns): (usize, usize),
    count: impl FnOnce(u128) -> u128,
    (filled_rows, of_row): (Range<usize>, impl Fn(usize) -> Range<usize>),
    place: Place,
) -> Checked<Tensor> {
    let (dtype, device) = (place.dtype_or(DType::I64), place.device());
    site.require(i64::try_from(rows.max(columns)).is_ok(), &[], || {
        ("at most 2^63 - 1 rows and columns".into(), format!("{rows} and {columns}"))
    })?;
    let count = count(rows as u128 * columns as u128);
    let length = usize::try_from(count).unwrap_or(usize::MAX);
    let like = filled(site, Scalar::Int(0), Shape::from([2, length]), dtype, device);
    site.valid(&[&like])?;
    if device.is_meta() {
        return Ok(like);
    }
    let elements = || filled_rows.clone().flat_map(|row| of_row(row).map(move |column| (row, column)));
    let mut values: Vec<i64> = Vec::new();
    values.try_reserve_exact(2 * length).map_err(|_| out_of_memory(like.shape().numel() * 8))?;
    values.extend(elements().map(|(row, _)| row as i64));
    values.extend(elements().map(|(_, column)| column as i64));
    Ok(from_data(
        site.name,
        site.span,
        &values,
        like.shape(),
        Place { dtype: Some(dtype), device: Some(device) },
    ))
}

/// The refusal of the system to give the host so many bytes.
fn out_of_memory(bytes: usize) -> Tensor {
    let MemoryStats { allocated, limit, .. } = host::pool().stats();
    let requested = bytes as u64;
    Tensor::invalid(Error::OutOfMemory {
        device: Device::cpu(),
        requested,
        in_use: allocated,
        limit,
        largest: [].into(),
        span: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, values};

    #[test]
    fn ranges_count_as_pytorch_does() {
        assert_close(&Tensor::arange(0, 5, 2, ()), &[3], &[0.0, 2.0, 4.0]);
        assert_eq!(Tensor::arange(0, 5, 2, ()).dtype(), DType::I64);
        assert_close(&Tensor::arange(1.0, 2.0, 0.25, ()), &[4], &[1.0, 1.25, 1.5, 1.75]);
        assert_close(&Tensor::arange(3, 0, -1, DType::BF16), &[3], &[3.0, 2.0, 1.0]);
        assert_close(&Tensor::arange(2, 2, 1, ()), &[0], &[]);
        assert!(error_text(&Tensor::arange(0, 3, 0, ())).contains("step that is not 0"));
        assert!(error_text(&Tensor::arange(0, -3, 2, ())).contains("towards the end"));
        assert!(error_text(&Tensor::arange(0.0, f64::NAN, 1, ())).contains("finite"));
    }

    #[test]
    fn spaces_are_symmetric() {
        let points = values(&Tensor::linspace(-0.1, 0.1, 11, ()));
        assert!(points.iter().zip(points.iter().rev()).all(|(a, b)| (a + b).abs() < 1e-7));
        assert_close(&Tensor::linspace(0, 10, 5, DType::I64), &[5], &[0.0, 2.0, 5.0, 7.0, 10.0]);
        assert_close(&Tensor::linspace(3, 9, 1, ()), &[1], &[3.0]);
        assert_close(&Tensor::logspace(0, 3, 4, 10.0, ()), &[4], &[1.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn triangles_list_the_elements_on_their_side() {
        for (rows, columns) in [(0, 3), (3, 0), (3, 3), (2, 5), (5, 2)] {
            for offset in -6..=6i64 {
                let lists = |lower: bool| -> Vec<f64> {
                    let side = |r: i64, c: i64| if lower { c - r <= offset } else { c - r >= offset };
                    let all = (0..rows).flat_map(|r| (0..columns).map(move |c| (r as i64, c as i64)));
                    let kept: Vec<(i64, i64)> = all.filter(|&(r, c)| side(r, c)).collect();
                    kept.iter().map(|p| p.0 as f64).chain(kept.iter().map(|p| p.1 as f64)).collect()
                };
                let lower = Tensor::tril_indices(rows, columns, offset, ());
                assert_eq!(values(&lower), lists(true));
                assert_eq!(values(&Tensor::triu_indices(rows, columns, offset, ())), lists(false));
                let meta = Tensor::tril_indices(rows, columns, offset, Device::meta());
                assert_eq!(meta.shape(), lower.shape());
            }
        }
        let most = i64::MAX as usize;
        let upper = Tensor::triu_indices(most, 2, 0, ());
        assert_eq!(values(&upper), [0.0, 0.0, 1.0, 0.0, 1.0, 1.0], "rows without elements are passed over");
        let lower = Tensor::tril_indices(most, 1, 2 - i64::MAX, ());
        assert_eq!(lower.shape()[..], [2, 2]);
    }

    #[test]
    fn the_identity_need_not_be_square() {
        assert_close(&Tensor::eye(2, 3, DType::I32), &[2, 3], &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    }
}
