//! Automatic mixed precision: products in 16 bits, what needs range or digits in 32.
//!
//! Matrix products and convolutions are faster in 16-bit floats and lose little, since they add up in
//! 32 bits. Exponentials, norms, losses and long sums lose much. Under [`autocast`] each operation
//! converts its floating operands by a table ([`policy()`]), PyTorch's for CUDA or for the CPU; parameters
//! stay `F32`, and gradients reach them in `F32` through the conversions, which are ordinary nodes.

pub mod compare;
pub mod policy;
pub mod report;

use std::borrow::Cow;
use std::cell::Cell;

use crate::base::scope::{Scope, Scopes};
use crate::base::{DType, Device, DeviceKind, OpError, Span};
use crate::tensor::Tensor;
use crate::tensor::autocast::policy::{Policy, policy};
use crate::tensor::compose::CallSite;
use crate::tensor::operand::OperandValue;
use crate::tensor::options::options;

options! {
    /// Options of [`autocast`]; a [`DType`] alone is one.
    ///
    /// # Examples
    /// ```
    /// use kiln::autocast;
    /// use kiln::opts::AutocastOpts;
    /// use kiln::prelude::*;
    /// let _on = autocast(DType::BF16);
    /// let x = Tensor::ones([2, 2], ());
    /// assert_eq!(x.matmul(&x).dtype(), DType::BF16);
    /// let _off = autocast(AutocastOpts::default().enabled(false));
    /// assert_eq!(x.matmul(&x).dtype(), DType::F32);
    /// ```
    AutocastOpts {
        /// What products are computed in: `BF16` or `F16` (`BF16`).
        dtype: DType = DType::BF16;
        /// The family of devices whose tensors are converted (all).
        kind: Option<DeviceKind> = None, DeviceKind => Some;
        /// Whether there is any conversion (yes); `false` opts out within another scope.
        enabled: bool = true;
    }
}

impl From<DType> for AutocastOpts {
    fn from(dtype: DType) -> AutocastOpts {
        AutocastOpts::default().dtype(dtype)
    }
}

/// What holds on a thread: by family of devices, the type of products.
#[derive(Clone, Copy, Debug)]
struct Conversions {
    by_kind: [Option<DType>; DeviceKind::ALL.len()],
    /// Where the innermost scope was opened.
    span: Span,
}

thread_local! {
    static SCOPES: Scopes<Conversions> = const { Scopes::told(|innermost| CURRENT.set(innermost.copied())) };
    /// The innermost of them, which operations ask for.
    static CURRENT: Cell<Option<Conversions>> = const { Cell::new(None) };
}

/// Until it is dropped, operations built on this thread convert their operands. Of several, in
/// whatever order they are dropped, the last one made decides.
#[must_use = "operands are converted until the guard is dropped"]
#[derive(Debug)]
pub struct Autocast(#[expect(dead_code, reason = "held to be dropped")] Scope<Conversions>);

/// Until the guard is dropped, operations built on this thread are in mixed precision.
///
/// What a table of PyTorch's lists as lower is computed in the type given: products, convolutions,
/// attention. What it lists as `F32` is computed in `F32`: exponentials, norms, softmax, losses, sums.
/// All else has the widest type of its operands. `F64` and integers stay. Make the loss within the
/// scope and its gradients outside or within, which is the same. Workers of a loader inherit it.
///
/// Operations in another type than `BF16` or `F16` are invalid. PyTorch: `torch.autocast`.
///
/// # Examples
/// ```
/// use kiln::autocast;
/// use kiln::nn::{Layer, Linear};
/// use kiln::prelude::*;
/// let layer = Linear::new(4, 2, ());
/// let loss = {
///     let _guard = autocast(DType::BF16);
///     let y = layer.forward(&Tensor::ones([3, 4], ()));
///     assert_eq!((y.dtype(), y.relu().dtype()), (DType::BF16, DType::BF16));
///     y.cross_entropy(&Tensor::from([0i64, 1, 0]), Default::default())
/// };
/// assert_eq!(loss.dtype(), DType::F32);
/// loss.backward()?;
/// assert_eq!(layer.weight.grad().map(|grad| grad.dtype()), Some(DType::F32));
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn autocast(opts: impl Into<AutocastOpts>) -> Autocast {
    let opts = opts.into();
    let outer = CURRENT.get().map_or([None; DeviceKind::ALL.len()], |outer| outer.by_kind);
    let inner = |kind: DeviceKind| match opts.kind.is_none_or(|only| only == kind) {
        true => opts.enabled.then_some(opts.dtype),
        false => outer[kind as usize],
    };
    let by_kind = DeviceKind::ALL.map(inner);
    Autocast(Scope::open(&SCOPES, Conversions { by_kind, span: Span::caller() }))
}

/// Runs `body` under [`autocast`].
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::with_autocast;
/// let x = Tensor::ones([2, 2], ());
/// assert_eq!(with_autocast(DType::F16, || x.matmul(&x)).dtype(), DType::F16);
/// ```
#[track_caller]
pub fn with_autocast<R>(opts: impl Into<AutocastOpts>, body: impl FnOnce() -> R) -> R {
    let _guard = autocast(opts);
    body()
}

/// What products of tensors on a device are computed in on this thread, if [`autocast`] says so.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::{autocast, autocast_dtype};
/// assert_eq!(autocast_dtype(Device::cpu()), None);
/// let _guard = autocast(DType::BF16);
/// assert_eq!(autocast_dtype(Device::cpu()), Some(DType::BF16));
/// ```
pub fn autocast_dtype(device: Device) -> Option<DType> {
    CURRENT.get().and_then(|current| current.by_kind[device.kind as usize])
}

/// By family of devices, what products are computed in on this thread.
pub(crate) fn conversions() -> Option<[Option<DType>; DeviceKind::ALL.len()]> {
    CURRENT.get().map(|current| current.by_kind)
}

/// A thread's conversions, to be had on another.
#[derive(Clone, Copy)]
pub(crate) struct InheritedAutocast(Option<Conversions>);

impl InheritedAutocast {
    /// This thread's.
    pub fn here() -> InheritedAutocast {
        InheritedAutocast(CURRENT.get())
    }
    /// Opens them on this thread.
    pub fn open(self) -> Option<Autocast> {
        self.0.map(|conversions| Autocast(Scope::open(&SCOPES, conversions)))
    }
}

/// Until the guard is dropped, there are no conversions: gradients have the types of what they are of.
pub(crate) fn paused() -> Option<Autocast> {
    let current = CURRENT.get()?;
    let off = Conversions { by_kind: [None; DeviceKind::ALL.len()], ..current };
    Some(Autocast(Scope::open(&SCOPES, off)))
}

impl CallSite {
    /// An operand in the type that the operation is computed in.
    #[inline]
    pub fn autocast(self, x: &Tensor) -> Cow<'_, Tensor> {
        match CURRENT.get() {
            None => Cow::Borrowed(x),
            Some(current) => self.converted(x, &current),
        }
    }

    #[cold]
    fn converted<'a>(self, x: &'a Tensor, current: &Conversions) -> Cow<'a, Tensor> {
        let (Some(ty), true) = (x.ty(), x.dtype().is_float() && x.dtype() != DType::F64) else {
            return Cow::Borrowed(x);
        };
        let Some(lower) = current.by_kind[ty.device.kind as usize] else { return Cow::Borrowed(x) };
        match policy(self.name, ty.device.kind) {
            Some(Policy::Lower) if !matches!(lower, DType::BF16 | DType::F16) => {
                let error = OpError::new("autocast", current.span, "bf16 or f16", lower.to_string());
                Cow::Owned(Tensor::invalid(error))
            }
            Some(Policy::Lower) => Cow::Owned(self.cast(x, lower)),
            Some(Policy::Float32) => Cow::Owned(self.cast(x, DType::F32)),
            None => Cow::Borrowed(x),
        }
    }

    /// The type that an elementwise operation of operands of a common type is computed in.
    #[inline]
    pub fn autocast_dtype(self, operands: &[OperandValue], dtype: DType) -> DType {
        match CURRENT.get() {
            Some(current) if matches!(dtype, DType::F16 | DType::BF16) => {
                let device = operands.iter().find_map(OperandValue::device);
                let kind = device.map_or(DeviceKind::Cpu, |device| device.kind);
                let casts = current.by_kind[kind as usize].is_some();
                let wide = casts && policy(self.name, kind) == Some(Policy::Float32);
                if wide { DType::F32 } else { dtype }
            }
            Some(_) | None => dtype,
        }
    }
}
