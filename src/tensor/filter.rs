//! Elements chosen by their values. How many there are is in no shape known
//! beforehand, so these methods compute the choice when they are called and
//! wait for one number, the count; what they return is lazy again. Each has a form that is awaited.

use crate::base::{DType, Error, Result, Scalar, Shape};
use crate::ir::{AluOp, Monoid, Op, PadAxis, ScatterMode};
use crate::plan::wait::{now, within};
use crate::plan::{self, context};
use crate::runtime::Waiting;
use crate::tensor::Tensor;
use crate::tensor::advanced::rows;
use crate::tensor::compose::CallSite;
use crate::tensor::create::filled;
use crate::tensor::join::cat_along;
use crate::tensor::read::number;
use crate::tensor::scan::scanned;

impl Tensor {
    /// The positions of the elements that are not zero, in row-major order.
    ///
    /// `I64` of shape `[count, rank]`; NaN is not zero. Computes what it depends on and waits for
    /// the count.
    ///
    /// # Errors
    /// As [`Tensor::realize`]; there is nothing to count on the meta device.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([[0i64, 7], [8, 0]]).nonzero()?.to_vec::<i64>()?, [0, 1, 1, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        now(nonzero(CallSite::here("nonzero"), self, Waiting::Block))
    }

    /// [`Tensor::nonzero`] as a future, pending while the count is computed ([`Tensor::to_vec_async`]).
    ///
    /// # Errors
    /// As [`Tensor::nonzero`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let at = pollster::block_on(Tensor::from([0i64, 7, 8]).nonzero_async())?;
    /// assert_eq!(at.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero_async(&self) -> impl Future<Output = Result<Tensor>> + use<> {
        let (x, site) = (self.clone(), CallSite::here("nonzero_async"));
        within(context::current(), async move { nonzero(site, &x, Waiting::Yield).await })
    }

    /// As [`Tensor::nonzero`], with a rank-1 tensor of positions for each axis.
    ///
    /// Indexing takes them so. A single element counts as a row of one. PyTorch: `torch.nonzero`
    /// with `as_tuple`.
    ///
    /// # Errors
    /// As [`Tensor::nonzero`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let at = Tensor::from([[0i64, 7], [8, 0]]).nonzero_axes()?;
    /// assert_eq!(at[1].to_vec::<i64>()?, [1, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero_axes(&self) -> Result<Vec<Tensor>> {
        now(nonzero_axes(CallSite::here("nonzero_axes"), self, Waiting::Block))
    }

    /// [`Tensor::nonzero_axes`] as a future ([`Tensor::nonzero_async`]).
    ///
    /// # Errors
    /// As [`Tensor::nonzero`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let at = pollster::block_on(Tensor::from([[0i64, 7], [8, 0]]).nonzero_axes_async())?;
    /// assert_eq!(at[0].to_vec::<i64>()?, [0, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero_axes_async(&self) -> impl Future<Output = Result<Vec<Tensor>>> + use<> {
        let (x, site) = (self.clone(), CallSite::here("nonzero_axes_async"));
        within(context::current(), async move { nonzero_axes(site, &x, Waiting::Yield).await })
    }

    /// The elements where the mask is true, in row-major order: rank 1. The two broadcast together.
    ///
    /// Computes the mask and waits for the count.
    ///
    /// # Errors
    /// A mask that is not `Bool`, shapes that do not broadcast, or as
    /// [`Tensor::nonzero`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2, 3]);
    /// assert_eq!(x.masked_select(&x.ne(2))?.to_vec::<i64>()?, [1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        now(masked_select(CallSite::here("masked_select"), self, mask, Waiting::Block))
    }

    /// [`Tensor::masked_select`] as a future ([`Tensor::nonzero_async`]).
    ///
    /// # Errors
    /// As [`Tensor::masked_select`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2, 3]);
    /// let chosen = pollster::block_on(x.masked_select_async(&x.ne(2)))?;
    /// assert_eq!(chosen.to_vec::<i64>()?, [1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_select_async(&self, mask: &Tensor) -> impl Future<Output = Result<Tensor>> + use<> {
        let (x, mask, site) = (self.clone(), mask.clone(), CallSite::here("masked_select_async"));
        within(context::current(), async move { masked_select(site, &x, &mask, Waiting::Yield).await })
    }
}

async fn nonzero(site: CallSite, x: &Tensor, waiting: Waiting) -> Result<Tensor> {
    with_data(site, x)?;
    let columns = coordinates(site, x, waiting).await?;
    let Some(count) = columns.first().map(Tensor::numel) else {
        let count = Marks::of(site, &flat_mask(site, x), waiting).await?.count;
        return Ok(filled(site, Scalar::Int(0), [count, 0].into(), DType::I64, x.device()));
    };
    let columns: Vec<Tensor> = columns.iter().map(|column| site.reshape(column, &[count, 1])).collect();
    cat_along(site, &columns.iter().collect::<Vec<_>>(), 1)
}

async fn nonzero_axes(site: CallSite, x: &Tensor, waiting: Waiting) -> Result<Vec<Tensor>> {
    with_data(site, x)?;
    match x.rank() {
        0 => coordinates(site, &site.reshape(x, &[1]), waiting).await,
        _ => coordinates(site, x, waiting).await,
    }
}

async fn masked_select(site: CallSite, x: &Tensor, mask: &Tensor, waiting: Waiting) -> Result<Tensor> {
    with_data(site, x)?;
    with_data(site, mask)?;
    site.together(&[x, mask])?;
    if mask.dtype() != DType::Bool {
        return Err(site.error("a bool mask", mask.dtype().to_string(), &[x, mask]));
    }
    let fail = || {
        let found = format!("{} and {}", x.shape(), mask.shape());
        site.error("shapes that broadcast together", found, &[x, mask])
    };
    let shape = x.shape().broadcast(&mask.shape()).ok_or_else(fail)?;
    let flat = |x: &Tensor| site.reshape(&site.expand(x, &shape), &[shape.numel()]);
    let at = Marks::of(site, &flat(mask), waiting).await?.positions(site);
    Ok(rows(site, &flat(x), 0, &at))
}

/// Which elements of a rank-1 `Bool` tensor are true, counted.
pub(crate) struct Marks {
    mask: Tensor,
    /// How many are true up to each element, itself included.
    pub seen: Tensor,
    /// How many are.
    pub count: usize,
}

impl Marks {
    /// Counts the true elements of a rank-1 mask, which computes it.
    ///
    /// # Errors
    /// As [`Tensor::nonzero`].
    pub async fn of(site: CallSite, mask: &Tensor, waiting: Waiting) -> Result<Marks> {
        let seen = scanned(site, &site.cast(mask, DType::I64), 0, Monoid::Sum);
        let nodes = [mask.node()?.clone(), seen.node()?.clone()];
        match waiting {
            Waiting::Block => plan::realize(&nodes, site.span)?,
            Waiting::Yield => plan::realize_async(&nodes, site.span).await?,
        }
        let extent = mask.numel();
        let count = match extent {
            0 => 0,
            _ => {
                let last = site.slice(&seen, 0, extent - 1, extent, 1);
                number(&last.bytes(site.name, site.span, waiting).await?)
            }
        };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Ok(Marks { mask: mask.clone(), seen, count })
    }

    /// The positions of the true elements, ascending: `I64`.
    pub fn positions(&self, site: CallSite) -> Tensor {
        let device = self.mask.device();
        let here = site.iota(self.mask.numel(), DType::I64, device);
        // The others write to a place of their own, which is cut off.
        let place = site.sub(&self.seen, 1i64);
        let place = site.choose(
            &self.mask,
            &place,
            &site.expand(&site.scalar(self.count, DType::I64, device), &place.shape()),
        );
        let base = filled(site, Scalar::Int(0), Shape::from(self.count + 1), DType::I64, device);
        let put = site.apply(Op::Scatter(0, ScatterMode::Set), &[&base, &place, &here]);
        site.slice(&put, 0, 0, self.count, 1)
    }

    /// How many elements there are from each true one to the next, or to the
    /// end: of a mask that begins with true, the lengths of the runs.
    pub fn distances(&self, site: CallSite, positions: &Tensor) -> Tensor {
        if self.count == 0 {
            return positions.clone();
        }
        let next = PadAxis { lo: -1, hi: 1, interior: 0 };
        site.sub(site.pad(positions, vec![next], self.mask.numel()), positions)
    }
}

/// Fails for a tensor whose values will never be known.
pub(crate) fn with_data(site: CallSite, x: &Tensor) -> Result<()> {
    let ty = x.node()?.ty();
    match ty.device.is_meta() {
        true => Err(Error::NoData { call: site.name, shape: ty.shape.clone(), span: site.span }),
        false => Ok(()),
    }
}

fn flat_mask(site: CallSite, x: &Tensor) -> Tensor {
    site.reshape(&site.cast(x, DType::Bool), &[x.numel()])
}

/// The coordinates of the elements that are not zero, one tensor per axis.
async fn coordinates(site: CallSite, x: &Tensor, waiting: Waiting) -> Result<Vec<Tensor>> {
    let shape = x.node()?.ty().shape.clone();
    if shape.rank() == 0 {
        return Ok(Vec::new());
    }
    let flat = Marks::of(site, &flat_mask(site, x), waiting).await?.positions(site);
    let axes = shape.iter().zip(shape.strides());
    let along =
        |(&extent, stride): (&usize, i64)| site.binary(AluOp::Rem, site.div(&flat, stride), extent.max(1));
    Ok(axes.map(along).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Device;
    use crate::tensor::testing::{assert_close, f32s, i64s, tensor};

    #[test]
    fn positions_come_in_row_major_order() {
        let x = f32s(&[2, 3], &[0.0, 1.0, f64::NAN, 2.0, 0.0, 0.0]);
        assert_close(&x.nonzero().unwrap(), &[3, 2], &[0.0, 1.0, 0.0, 2.0, 1.0, 0.0]);
        let axes = x.nonzero_axes().unwrap();
        assert_close(&axes[1], &[3], &[1.0, 2.0, 0.0]);
        assert_close(&x.zeros_like().nonzero().unwrap(), &[0, 2], &[]);
        assert_close(&f32s(&[0, 2], &[]).nonzero().unwrap(), &[0, 2], &[]);
        assert_close(&i64s(&[], &[5]).nonzero().unwrap(), &[1, 0], &[]);
        assert_close(&i64s(&[], &[5]).nonzero_axes().unwrap()[0], &[1], &[0.0]);
    }

    #[test]
    fn masks_select_and_broadcast() {
        let (x, mask) = (i64s(&[2, 2], &[1, 2, 3, 4]), tensor(&[2], DType::Bool, &[0.0, 1.0]));
        assert_close(&x.masked_select(&mask).unwrap(), &[2], &[2.0, 4.0]);
        assert_close(&x.masked_select(&mask.logical_not()).unwrap().to_dtype(DType::F32), &[2], &[1.0, 3.0]);
        let error = x.masked_select(&x).unwrap_err().to_string();
        assert!(error.contains("expected a bool mask, found i64"), "{error}");
        assert!(x.masked_select(&tensor(&[3], DType::Bool, &[0.0; 3])).is_err());
    }

    #[test]
    fn values_that_do_not_exist_cannot_be_counted() {
        let x = Tensor::ones([2], Device::meta());
        assert!(matches!(x.nonzero(), Err(Error::NoData { call: "nonzero", .. })));
    }
}
