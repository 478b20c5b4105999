//! Indexing by tensors of positions: several axes at once, as one gather or
//! scatter along the axes flattened into one.

use crate::base::shape::volume;
use crate::base::{DType, Dims, Kind, Result, Shape};
use crate::ir::{AluOp, Op, ScatterMode};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::position::along;

/// How indexed axes of a tensor become one: the axes in `order`, of which
/// `width` from `at` on are flattened and read at the positions `index`.
struct Picks {
    order: Vec<usize>,
    at: usize,
    width: usize,
    /// Positions along the flattened axis, in row-major order.
    index: Tensor,
    /// The shape of the positions.
    shape: Shape,
}

/// The elements at the positions that `indices` hold, one entry per axis.
pub(crate) fn take_at(site: CallSite, x: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    let picks = Picks::new(site, x, indices)?;
    let flat = picks.flatten(site, x);
    let taken = rows(site, &flat, picks.at, &picks.index);
    Ok(site.reshape(&taken, &picks.result_shape(x)))
}

/// `x` with `values` combined in at the positions that `indices` hold.
pub(crate) fn put_at(
    site: CallSite,
    x: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    mode: ScatterMode,
) -> Result<Tensor> {
    let picks = Picks::new(site, x, indices)?;
    let flat = picks.flatten(site, x);
    let result = picks.result_shape(x);
    if values.shape().broadcast(&result).as_ref() != Some(&result) {
        let expected = format!("values that broadcast to {result}");
        return Err(site.error(expected, values.shape().to_string(), &[x, values]));
    }
    let mut shape = flat.shape();
    shape.0[picks.at] = picks.shape.numel();
    let values = site.reshape(&site.expand(values, &result), &shape);
    let index = site.expand(&along(site, &picks.index, picks.at, shape.rank()), &shape);
    let put = site.apply(Op::Scatter(picks.at as u8, mode), &[&flat, &index, &values]);
    let own = x.shape();
    let permuted: Dims = picks.order.iter().map(|&axis| own[axis]).collect();
    let mut back = vec![0; own.rank()];
    for (slot, &axis) in picks.order.iter().enumerate() {
        back[axis] = slot;
    }
    Ok(site.permute(&site.reshape(&put, &Shape(permuted)), &back))
}

/// The elements of `x` at the positions of a rank-1 `index` along an axis.
pub(crate) fn rows(site: CallSite, x: &Tensor, axis: usize, index: &Tensor) -> Tensor {
    let mut shape = x.shape();
    shape.0[axis] = index.numel();
    let index = site.expand(&along(site, index, axis, shape.rank()), &shape);
    site.apply(Op::Gather(axis as u8), &[x, &index])
}

/// An index tensor as `I64`.
///
/// # Errors
/// A type that is not an integer.
pub(crate) fn as_index(site: CallSite, index: &Tensor) -> Result<Tensor> {
    match index.dtype().kind() {
        Kind::Int => Ok(site.cast(index, DType::I64)),
        Kind::Bool | Kind::Float => Err(site.error("an integer index", index.dtype().to_string(), &[index])),
    }
}

/// An index counted from the end of an axis where it is negative.
pub(crate) fn wrapped(site: CallSite, index: &Tensor, extent: usize) -> Tensor {
    let zero = site.constant_like(0, index);
    let from_end = site.alu(AluOp::Add, &[index, &site.constant_like(extent, index)]);
    site.choose(&site.alu(AluOp::Lt, &[index, &zero]), &from_end, index)
}

impl Picks {
    fn new(site: CallSite, x: &Tensor, indices: &[Option<Tensor>]) -> Result<Picks> {
        let axes: Vec<usize> = (0..indices.len()).filter(|&axis| indices[axis].is_some()).collect();
        let mut tensors = Vec::with_capacity(axes.len());
        let mut shape = Shape::scalar();
        for index in indices.iter().flatten() {
            index.node()?;
            if index.dtype() == DType::Bool {
                let expected = "an index whose extent is known before it runs";
                let found = "a bool mask, which takes as many elements as it has true ones; \
                    use `select` or `masked_fill`, or compute the positions first";
                return Err(site.error(expected, found, &[x, index]));
            }
            let fail = || site.error("indices that broadcast together", format!("{}", index.shape()), &[x]);
            shape = shape.broadcast(&index.shape()).ok_or_else(fail)?;
            tensors.push(as_index(site, index)?);
        }
        let own = x.shape();
        if shape.numel() > 0
            && let Some(&axis) = axes.iter().find(|&&axis| own[axis] == 0)
        {
            return Err(site.error(
                format!("no index into axis {axis} of extent 0"),
                shape.to_string(),
                &[x],
            ));
        }
        let neighbours = axes.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let rest = (0..own.rank()).filter(|axis| !axes.contains(axis));
        let (order, at) = match axes.first() {
            Some(&first) if neighbours => ((0..own.rank()).collect(), first),
            Some(_) | None => (axes.iter().copied().chain(rest).collect(), 0),
        };
        let index = linear(site, &tensors, &axes, &own, &shape);
        let index = site.reshape(&index, &Shape::from(shape.numel()));
        Ok(Picks { order, at, width: axes.len(), index, shape })
    }

    /// `x` with its indexed axes flattened into the axis `at`.
    fn flatten(&self, site: CallSite, x: &Tensor) -> Tensor {
        let y = site.permute(x, &self.order);
        let shape = y.shape();
        let end = self.at + self.width;
        let mut dims = Dims::from_slice(&shape[..self.at]);
        dims.push(volume(&shape[self.at..end]));
        dims.extend_from_slice(&shape[end..]);
        site.reshape(&y, &Shape(dims))
    }

    /// The shape of what is taken from `x`.
    fn result_shape(&self, x: &Tensor) -> Shape {
        let own = x.shape();
        let extent = |&axis: &usize| own[axis];
        let mut dims: Dims = self.order[..self.at].iter().map(extent).collect();
        dims.extend_from_slice(&self.shape);
        dims.extend(self.order[self.at + self.width..].iter().map(extent));
        Shape(dims)
    }
}

/// Positions on several axes as positions on the flattened one. A position
/// outside its own axis becomes -1, so that it cannot pass for another's.
fn linear(site: CallSite, tensors: &[Tensor], axes: &[usize], own: &Shape, shape: &Shape) -> Tensor {
    let mut flat: Option<(Tensor, Tensor)> = None;
    for (index, &axis) in tensors.iter().zip(axes) {
        let index = site.expand(&wrapped(site, index, own[axis]), shape);
        if axes.len() == 1 {
            return index;
        }
        let extent = site.constant_like(own[axis], &index);
        let below = site.alu(AluOp::Lt, &[&index, &extent]);
        let inside = site.alu(AluOp::Lt, &[&site.constant_like(-1, &index), &index]);
        let inside = site.alu(AluOp::And, &[&below, &inside]);
        flat = Some(match flat {
            None => (index, inside),
            Some((sum, all)) => {
                let sum = site.alu(AluOp::Mul, &[&sum, &extent]);
                (site.alu(AluOp::Add, &[&sum, &index]), site.alu(AluOp::And, &[&all, &inside]))
            }
        });
    }
    let Some((sum, inside)) = flat else { panic!("an index without tensors of positions") };
    site.choose(&inside, &sum, &site.constant_like(-1, &sum))
}
