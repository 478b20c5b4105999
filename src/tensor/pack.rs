//! Tensors side by side in one piece of memory, so that one kernel can work
//! on all of them.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::base::{DType, Device, Result, Shape};
use crate::ir::{Layout, Leaf, Node, Op, Packing};
use crate::plan::build::capabilities;
use crate::plan::context;
use crate::plan::realize::settle_view;
use crate::plan::view::contiguous_range;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::rule::identity;

/// How tensors of some shapes lie side by side.
#[derive(Clone, Debug)]
pub(crate) struct Pack {
    site: CallSite,
    packing: Packing,
    shapes: Vec<Shape>,
}

impl Pack {
    /// The arrangement for tensors of these shapes. It depends on nothing else,
    /// so that what was packed once is found packed.
    pub fn new(site: CallSite, shapes: Vec<Shape>, dtype: DType, device: Device) -> Pack {
        let alignment = capabilities(&context::current(), device).output_alignment;
        let unit = alignment.div_ceil(dtype.size());
        // The largest powers of two first: most starts are then multiples of
        // what vectors and lines of a cache hold.
        let mut order: Vec<usize> = (0..shapes.len()).collect();
        order.sort_by_key(|&i| Reverse(shapes[i].numel().trailing_zeros().min(6)));
        let mut starts = vec![0; shapes.len()];
        let mut extent = 0;
        for i in order {
            starts[i] = extent;
            extent = (extent + shapes[i].numel()).next_multiple_of(unit);
        }
        let packing = Packing { starts, shape: Shape::from(extent) };
        Pack { site, packing, shapes }
    }

    /// The tensors, which have the shapes in order, in one piece; without
    /// moving anything if they are in such a piece already. One tensor is its
    /// own piece.
    ///
    /// # Errors
    /// The first tensor's error.
    pub fn whole(&self, parts: &[Tensor]) -> Result<Tensor> {
        let mut nodes = Vec::with_capacity(parts.len());
        for part in parts {
            let node = part.node()?;
            settle_view(node);
            nodes.push(node.clone());
        }
        if let [only] = parts {
            return Ok(only.clone());
        }
        if let Some(whole) = self.in_memory(&nodes).or_else(|| self.of_one_node(&nodes)) {
            return Ok(Tensor::from_node(whole));
        }
        let parts: Vec<&Tensor> = parts.iter().collect();
        let whole = self.site.apply(Op::Pack(Box::new(self.packing.clone())), &parts);
        whole.check()?;
        Ok(whole)
    }

    /// The part with this number of a whole.
    pub fn part(&self, whole: &Tensor, number: usize) -> Tensor {
        if self.shapes.len() == 1 {
            return whole.clone();
        }
        let (start, shape) = (self.packing.starts[number], &self.shapes[number]);
        let part = self.site.slice(whole, 0, start, start + shape.numel(), 1);
        identity(&self.site.reshape(&part, shape), self.site.span)
    }

    /// The first parts of a whole.
    pub fn parts(&self, whole: &Tensor, count: usize) -> Vec<Tensor> {
        (0..count).map(|number| self.part(whole, number)).collect()
    }

    /// Whether nothing lies between the tensors.
    pub fn is_dense(&self) -> bool {
        self.shapes.iter().map(Shape::numel).sum::<usize>() == self.packing.shape.numel()
    }

    /// The buffer that holds exactly these nodes' values, in order.
    fn in_memory(&self, nodes: &[Arc<Node>]) -> Option<Arc<Node>> {
        let first = nodes.first()?;
        let buffer = &first.value()?.buffer;
        let placed = |(node, &start): (&Arc<Node>, &usize)| {
            node.value().is_some_and(|value| {
                let dense = value.layout.is_contiguous(&node.ty().shape);
                let here = value.layout.offset == start as i64 || node.ty().shape.numel() == 0;
                dense && here && Arc::ptr_eq(&value.buffer, buffer)
            })
        };
        let ty = first.ty().with_shape(&self.packing.shape);
        let same_type = |node: &Arc<Node>| node.ty().dtype == ty.dtype;
        let fits = ty.bytes() == buffer.bytes && nodes.iter().all(same_type);
        if !fits || !nodes.iter().zip(&self.packing.starts).all(placed) {
            return None;
        }
        let value = Leaf { buffer: buffer.clone(), layout: Layout::contiguous(&ty.shape) };
        Some(Node::leaf(ty, value, self.site.span))
    }

    /// The node, not computed yet, of which these are the stretches, in order.
    fn of_one_node(&self, nodes: &[Arc<Node>]) -> Option<Arc<Node>> {
        let (whole, _) = contiguous_range(nodes.first()?)?;
        let placed = |(node, &start): (&Arc<Node>, &usize)| {
            contiguous_range(node).is_some_and(|(below, at)| at == start && Arc::ptr_eq(&below, &whole))
        };
        let fits = whole.ty().shape == self.packing.shape;
        (fits && nodes.iter().zip(&self.packing.starts).all(placed)).then_some(whole)
    }
}

/// Tensors of one type on one device, at least one, in a row, each computed or copied in its place there.
/// `None` for tensors of different sizes some of which would start where the device's results cannot.
///
/// # Errors
/// The first tensor's error.
pub(crate) fn side_by_side(site: CallSite, parts: &[Tensor]) -> Result<Option<Tensor>> {
    let ty = parts[0].node()?.ty().clone();
    let alignment = capabilities(&context::current(), ty.device).output_alignment;
    let unit = alignment.div_ceil(ty.dtype.size());
    let size = ty.shape.numel();
    let room = match parts.iter().all(|part| part.numel() == size) {
        true => size.next_multiple_of(unit),
        false if parts.iter().all(|part| part.numel() % unit == 0) => 0,
        false => return Ok(None),
    };
    let mut starts = Vec::with_capacity(parts.len());
    let mut extent = 0usize;
    for part in parts {
        starts.push(extent);
        extent = extent.saturating_add(part.numel().max(room));
    }
    if extent > i64::MAX as usize {
        return Err(site.error(
            "at most 2^63 - 1 elements together",
            format!("{} tensors", parts.len()),
            &[],
        ));
    }
    let packing = Packing { starts, shape: Shape::from(extent) };
    let whole = site.apply(Op::Pack(Box::new(packing)), &parts.iter().collect::<Vec<_>>());
    whole.check()?;
    if room <= size {
        return Ok(Some(whole));
    }
    let slots = site.reshape(&whole, &[parts.len(), room]);
    Ok(Some(site.slice(&slots, 1, 0, size, 1)))
}

/// A tensor in memory of its own, whatever reads it.
pub(crate) fn stored(site: CallSite, x: &Tensor) -> Tensor {
    let packing = Packing { starts: vec![0], shape: Shape::from(x.numel()) };
    site.reshape(&site.apply(Op::Pack(Box::new(packing)), &[x]), &x.shape())
}

/// Numbers of tensors that can be packed together: alike in what `key` says.
pub(crate) fn alike<K: PartialEq>(keys: impl IntoIterator<Item = K>) -> Vec<Vec<usize>> {
    let mut groups: Vec<(K, Vec<usize>)> = Vec::new();
    for (number, key) in keys.into_iter().enumerate() {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(number),
            None => groups.push((key, vec![number])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
