//! Layer 7: what users write. Every method composes primitives; none runs.

#[cfg(test)]
mod accuracy;
pub mod activation;
pub mod adaptive;
mod adjugate;
mod advanced;
pub mod affine;
pub mod argmax;
pub mod arithmetic;
pub mod attention;
pub mod autocast;
pub mod axis;
pub mod bessel;
pub mod bits;
mod blocked;
mod call_site;
pub mod cast;
pub(crate) mod collective;
pub mod compare;
pub mod complex;
pub(crate) mod compose;
pub mod control;
pub mod conv;
mod correlate;
pub mod covariance;
pub mod create;
pub mod cross_entropy;
pub mod ctc;
#[cfg(feature = "linalg")]
pub mod decomposition;
mod device_mismatch;
pub mod diagonal;
pub mod distance;
pub mod einsum;
pub mod embedding;
pub mod extreme;
pub mod fft;
pub mod filter;
mod fit;
pub mod function;
pub(crate) mod function_scope;
pub mod gamma;
pub mod grid_sample;
pub mod histogram;
pub mod im2col;
pub mod increment;
pub mod index;
pub mod interpolate;
mod invalid;
pub mod join;
mod lane;
pub mod linalg;
pub mod local_response;
pub mod loss;
pub mod magnitude;
pub mod margin_loss;
pub mod math;
pub mod matmul;
pub mod matrix_function;
pub mod moments;
pub mod movement;
pub mod multihead;
pub mod multinomial;
#[cfg(feature = "ndarray")]
mod ndarray;
pub mod norm;
pub mod operand;
mod operators;
pub(crate) mod options;
pub(crate) mod pack;
pub mod pad;
pub mod peak_throughput;
pub mod permute;
pub mod place;
pub mod plan;
mod polyphase;
pub mod pool;
mod position;
pub mod print;
pub mod quantized;
pub mod random;
pub mod read;
pub mod rearrange;
mod recent_composites;
pub mod reduce;
pub(crate) mod rounded;
pub mod rounding;
pub(crate) mod rule;
pub mod scan;
pub mod scatter;
pub mod search;
pub mod sequence;
pub(crate) mod slice_update;
pub mod slicing;
pub mod softmax;
pub mod solve;
pub mod sort;
pub mod spatial;
pub mod spec;
pub mod special;
pub mod split;
pub mod statistics;
mod term;
#[cfg(test)]
pub(crate) mod testing;
pub mod transfer;
pub mod trigonometry;
pub mod unique;
pub mod update;
pub mod var;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use crate::base::{DType, Device, DeviceKind, Error, OpError, Result, Scalar, Shape, Span, config};
use crate::ir::mismatch::Mismatch;
use crate::ir::node::Operands;
use crate::ir::{self, AluOp, Node, Op, Type};
use crate::tensor::invalid::Invalid;

pub use axis::{AxisList, IntoAxes};
pub use operand::Operand;
pub use place::Place;

/// A tensor: a node of the graph, computed or not, or the record of a
/// error that flows through later operations until something is asked of it.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let y = (&x * 2.0).sum(0) - 1.0; // nothing has run
/// assert_eq!(y.to_vec::<f32>()?, [7.0, 11.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Tensor {
    repr: Result<Arc<Node>, Arc<Invalid>>,
}

impl Tensor {
    /// A tensor that is this node.
    #[doc(hidden)]
    pub fn from_node(node: Arc<Node>) -> Tensor {
        Tensor { repr: Ok(node) }
    }

    /// A tensor that records an error. With `KILN_STRICT=1` this panics, so
    /// that a debugger stops where the error is made.
    #[track_caller]
    pub(crate) fn invalid(error: impl Into<Error>) -> Tensor {
        let error = error.into().at(Span::caller());
        assert!(!config::config().strict, "KILN_STRICT: {error}");
        Tensor { repr: Err(Arc::new(Invalid { error, seen: AtomicBool::new(false) })) }
    }

    /// The result of the closure; an `Err` becomes an invalid tensor.
    ///
    /// For operations of your own, which read extents with `?` and still return a tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// fn center(x: &Tensor) -> Tensor {
    ///     Tensor::build(|| {
    ///         let [_, columns] = x.dims()?;
    ///         Ok(x - x.sum_keepdim(1) / columns as f64)
    ///     })
    /// }
    /// assert_eq!(center(&Tensor::from([[1.0f32, 3.0]])).to_vec::<f32>()?, [-1.0, 1.0]);
    /// assert!(center(&Tensor::from([1.0f32])).check().is_err());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn build(body: impl FnOnce() -> Result<Tensor>) -> Tensor {
        body().unwrap_or_else(Tensor::invalid)
    }

    /// The node, or the error that prevented it.
    ///
    /// # Errors
    /// The recorded error.
    #[doc(hidden)]
    pub fn node(&self) -> Result<&Arc<Node>> {
        self.repr.as_ref().map_err(|invalid| {
            invalid.seen.store(true, Ordering::Relaxed);
            invalid.error.clone()
        })
    }

    /// Whether building this tensor made no error.
    ///
    /// # Errors
    /// The first error made on the way.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2, 3], ());
    /// assert!(x.reshape([3, 2]).check().is_ok());
    /// assert!(x.reshape([4, 2]).exp().check().is_err());
    /// ```
    pub fn check(&self) -> Result<()> {
        self.node().map(|_| ())
    }

    /// Applies a primitive; `name` is what the user called. Everything in
    /// this layer ends here or in [`Tensor::apply_owned`].
    pub(crate) fn apply(name: &'static str, span: Span, op: Op, operands: &[&Tensor]) -> Tensor {
        Tensor::apply_owned(name, span, op, operands.iter().map(|&operand| operand.clone()))
    }

    /// [`Tensor::apply`] to operands that the caller no longer needs: their
    /// reference counts stay untouched.
    #[inline]
    pub(crate) fn apply_owned(
        name: &'static str,
        span: Span,
        op: Op,
        operands: impl IntoIterator<Item = Tensor>,
    ) -> Tensor {
        let mut nodes = Operands::new();
        for operand in operands {
            match operand.repr {
                Ok(node) => nodes.push(node),
                Err(invalid) => return Tensor { repr: Err(invalid) },
            }
        }
        let inferred = match &nodes[..] {
            [a] => ir::infer(&op, &[a.ty()]),
            [a, b] => ir::infer(&op, &[a.ty(), b.ty()]),
            nodes => ir::infer(&op, &nodes.iter().map(|node| node.ty()).collect::<SmallVec<[&Type; 3]>>()),
        };
        match inferred {
            Ok(ty) => {
                let rounds = rounded::rounds(&op, ty.dtype);
                let result = Tensor::from_node(Node::named(name, op, ty, nodes, span));
                if rounds { result.rounded(name, span) } else { result }
            }
            Err(mismatch) => Tensor::mismatched(name, span, mismatch, &nodes),
        }
    }

    /// [`Tensor::apply_owned`] of a scalar operation to two tensors of one type, or to a tensor and a number of
    /// its type.
    #[inline]
    fn apply_alike(name: &'static str, span: Span, op: AluOp, [a, b]: [Tensor; 2]) -> Tensor {
        match (a.repr, b.repr) {
            (Ok(a), Ok(b)) => {
                let like = a.ty().or_with_axes(b.ty());
                let inferred = ir::infer_alike(op, like);
                debug_assert_eq!(
                    inferred.clone().map(|other| other.unwrap_or_else(|| like.clone())),
                    ir::infer(&Op::Alu(op), &[a.ty(), b.ty()])
                );
                match inferred {
                    Ok(_) if rounded::rounds(&Op::Alu(op), like.dtype) => {
                        Tensor::apply_owned(name, span, Op::Alu(op), [a, b].map(Tensor::from_node))
                    }
                    Ok(ty) => Tensor::from_node(Node::of_two(name, Op::Alu(op), ty, [a, b], span)),
                    Err(mismatch) => Tensor::mismatched(name, span, mismatch, &[a, b]),
                }
            }
            (Err(invalid), _) | (_, Err(invalid)) => Tensor { repr: Err(invalid) },
        }
    }

    /// An invalid tensor for operands that do not fit a primitive.
    #[cold]
    fn mismatched(name: &'static str, span: Span, mismatch: Mismatch, nodes: &[Arc<Node>]) -> Tensor {
        let shapes = nodes.iter().map(|node| node.ty().shape.clone());
        let made = if mismatch.devices_differ { device_mismatch::describe(nodes, span) } else { None };
        let error = OpError::new(name, span, mismatch.expected, made.unwrap_or(mismatch.found));
        Tensor::invalid(error.with_shapes(shapes))
    }

    /// An invalid tensor for an error that `name` finds in its arguments.
    pub(crate) fn invalid_at(
        name: &'static str,
        span: Span,
        expected: impl Into<String>,
        found: impl Into<String>,
        operands: &[&Tensor],
    ) -> Tensor {
        if let Some(invalid) = operands.iter().find(|operand| operand.repr.is_err()) {
            return (*invalid).clone();
        }
        let shapes = operands.iter().map(|operand| operand.shape());
        Tensor::invalid(OpError::new(name, span, expected, found).with_shapes(shapes))
    }

    /// A rank-0 constant.
    pub(crate) fn constant(value: Scalar, dtype: DType, device: Device, span: Span) -> Tensor {
        let op = Op::Const(value.cast(dtype), dtype, device);
        let ty = Type::scalar(dtype, device);
        debug_assert_eq!(ir::infer(&op, &[]).as_ref(), Ok(&ty));
        Tensor::from_node(Node::new(op, ty, Operands::new(), span))
    }

    /// The type, if valid.
    pub(crate) fn ty(&self) -> Option<&Type> {
        self.repr.as_ref().ok().map(|node| node.ty())
    }

    /// The extents of the axes; empty for an invalid tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 3], ());
    /// assert_eq!(x.shape()[..], [2, 3]);
    /// ```
    pub fn shape(&self) -> Shape {
        self.ty().map(|ty| ty.shape.clone()).unwrap_or_default()
    }
    /// Number of axes; 0 for an invalid tensor. PyTorch: `Tensor.ndim`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::zeros([2, 3], ()).rank(), 2);
    /// ```
    pub fn rank(&self) -> usize {
        self.ty().map_or(0, |ty| ty.shape.rank())
    }
    /// Number of elements; 0 for an invalid tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::zeros([2, 3], ()).numel(), 6);
    /// ```
    pub fn numel(&self) -> usize {
        self.ty().map_or(0, |ty| ty.shape.numel())
    }
    /// Type of the elements; `F32` for an invalid tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1u8]).dtype(), DType::U8);
    /// ```
    pub fn dtype(&self) -> DType {
        self.ty().map_or(DType::F32, |ty| ty.dtype)
    }
    /// Where the tensor is or will be; the CPU for an invalid tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::zeros([2], Device::cpu()).device(), Device::cpu());
    /// ```
    pub fn device(&self) -> Device {
        self.ty().map_or(Device::cpu(), |ty| ty.device)
    }
    /// Whether both are the same tensor, computed once: clones are, equal values are not.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2], ());
    /// assert!(x.ptr_eq(&x.clone()) && !x.ptr_eq(&Tensor::ones([2], ())));
    /// ```
    pub fn ptr_eq(&self, other: &Tensor) -> bool {
        match (&self.repr, &other.repr) {
            (Ok(a), Ok(b)) => Arc::ptr_eq(a, b),
            (Ok(_) | Err(_), _) => false,
        }
    }
    /// Whether the value is in memory (or on its way there).
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([2], ()) + 1.0;
    /// assert!(!x.is_realized());
    /// assert!(x.realize()?.is_realized());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn is_realized(&self) -> bool {
        self.repr.as_ref().is_ok_and(|node| node.value().is_some())
    }

    /// The values of `tensors` by the interpreter of the unfused graph: what
    /// every device is tested against.
    ///
    /// # Errors
    /// A recorded error, data that is not on the CPU, and those of
    /// [`ir::oracle::evaluate`].
    #[doc(hidden)]
    pub fn oracle(tensors: &[&Tensor]) -> Result<Vec<ir::oracle::Value>> {
        let nodes: Vec<Arc<Node>> = tensors.iter().map(|t| t.node().cloned()).collect::<Result<_>>()?;
        ir::oracle::evaluate_nodes(&nodes, &read_host)
    }

    /// [`Tensor::oracle`] with bounds on what a device may differ by.
    ///
    /// # Errors
    /// Those of [`Tensor::oracle`].
    #[doc(hidden)]
    pub fn oracle_bounded(tensors: &[&Tensor]) -> Result<Vec<ir::oracle::Bounded>> {
        let nodes: Vec<Arc<Node>> = tensors.iter().map(|t| t.node().cloned()).collect::<Result<_>>()?;
        ir::oracle::evaluate_nodes_bounded(&nodes, &read_host)
    }

    /// The extents, when there are exactly `N`: `let [b, t, d] = x.dims()?`.
    ///
    /// # Errors
    /// The recorded error, or a rank that differs from `N`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let [rows, columns] = Tensor::zeros([2, 3], ()).dims()?;
    /// assert_eq!((rows, columns), (2, 3));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn dims<const N: usize>(&self) -> Result<[usize; N]> {
        let (shape, span) = (&self.node()?.ty().shape, Span::caller());
        <[usize; N]>::try_from(&shape[..]).map_err(|_| {
            let error = OpError::new("dims", span, format!("rank {N}"), format!("rank {}", shape.rank()));
            error.with_shapes([shape.clone()]).into()
        })
    }

    /// The extent of one axis, counted from the end when negative. PyTorch: `Tensor.size`.
    ///
    /// # Errors
    /// The recorded error, or an axis out of range.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::zeros([2, 3], ()).dim(-1)?, 3);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn dim(&self, axis: i64) -> Result<usize> {
        let shape = &self.node()?.ty().shape;
        let axis = axis::resolve("dim", Span::caller(), axis, shape)?;
        Ok(shape[axis])
    }
}

/// The elements of a leaf in CPU memory.
fn read_host(leaf: &ir::Leaf, ty: &Type) -> Result<ir::oracle::Value> {
    if leaf.buffer.device.kind != DeviceKind::Cpu {
        let reason = "the oracle reads CPU memory only".into();
        return Err(Error::DeviceUnavailable { device: leaf.buffer.device, reason, span: None });
    }
    let bytes = crate::runtime::host::bytes(&leaf.buffer);
    Ok(ir::oracle::Value::from_view(ty.clone(), bytes, &leaf.layout))
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.repr {
            Ok(node) => {
                let ty = node.ty();
                let grad = match (node.is_parameter(), node.is_tracked()) {
                    (true, _) => ", requires_grad",
                    (false, true) => ", tracked",
                    (false, false) => "",
                };
                write!(f, "Tensor({} {} on {}, {}{grad})", ty.dtype, ty.shape, ty.device, node.op().name())
            }
            Err(invalid) => {
                invalid.seen.store(true, Ordering::Relaxed);
                write!(f, "Tensor(invalid: {})", invalid.error)
            }
        }
    }
}
