//! What a program computes with the other ranks of a group.

use std::sync::Arc;

use crate::base::{DType, Device, Error, Result, Shape, Span};
use crate::dist::group::Group;
use crate::ir::collective::{CollectiveKind, Reduce};
use crate::ir::{Layout, Leaf, Node, Op, Type};
use crate::plan;
use crate::runtime::host;
use crate::tensor::collective::collective;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::{Place, Tensor};

/// Operations of the graph. Like all of them they are lazy, have gradients and know their result's type at
/// once.
///
/// A rank runs them in the order in which it built them, whatever it reads first, and each once: its value
/// is kept as long as anything refers to it. One that nothing refers to does not run, so let go of a result
/// on all ranks or on none. The bodies of loops and composites hold none.
impl Group {
    /// The tensors of all ranks combined, on every rank. All have one shape and type. PyTorch:
    /// `all_reduce`, which writes over its tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::dist::{self, Reduce};
    /// use kiln::prelude::*;
    /// let ranks = dist::spawn(3, |group| {
    ///     let x = Tensor::from([group.rank() as f32, 1.0]);
    ///     group.all_reduce(&x, Reduce::Sum).to_vec::<f32>()
    /// })?;
    /// assert_eq!(ranks[2], [3.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn all_reduce(&self, x: &Tensor, reduce: Reduce) -> Tensor {
        collective(CallSite::here("all_reduce"), CollectiveKind::AllReduce(reduce), &self.channel(), x)
    }

    /// The tensors of all ranks joined along an axis, in the order of the ranks, on every rank. All have
    /// one shape and type. PyTorch: `all_gather_into_tensor`, along the first axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::dist;
    /// use kiln::prelude::*;
    /// let ranks = dist::spawn(2, |group| {
    ///     let x = Tensor::full([2, 1], group.rank() as f32, ());
    ///     group.all_gather(&x, -1).to_vec::<f32>()
    /// })?;
    /// assert_eq!(ranks[1], [0.0, 1.0, 0.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn all_gather(&self, x: &Tensor, axis: i64) -> Tensor {
        let site = CallSite::here("all_gather");
        let built = || -> Checked<Tensor> {
            let axis = site.axis(x, axis)?;
            let all = collective(site, CollectiveKind::AllGather, &self.channel(), x);
            site.valid(&[&all])?;
            Ok(joined(site, &all, axis))
        };
        finish(built())
    }

    /// The tensors of all ranks combined, of which each rank gets its part along an axis. PyTorch:
    /// `reduce_scatter_tensor`, along the first axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::dist::{self, Reduce};
    /// use kiln::prelude::*;
    /// let ranks = dist::spawn(2, |group| {
    ///     let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]) * (group.rank() + 1) as f32;
    ///     group.reduce_scatter(&x, 0, Reduce::Sum).to_vec::<f32>()
    /// })?;
    /// assert_eq!(ranks, [[3.0, 6.0], [9.0, 12.0]]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn reduce_scatter(&self, x: &Tensor, axis: i64, reduce: Reduce) -> Tensor {
        let site = CallSite::here("reduce_scatter");
        let built = || -> Checked<Tensor> {
            let parts = self.split(site, x, axis)?.0;
            Ok(collective(site, CollectiveKind::ReduceScatter(reduce), &self.channel(), &parts))
        };
        finish(built())
    }

    /// Each rank's tensor in one part for each rank along an axis, and every part given to its rank: the
    /// parts that a rank gets, joined along the axis in the order of the ranks. PyTorch:
    /// `all_to_all_single`, along the first axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::dist;
    /// use kiln::prelude::*;
    /// let ranks = dist::spawn(2, |group| {
    ///     let x = Tensor::from([1i64, 2]) + 2 * group.rank() as i64;
    ///     group.all_to_all(&x, 0).to_vec::<i64>()
    /// })?;
    /// assert_eq!(ranks, [[1, 3], [2, 4]]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn all_to_all(&self, x: &Tensor, axis: i64) -> Tensor {
        let site = CallSite::here("all_to_all");
        let built = || -> Checked<Tensor> {
            let (parts, axis) = self.split(site, x, axis)?;
            let given = collective(site, CollectiveKind::AllToAll, &self.channel(), &parts);
            site.valid(&[&given])?;
            Ok(joined(site, &given, axis))
        };
        finish(built())
    }

    /// The tensor of one rank, on every rank. The others give one of the same shape and type. PyTorch:
    /// `broadcast`, which writes over theirs.
    ///
    /// # Examples
    /// ```
    /// use kiln::dist;
    /// use kiln::prelude::*;
    /// let ranks = dist::spawn(2, |group| {
    ///     let x = Tensor::from([group.rank() as f32 + 0.5]);
    ///     group.broadcast(&x, 1).item::<f32>()
    /// })?;
    /// assert_eq!(ranks, [1.5, 1.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast(&self, x: &Tensor, root: usize) -> Tensor {
        collective(CallSite::here("broadcast"), CollectiveKind::Broadcast { root }, &self.channel(), x)
    }

    /// A tensor in one part for each rank along an axis, the parts along a new leading one; and the axis.
    fn split(&self, site: CallSite, x: &Tensor, axis: i64) -> Checked<(Tensor, usize)> {
        let (axis, ranks) = (site.axis(x, axis)?, self.size());
        let extent = x.shape()[axis];
        site.require(extent.is_multiple_of(ranks), &[x], || {
            (format!("an axis that {ranks} ranks divide"), format!("axis {axis} of extent {extent}"))
        })?;
        let mut dims = x.shape().to_vec();
        dims[axis] = extent / ranks;
        dims.insert(axis, ranks);
        let mut order: Vec<usize> = (0..dims.len()).filter(|&other| other != axis).collect();
        order.insert(0, axis);
        Ok((site.permute(&site.reshape(x, &dims), &order), axis))
    }
}

/// Parts along a leading axis, joined along another one.
fn joined(site: CallSite, parts: &Tensor, axis: usize) -> Tensor {
    let mut dims = parts.shape().to_vec();
    let ranks = dims.remove(0);
    dims[axis] *= ranks;
    let mut order: Vec<usize> = (1..=dims.len()).collect();
    order.insert(axis, 0);
    site.reshape(&site.permute(parts, &order), &dims)
}

/// From one rank to another, at once.
impl Group {
    /// Gives a tensor to another rank, whose [`Group::receive`] takes it; does not wait for that.
    /// Collectives that were built before run first. PyTorch: `send`.
    ///
    /// # Errors
    /// A rank that is this one or none; what computing the tensor says; [`Error::Collective`].
    ///
    /// # Examples
    /// ```
    /// use kiln::dist;
    /// use kiln::prelude::*;
    /// let ranks = dist::spawn(2, |group| {
    ///     if group.rank() == 0 {
    ///         group.send(&Tensor::from([1.0f32, 2.0]), 1)?;
    ///         return Ok(Vec::new());
    ///     }
    ///     group.receive(0, [2], ()).to_vec::<f32>()
    /// })?;
    /// assert_eq!(ranks[1], [1.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn send(&self, x: &Tensor, to: usize) -> Result<()> {
        let span = Span::caller();
        self.other_rank("send", to, span)?;
        self.finish_built(span)?;
        let bytes = x.read("send", span)?;
        self.endpoint().send(to, x.node()?.ty(), span, &bytes)
    }

    /// The tensor that another rank sends, which has this shape and the place's type, `F32` where it names
    /// none. Invalid where the rank is this one or none, or sends another type or nothing in time. PyTorch:
    /// `recv`.
    ///
    /// # Examples
    /// ```
    /// use kiln::dist;
    /// use kiln::prelude::*;
    /// // Around the ring.
    /// let ranks = dist::spawn(3, |group| {
    ///     group.send(&Tensor::scalar(group.rank() as i64, DType::I64), (group.rank() + 1) % 3)?;
    ///     group.receive((group.rank() + 2) % 3, (), DType::I64).item::<i64>()
    /// })?;
    /// assert_eq!(ranks, [2, 0, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn receive(&self, from: usize, shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        let (span, place) = (Span::caller(), place.into());
        let ty = Type::new(shape.into(), place.dtype_or(DType::F32), place.device());
        Tensor::build(|| {
            self.other_rank("receive", from, span)?;
            self.finish_built(span)?;
            let bytes = self.endpoint().receive(from, &ty, span)?;
            let buffer = Arc::new(host::upload(&bytes)?);
            let leaf = Leaf { buffer, layout: Layout::contiguous(&ty.shape) };
            let here = Tensor::from_node(Node::leaf(ty.with_device(Device::cpu()), leaf, span));
            if ty.device == Device::cpu() {
                Ok(here)
            } else {
                Ok(CallSite { name: "receive", span }.apply(Op::Copy(ty.device), &[&here]))
            }
        })
    }

    fn other_rank(&self, call: &'static str, rank: usize, span: Span) -> Result<()> {
        if rank < self.size() && rank != self.rank() {
            return Ok(());
        }
        let (expected, found) = (format!("another rank of {}", self.size()), format!("rank {rank}"));
        Err(Error::Argument { call, expected, found, span })
    }

    /// Runs the collectives that this rank has built.
    fn finish_built(&self, span: Span) -> Result<()> {
        let last = self.channel().order().last();
        last.map_or(Ok(()), |node| plan::realize(&[node], span))
    }
}
