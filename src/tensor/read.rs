//! What leaves the graph: values.

use std::sync::Arc;

use crate::base::{Element, Error, Result, Scalar, Span};
use crate::ir::Node;
use crate::plan;
use crate::tensor::Tensor;

/// Computes several tensors together, in one plan.
///
/// # Errors
/// The mistake recorded in any of them, or what [`Tensor::realize`] says.
#[track_caller]
pub fn realize(tensors: &[&Tensor]) -> Result<()> {
    let span = Span::caller();
    let nodes: Vec<Arc<Node>> = tensors.iter().map(|t| t.node().cloned()).collect::<Result<_>>()?;
    plan::realize(&nodes, span)
}

impl Tensor {
    /// Computes the tensor's value, unless it has one. Every clone sees it.
    ///
    /// # Errors
    /// The recorded mistake, a meta tensor, an absent device, out of memory,
    /// an index out of range; nothing that existed is lost.
    #[track_caller]
    pub fn realize(&self) -> Result<&Tensor> {
        plan::realize(std::slice::from_ref(self.node()?), Span::caller())?;
        Ok(self)
    }

    /// The elements in row-major order, computed if need be.
    ///
    /// # Errors
    /// [`Error::ReadType`] when `T` is not the tensor's type; [`Error::NoData`]
    /// on the meta device; else as [`Tensor::realize`].
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let span = Span::caller();
        let found = self.node()?.ty().dtype;
        if found != T::DTYPE {
            return Err(Error::ReadType { call: "to_vec", expected: T::DTYPE, found, span });
        }
        let bytes = self.read("to_vec", span)?;
        Ok(bytes.chunks_exact(T::DTYPE.size()).map(T::read).collect())
    }

    /// The one element of a tensor, widened: integers and truth values become
    /// `f64` with `item::<f64>()`, and so on; narrowing is an error.
    ///
    /// # Errors
    /// More or fewer elements than one, or as [`Tensor::to_vec`].
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        let span = Span::caller();
        let ty = self.node()?.ty();
        if ty.shape.numel() != 1 {
            let found = format!("shape {}", ty.shape);
            return Err(Error::Argument { call: "item", expected: "a tensor of one element".into(), found });
        }
        let widens = ty.dtype == T::DTYPE || ty.dtype.promote(T::DTYPE) == T::DTYPE;
        if !widens {
            return Err(Error::ReadType { call: "item", expected: T::DTYPE, found: ty.dtype, span });
        }
        let dtype = ty.dtype;
        let bytes = self.read("item", span)?;
        let mut raw = [0u8; 8];
        raw[..bytes.len()].copy_from_slice(&bytes);
        let bits = Scalar::from_bits(u64::from_le_bytes(little_endian(raw, bytes.len())), dtype)
            .to_bits(T::DTYPE)
            .to_le_bytes();
        Ok(T::read(&native(bits, T::DTYPE.size())[..T::DTYPE.size()]))
    }

    /// The elements' bytes in row-major order.
    pub(crate) fn read(&self, call: &'static str, span: Span) -> Result<Vec<u8>> {
        let node = self.node()?;
        if node.ty().device.is_meta() {
            return Err(Error::NoData { call, shape: node.ty().shape.clone(), span });
        }
        plan::realize(std::slice::from_ref(node), span)?;
        match node.value() {
            Some(leaf) => plan::realize::read_dense(&plan::context::current(), node.ty(), leaf),
            None => panic!("a realized node has no value: {node:?}"),
        }
    }
}

/// The first `size` bytes as a little-endian number.
fn little_endian(mut raw: [u8; 8], size: usize) -> [u8; 8] {
    if cfg!(target_endian = "big") {
        raw[..size].reverse();
    }
    raw
}

/// The low `size` bytes of a little-endian number, in the machine's order.
fn native(mut bits: [u8; 8], size: usize) -> [u8; 8] {
    if cfg!(target_endian = "big") {
        bits[..size].reverse();
    }
    bits
}
