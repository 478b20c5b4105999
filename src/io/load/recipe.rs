//! How a tensor is made of those of a state.

use crate::base::{DType, Dims, Shape};
use crate::io::item::{StateItem, TensorData};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// A tensor of a state, as it is or with its last two axes exchanged.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    pub item: StateItem<'a>,
    pub transposed: bool,
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
    pub fn shape(&self) -> Shape {
        let mut dims: Dims = self.item.shape().0;
        if let (true, [.., a, b]) = (self.transposed, &mut dims[..]) {
            std::mem::swap(a, b);
        }
        Shape(dims)
    }

    fn tensor(&self, site: CallSite) -> Tensor {
        let tensor = match self.item.value {
            TensorData::Tensor(tensor) => tensor.clone(),
            TensorData::Raw(raw) => raw.to_tensor_at(site),
        };
        let rank = tensor.rank();
        let turned = self.transposed && rank >= 2;
        if turned { site.transpose(&tensor, rank - 2, rank - 1) } else { tensor }
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

    /// The shape it has; what is wrong with it where pieces do not fit together.
    pub fn shape(&self) -> Result<Shape, Shape> {
        match self {
            Recipe::Whole(piece) => Ok(piece.shape()),
            Recipe::Part { of, axis, start, len } => {
                let mut shape = of.shape();
                let inside = shape.get(*axis).is_some_and(|&extent| start + len <= extent);
                if !inside {
                    return Err(shape);
                }
                shape.0[*axis] = *len;
                Ok(shape)
            }
            Recipe::Joined { parts, axis } => joined(parts, *axis),
        }
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
            Recipe::Whole(piece) => !piece.transposed,
            Recipe::Part { of, axis, .. } => !of.transposed && *axis == 0,
            Recipe::Joined { .. } => false,
        }
    }
}

/// The shape of pieces one after the other; the first that does not fit to the others.
fn joined(parts: &[Piece], axis: usize) -> Result<Shape, Shape> {
    let Some(mut shape) = parts.first().map(Piece::shape) else { return Err(Shape::scalar()) };
    if axis >= shape.rank() {
        return Err(shape);
    }
    for part in &parts[1..] {
        let other = part.shape();
        let alike =
            other.rank() == shape.rank() && (0..shape.rank()).all(|i| i == axis || shape[i] == other[i]);
        if !alike {
            return Err(other);
        }
        shape.0[axis] += other[axis];
    }
    Ok(shape)
}
