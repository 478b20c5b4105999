//! Bodies of methods that end at the first error, and primitives on
//! operands that fit already.

use smallvec::SmallVec;

use crate::base::{DType, Error, OpError, Result, Scalar, Shape};
use crate::ir::infer::ON_ONE_DEVICE;
use crate::ir::{AluOp, Op};
use crate::tensor::compose::CallSite;
use crate::tensor::operand::{OperandList, OperandValue};
use crate::tensor::{Tensor, axis, device_mismatch, operand};

/// Bodies and their errors.
impl CallSite {
    /// What `body` makes, unless an operand is invalid: then that operand.
    pub fn build(self, operands: &[&Tensor], body: impl FnOnce() -> Result<Tensor>) -> Tensor {
        self.build_or(operands, body, |invalid| invalid)
    }

    /// As [`CallSite::build`] for two results; both are invalid if one is.
    pub fn build_pair(
        self,
        operands: &[&Tensor],
        body: impl FnOnce() -> Result<(Tensor, Tensor)>,
    ) -> (Tensor, Tensor) {
        let [first, second] = self.build_array(operands, || body().map(|(first, second)| [first, second]));
        (first, second)
    }

    /// As [`CallSite::build`] for several results; all are invalid if one is.
    pub fn build_array<const N: usize>(
        self,
        operands: &[&Tensor],
        body: impl FnOnce() -> Result<[Tensor; N]>,
    ) -> [Tensor; N] {
        self.build_or(operands, body, |invalid| std::array::from_fn(|_| invalid.clone()))
    }

    /// As [`CallSite::build`] for any number of results; an error is one invalid tensor.
    pub fn build_list(self, operands: &[&Tensor], body: impl FnOnce() -> Result<Vec<Tensor>>) -> Vec<Tensor> {
        self.build_or(operands, body, |invalid| vec![invalid])
    }

    fn build_or<R>(
        self,
        operands: &[&Tensor],
        body: impl FnOnce() -> Result<R>,
        spread: impl FnOnce(Tensor) -> R,
    ) -> R {
        match operands.iter().find(|operand| operand.ty().is_none()) {
            Some(invalid) => spread((*invalid).clone()),
            None => self
                .together(operands)
                .and_then(|()| body())
                .unwrap_or_else(|error| spread(Tensor::invalid(error))),
        }
    }

    /// Fails for operands with axes on different devices, before a body looks
    /// at the axes of what it makes of them.
    pub fn together(self, operands: &[&Tensor]) -> Result<()> {
        let ranked = operands.iter().filter(|operand| operand.rank() > 0);
        match device_mismatch::describe(ranked.filter_map(|operand| operand.node().ok()), self.span) {
            None => Ok(()),
            Some(found) => Err(self.error(ON_ONE_DEVICE, found, operands)),
        }
    }

    /// The error of arguments that do not fit.
    pub fn error(self, expected: impl Into<String>, found: impl Into<String>, operands: &[&Tensor]) -> Error {
        let shapes = operands.iter().map(|operand| operand.shape());
        OpError::new(self.name, self.span, expected, found).with_shapes(shapes).into()
    }

    /// The number of one axis of `x`.
    ///
    /// # Errors
    /// An axis out of range.
    pub fn axis_number(self, x: &Tensor, axis: i64) -> Result<usize> {
        axis::resolve(self.name, self.span, axis, &x.shape())
    }

    /// `x` with at least one axis, and the number of one of them: a single
    /// element counts as a row of one, as in PyTorch.
    ///
    /// # Errors
    /// An axis out of range.
    pub fn lane(self, x: &Tensor, axis: i64) -> Result<(Tensor, usize)> {
        let row = if x.rank() == 0 { self.reshape(x, &Shape::from(1)) } else { x.clone() };
        let axis = self.axis_number(&row, axis)?;
        Ok((row, axis))
    }

    /// A rank-0 constant of `like`'s type and device.
    pub fn constant_like(self, value: impl Into<Scalar>, like: &Tensor) -> Tensor {
        self.scalar(value, like.dtype(), like.device())
    }

    /// A scalar operation on operands of one type.
    pub fn alu(self, op: AluOp, operands: &[&Tensor]) -> Tensor {
        self.apply(Op::Alu(op), operands)
    }

    /// `condition ? yes : no`, for values of one type.
    pub fn choose(self, condition: &Tensor, yes: &Tensor, no: &Tensor) -> Tensor {
        self.alu(AluOp::Where, &[condition, yes, no])
    }

    /// Whether elements are NaN; never for types without.
    pub fn is_nan(self, x: &Tensor) -> Tensor {
        self.alu(AluOp::Not, &[&self.alu(AluOp::Eq, &[x, x])])
    }

    /// Operands brought to their common type, by PyTorch's rules, and shape.
    ///
    /// # Errors
    /// Shapes that do not broadcast together.
    pub fn unify(self, operands: &[&Tensor]) -> Result<Vec<Tensor>> {
        let mut shape = Shape::scalar();
        for operand in operands {
            shape = shape.broadcast(&operand.shape()).ok_or_else(|| {
                let found: SmallVec<[String; 4]> = operands.iter().map(|x| x.shape().to_string()).collect();
                self.error("shapes that broadcast together", found.join(" and "), operands)
            })?;
        }
        let dtype = common_dtype(operands);
        Ok(operands.iter().map(|x| self.expand(&self.cast(x, dtype), &shape)).collect())
    }
}

/// The common type of tensors: those with axes decide, as in PyTorch.
pub(crate) fn common_dtype(operands: &[&Tensor]) -> DType {
    let values: OperandList = operands.iter().map(|&x| OperandValue::Tensor(x.clone())).collect();
    operand::common_dtype(&values).unwrap_or(DType::F32)
}

/// `shape` without one axis.
pub(crate) fn without(shape: &Shape, axis: usize) -> Shape {
    let mut dims = shape.0.clone();
    dims.remove(axis);
    Shape(dims)
}

/// `shape` with another extent on one axis.
pub(crate) fn with_extent(shape: &Shape, axis: usize, extent: usize) -> Shape {
    let mut dims = shape.0.clone();
    dims[axis] = extent;
    Shape(dims)
}

/// `shape` with a new axis before position `axis`.
pub(crate) fn with_axis(shape: &Shape, axis: usize, extent: usize) -> Shape {
    let mut dims = shape.0.clone();
    dims.insert(axis, extent);
    Shape(dims)
}
