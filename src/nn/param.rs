//! Cells of modules: parameters, buffers, and the switch between training and
//! evaluation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::{DType, Device, OpError, Result, Shape, Span};
use crate::ir::history::GradCell;
use crate::ir::open::closed;
use crate::ir::pending::{Pending, register};
use crate::ir::{Node, Type};
use crate::tensor::Tensor;
use crate::tensor::var::Var;

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
}

impl Param {
    /// A parameter that starts as `tensor`, whose shape, type and device it
    /// keeps. What the tensor was computed from gets no gradient.
    #[track_caller]
    pub fn new(tensor: Tensor) -> Param {
        let cell = Arc::default();
        let var = Var::new(marked(&tensor, Some(&cell), Span::caller()));
        Param { var, cell, trained: Arc::new(AtomicBool::new(true)) }
    }

    /// The tensor held now.
    pub fn get(&self) -> Tensor {
        self.var.get()
    }

    /// Puts `tensor` in; what it was computed from gets no gradient.
    ///
    /// # Errors
    /// As [`Var::set`].
    #[track_caller]
    pub fn set(&self, tensor: &Tensor) -> Result<()> {
        self.var.set(marked(tensor, self.gradient_cell(), Span::caller()))
    }

    /// Puts a tensor in that may be of another type or device.
    pub(crate) fn replace(&self, tensor: &Tensor, span: Span) -> Result<()> {
        self.var.replace(marked(tensor, self.gradient_cell(), span))
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

    fn gradient_cell(&self) -> Option<&Arc<GradCell>> {
        self.requires_grad().then_some(&self.cell)
    }

    /// Whether gradients are taken with respect to it.
    pub fn requires_grad(&self) -> bool {
        self.trained.load(Ordering::Relaxed)
    }

    /// Freezes the parameter, or trains it again; for tensors that
    /// [`Param::get`] gives from now on.
    #[track_caller]
    pub fn set_requires_grad(&self, on: bool) {
        self.trained.store(on, Ordering::Relaxed);
        // The same tensor again, marked anew: nothing to refuse.
        let _ = self.set(&self.get());
    }

    /// The sum of the gradients so far.
    pub fn grad(&self) -> Option<Tensor> {
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
        self.var.device()
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
        self.var.get()
    }
    /// Puts `tensor` in; gradients do not look through it.
    ///
    /// # Errors
    /// As [`Var::set`].
    #[track_caller]
    pub fn set(&self, tensor: &Tensor) -> Result<()> {
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
pub struct Training(AtomicBool);

impl Default for Training {
    fn default() -> Training {
        Training(AtomicBool::new(true))
    }
}

impl Training {
    /// Whether it trains.
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
    /// Trains, or is evaluated, from now on.
    pub fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }
}
