//! Types of tensors.

use std::cell::RefCell;
use std::ops::Deref;

use crate::base::{CowArc, DType, Device, Shape};

/// What is known of a tensor without running anything. Most operations keep their
/// operand's type, so those of one type hold it between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Type(CowArc<TypeParts>);

/// What a type says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TypeParts {
    /// Extents of the axes.
    pub shape: Shape,
    /// Type of the elements.
    pub dtype: DType,
    /// Where the tensor is, or will be.
    pub device: Device,
}

thread_local! {
    static SCALARS: RefCell<Vec<Type>> = const { RefCell::new(Vec::new()) };
}

impl Deref for Type {
    type Target = TypeParts;
    fn deref(&self) -> &TypeParts {
        &self.0
    }
}

impl Type {
    /// A type from its parts.
    pub fn new(shape: impl Into<Shape>, dtype: DType, device: Device) -> Type {
        Type(TypeParts { shape: shape.into(), dtype, device }.into())
    }
    /// The type of a single element. A thread holds each once: numbers in expressions are such.
    pub fn scalar(dtype: DType, device: Device) -> Type {
        let made = || Type::new((), dtype, device);
        let known = |known: &RefCell<Vec<Type>>| {
            let mut known = known.borrow_mut();
            if let Some(ty) = known.iter().find(|ty| ty.dtype == dtype && ty.device == device) {
                return ty.clone();
            }
            let ty = made();
            known.push(ty.clone());
            ty
        };
        // A thread that is ending may build nodes too.
        SCALARS.try_with(known).unwrap_or_else(|_| made())
    }
    /// The same with another shape.
    #[must_use]
    pub fn with_shape(&self, shape: impl Into<Shape>) -> Type {
        Type::new(shape, self.dtype, self.device)
    }
    /// The same with another type of the elements.
    #[must_use]
    pub fn with_dtype(&self, dtype: DType) -> Type {
        if dtype == self.dtype { self.clone() } else { Type::new(&self.shape, dtype, self.device) }
    }
    /// The same on another device.
    #[must_use]
    pub fn with_device(&self, device: Device) -> Type {
        if device == self.device { self.clone() } else { Type::new(&self.shape, self.dtype, device) }
    }
    /// Makes this the other type, which nodes that follow each other hold between them mostly:
    /// then there is nothing to count.
    #[inline]
    pub fn become_same(&mut self, other: &Type) {
        if !self.is(other) {
            *self = other.clone();
        }
    }
    /// This type, or the other where this is a single element's.
    #[inline]
    pub fn or_with_axes<'a>(&'a self, other: &'a Type) -> &'a Type {
        if self.shape.rank() == 0 { other } else { self }
    }
    /// Whether two types are held in one place, and so equal.
    pub fn is(&self, other: &Type) -> bool {
        self.0.is(&other.0)
    }
    /// Bytes the elements occupy when stored densely; saturates.
    pub fn bytes(&self) -> usize {
        self.shape.numel().saturating_mul(self.dtype.size())
    }
}
