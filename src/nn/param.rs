//! Cells of modules: parameters, buffers, and the switch between training and
//! evaluation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::base::{DType, Device, OpError, Result, Shape, Span};
use crate::grad::presence::sum_in;
use crate::ir::history::GradCell;
use crate::ir::open::closed;
use crate::ir::pending::{Pending, register};
use crate::ir::{Node, Type};
use crate::nn::replica::{is_replica, seen};
use crate::tensor::quantized::{Quantization, QuantizedTensor};
use crate::tensor::var::Var;
use crate::tensor::{Tensor, function_scope};

/// A trainable tensor. Clones are the same parameter: a module that holds a
/// clone of another's parameter shares its weights.
///
/// [`Param::get`] is the tensor of the moment; gradients taken with respect
/// to any of these tensors accumulate in the parameter.
#[derive(Clone, Debug)]
pub struct Param {
    var: Var,
    cell: Arc<GradCell>,
    trained: Arc<AtomicBool>,
    /// In its place the cell has a tensor on the meta device.
    quantized: Arc<RwLock<Option<QuantizedValue>>>,
}

/// What a quantized parameter holds.
#[derive(Debug)]
struct QuantizedValue {
    packed: QuantizedTensor,
    /// The expression that everyone reads, so that plans are alike.
    numbers: Tensor,
}

impl Param {
    /// A parameter that starts as `tensor`, whose shape, type and device it
    /// keeps. What the tensor was computed from gets no gradient.
    #[track_caller]
    pub fn new(tensor: Tensor) -> Param {
        let cell = Arc::default();
        let var = Var::new(marked(&tensor, Some(&cell), Span::caller()));
        Param { var, cell, trained: Arc::new(AtomicBool::new(true)), quantized: Arc::default() }
    }

    /// The tensor held now; of a quantized parameter, the expression that
    /// [`QuantizedTensor::dequantize`] makes.
    pub fn get(&self) -> Tensor {
        if !function_scope::is_open() {
            return self.seen();
        }
        let own = self.clone();
        function_scope::read(Arc::as_ptr(&self.cell) as usize, Arc::new(move || own.seen()))
    }

    fn seen(&self) -> Tensor {
        seen(self.numbers().unwrap_or_else(|| self.var.held()))
    }

    /// Puts `tensor` in; what it was computed from gets no gradient.
    ///
    /// # Errors
    /// As [`Var::set`]; a quantized parameter, which [`Param::dequantize`] makes an ordinary one.
    #[track_caller]
    pub fn set(&self, tensor: &Tensor) -> Result<()> {
        let span = Span::caller();
        if let Some(packed) = self.quantized() {
            let found = format!("one quantized as {}", packed.quantization().name());
            return Err(OpError::new("set", span, "a parameter that is not quantized", found).into());
        }
        self.var.set(marked(tensor, self.gradient_cell(), span))
    }

    /// Puts a tensor in that may be of another type or device.
    pub(crate) fn replace(&self, tensor: &Tensor, span: Span) -> Result<()> {
        self.var.replace(marked(tensor, self.gradient_cell(), span))?;
        self.put_quantized(None);
        Ok(())
    }

    /// Holds the nearest quantized numbers from now on, packed, and frozen: gradients pass it, but do not
    /// reach it. [`Param::get`] is what [`QuantizedTensor::dequantize`] makes of them, so everything that reads
    /// the parameter goes on as before and reads fewer bytes.
    ///
    /// # Errors
    /// As [`QuantizedTensor::quantize`]. The parameter is then as it was.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::{Layer, Linear};
    /// use kiln::prelude::*;
    /// use kiln::Quantization;
    /// let layer = Linear::new(64, 8, ());
    /// let x = Tensor::randn([2, 64], ());
    /// let exact = layer.forward(&x).realize()?.clone();
    /// layer.weight.quantize(Quantization::Q8_0)?;
    /// assert!((layer.forward(&x) - exact).abs().max(..).item::<f32>()? < 0.02);
    /// assert_eq!(layer.weight.quantized().unwrap().bytes(), 16 * 34); // of 2,048
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn quantize(&self, quantization: Quantization) -> Result<()> {
        let packed = QuantizedTensor::quantize(&self.get(), quantization)?;
        self.hold_quantized(packed, Span::caller())
    }

    /// Holds a tensor that is quantized already, as [`Param::quantize`] does.
    ///
    /// # Errors
    /// A shape other than the parameter's. The parameter is then as it was.
    #[track_caller]
    pub fn set_quantized(&self, packed: &QuantizedTensor) -> Result<()> {
        let (span, shape) = (Span::caller(), self.shape());
        if *packed.shape() != shape {
            let error =
                OpError::new("set_quantized", span, format!("{shape}"), format!("{}", packed.shape()));
            return Err(error.into());
        }
        self.hold_quantized(packed.clone(), span)
    }

    /// The packed numbers, of a quantized parameter.
    pub fn quantized(&self) -> Option<QuantizedTensor> {
        self.of_quantized(|value| value.packed.clone())
    }

    /// Holds the numbers of a quantized parameter as an ordinary tensor again, still frozen.
    ///
    /// # Errors
    /// What computing them says.
    #[track_caller]
    pub fn dequantize(&self) -> Result<()> {
        let span = Span::caller();
        match self.quantized() {
            Some(packed) => self.replace(packed.dequantize().realize()?, span),
            None => Ok(()),
        }
    }

    fn hold_quantized(&self, packed: QuantizedTensor, span: Span) -> Result<()> {
        let _line = span.enter();
        let numbers = packed.dequantize();
        let stand_in = Tensor::empty(packed.shape(), (Device::meta(), packed.dtype()));
        numbers.check()?;
        self.trained.store(false, Ordering::Relaxed);
        self.cell.replace(None);
        self.put_quantized(Some(QuantizedValue { packed, numbers }));
        self.var.replace(stand_in)
    }

    fn put_quantized(&self, value: Option<QuantizedValue>) {
        let before =
            std::mem::replace(&mut *self.quantized.write().unwrap_or_else(PoisonError::into_inner), value);
        drop(before);
    }

    /// The expression of a quantized parameter's numbers. Whoever computes it may hold what comes out; the
    /// parameter stays packed, and makes another one.
    fn numbers(&self) -> Option<Tensor> {
        let numbers = self.of_quantized(|value| value.numbers.clone())?;
        if !numbers.is_realized() {
            return Some(numbers);
        }
        let _line = numbers.peek().map(|node| node.span().enter());
        let mut held = self.quantized.write().unwrap_or_else(PoisonError::into_inner);
        let value = held.as_mut()?;
        if value.numbers.is_realized() {
            value.numbers = value.packed.dequantize();
        }
        Some(value.numbers.clone())
    }

    fn of_quantized<T>(&self, of: impl Fn(&QuantizedValue) -> T) -> Option<T> {
        self.quantized.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(of)
    }

    /// The packed numbers on a device and of a type.
    pub(crate) fn move_quantized(
        &self,
        packed: &QuantizedTensor,
        device: Device,
        dtype: DType,
        span: Span,
    ) -> Result<()> {
        let _line = span.enter();
        self.hold_quantized(packed.to(device).to_dtype(dtype)?, span)
    }

    /// Puts in what a step makes of the parameter. Gives what [`Param::retract`] takes back.
    pub(crate) fn advance(&self, tensor: &Tensor, span: Span) -> Result<Arc<Node>> {
        let own = marked(tensor, self.gradient_cell(), span);
        let node = own.node()?.clone();
        self.var.set(own)?;
        Ok(node)
    }

    /// The parameter holds again what it held before a step that failed.
    pub(crate) fn retract(&self, put: &Arc<Node>) {
        self.var.retract(put);
    }

    /// Where the gradients accumulate.
    pub(crate) fn cell(&self) -> &Arc<GradCell> {
        &self.cell
    }

    fn gradient_cell(&self) -> Option<&Arc<GradCell>> {
        self.requires_grad().then_some(&self.cell)
    }

    /// Tells plans and profiles what a model calls it.
    pub(crate) fn name_as(&self, name: &str) {
        self.cell.set_name(name);
    }

    /// What a model calls it, as `encoder.0.weight`.
    pub(crate) fn name(&self) -> Option<Arc<str>> {
        self.cell.name()
    }

    /// Whether gradients are taken with respect to it.
    pub fn requires_grad(&self) -> bool {
        self.trained.load(Ordering::Relaxed)
    }

    /// Freezes the parameter, or trains it again; for tensors that
    /// [`Param::get`] gives from now on. A quantized parameter stays frozen.
    #[track_caller]
    pub fn set_requires_grad(&self, on: bool) {
        if self.quantized().is_some() {
            return;
        }
        self.trained.store(on, Ordering::Relaxed);
        // The same tensor again, marked anew: nothing to refuse.
        let _ = self.set(&self.get());
    }

    /// The sum of the gradients so far. On a GPU, zeros where an index that is out of range, and found late, has left
    /// nothing to sum.
    #[track_caller]
    pub fn grad(&self) -> Option<Tensor> {
        sum_in(&self.cell, Span::caller())
    }

    /// The sum as it is in memory: of no meaning where its cell's presence turns out false.
    pub(crate) fn grad_in_memory(&self) -> Option<Tensor> {
        self.cell.get().map(Tensor::from_node)
    }

    /// Replaces the sum of the gradients.
    ///
    /// # Errors
    /// The error recorded in the tensor; a shape, type or device other than the
    /// parameter's; a tensor that has a value only inside a body. The sum stays.
    #[track_caller]
    pub fn set_grad(&self, gradient: Option<&Tensor>) -> Result<()> {
        let span = Span::caller();
        let node = gradient.map(|gradient| self.own_gradient(gradient, span)).transpose()?;
        self.cell.replace(node);
        register([Pending::Gradient(Arc::<GradCell>::downgrade(&self.cell))]);
        Ok(())
    }

    /// Puts in what is made of the sum of the gradients, if there turns out to be one.
    ///
    /// # Errors
    /// As [`Param::set_grad`].
    pub(crate) fn change_grad(&self, gradient: &Tensor, span: Span) -> Result<()> {
        self.cell.change(self.own_gradient(gradient, span)?);
        register([Pending::Gradient(Arc::<GradCell>::downgrade(&self.cell))]);
        Ok(())
    }

    /// A tensor that may be the gradient, as a constant.
    fn own_gradient(&self, gradient: &Tensor, span: Span) -> Result<Arc<Node>> {
        let own = gradient.detached(span);
        let (held, node) = (self.get(), own.node()?);
        closed([node], "set_grad", span)?;
        let (expected, found) = (held.node()?.ty(), node.ty());
        if expected != found {
            let on = |ty: &Type| format!("{ty} on {}", ty.device);
            let error = OpError::new("set_grad", span, on(expected), on(found));
            return Err(error.with_shapes([expected.shape.clone(), found.shape.clone()]).into());
        }
        Ok(node.clone())
    }

    /// Forgets the gradients so far.
    pub fn zero_grad(&self) {
        self.cell.replace(None);
    }

    /// The extents of the axes.
    pub fn shape(&self) -> Shape {
        self.var.shape()
    }
    /// Type of the elements.
    pub fn dtype(&self) -> DType {
        self.var.dtype()
    }
    /// Where it is.
    pub fn device(&self) -> Device {
        self.of_quantized(|value| value.packed.device()).unwrap_or_else(|| self.var.device())
    }
    /// Whether both are the same parameter.
    pub fn ptr_eq(&self, other: &Param) -> bool {
        self.var.ptr_eq(&other.var)
    }
}

/// The tensor as a node of its own, at which gradients end, in `cell` if any.
fn marked(tensor: &Tensor, cell: Option<&Arc<GradCell>>, span: Span) -> Tensor {
    let own = tensor.alone(span);
    if let (Some(node), Some(cell)) = (own.peek().filter(|node| node.ty().dtype.is_float()), cell) {
        node.set_grad_cell(cell.clone());
    }
    own
}

/// State that is not trained: running statistics, a cache. Clones are the
/// same buffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    var: Var,
}

impl Buffer {
    /// A buffer that starts as `tensor`.
    #[track_caller]
    pub fn new(tensor: Tensor) -> Buffer {
        Buffer { var: Var::new(tensor.alone(Span::caller())) }
    }
    /// The tensor held now.
    pub fn get(&self) -> Tensor {
        if !function_scope::is_open() {
            return seen(self.var.held());
        }
        let own = self.clone();
        function_scope::read(self.var.address(), Arc::new(move || seen(own.var.held())))
    }
    /// Puts `tensor` in; gradients do not look through it.
    ///
    /// # Errors
    /// As [`Var::set`].
    #[track_caller]
    pub fn set(&self, tensor: &Tensor) -> Result<()> {
        if is_replica() {
            return tensor.check().map(drop);
        }
        self.var.set(tensor.alone(Span::caller()))
    }
    /// Puts a tensor in that may be of another type or device.
    pub(crate) fn replace(&self, tensor: &Tensor, span: Span) -> Result<()> {
        self.var.replace(tensor.alone(span))
    }
}

/// Whether a module trains or is evaluated: dropout and batch normalization
/// ask.
#[derive(Debug)]
pub struct Training(Arc<AtomicBool>);

impl Default for Training {
    fn default() -> Training {
        Training(Arc::new(AtomicBool::new(true)))
    }
}

impl Training {
    /// Whether it trains.
    pub fn is_on(&self) -> bool {
        let is_on = self.0.load(Ordering::Relaxed);
        if function_scope::is_open() {
            let own = self.0.clone();
            function_scope::assume(Arc::new(move || own.load(Ordering::Relaxed) == is_on));
        }
        is_on
    }
    /// Trains, or is evaluated, from now on.
    pub fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }
}
