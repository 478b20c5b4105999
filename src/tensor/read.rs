//! Reading values.

use std::sync::Arc;

use crate::base::{Element, Error, OpError, Result, Scalar, Span};
use crate::ir::Node;
use crate::ir::open::closed;
use crate::plan::wait::{now, within};
use crate::plan::{self, context};
use crate::runtime::Waiting;
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

/// [`realize`] as a future ([`Tensor::realize_async`]).
///
/// # Errors
/// As [`realize`].
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::ones([2], ());
/// let (y, z) = (&x + 1.0, &x * 3.0);
/// pollster::block_on(realize_async(&[&y, &z]))?;
/// assert!(y.is_realized() && z.is_realized());
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn realize_async(tensors: &[&Tensor]) -> impl Future<Output = Result<()>> + use<> {
    let span = Span::caller();
    let nodes: Result<Vec<Arc<Node>>> = tensors.iter().map(|t| t.node().cloned()).collect();
    within(context::current(), async move { plan::realize_async(&nodes?, span).await })
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

    /// [`Tensor::realize`] as a future, pending where the plan needs what a device has not done yet, as a
    /// transfer to another device does ([`Tensor::to_vec_async`]).
    ///
    /// # Errors
    /// As [`Tensor::realize`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2], ()) + 1.0;
    /// pollster::block_on(x.realize_async())?;
    /// assert!(x.is_realized());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn realize_async(&self) -> impl Future<Output = Result<()>> + use<> {
        realize_async(&[self])
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
        now(self.elements("to_vec", Span::caller(), Waiting::Block))
    }

    /// [`Tensor::to_vec`] as a future, pending while the device is at it.
    ///
    /// In a page of a browser, where no thread can wait for a GPU, it is the only form. Any executor will do;
    /// the future stays on its thread, and the current context is that of the call.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2], ()) * 3.0;
    /// assert_eq!(pollster::block_on(x.to_vec_async::<f32>())?, [3.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn to_vec_async<T: Element>(&self) -> impl Future<Output = Result<Vec<T>>> + use<T> {
        let (x, span) = (self.clone(), Span::caller());
        within(context::current(), async move { x.elements("to_vec_async", span, Waiting::Yield).await })
    }

    async fn elements<T: Element>(&self, call: &'static str, span: Span, waiting: Waiting) -> Result<Vec<T>> {
        let found = self.node()?.ty().dtype;
        if found != T::DTYPE {
            return Err(Error::ReadType { call, expected: T::DTYPE, found, span });
        }
        Ok(T::from_bytes(&self.bytes(call, span, waiting).await?))
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
        now(self.element("item", Span::caller(), Waiting::Block))
    }

    /// [`Tensor::item`] as a future ([`Tensor::to_vec_async`]).
    ///
    /// # Errors
    /// As [`Tensor::item`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let sum = Tensor::from([1i64, 2]).sum(..);
    /// assert_eq!(pollster::block_on(sum.item_async::<f64>())?, 3.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn item_async<T: Element>(&self) -> impl Future<Output = Result<T>> + use<T> {
        let (x, span) = (self.clone(), Span::caller());
        within(context::current(), async move { x.element("item_async", span, Waiting::Yield).await })
    }

    async fn element<T: Element>(&self, call: &'static str, span: Span, waiting: Waiting) -> Result<T> {
        let ty = self.node()?.ty();
        if ty.shape.numel() != 1 {
            let found = format!("shape {}", ty.shape);
            return Err(OpError::new(call, span, "a tensor of one element", found).into());
        }
        let widens = ty.dtype == T::DTYPE || ty.dtype.promote(T::DTYPE) == T::DTYPE;
        if !widens {
            return Err(Error::ReadType { call, expected: T::DTYPE, found: ty.dtype, span });
        }
        let dtype = ty.dtype;
        let bytes = self.bytes(call, span, waiting).await?;
        let scalar = Scalar::from_bits(number(&bytes), dtype).to_bits(T::DTYPE);
        let values = T::from_bytes(&bytes_of(scalar, T::DTYPE.size()));
        match values[..] {
            [value] => Ok(value),
            _ => panic!("one element has {} values", values.len()),
        }
    }

    /// The elements' bytes in row-major order.
    pub(crate) fn read(&self, call: &'static str, span: Span) -> Result<Vec<u8>> {
        now(self.bytes(call, span, Waiting::Block))
    }

    pub(crate) async fn bytes(&self, call: &'static str, span: Span, waiting: Waiting) -> Result<Vec<u8>> {
        let node = self.node()?;
        closed([node], call, span)?;
        if node.ty().device.is_meta() {
            return Err(Error::NoData { call, shape: node.ty().shape.clone(), span });
        }
        plan::guard::may_wait(call, node.ty().device, span, waiting)?;
        let _span = trace::span(Activity::Read).at(span).on(node.ty().device).named(|| call.into());
        let nodes = std::slice::from_ref(node);
        match waiting {
            Waiting::Block => plan::realize(nodes, span)?,
            Waiting::Yield => plan::realize_async(nodes, span).await?,
        }
        match node.value() {
            Some(leaf) => {
                let read = plan::transfer::read(&context::current(), node.ty(), leaf, waiting).await;
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
