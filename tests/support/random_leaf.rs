//! Random data in memory, seen through random views.

use std::sync::Arc;

use kiln::unstable::base::{DType, Kind, Scalar, Shape, Span};
use kiln::unstable::ir::{DeviceBuffer, Layout, Leaf, Node, Type};

/// Which numbers to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Small integers: every result is exact, whatever the order.
    Exact,
    /// Any reals of moderate size: results agree within propagated bounds.
    Smooth,
}

/// A generator of numbers: SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    /// An element of a type: at most 4 in magnitude, with `special` now and
    /// then NaN or infinite.
    pub fn element(&mut self, dtype: DType, mode: Mode, special: bool) -> Scalar {
        let small = self.below(9) as i64 - 4;
        if special && dtype.is_float() && self.below(16) == 0 {
            return Scalar::Float([f64::NAN, f64::INFINITY, f64::NEG_INFINITY][self.below(3)]);
        }
        match dtype.kind() {
            Kind::Bool => Scalar::Bool(small > 0),
            Kind::Int if matches!(dtype, DType::U8 | DType::U32) => Scalar::Int(small + 4),
            Kind::Int => Scalar::Int(small),
            Kind::Float if mode == Mode::Exact => Scalar::Float(small as f64),
            Kind::Float => Scalar::Float(self.below(1 << 20) as f64 / f64::from(1 << 18) - 2.0).cast(dtype),
        }
    }
}

/// Which leaves are views of one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Those that the program says.
    AsDrawn,
    /// None.
    Never,
    /// All that can be.
    Always,
}

/// The buffers of a program, so that leaves can share them.
#[derive(Debug)]
pub struct Buffers {
    known: Vec<(DType, usize, Arc<DeviceBuffer>)>,
    sharing: Sharing,
    /// Added to the offset of every leaf.
    offset: usize,
}

impl Buffers {
    /// No buffers yet.
    pub fn new(sharing: Sharing, offset: usize) -> Buffers {
        Buffers { known: Vec::new(), sharing, offset }
    }

    /// Each buffer once.
    pub fn all(&self) -> impl Iterator<Item = &Arc<DeviceBuffer>> {
        self.known.iter().map(|(_, _, buffer)| buffer)
    }

    /// A leaf of a type: a view of a fresh buffer, or of one drawn before.
    /// `view` chooses the layout and whether to share.
    pub fn leaf(&mut self, ty: Type, view: u8, mut fresh: impl FnMut() -> Scalar) -> Arc<Node> {
        let (mut layout, mut count) = layout(&ty.shape, view);
        layout.offset += self.offset as i64;
        count += self.offset;
        let share = match self.sharing {
            Sharing::AsDrawn => view >= 200,
            Sharing::Never => false,
            Sharing::Always => true,
        };
        let fits =
            |known: &&(DType, usize, Arc<DeviceBuffer>)| share && known.0 == ty.dtype && known.1 >= count;
        let shared = self.known.iter().find(fits);
        let buffer = match shared {
            Some((_, _, buffer)) => buffer.clone(),
            None => {
                let mut bytes = Vec::new();
                for _ in 0..count {
                    let bits = fresh().to_bits(ty.dtype).to_le_bytes();
                    bytes.extend_from_slice(&bits[..ty.dtype.size()]);
                }
                let backend = kiln::context().backend(ty.device).expect("the device under test");
                let buffer = Arc::new(backend.upload(&bytes).expect("memory for a test"));
                self.known.push((ty.dtype, count, buffer.clone()));
                buffer
            }
        };
        Node::leaf(ty, Leaf { buffer, layout }, Span::caller())
    }
}

/// A layout of a shape, and how many elements its buffer needs.
fn layout(shape: &Shape, view: u8) -> (Layout, usize) {
    let mut layout = Layout::contiguous(shape);
    let count = shape.numel();
    match (view / 4) % 8 {
        // Most leaves are plain.
        0..=2 => {}
        3 => layout.offset = 3,
        4 => {
            // Axes in reverse order.
            let mut dims = shape.0.clone();
            dims.reverse();
            layout.strides = Shape(dims).strides();
            layout.strides.reverse();
        }
        5 => {
            // Gaps between all elements.
            layout.strides.iter_mut().for_each(|stride| *stride *= 2);
        }
        6 => {
            // The first axis backwards.
            if count > 0 && shape.rank() > 0 {
                layout.offset = layout.strides[0] * (shape[0] as i64 - 1);
                layout.strides[0] = -layout.strides[0];
            }
        }
        _ => {
            // The first axis repeats one slice.
            if shape.rank() > 0 {
                layout.strides[0] = 0;
            }
        }
    }
    let last: i64 = (0..shape.rank()).map(|i| layout.strides[i].max(0) * (shape[i].max(1) as i64 - 1)).sum();
    (layout.clone(), (layout.offset + last + 1) as usize)
}
