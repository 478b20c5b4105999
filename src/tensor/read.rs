//! Reading values.

use std::sync::Arc;

use crate::base::{Element, Error, OpError, Result, Scalar, Span};
use crate::ir::Node;
use crate::ir::open::closed;
use crate::plan;
use crate::runtime::trace::{self, Activity};
use crate::tensor::Tensor;

/// Computes several tensors together, in one plan.
///
/// # Errors
/// The error recorded in any of them, or what [`Tensor::realize`] says.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::ones([2], ());
/// let (y, z) = (&x + 1.0, &x * 3.0);
/// realize(&[&y, &z])?;
/// assert!(y.is_realized() && z.is_realized());
/// # Ok::<(), kiln::Error>(())
/// ```
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
    /// The recorded error, a meta tensor, an absent device, out of memory,
    /// an index out of range; nothing that existed is lost.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2], ()) + 1.0;
    /// assert_eq!(x.realize()?.to_vec::<f32>()?, [2.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn realize(&self) -> Result<&Tensor> {
        plan::realize(std::slice::from_ref(self.node()?), Span::caller())?;
        Ok(self)
    }

    /// The elements in row-major order, computed if need be.
    ///
    /// PyTorch: `Tensor.tolist`.
    ///
    /// # Errors
    /// [`Error::ReadType`] when `T` is not the tensor's type; [`Error::NoData`]
    /// on the meta device; else as [`Tensor::realize`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.t().to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// assert!(x.to_vec::<i64>().is_err());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        pollster::block_on(self.read_as("to_vec", Span::caller()))
    }

    /// As [`Tensor::to_vec`], without blocking the thread where the device can do otherwise.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2], ()) * 3.0;
    /// assert_eq!(pollster::block_on(x.read_async::<f32>())?, [3.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn read_async<T: Element>(&self) -> impl Future<Output = Result<Vec<T>>> {
        self.read_as("read_async", Span::caller())
    }

    async fn read_as<T: Element>(&self, call: &'static str, span: Span) -> Result<Vec<T>> {
        let found = self.node()?.ty().dtype;
        if found != T::DTYPE {
            return Err(Error::ReadType { call, expected: T::DTYPE, found, span });
        }
        Ok(T::from_bytes(&self.read(call, span)?))
    }

    /// The one element of a tensor, widened.
    ///
    /// Integers and truth values become `f64` with `item::<f64>()`, and so on; narrowing is an
    /// error.
    ///
    /// # Errors
    /// More or fewer elements than one, or as [`Tensor::to_vec`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2]).sum(..).item::<f64>()?, 3.0);
    /// assert!(Tensor::from([1i64, 2]).item::<i64>().is_err());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        let span = Span::caller();
        let ty = self.node()?.ty();
        if ty.shape.numel() != 1 {
            let found = format!("shape {}", ty.shape);
            return Err(OpError::new("item", span, "a tensor of one element", found).into());
        }
        let widens = ty.dtype == T::DTYPE || ty.dtype.promote(T::DTYPE) == T::DTYPE;
        if !widens {
            return Err(Error::ReadType { call: "item", expected: T::DTYPE, found: ty.dtype, span });
        }
        let dtype = ty.dtype;
        let bytes = self.read("item", span)?;
        let scalar = Scalar::from_bits(number(&bytes), dtype).to_bits(T::DTYPE);
        let values = T::from_bytes(&bytes_of(scalar, T::DTYPE.size()));
        match values[..] {
            [value] => Ok(value),
            _ => panic!("one element has {} values", values.len()),
        }
    }

    /// The elements' bytes in row-major order.
    pub(crate) fn read(&self, call: &'static str, span: Span) -> Result<Vec<u8>> {
        let node = self.node()?;
        closed([node], call, span)?;
        if node.ty().device.is_meta() {
            return Err(Error::NoData { call, shape: node.ty().shape.clone(), span });
        }
        plan::guard::may_wait(call, node.ty().device, span)?;
        let _span = trace::span(Activity::Read).at(span).on(node.ty().device).named(|| call.into());
        plan::realize(std::slice::from_ref(node), span)?;
        match node.value() {
            Some(leaf) => {
                let read = plan::transfer::read(&plan::context::current(), node.ty(), leaf);
                read.map_err(|error| error.at(span))
            }
            None => panic!("a realized node has no value: {node:?}"),
        }
    }
}

/// A number from its bytes in the machine's order.
pub(super) fn number(bytes: &[u8]) -> u64 {
    let push = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    if cfg!(target_endian = "big") { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) }
}

/// The low `size` bytes of a number, in the machine's order.
fn bytes_of(number: u64, size: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes()[..size].to_vec();
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
    bytes
}
