//! What each instruction of a random program builds.

use std::sync::{Arc, Weak};

use kiln::unstable::base::{DType, Dims, Kind as TypeKind, Scalar, Shape, Span};
use kiln::unstable::ir::{AluOp, DeviceBuffer, Node, Op, SliceAxis, Type, infer};

use super::device;
use super::random_graph::{Instruction, Kind, Program, Size, Variant};
use super::random_leaf::{Buffers, Mode, Numbers};

/// Axes a value may have.
const MOST_AXES: usize = 6;

/// A value on the stack.
#[derive(Clone, Debug)]
pub struct Entry {
    pub node: Arc<Node>,
    /// No finite element is larger in magnitude (exact mode only).
    pub bound: f64,
    /// Some element may be NaN or infinite.
    pub special: bool,
    /// It holds data as it lies in memory, only moved.
    pub stored: bool,
}

impl Entry {
    pub fn ty(&self) -> &Type {
        self.node.ty()
    }
    pub fn shape(&self) -> &Shape {
        &self.node.ty().shape
    }
    pub fn dtype(&self) -> DType {
        self.node.ty().dtype
    }
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }
}

/// A program being built.
pub struct Construction {
    pub(super) mode: Mode,
    pub(super) size: Size,
    special: bool,
    gradients: bool,
    pub(super) variant: Variant,
    buffers: Buffers,
    /// The data in memory.
    pub(super) leaves: Vec<Arc<Node>>,
    pub(super) stack: Vec<Entry>,
    pub(super) number: u64,
}

impl Construction {
    /// An empty program.
    pub fn new(program: &Program, variant: Variant) -> Construction {
        let Program { mode, size, special, gradients, .. } = *program;
        let buffers = Buffers::new(variant.sharing, variant.offset);
        let (leaves, stack) = (Vec::new(), Vec::new());
        Construction { mode, size, special, gradients, variant, buffers, leaves, stack, number: 0 }
    }

    /// The memory of the leaves that may share it.
    pub fn memory(&self) -> Vec<Weak<DeviceBuffer>> {
        self.buffers.all().map(Arc::downgrade).collect()
    }

    /// Builds what the instruction says, if it fits.
    pub fn step(&mut self, number: u64, instruction: &Instruction) {
        self.number = number;
        let kind = if self.stack.is_empty() { Kind::Leaf } else { instruction.kind };
        if let Some(entry) = self.build(kind, instruction) {
            let bounded = self.mode == Mode::Smooth || entry.bound <= exact_limit(entry.dtype());
            assert!(bounded, "{kind:?} left the exact range: {entry:?}");
            self.stack.push(entry);
        }
    }

    /// The top of the stack and the chosen others, each once.
    pub fn outputs(&mut self, chosen: &[u8]) -> Vec<Arc<Node>> {
        if self.stack.is_empty() {
            self.step(0, &Instruction { kind: Kind::Leaf, from: [0; 3], with: [0; 4] });
        }
        let mut outputs: Vec<Arc<Node>> = Vec::new();
        for from in [0].iter().chain(chosen) {
            let node = self.pick(*from).node;
            if !outputs.iter().any(|output| Arc::ptr_eq(output, &node)) {
                outputs.push(node);
            }
        }
        outputs
    }

    pub(super) fn build(&mut self, kind: Kind, instruction: &Instruction) -> Option<Entry> {
        let with = instruction.with;
        let [a, b, c] = instruction.from.map(|from| (kind != Kind::Leaf).then(|| self.pick(from)));
        match kind {
            Kind::Nothing => None,
            Kind::Leaf => Some(self.leaf(with)),
            Kind::Number => Some(self.constant(dtype(with[0]))),
            Kind::Iota => self.iota(&a?, with),
            Kind::Unary => self.unary(a?, with),
            Kind::Binary => self.binary(a?, b?, with),
            Kind::Compare => self.compare(a?, b?, with),
            Kind::Select => self.select(a?, b?, c?),
            Kind::Cast => self.cast(a?, dtype(with[0])),
            Kind::Bitcast => self.bitcast(a?, with),
            Kind::Reshape => self.reshape(a?, with),
            Kind::Permute => self.permute(a?, with),
            Kind::Expand => self.expand(a?, with),
            Kind::Pad => self.pad(a?, b?, with),
            Kind::Slice => self.slice(a?, with),
            Kind::Flip => self.flip(a?, with),
            Kind::Window => self.window(a?, with),
            Kind::Unwindow => self.unwindow(a?, with),
            Kind::Reduce => self.reduce(a?, with),
            Kind::Scan => self.scan(a?, with),
            Kind::Contract => self.contract(a?, b?, with),
            Kind::Gather => self.gather(a?, with),
            Kind::Scatter => self.scatter(a?, with),
            Kind::Sort => self.sort(a?, with),
            Kind::Copy => self.copy(a?),
            Kind::Loop => self.repeat(a?, with),
            // In a draw of its own, so that others stay what they were.
            Kind::Composite if with[1] % 2 == 1 && self.mode == Mode::Smooth => self.attention(a?, b?, with),
            Kind::Composite => self.composite(a?, with),
        }
    }

    /// The operand `from` entries below the top.
    pub(super) fn pick(&self, from: u8) -> Entry {
        let count = self.stack.len();
        self.stack[count - 1 - usize::from(from) % count].clone()
    }

    /// A node, unless it would be too large.
    pub(super) fn node(&self, op: Op, operands: &[&Arc<Node>]) -> Option<Arc<Node>> {
        let types: Vec<&Type> = operands.iter().map(|o| o.ty()).collect();
        let ty = infer(&op, &types).unwrap_or_else(|e| panic!("{op:?} on {types:?}: {e:?}"));
        let fits = ty.shape.numel() <= self.size.most() && ty.shape.rank() <= MOST_AXES;
        fits.then(|| Node::new(op, ty, operands.iter().map(|&o| o.clone()).collect(), Span::caller()))
    }

    /// An entry that moves the elements of another.
    pub(super) fn moved(&self, op: Op, a: &Entry) -> Option<Entry> {
        Some(Entry { node: self.node(op, &[&a.node])?, ..a.clone() })
    }

    /// A computed entry with the given bound; integers wrap.
    pub(super) fn computed(&self, op: Op, operands: &[&Entry], bound: f64) -> Option<Entry> {
        let nodes: Vec<&Arc<Node>> = operands.iter().map(|e| &e.node).collect();
        let node = self.node(op, &nodes)?;
        let dtype = node.ty().dtype;
        let bound = if dtype.is_float() { bound } else { bound.min(largest(dtype)) };
        let special = operands.iter().any(|e| e.special);
        Some(Entry { node, bound, special, stored: false })
    }

    /// A rank-0 number; `f64` holds all the numbers used.
    pub(super) fn number(&self, value: f64, dtype: DType) -> Entry {
        let scalar = if dtype.is_float() { Scalar::Float(value) } else { Scalar::Int(value as i64) };
        let node = self.node(Op::Const(scalar.cast(dtype), dtype, self.variant.device), &[]);
        Entry { node: node.expect("a number fits"), bound: value.abs(), special: false, stored: true }
    }

    /// A number that depends on the variant.
    pub(super) fn constant(&self, dtype: DType) -> Entry {
        let mut numbers = Numbers(self.variant.constants ^ (self.number << 8));
        let drawn = numbers.element(dtype, self.mode, false).as_f64();
        // Numbers that rules look for.
        let notable = [0.0, 1.0, -0.0, 1.0, 2.0, -1.0, 0.5, 2.0];
        let choices = match (dtype.is_float(), self.mode) {
            (true, Mode::Smooth) => 8,
            (true, Mode::Exact) => 6,
            (false, _) => 5,
        };
        self.number(if numbers.below(2) == 0 { notable[numbers.below(choices)] } else { drawn }, dtype)
    }

    pub(super) fn leaf(&mut self, with: [u8; 4]) -> Entry {
        let mut numbers = Numbers(u64::from(u32::from_le_bytes(with)));
        let extents = match self.size {
            Size::Small => [1, 2, 3, 4, 5, 7, 1, 2, 3, 4, 8, 16, 17, 33, 130, 0],
            Size::Large => [1, 2, 64, 65, 33, 31, 100, 8, 3, 48, 7, 200, 513, 1030, 4, 0],
        };
        let rank = [0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6][usize::from(with[0]) % 14];
        let mut dims = Dims::new();
        for _ in 0..rank {
            // Long and empty axes are rare, and few at once.
            let choices = if numbers.below(6) == 0 { 16 } else { 10 };
            let extent = extents[numbers.below(choices)];
            dims.push(if extent > 1 { extent + self.variant.sizes } else { extent });
        }
        while Shape(dims.clone()).numel() > self.size.most() / 4 {
            dims.pop();
        }
        let dtype = dtype(with[1]);
        let mut data = Numbers(self.variant.data ^ (self.number << 8));
        let (mode, special) = (self.mode, self.special);
        let ty = Type::new(Shape(dims), dtype, self.variant.device);
        let node = self.buffers.leaf(ty, with[2], || data.element(dtype, mode, special));
        if self.gradients && dtype.is_float() {
            node.set_grad_cell(Arc::default());
        }
        self.leaves.push(node.clone());
        // Numbers of an unsigned type reach 8.
        Entry { node, bound: 8.0, special: special && dtype.is_float(), stored: true }
    }

    pub(super) fn iota(&self, a: &Entry, with: [u8; 4]) -> Option<Entry> {
        let extent = if a.rank() == 0 { 3 } else { a.shape()[usize::from(with[1]) % a.rank()] };
        let dtype = Some(dtype(with[0])).filter(|&dtype| dtype != DType::Bool)?;
        let node = self.node(Op::Iota(extent, dtype, self.variant.device), &[])?;
        let bound = (extent as f64).min(largest(dtype));
        (bound <= exact_limit(dtype)).then_some(Entry { node, bound, special: false, stored: false })
    }

    /// `a` with elements at most `limit` in magnitude. NaN stays.
    pub(super) fn clamped(&self, a: Entry, limit: f64) -> Option<Entry> {
        if self.mode == Mode::Smooth || (a.bound <= limit && !a.special) || a.dtype() == DType::Bool {
            return Some(a);
        }
        let top = self.number(limit, a.dtype());
        let low = self.computed(Op::Alu(AluOp::Min), &[&a, &top], limit.max(a.bound))?;
        if matches!(a.dtype(), DType::U8 | DType::U32) {
            return Some(Entry { bound: limit, ..low });
        }
        let bottom = self.number(-limit, a.dtype());
        self.computed(Op::Alu(AluOp::Max), &[&low, &bottom], limit)
    }

    /// `a` as another type, without leaving the range in which casts agree.
    pub(super) fn cast(&self, a: Entry, dtype: DType) -> Option<Entry> {
        if a.dtype() == dtype {
            return Some(a);
        }
        let to_int = a.dtype().is_float() && dtype.is_int();
        if to_int && a.special {
            return None;
        }
        let limit = match (a.dtype().kind(), dtype.kind()) {
            (TypeKind::Float, TypeKind::Int) => largest(dtype).min(1e9),
            (_, TypeKind::Float) => exact_limit(dtype),
            (_, _) => f64::INFINITY,
        };
        let a = if limit.is_finite() { self.clamped(a, limit)? } else { a };
        let unsigned = matches!(dtype, DType::U8 | DType::U32);
        let a = if to_int && unsigned { self.computed(Op::Alu(AluOp::Abs), &[&a], a.bound)? } else { a };
        // A negative integer wraps to a large unsigned one.
        let wraps = a.dtype().is_int() && unsigned;
        let bound = match dtype {
            DType::Bool => 1.0,
            _ if wraps => largest(dtype),
            _ => a.bound.min(largest(dtype)),
        };
        let cast = self.computed(Op::Cast(dtype), &[&a], bound)?;
        Some(Entry { special: a.special && dtype.is_float(), ..cast })
    }

    /// `b` with the type and shape of `a`, or of rank 0; `a` may be extended.
    pub fn like(&self, a: &Entry, b: Entry) -> Option<(Entry, Entry)> {
        let b = self.cast(b, a.dtype())?;
        let common = if b.rank() == 0 { None } else { a.shape().broadcast(b.shape()) };
        match common.filter(|_| a.rank() > 0) {
            Some(shape) => {
                Some((self.moved(Op::expand(shape.clone()), a)?, self.moved(Op::expand(shape), &b)?))
            }
            None => Some((a.clone(), self.resized(b, a.shape())?)),
        }
    }

    /// `b` extended to `shape`, or else one element of it.
    pub(super) fn resized(&self, b: Entry, shape: &Shape) -> Option<Entry> {
        if b.rank() == 0 || shape.rank() == 0 || b.shape() == shape {
            return Some(b);
        }
        if b.shape().broadcast(shape).as_ref() == Some(shape) {
            return self.moved(Op::expand(shape.clone()), &b);
        }
        if b.shape().numel() == 0 {
            return None;
        }
        let first = SliceAxis { start: 0, stop: 1, step: 1 };
        let one = self.moved(Op::Slice(vec![first; b.rank()].into()), &b)?;
        self.moved(Op::reshape(Shape::scalar()), &one)
    }

    pub(super) fn unary(&self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let choices: &[AluOp] = match (a.dtype().kind(), self.mode) {
            (TypeKind::Bool, _) => &[AluOp::Not],
            (TypeKind::Int, _) => &[AluOp::Neg, AluOp::Abs, AluOp::Not],
            (TypeKind::Float, Mode::Exact) => {
                &[AluOp::Neg, AluOp::Abs, AluOp::Floor, AluOp::Trunc, AluOp::Round]
            }
            (TypeKind::Float, Mode::Smooth) => SMOOTH_UNARY,
        };
        let op = choices[usize::from(with[0]) % choices.len()];
        let bound = if a.dtype().is_float() { a.bound } else { f64::INFINITY };
        self.computed(Op::Alu(op), &[&a], bound)
    }

    pub(super) fn binary(&self, a: Entry, b: Entry, with: [u8; 4]) -> Option<Entry> {
        let (a, b) = self.like(&a, b)?;
        let choices: &[AluOp] = match (a.dtype().kind(), self.mode) {
            (TypeKind::Bool, _) => &[AluOp::And, AluOp::Or, AluOp::Xor],
            (TypeKind::Int, _) => INT_BINARY,
            (TypeKind::Float, Mode::Exact) => EXACT_BINARY,
            (TypeKind::Float, Mode::Smooth) => SMOOTH_BINARY,
        };
        let op = choices[usize::from(with[0]) % choices.len()];
        if !a.dtype().is_float() {
            let b = if op == AluOp::Pow { self.number(f64::from(with[1] % 4), a.dtype()) } else { b };
            return self.computed(Op::Alu(op), &[&a, &b], f64::INFINITY);
        }
        let b = if op == AluOp::Pow && with[1] < 200 {
            self.number([2.0, 3.0, 0.5, -1.0, 1.0, 0.0][usize::from(with[1]) % 6], a.dtype())
        } else {
            b
        };
        let combine = |a: &Entry, b: &Entry| match op {
            AluOp::Mul => a.bound * b.bound,
            AluOp::Max | AluOp::Min => a.bound.max(b.bound),
            _ => a.bound + b.bound,
        };
        let limit = exact_limit(a.dtype());
        let (a, b) =
            if combine(&a, &b) <= limit { (a, b) } else { (self.clamped(a, 8.0)?, self.clamped(b, 8.0)?) };
        let bound = combine(&a, &b);
        self.computed(Op::Alu(op), &[&a, &b], bound)
    }

    pub(super) fn compare(&self, a: Entry, b: Entry, with: [u8; 4]) -> Option<Entry> {
        let (a, b) = self.like(&a, b)?;
        let op = if with[0].is_multiple_of(2) { AluOp::Lt } else { AluOp::Eq };
        let result = self.computed(Op::Alu(op), &[&a, &b], 1.0)?;
        Some(Entry { special: false, ..result })
    }

    pub(super) fn select(&self, condition: Entry, a: Entry, b: Entry) -> Option<Entry> {
        let (a, b) = self.like(&a, b)?;
        let shape = if a.rank() > 0 { a.shape() } else { b.shape() };
        let condition = self.resized(self.cast(condition, DType::Bool)?, shape)?;
        let selected = self.computed(Op::Alu(AluOp::Where), &[&condition, &a, &b], a.bound.max(b.bound))?;
        Some(Entry { special: a.special || b.special, ..selected })
    }

    /// Bits of integers, and of floats as they lie in memory.
    pub(super) fn bitcast(&self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let same_size = |d: DType| d.size() == a.dtype().size() && a.dtype() != DType::Bool;
        let number = |d: &&DType| **d != DType::Bool && same_size(**d) && device::has(**d);
        let choices: Vec<&DType> = DType::ALL.iter().filter(number).collect();
        let to = **choices.get(usize::from(with[0]) % choices.len().max(1))?;
        // Bits of integers may be any float; bits of computed floats differ.
        if to.is_float() || (a.dtype().is_float() && (!a.stored || a.special)) {
            return None;
        }
        self.computed(Op::Bitcast(to), &[&a], f64::INFINITY)
    }
}

const SMOOTH_UNARY: &[AluOp] = &[
    AluOp::Neg,
    AluOp::Abs,
    AluOp::Recip,
    AluOp::Sqrt,
    AluOp::Exp2,
    AluOp::Log2,
    AluOp::Exp,
    AluOp::Log,
    AluOp::Sin,
    AluOp::Cos,
    AluOp::Tanh,
    AluOp::Erf,
    AluOp::Floor,
    AluOp::Trunc,
    AluOp::Round,
];
const EXACT_BINARY: &[AluOp] = &[AluOp::Add, AluOp::Sub, AluOp::Mul, AluOp::Max, AluOp::Min];
const SMOOTH_BINARY: &[AluOp] =
    &[AluOp::Add, AluOp::Sub, AluOp::Mul, AluOp::Div, AluOp::Max, AluOp::Min, AluOp::Rem, AluOp::Pow];
const INT_BINARY: &[AluOp] = &[
    AluOp::Add,
    AluOp::Sub,
    AluOp::Mul,
    AluOp::Div,
    AluOp::Rem,
    AluOp::Max,
    AluOp::Min,
    AluOp::And,
    AluOp::Or,
    AluOp::Xor,
    AluOp::Shl,
    AluOp::Shr,
    AluOp::Pow,
];

/// An element type of the device under test, most often `F32`.
fn dtype(choice: u8) -> DType {
    let dtype = match choice {
        0..120 => DType::F32,
        120..136 => DType::F16,
        136..152 => DType::BF16,
        152..168 => DType::F64,
        168.. => DType::ALL[usize::from(choice) % 9],
    };
    if device::has(dtype) { dtype } else { DType::F32 }
}

/// Up to where every integer is a number of the type.
pub fn exact_limit(dtype: DType) -> f64 {
    match dtype {
        DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 => f64::INFINITY,
        DType::F16 => 2048.0,
        DType::BF16 => 256.0,
        DType::F32 => 16_777_216.0,
        DType::F64 => 9_007_199_254_740_992.0,
    }
}

/// The largest magnitude of an integer type, infinity for floats.
pub fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::Bool => 1.0,
        DType::U8 => 255.0,
        DType::I32 => 2_147_483_648.0,
        DType::U32 => 4_294_967_295.0,
        DType::I64 => 9_223_372_036_854_775_808.0,
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => f64::INFINITY,
    }
}
