//! The same elements repeated, reversed and rotated.

use crate::base::{DType, Dims, Result, Shape};
use crate::ir::op::WindowAxis;
use crate::ir::{AluOp, Op};
use crate::tensor::Tensor;
use crate::tensor::axis::{AxisList, IntoAxes};
use crate::tensor::call_site::with_extent;
use crate::tensor::compose::CallSite;
use crate::tensor::movement::repeated;
use crate::tensor::permute::in_order;
use crate::tensor::position::positions;
use crate::tensor::spec::{IntoShapeSpec, ShapeSpec};
use crate::tensor::{join, lane};

impl Tensor {
    /// Copies laid side by side, `counts[i]` along axis `i`: `[2]` by `[2, 3]` gives `[2, 6]`.
    ///
    /// With more counts than axes, new leading axes; invalid with fewer.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2]).repeat(2).to_vec::<i64>()?, [1, 2, 1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat(&self, counts: impl IntoShapeSpec) -> Tensor {
        let site = CallSite::here("repeat");
        let counts = counts.into_shape_spec();
        site.build(&[self], || {
            if counts.0.len() < self.rank() {
                let expected = format!("a count for each of {} axes", self.rank());
                return Err(site.error(expected, format!("{:?}", counts.0), &[self]));
            }
            tiled(site, self, &counts)
        })
    }

    /// As [`Tensor::repeat`]; with fewer counts than axes, for the last axes.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 3], ());
    /// assert_eq!(x.tile(2).dims()?, [2, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn tile(&self, counts: impl IntoShapeSpec) -> Tensor {
        let site = CallSite::here("tile");
        let mut counts = counts.into_shape_spec();
        while counts.0.len() < self.rank() {
            counts.0.insert(0, 1);
        }
        site.build(&[self], || tiled(site, self, &counts))
    }

    /// Each element `count` times in place along an axis: `[n]` gives `[n count]`.
    ///
    /// `..` repeats the elements of the flattened tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2]).repeat_interleave(2, 0).to_vec::<i64>()?, [1, 1, 2, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat_interleave(&self, count: usize, axis: impl IntoAxes) -> Tensor {
        let site = CallSite::here("repeat_interleave");
        let axis = axis.into_axes();
        site.build(&[self], || {
            let (x, axis) = lane::one_lane(site, self, &axis)?;
            let shape = with_extent(&x.shape(), axis, x.shape()[axis].saturating_mul(count));
            Ok(site.reshape(&repeated(site, &x, axis + 1, count), &shape))
        })
    }

    /// The axes named reversed; the shape stays. Invalid for an axis out of range or named twice.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([[1i64, 2], [3, 4]]).flip(1).to_vec::<i64>()?, [2, 1, 4, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn flip(&self, axes: impl IntoAxes) -> Tensor {
        let site = CallSite::here("flip");
        let axes = axes.into_axes();
        site.build(&[self], || Ok(site.flip(self, &lane::lanes(site, self, &axes)?)))
    }

    /// Columns reversed: axis 1. Invalid below rank 2.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([[1i64, 2], [3, 4]]).fliplr().to_vec::<i64>()?, [2, 1, 4, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn fliplr(&self) -> Tensor {
        flip_one(CallSite::here("fliplr"), self, 1)
    }

    /// Rows reversed: axis 0. Invalid for rank 0.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([[1i64, 2], [3, 4]]).flipud().to_vec::<i64>()?, [3, 4, 1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn flipud(&self) -> Tensor {
        flip_one(CallSite::here("flipud"), self, 0)
    }

    /// Elements moved along axes by the shifts; those that fall off the end come back at the start.
    ///
    /// `..` rolls the flattened tensor. Invalid unless there is one shift for each axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2, 3]).roll(1, 0).to_vec::<i64>()?, [3, 1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn roll(&self, shifts: impl IntoShapeSpec, axes: impl IntoAxes) -> Tensor {
        let site = CallSite::here("roll");
        let (shifts, axes) = (shifts.into_shape_spec(), axes.into_axes());
        site.build(&[self], || match axes {
            AxisList::All => {
                let [shift] = shifts.0[..] else {
                    return Err(site.error(
                        "one shift for the flattened tensor",
                        format!("{:?}", shifts.0),
                        &[self],
                    ));
                };
                let flat = site.reshape(self, &Shape::from(self.numel()));
                Ok(site.reshape(&rolled(site, &flat, 0, shift)?, &self.shape()))
            }
            AxisList::These(axes) => {
                if shifts.0.is_empty() || shifts.0.len() != axes.len() {
                    let found = format!("{} shifts and {} axes", shifts.0.len(), axes.len());
                    return Err(site.error("one shift for each axis, and at least one", found, &[self]));
                }
                let mut x = self.clone();
                for (&shift, &axis) in shifts.0.iter().zip(&axes) {
                    x = rolled(site, &x, site.axis_number(self, axis)?, shift)?;
                }
                Ok(x)
            }
        })
    }

    /// Rotation by `quarters` of a turn from the first axis towards the second.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([[1i64, 2], [3, 4]]).rot90(1, [0, 1]).to_vec::<i64>()?, [2, 4, 1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn rot90(&self, quarters: i64, axes: [i64; 2]) -> Tensor {
        let site = CallSite::here("rot90");
        site.build(&[self], || {
            let plane = in_order(site, self, &axes.into_axes())?;
            let mut order: Vec<usize> = (0..self.rank()).collect();
            order.swap(plane[0], plane[1]);
            Ok(match quarters.rem_euclid(4) {
                0 => self.clone(),
                1 => site.flip(&site.permute(self, &order), &plane[..1]),
                2 => site.flip(self, &plane),
                _ => site.permute(&site.flip(self, &plane[..1]), &order),
            })
        })
    }

    /// The zero-frequency element moved to the middle of the axes named.
    ///
    /// PyTorch: `torch.fft.fftshift`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([0i64, 1, -1]).fftshift(0).to_vec::<i64>()?, [-1, 0, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn fftshift(&self, axes: impl IntoAxes) -> Tensor {
        centred(CallSite::here("fftshift"), self, &axes.into_axes(), |extent| extent / 2)
    }

    /// The inverse of [`Tensor::fftshift`]. PyTorch: `torch.fft.ifftshift`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([-1i64, 0, 1]).ifftshift(0).to_vec::<i64>()?, [0, 1, -1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn ifftshift(&self, axes: impl IntoAxes) -> Tensor {
        centred(CallSite::here("ifftshift"), self, &axes.into_axes(), |extent| extent.div_ceil(2))
    }

    /// Windows of `size` elements every `step` along an axis.
    ///
    /// A window's elements become a new last axis: `[n]` gives `[(n - size) / step + 1, size]`.
    /// Invalid for a size above the extent or a step of 0. PyTorch: `Tensor.unfold`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2, 3]).unfold(0, 2, 1).to_vec::<i64>()?, [1, 2, 2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn unfold(&self, axis: i64, size: usize, step: usize) -> Tensor {
        let site = CallSite::here("unfold");
        site.build(&[self], || {
            let (x, axis) = site.lane(self, axis)?;
            let extent = x.shape()[axis];
            if size > extent || step == 0 {
                let expected = format!("windows of at most {extent} elements and a step of at least 1");
                return Err(site.error(expected, format!("size {size}, step {step}"), &[self]));
            }
            let y = if size == 0 {
                let mut shape = with_extent(&x.shape(), axis, extent / step + 1);
                shape.0.push(0);
                site.expand(&site.constant_like(0, &x), &shape)
            } else {
                let window = WindowAxis { axis: axis as u8, size, stride: step, dilation: 1 };
                site.apply(Op::window(window), &[&x])
            };
            // PyTorch drops the axis that stands for the missing one.
            Ok(if self.rank() == 0 { site.reshape(&y, &Shape::from(size)) } else { y })
        })
    }

    /// A view of the elements in row-major order by strides.
    ///
    /// Element `i` is that at position `offset + sum(i[axis] * strides[axis])`; the result has this
    /// `shape`. Invalid where a position lies outside.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let y = Tensor::from([1i64, 2, 3]).as_strided([2, 2], [1, 1], 0);
    /// assert_eq!(y.to_vec::<i64>()?, [1, 2, 2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn as_strided(
        &self,
        shape: impl IntoShapeSpec,
        strides: impl IntoShapeSpec,
        offset: usize,
    ) -> Tensor {
        let site = CallSite::here("as_strided");
        let (shape, strides) = (shape.into_shape_spec(), strides.into_shape_spec());
        site.build(&[self], || strided(site, self, &shape, &strides, offset))
    }

    /// Channels `[.., c r², h, w]` spread over space: `[.., c, h r, w r]` (Shi et al. 2016).
    ///
    /// Invalid unless the square of the factor divides the channels.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([8, 3, 2], ());
    /// assert_eq!(x.pixel_shuffle(2).dims()?, [2, 6, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn pixel_shuffle(&self, factor: usize) -> Tensor {
        let site = CallSite::here("pixel_shuffle");
        site.build(&[self], || {
            let (lead, [c, h, w]) = channels(site, self)?;
            let r = factor;
            if r == 0 || !c.is_multiple_of(r.saturating_mul(r)) {
                let expected = format!("a factor whose square divides {c} channels");
                return Err(site.error(expected, r.to_string(), &[self]));
            }
            let split = site.reshape(self, &joined(&lead, &[c / (r * r), r, r, h, w]));
            let mixed = trailing_permute(site, &split, &[0, 3, 1, 4, 2]);
            Ok(site.reshape(&mixed, &joined(&lead, &[c / (r * r), h * r, w * r])))
        })
    }

    /// The inverse of [`Tensor::pixel_shuffle`]: `[.., c, h r, w r]` to `[.., c r², h, w]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 6, 4], ());
    /// assert_eq!(x.pixel_unshuffle(2).dims()?, [8, 3, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn pixel_unshuffle(&self, factor: usize) -> Tensor {
        let site = CallSite::here("pixel_unshuffle");
        site.build(&[self], || {
            let (lead, [c, h, w]) = channels(site, self)?;
            let r = factor;
            if r == 0 || !h.is_multiple_of(r) || !w.is_multiple_of(r) {
                let expected = format!("a factor that divides {h} and {w}");
                return Err(site.error(expected, r.to_string(), &[self]));
            }
            let split = site.reshape(self, &joined(&lead, &[c, h / r, r, w / r, r]));
            let mixed = trailing_permute(site, &split, &[0, 2, 4, 1, 3]);
            Ok(site.reshape(&mixed, &joined(&lead, &[c * r * r, h / r, w / r])))
        })
    }

    /// Channels (axis 1) dealt out over `groups` (Zhang et al. 2017).
    ///
    /// Element `i` of group `g` goes to position `i * groups + g`. Invalid below rank 3 or unless
    /// the groups divide the channels.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let y = Tensor::from([[[1i64], [2], [3], [4]]]).channel_shuffle(2);
    /// assert_eq!(y.to_vec::<i64>()?, [1, 3, 2, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn channel_shuffle(&self, groups: usize) -> Tensor {
        let site = CallSite::here("channel_shuffle");
        site.build(&[self], || {
            let shape = self.shape();
            if shape.rank() < 3 || groups == 0 || !shape[1].is_multiple_of(groups) {
                let expected = "rank 3 or more and groups that divide axis 1";
                return Err(site.error(expected, format!("{groups} groups"), &[self]));
            }
            let mut split = Dims::from_slice(&[shape[0], groups, shape[1] / groups]);
            split.extend_from_slice(&shape[2..]);
            let mut order: Vec<usize> = (0..split.len()).collect();
            order.swap(1, 2);
            let dealt = site.permute(&site.reshape(self, &Shape(split)), &order);
            Ok(site.reshape(&dealt, &shape))
        })
    }
}

fn tiled(site: CallSite, x: &Tensor, counts: &ShapeSpec) -> Result<Tensor> {
    let (own, lead) = (x.shape(), counts.0.len() - x.rank());
    let (mut single, mut many, mut result) = (Dims::new(), Dims::new(), Dims::new());
    for (i, &count) in counts.0.iter().enumerate() {
        let fail = || site.error("counts of at least 0", format!("{count} for axis {i}"), &[x]);
        let count = usize::try_from(count).map_err(|_| fail())?;
        let extent = if i < lead { 1 } else { own[i - lead] };
        if count != 1 {
            single.push(1);
            many.push(count);
        }
        single.push(extent);
        many.push(extent);
        result.push(extent.saturating_mul(count));
    }
    let copies = site.expand(&site.reshape(x, &Shape(single)), &Shape(many));
    Ok(site.reshape(&copies, &Shape(result)))
}

fn flip_one(site: CallSite, x: &Tensor, axis: usize) -> Tensor {
    site.build(&[x], || {
        if x.rank() <= axis {
            return Err(site.error(format!("rank {} or more", axis + 1), format!("rank {}", x.rank()), &[x]));
        }
        Ok(site.flip(x, &[axis]))
    })
}

fn rolled(site: CallSite, x: &Tensor, axis: usize, shift: i64) -> Result<Tensor> {
    let extent = x.shape()[axis];
    let shift = if extent == 0 { 0 } else { shift.rem_euclid(extent as i64) as usize };
    if shift == 0 {
        return Ok(x.clone());
    }
    let tail = site.slice(x, axis, extent - shift, extent, 1);
    let head = site.slice(x, axis, 0, extent - shift, 1);
    join::cat_along(site, &[&tail, &head], axis)
}

fn centred(site: CallSite, x: &Tensor, axes: &AxisList, shift: fn(usize) -> usize) -> Tensor {
    site.build(&[x], || {
        let mut y = x.clone();
        for axis in lane::lanes(site, x, axes)? {
            y = rolled(site, &y, axis, shift(x.shape()[axis]) as i64)?;
        }
        Ok(y)
    })
}

fn strided(
    site: CallSite,
    x: &Tensor,
    shape: &ShapeSpec,
    strides: &ShapeSpec,
    offset: usize,
) -> Result<Tensor> {
    let fits = shape.0.len() == strides.0.len() && shape.0.iter().chain(&strides.0).all(|&n| n >= 0);
    if !fits {
        let found = format!("{:?} and {:?}", shape.0, strides.0);
        return Err(site.error("as many strides as extents, none below 0", found, &[x]));
    }
    let dims: Shape = Shape(shape.0.iter().map(|&n| n as usize).collect());
    let reach =
        dims.iter().zip(&strides.0).map(|(&n, &s)| (n.max(1) as i128 - 1) * i128::from(s)).sum::<i128>();
    if dims.numel() > 0 && reach + offset as i128 >= x.numel() as i128 {
        let expected = format!("positions below {}", x.numel());
        return Err(site.error(expected, format!("position {}", reach + offset as i128), &[x]));
    }
    let index = DType::I64;
    let mut at = site.expand(&site.scalar(offset, index, x.device()), &dims);
    for (axis, &stride) in strides.0.iter().enumerate() {
        if dims[axis] > 1 && stride != 0 {
            let row = positions(site, dims[axis], (axis, dims.rank()), index, x.device());
            let steps = site.alu(AluOp::Mul, &[&row, &site.scalar(stride, index, x.device())]);
            at = site.alu(AluOp::Add, &[&at, &site.expand(&steps, &dims)]);
        }
    }
    let flat = site.reshape(x, &Shape::from(x.numel()));
    let at = site.reshape(&at, &Shape::from(dims.numel()));
    Ok(site.reshape(&site.apply(Op::Gather(0), &[&flat, &at]), &dims))
}

/// The leading extents, and the last three: channels, height, width.
fn channels(site: CallSite, x: &Tensor) -> Result<(Shape, [usize; 3])> {
    let shape = x.shape();
    match shape[..] {
        [ref lead @ .., c, h, w] => Ok((lead.into(), [c, h, w])),
        _ => Err(site.error("rank 3 or more", format!("rank {}", shape.rank()), &[x])),
    }
}

fn joined(lead: &Shape, rest: &[usize]) -> Shape {
    let mut dims = lead.0.clone();
    dims.extend_from_slice(rest);
    Shape(dims)
}

/// The last axes reordered, the leading ones as they are.
fn trailing_permute(site: CallSite, x: &Tensor, order: &[usize]) -> Tensor {
    let lead = x.rank() - order.len();
    let order: Vec<usize> = (0..lead).chain(order.iter().map(|&axis| lead + axis)).collect();
    site.permute(x, &order)
}

#[cfg(test)]
mod tests;
