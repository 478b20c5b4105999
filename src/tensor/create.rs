//! Creation: constants and data. Ranges are in [`crate::tensor::sequence`].

use crate::base::{DType, Device, Dims, Element, Scalar, Shape, Span};
use crate::ir::{Layout, Leaf, Node, Op, Type};
use crate::runtime::host;
use crate::runtime::label::{self, Label};
use crate::tensor::compose::CallSite;
use crate::tensor::{Place, Tensor};

/// A constant of any shape.
pub(crate) fn filled(site: CallSite, value: Scalar, shape: Shape, dtype: DType, device: Device) -> Tensor {
    let number = site.scalar(value, dtype, device);
    if shape.rank() == 0 { number } else { site.apply(Op::expand(shape), &[&number]) }
}

/// Data that a meta tensor has in name only: an input of every plan.
fn dataless(site: CallSite, shape: Shape, dtype: DType, device: Device) -> Tensor {
    let ty = Type::new(shape, dtype, device);
    site.apply(Op::Leaf(ty), &[])
}

impl Tensor {
    /// Every element `value`.
    ///
    /// The type is the place's, else the scalar's own: `F32`, `I64` or `Bool`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::full([2, 2], 7.0, ()).to_vec::<f32>()?, [7.0; 4]);
    /// assert_eq!(Tensor::full([2], 7, ()).dtype(), DType::I64);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn full(shape: impl Into<Shape>, value: impl Into<Scalar>, place: impl Into<Place>) -> Tensor {
        let (value, place) = (value.into(), place.into());
        filled(
            CallSite::here("full"),
            value,
            shape.into(),
            place.dtype_or(value.default_dtype()),
            place.device(),
        )
    }

    /// Every element 0; `F32` unless the place names a type.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::zeros([2, 3], ()).to_vec::<f32>()?, [0.0; 6]);
    /// assert_eq!(Tensor::zeros([2], DType::U8).dtype(), DType::U8);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        let place = place.into();
        filled(
            CallSite::here("zeros"),
            Scalar::Int(0),
            shape.into(),
            place.dtype_or(DType::F32),
            place.device(),
        )
    }

    /// Every element 1; `F32` unless the place names a type.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::ones([2, 3], ()).to_vec::<f32>()?, [1.0; 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        let place = place.into();
        filled(
            CallSite::here("ones"),
            Scalar::Int(1),
            shape.into(),
            place.dtype_or(DType::F32),
            place.device(),
        )
    }

    /// A tensor whose elements do not matter; they happen to be 0.
    ///
    /// On meta it stands for data that would be there: plans count it as an input.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let plan = Tensor::empty([1024], Device::meta()).exp().plan()?;
    /// assert_eq!(plan.kernels.len(), 1);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn empty(shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        let place = place.into();
        if place.device().is_meta() {
            return dataless(
                CallSite::here("empty"),
                shape.into(),
                place.dtype_or(DType::F32),
                place.device(),
            );
        }
        Tensor::zeros(shape, place)
    }

    /// Every element 0, with this tensor's shape, type and device.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2], [3, 4]]);
    /// assert_eq!(x.zeros_like().to_vec::<i64>()?, [0; 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        self.full_like(0)
    }

    /// Every element 1, with this tensor's shape, type and device.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.5f32, 2.5]);
    /// assert_eq!(x.ones_like().to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        self.full_like(1)
    }

    /// Every element `value`, with this tensor's shape, type and device; the value is converted.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2]);
    /// assert_eq!(x.full_like(7).to_vec::<i64>()?, [7, 7]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn full_like(&self, value: impl Into<Scalar>) -> Tensor {
        match self.ty() {
            Some(ty) => {
                filled(CallSite::here("full_like"), value.into(), ty.shape.clone(), ty.dtype, ty.device)
            }
            None => self.clone(),
        }
    }

    /// Every element 0, with this tensor's type and device.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32]);
    /// assert_eq!(x.new_zeros([2]).to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn new_zeros(&self, shape: impl Into<Shape>) -> Tensor {
        self.new_full(shape, 0)
    }

    /// Every element 1, with this tensor's type and device.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2, 3]);
    /// assert_eq!(x.new_ones([2]).to_vec::<i64>()?, [1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn new_ones(&self, shape: impl Into<Shape>) -> Tensor {
        self.new_full(shape, 1)
    }

    /// Elements that do not matter, with this tensor's type and device.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2, 3]);
    /// assert_eq!(x.new_empty([4, 2]).dims()?, [4, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn new_empty(&self, shape: impl Into<Shape>) -> Tensor {
        self.new_full(shape, 0)
    }

    /// Elements that do not matter, with this tensor's shape, type and device.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2, 3]);
    /// assert_eq!(x.empty_like().dims()?, [3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn empty_like(&self) -> Tensor {
        self.full_like(0)
    }

    /// Every element `value`, with this tensor's type and device.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.new_full([3], 0.5).to_vec::<f32>()?, [0.5; 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn new_full(&self, shape: impl Into<Shape>, value: impl Into<Scalar>) -> Tensor {
        match self.ty() {
            Some(ty) => filled(CallSite::here("new_full"), value.into(), shape.into(), ty.dtype, ty.device),
            None => self.clone(),
        }
    }

    /// The values of a vector in row-major order, as a tensor of this shape.
    ///
    /// The data are copied to host memory; on a device other than the CPU, a transfer follows.
    /// Another type in `place` converts.
    ///
    /// Invalid where the number of values is not the shape's. PyTorch: `torch.tensor`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3], ());
    /// assert_eq!(x.sum(1).to_vec::<f32>()?, [6.0, 15.0]);
    /// assert!(Tensor::from_vec(vec![1.0f32; 5], [2, 3], ()).check().is_err());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn from_vec<T: Element>(data: Vec<T>, shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        from_data("from_vec", Span::caller(), &data, shape.into(), place.into())
    }

    /// The values of a slice in row-major order; see [`Tensor::from_vec`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from_slice(&[1i64, 2, 3, 4], [2, 2], ()).sum(0).to_vec::<i64>()?, [4, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn from_slice<T: Element>(data: &[T], shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        from_data("from_slice", Span::caller(), data, shape.into(), place.into())
    }

    /// A tensor of rank 0.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::scalar(2.5, ());
    /// assert_eq!((x.rank(), x.item::<f32>()?), (0, 2.5));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn scalar(value: impl Into<Scalar>, place: impl Into<Place>) -> Tensor {
        Tensor::full((), value, place)
    }

    /// The values of nested arrays or vectors of one length each.
    ///
    /// `[[1.0f32, 2.0], [3.0, 4.0]]` is `[2, 2]`. Another type in `place` converts. Invalid for
    /// rows of different lengths. PyTorch: `torch.tensor`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::new([[1, 2], [3, 4]], DType::F32);
    /// assert_eq!((x.dims()?, x.dtype()), ([2, 2], DType::F32));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn new(data: impl Nested, place: impl Into<Place>) -> Tensor {
        nested("new", Span::caller(), &data, place.into())
    }

    /// [`Tensor::new`] on the default device, with the values' own type.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]).dims()?, [2, 3]);
    /// assert_eq!(Tensor::from(vec![1u8, 2]).dtype(), DType::U8);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn from(data: impl Nested) -> Tensor {
        nested("from", Span::caller(), &data, Place::default())
    }
}

/// Values in nested arrays or vectors: the innermost are the last axis.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// assert_eq!(Tensor::from([[1.0f32, 2.0]]).dims()?, [1, 2]);
/// assert_eq!(Tensor::from(vec![vec![1.0f32, 2.0]; 3]).dims()?, [3, 2]);
/// # Ok::<(), kiln::Error>(())
/// ```
pub trait Nested {
    /// The type of the values.
    type Value: Element;
    /// The extents, those of the first row standing for all rows.
    fn extents(&self) -> Dims;
    /// Appends the values in row-major order; `false` where a row's extents
    /// are not `extents`.
    fn append(&self, extents: &[usize], values: &mut Vec<Self::Value>) -> bool;
}

impl<T: Element> Nested for T {
    type Value = T;
    fn extents(&self) -> Dims {
        Dims::new()
    }
    fn append(&self, extents: &[usize], values: &mut Vec<T>) -> bool {
        values.push(*self);
        extents.is_empty()
    }
}

macro_rules! nested_rows {
    ($($(const $n:ident)? $rows:ty;)*) => {$(
        impl<T: Nested, $(const $n: usize)?> Nested for $rows {
            type Value = T::Value;
            fn extents(&self) -> Dims {
                let mut extents = self.first().map(T::extents).unwrap_or_default();
                extents.insert(0, self.len());
                extents
            }
            fn append(&self, extents: &[usize], values: &mut Vec<T::Value>) -> bool {
                extents.split_first().is_some_and(|(&rows, rest)| {
                    rows == self.len() && self.iter().all(|row| row.append(rest, values))
                })
            }
        }
    )*};
}

nested_rows! {
    const N [T; N];
    Vec<T>;
}

fn nested<N: Nested>(name: &'static str, span: Span, data: &N, place: Place) -> Tensor {
    let extents = data.extents();
    let mut values = Vec::new();
    if !data.append(&extents, &mut values) {
        let expected = format!("rows of one length, {}", Shape(extents));
        return Tensor::invalid_at(name, span, expected, "rows of different lengths", &[]);
    }
    from_data(name, span, &values, Shape(extents), place)
}

/// A leaf in host memory, converted and sent where the place says.
pub(crate) fn from_data<T: Element>(
    name: &'static str,
    span: Span,
    data: &[T],
    shape: Shape,
    place: Place,
) -> Tensor {
    if shape.numel() != data.len() {
        let expected = format!("{} values for shape {shape}", shape.numel());
        return Tensor::invalid_at(name, span, expected, format!("{} values", data.len()), &[]);
    }
    let (device, dtype) = (place.device(), place.dtype_or(T::DTYPE));
    if device.is_meta() {
        return dataless(CallSite { name, span }, shape, dtype, device);
    }
    Tensor::build(|| {
        let layout = Layout::contiguous(&shape);
        let label = Label { name, shape: shape.clone(), span: Some(span) };
        let buffer = label::allocating(label, || host::upload(bytemuck::cast_slice(data)))?;
        let leaf = Leaf { buffer: buffer.into(), layout };
        let node = Node::leaf(Type::new(shape, T::DTYPE, Device::cpu()), leaf, span);
        let tensor = Tensor::from_node(node).cast_as(name, dtype, span);
        Ok(if device == Device::cpu() {
            tensor
        } else {
            Tensor::apply(name, span, Op::Copy(device), &[&tensor])
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text};

    #[test]
    fn constants_take_the_type_of_the_place_or_of_the_number() {
        assert_eq!(Tensor::zeros([2], ()).dtype(), DType::F32);
        assert_eq!(Tensor::full([2], 3, ()).dtype(), DType::I64);
        assert_eq!(Tensor::full([2], true, ()).dtype(), DType::Bool);
        assert_close(&Tensor::full([2], 2.5, DType::I32), &[2], &[2.0, 2.0]);
        assert_close(&Tensor::scalar(7, ()), &[], &[7.0]);
        let like = Tensor::ones([3], DType::F64);
        assert_eq!(Tensor::zeros([1], &like).dtype(), DType::F64);
        assert_close(&like.new_full([1, 2], 4), &[1, 2], &[4.0, 4.0]);
    }

    #[test]
    fn nested_arrays_become_axes() {
        assert_close(&Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]), &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(Tensor::from(true).dtype(), DType::Bool);
        assert_close(&Tensor::new(vec![[1, 2], [3, 4]], DType::F32), &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let ragged = Tensor::from(vec![vec![1], vec![2, 3]]);
        assert!(error_text(&ragged).contains("different lengths"));
    }

    #[test]
    fn data_must_fill_the_shape() {
        assert_close(&Tensor::from_vec(vec![1u8, 2, 3, 4], [2, 2], ()), &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let short = error_text(&Tensor::from_slice(&[1f32; 5], [2, 3], ()));
        assert!(short.contains("6 values") && short.contains("5 values"), "{short}");
        assert_eq!(Tensor::from_vec(vec![1.5f32], [1], Device::cuda(0)).device(), Device::cuda(0));
    }

    #[test]
    fn meta_tensors_of_any_size_have_only_a_type() {
        let huge = Tensor::ones([1 << 30, 1 << 31], Device::meta());
        assert!(huge.check().is_ok());
        assert_eq!(huge.numel(), 1 << 61);
        assert!(Tensor::ones([1 << 30, 1 << 31], ()).check().is_err());
        let beyond = error_text(&Tensor::zeros([1 << 33, 1 << 33], Device::meta()));
        assert!(beyond.contains("less than 2^64 - 1 bytes"), "{beyond}");
    }
}
