//! Creation: constants, ranges, data.

use crate::base::{DType, Device, Element, Error, Kind, OpError, Result, Scalar, Shape, Span};
use crate::ir::{AluOp, Layout, Leaf, Node, Op, Type};
use crate::runtime::host;
use crate::tensor::compose::Site;
use crate::tensor::{Place, Tensor};

/// A constant of any shape.
fn filled(span: Span, value: Scalar, shape: Shape, dtype: DType, device: Device) -> Tensor {
    let number = Tensor::constant(value, dtype, device, span);
    if shape.rank() == 0 { number } else { Tensor::apply("full", span, Op::Expand(shape), &[&number]) }
}

impl Tensor {
    /// Every element `value`. The type is the place's, else the scalar's own:
    /// `F32`, `I64` or `Bool`.
    #[track_caller]
    pub fn full(shape: impl Into<Shape>, value: impl Into<Scalar>, place: impl Into<Place>) -> Tensor {
        let (value, place) = (value.into(), place.into());
        filled(Span::caller(), value, shape.into(), place.dtype_or(value.default_dtype()), place.device())
    }

    /// Every element 0; `F32` unless the place names a type.
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        let place = place.into();
        filled(Span::caller(), Scalar::Int(0), shape.into(), place.dtype_or(DType::F32), place.device())
    }

    /// Every element 1; `F32` unless the place names a type.
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        let place = place.into();
        filled(Span::caller(), Scalar::Int(1), shape.into(), place.dtype_or(DType::F32), place.device())
    }

    /// A tensor whose elements do not matter; they happen to be 0.
    #[track_caller]
    pub fn empty(shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        Tensor::zeros(shape, place)
    }

    /// Every element 0, with this tensor's shape, type and device.
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        self.full_like(0)
    }

    /// Every element 1, with this tensor's shape, type and device.
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        self.full_like(1)
    }

    /// Every element `value`, with this tensor's shape, type and device.
    #[track_caller]
    pub fn full_like(&self, value: impl Into<Scalar>) -> Tensor {
        match self.ty() {
            Some(ty) => filled(Span::caller(), value.into(), ty.shape.clone(), ty.dtype, ty.device),
            None => self.clone(),
        }
    }

    /// Every element `value`, with this tensor's type and device.
    #[track_caller]
    pub fn new_full(&self, shape: impl Into<Shape>, value: impl Into<Scalar>) -> Tensor {
        match self.ty() {
            Some(ty) => filled(Span::caller(), value.into(), shape.into(), ty.dtype, ty.device),
            None => self.clone(),
        }
    }

    /// The values of a vector in row-major order.
    ///
    /// The data are copied to host memory; on a device other than the CPU, a
    /// transfer follows. Another type in `place` converts. An error where the
    /// number of values is not the shape's.
    #[track_caller]
    pub fn from_vec<T: Element>(data: Vec<T>, shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        from_data("from_vec", Span::caller(), &data, shape.into(), place.into())
    }

    /// The values of a slice in row-major order; see [`Tensor::from_vec`].
    #[track_caller]
    pub fn from_slice<T: Element>(data: &[T], shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        from_data("from_slice", Span::caller(), data, shape.into(), place.into())
    }

    /// A tensor of rank 0.
    #[track_caller]
    pub fn scalar(value: impl Into<Scalar>, place: impl Into<Place>) -> Tensor {
        Tensor::full((), value, place)
    }

    /// `start`, `start + step`, ... below (above, for a negative step) `end`.
    /// `I64` when all three are integers, else `F32`, unless the place names
    /// a type. An error for a step of 0, a step away from the end, or bounds
    /// that are not finite.
    #[track_caller]
    pub fn arange(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        place: impl Into<Place>,
    ) -> Tensor {
        let (span, place) = (Span::caller(), place.into());
        let (start, end, step) = (start.into(), end.into(), step.into());
        Tensor::build(|| arange(span, start, end, step, place))
    }

    /// `steps` values from `start` to `end`, both included, evenly spaced;
    /// the second half is counted back from the end, as PyTorch does.
    #[track_caller]
    pub fn linspace(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        steps: usize,
        place: impl Into<Place>,
    ) -> Tensor {
        let (span, place) = (Span::caller(), place.into());
        linspace(span, start.into().as_f64(), end.into().as_f64(), steps, place)
    }

    /// Ones where the row number is the column number, else zeros:
    /// `[rows, columns]`.
    #[track_caller]
    pub fn eye(rows: usize, columns: usize, place: impl Into<Place>) -> Tensor {
        let (span, place) = (Span::caller(), place.into());
        let site = Site { name: "eye", span };
        let shape = Shape::new(&[rows, columns]);
        let along = |extent, axis| {
            let iota = site.iota_along(extent, axis, 2, DType::I64, place.device());
            iota.expand_to("eye", &shape, span)
        };
        let diagonal = Tensor::apply("eye", span, Op::Alu(AluOp::Eq), &[&along(rows, 0), &along(columns, 1)]);
        diagonal.cast_as("eye", place.dtype_or(DType::F32), span)
    }
}

fn from_data<T: Element>(name: &'static str, span: Span, data: &[T], shape: Shape, place: Place) -> Tensor {
    if shape.numel() != data.len() {
        let expected = format!("{} values for shape {shape}", shape.numel());
        return Tensor::mistake(name, span, expected, format!("{} values", data.len()), &[]);
    }
    let (device, dtype) = (place.device(), place.dtype_or(T::DTYPE));
    if device.is_meta() {
        return filled(span, Scalar::Int(0), shape, dtype, device);
    }
    Tensor::build(|| {
        let layout = Layout::contiguous(&shape);
        let leaf = Leaf { buffer: host::upload(bytemuck::cast_slice(data))?.into(), layout };
        let node = Node::leaf(Type::new(shape, T::DTYPE, Device::cpu()), leaf, span);
        let tensor = Tensor::from_node(node).cast_as(name, dtype, span);
        Ok(if device == Device::cpu() {
            tensor
        } else {
            Tensor::apply(name, span, Op::Copy(device), &[&tensor])
        })
    })
}

fn arange(span: Span, start: Scalar, end: Scalar, step: Scalar, place: Place) -> Result<Tensor> {
    let error = |expected: &str, found: String| Error::from(OpError::new("arange", span, expected, found));
    let whole = [start, end, step].iter().all(|s| s.kind() != Kind::Float);
    let dtype = place.dtype_or(if whole { DType::I64 } else { DType::F32 });
    let (a, b, by) = (start.as_f64(), end.as_f64(), step.as_f64());
    if by == 0.0 || !(a.is_finite() && b.is_finite() && by.is_finite()) {
        return Err(error("finite bounds and a step that is not 0", format!("{start}, {end}, {step}")));
    }
    if (b - a) * by < 0.0 {
        return Err(error("a step towards the end", format!("{start}, {end}, {step}")));
    }
    let count = if whole {
        let (a, b, by) = (i128::from(start.as_i64()), i128::from(end.as_i64()), i128::from(step.as_i64()));
        ((b - a).unsigned_abs()).div_ceil(by.unsigned_abs()) as f64
    } else {
        ((b - a) / by).ceil()
    };
    if count > i64::MAX as f64 {
        return Err(error("at most 2^63 - 1 values", format!("{count:e}")));
    }
    // Counted in the exact type, so that large starts do not lose the step.
    let exact = if whole { DType::I64 } else { DType::F64 };
    let index = Tensor::apply("arange", span, Op::Iota(count as usize, exact, place.device()), &[]);
    let number = |value: Scalar| Tensor::constant(value, exact, place.device(), span);
    let scaled = Tensor::apply("arange", span, Op::Alu(AluOp::Mul), &[&index, &number(step)]);
    let shifted = Tensor::apply("arange", span, Op::Alu(AluOp::Add), &[&scaled, &number(start)]);
    Ok(shifted.cast_as("arange", dtype, span))
}

fn linspace(span: Span, start: f64, end: f64, steps: usize, place: Place) -> Tensor {
    let dtype = place.dtype_or(DType::F32);
    let device = place.device();
    let number = |value: f64| Tensor::constant(Scalar::Float(value), DType::F64, device, span);
    let alu = |op: AluOp, x: &[&Tensor]| Tensor::apply("linspace", span, Op::Alu(op), x);
    if steps == 1 {
        return filled(span, Scalar::Float(start), Shape::from(1), dtype, device);
    }
    let step = (end - start) / (steps.max(2) - 1) as f64;
    let index = Tensor::apply("linspace", span, Op::Iota(steps, DType::F64, device), &[]);
    let ahead = alu(AluOp::Add, &[&alu(AluOp::Mul, &[&index, &number(step)]), &number(start)]);
    let left = alu(AluOp::Sub, &[&number((steps.max(1) - 1) as f64), &index]);
    let back = alu(AluOp::Sub, &[&number(end), &alu(AluOp::Mul, &[&left, &number(step)])]);
    let first_half = alu(AluOp::Lt, &[&index, &number((steps / 2) as f64)]);
    alu(AluOp::Where, &[&first_half, &ahead, &back]).cast_as("linspace", dtype, span)
}
