//! How a tensor is made of those of a state.

use crate::base::{DType, Device, Dims, Result, Shape};
use crate::io::item::{StateItem, TensorData};
use crate::io::load::opts::Transform;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::quantized::{Quantization, QuantizedTensor};

/// A tensor of a state, as it is, or with its last two axes exchanged, or changed after that.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    pub item: StateItem<'a>,
    pub transposed: bool,
    pub transform: Option<&'a Transform>,
}

/// What a tensor is made of.
#[derive(Clone, Debug)]
pub enum Recipe<'a> {
    Whole(Piece<'a>),
    /// A range of an axis.
    Part {
        of: Piece<'a>,
        axis: usize,
        start: usize,
        len: usize,
    },
    /// One after the other along an axis.
    Joined {
        parts: Vec<Piece<'a>>,
        axis: usize,
    },
}

impl Piece<'_> {
    /// Its shape. That of an invalid tensor, which a transform may make, is empty.
    pub fn shape(&self, site: CallSite) -> Shape {
        if self.transform.is_none() {
            return self.turned(self.item.shape());
        }
        self.on_meta(site).shape()
    }

    fn turned(&self, shape: Shape) -> Shape {
        let mut dims: Dims = shape.0;
        if let (true, [.., a, b]) = (self.transposed, &mut dims[..]) {
            std::mem::swap(a, b);
        }
        Shape(dims)
    }

    /// A tensor without data in its place.
    pub fn on_meta(&self, site: CallSite) -> Tensor {
        let dtype = self.item.computed().unwrap_or(DType::F32);
        let _line = site.span.enter();
        self.transformed(Tensor::empty(self.turned(self.item.shape()), (Device::meta(), dtype)))
    }

    fn transformed(&self, tensor: Tensor) -> Tensor {
        self.transform.map_or_else(|| tensor.clone(), |Transform(transform)| transform(&tensor))
    }

    fn tensor(&self, site: CallSite) -> Tensor {
        let _line = site.span.enter();
        let tensor = match self.item.value {
            TensorData::Tensor(tensor) => tensor.clone(),
            TensorData::Raw(raw) => raw.to_tensor_at(site),
        };
        let rank = tensor.rank();
        let turned = self.transposed && rank >= 2;
        self.transformed(if turned { site.transpose(&tensor, rank - 2, rank - 1) } else { tensor })
    }

    /// Whether it is a tensor of the state.
    fn is_as_stored(&self) -> bool {
        !self.transposed && self.transform.is_none()
    }
}

impl<'a> Recipe<'a> {
    /// The tensors it is made of.
    pub fn pieces(&self) -> &[Piece<'a>] {
        match self {
            Recipe::Whole(piece) | Recipe::Part { of: piece, .. } => std::slice::from_ref(piece),
            Recipe::Joined { parts, .. } => parts,
        }
    }

    /// Fails with what a transform says of the tensor it is given.
    ///
    /// # Errors
    /// The error recorded in what it makes.
    pub fn check(&self, site: CallSite) -> Result<()> {
        let mut changed = self.pieces().iter().filter(|piece| piece.transform.is_some());
        changed.try_for_each(|piece| piece.on_meta(site).check())
    }

    /// The shape it has; what is wrong with it where pieces do not fit together.
    pub fn shape(&self, site: CallSite) -> Result<Shape, Shape> {
        match self {
            Recipe::Whole(piece) => Ok(piece.shape(site)),
            Recipe::Part { of, axis, start, len } => {
                let mut shape = of.shape(site);
                let inside = shape.get(*axis).is_some_and(|&extent| start + len <= extent);
                if !inside {
                    return Err(shape);
                }
                shape.0[*axis] = *len;
                Ok(shape)
            }
            Recipe::Joined { parts, axis } => joined(parts, *axis, site),
        }
    }

    /// How it stays packed, if all of its pieces are packed.
    pub fn quantization(&self) -> Option<Quantization> {
        let packed = |piece: &Piece| match piece.item.value {
            TensorData::Tensor(_) => None,
            TensorData::Raw(raw) => raw.quantization(),
        };
        let pieces = self.pieces().iter().map(packed).collect::<Option<Vec<_>>>()?;
        let first = *pieces.first()?;
        // What loses least where they differ.
        Some(if pieces.iter().all(|&piece| piece == first) { first } else { Quantization::Q8_0 })
    }

    /// The packed tensor, computed if its blocks are not those of the state.
    ///
    /// # Errors
    /// What computing it says.
    pub fn packed(&self, quantization: Quantization, site: CallSite) -> Result<QuantizedTensor> {
        if let Recipe::Whole(piece) = self
            && piece.is_as_stored()
            && let TensorData::Raw(raw) = piece.item.value
            && let Some(packed) = raw.packed()
        {
            return Ok(packed);
        }
        let _line = site.span.enter();
        QuantizedTensor::quantize(&self.tensor(site), quantization)
    }

    /// Whether a tensor of this type can be made of it.
    pub fn fits(&self, dtype: DType, convert: bool) -> bool {
        self.pieces().iter().all(|piece| match (&piece.item.value, piece.item.computed()) {
            (TensorData::Tensor(tensor), _) if tensor.dtype() == dtype => true,
            (_, Some(found)) => convert && found.kind() == dtype.kind(),
            (_, None) => false,
        })
    }

    /// The tensor, not computed yet.
    pub fn tensor(&self, site: CallSite) -> Tensor {
        match self {
            Recipe::Whole(piece) => piece.tensor(site),
            Recipe::Part { of, axis, start, len } => {
                site.slice(&of.tensor(site), *axis, *start, start + len, 1)
            }
            Recipe::Joined { parts, axis } => {
                let parts: Vec<Tensor> = parts.iter().map(|part| part.tensor(site)).collect();
                Tensor::cat(&parts, *axis as i64)
            }
        }
    }

    /// Whether it is a tensor of the state as that lies in memory.
    pub fn is_as_stored(&self) -> bool {
        match self {
            Recipe::Whole(piece) => piece.is_as_stored(),
            Recipe::Part { of, axis, .. } => of.is_as_stored() && *axis == 0,
            Recipe::Joined { .. } => false,
        }
    }
}

/// The shape of pieces one after the other; the first that does not fit to the others.
fn joined(parts: &[Piece], axis: usize, site: CallSite) -> Result<Shape, Shape> {
    let Some(mut shape) = parts.first().map(|part| part.shape(site)) else { return Err(Shape::scalar()) };
    if axis >= shape.rank() {
        return Err(shape);
    }
    for part in &parts[1..] {
        let other = part.shape(site);
        let alike =
            other.rank() == shape.rank() && (0..shape.rank()).all(|i| i == axis || shape[i] == other[i]);
        if !alike {
            return Err(other);
        }
        shape.0[axis] += other[axis];
    }
    Ok(shape)
}
