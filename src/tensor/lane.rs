//! Axis arguments with PyTorch's leniency: a single element counts as a row
//! of one, no axes of a reduction are all, and `..` of an operation along
//! one axis is the flattened tensor.

use crate::base::{Dims, Result, Shape};
use crate::tensor::Tensor;
use crate::tensor::axis::{AxisList, resolve};
use crate::tensor::compose::CallSite;

/// Most axes an operation takes.
const MOST_AXES: usize = 64;

/// The numbers of the axes named, ascending; of a single element, none.
///
/// # Errors
/// An axis out of range or named twice, or more axes than any operation takes.
pub(crate) fn lanes(site: CallSite, x: &Tensor, axes: &AxisList) -> Result<Dims> {
    let rank = x.rank();
    if rank > MOST_AXES {
        return Err(site.error(format!("at most {MOST_AXES} axes"), rank.to_string(), &[x]));
    }
    let AxisList::These(axes) = axes else { return Ok((0..rank).collect()) };
    let shape = if rank == 0 { Shape::from(1) } else { x.shape() };
    let mut found = Dims::new();
    for &axis in axes {
        let axis = resolve(site.name, site.span, axis, &shape)?;
        if found.contains(&axis) {
            return Err(site.error("distinct axes", format!("axis {axis} twice"), &[x]));
        }
        found.push(axis);
    }
    found.sort_unstable();
    found.retain(|axis| *axis < rank);
    Ok(found)
}

/// The axes of a reduction: those named, or all if none is.
///
/// # Errors
/// As [`lanes`].
pub(crate) fn reduced(site: CallSite, x: &Tensor, axes: &AxisList) -> Result<Dims> {
    let named = lanes(site, x, axes)?;
    Ok(if named.is_empty() { (0..x.rank()).collect() } else { named })
}

/// `x` and the one axis to work along: `..` stands for the flattened tensor.
///
/// # Errors
/// An axis out of range, or not exactly one.
pub(crate) fn one_lane(site: CallSite, x: &Tensor, axes: &AxisList) -> Result<(Tensor, usize)> {
    match axes {
        AxisList::All => Ok((site.reshape(x, &Shape::from(x.numel())), 0)),
        AxisList::These(axes) => match axes[..] {
            [axis] => site.lane(x, axis),
            _ => Err(site.error("one axis, or `..`", format!("{} axes", axes.len()), &[x])),
        },
    }
}

/// The shape of `x` with the axes given reduced to extent 1.
pub(crate) fn kept(x: &Tensor, axes: &[usize]) -> Shape {
    let shape = x.shape();
    let dims: Dims =
        (0..shape.rank()).map(|axis| if axes.contains(&axis) { 1 } else { shape[axis] }).collect();
    Shape(dims)
}
