//! Threefry-2x32 with 20 rounds: a counter-based generator (Salmon, Moraes,
//! Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).
//!
//! Stated once, over any words that add, rotate and combine: numbers on the
//! host, where it makes keys, and tensors, where it makes random bits.

use crate::base::{DType, Device, Scalar, Shape};
use crate::ir::{AluOp, Op};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
const PARITY: u32 = 0x1bd1_1bda;

/// The two random words of a counter under a key.
pub(super) fn numbers(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    threefry(&mut PlainArithmetic, key, counter)
}

/// The two random words of each element of a tensor: the counter is the
/// element's position in row-major order, its upper half first.
pub(super) fn tensors(site: CallSite, key: [u32; 2], shape: &Shape, device: Device) -> [Tensor; 2] {
    let mut tensors = Tensors { site, device, small: [const { None }; 32] };
    // Arguments, so that kernels do not depend on them.
    let key = key.map(|word| site.apply(Op::Arg(Scalar::from(word), DType::U32, device), &[]));
    let counter = positions(&mut tensors, shape);
    threefry(&mut tensors, key, counter)
}

/// Arithmetic modulo 2^32.
trait Arithmetic {
    type Word: Clone;
    fn constant(&mut self, number: u32) -> Self::Word;
    fn add(&mut self, a: &Self::Word, b: &Self::Word) -> Self::Word;
    fn xor(&mut self, a: &Self::Word, b: &Self::Word) -> Self::Word;
    /// By 1 to 31 bits.
    fn rotate_left(&mut self, word: &Self::Word, distance: u32) -> Self::Word;
}

fn threefry<A: Arithmetic>(on: &mut A, key: [A::Word; 2], counter: [A::Word; 2]) -> [A::Word; 2] {
    let parity = on.constant(PARITY);
    let both = on.xor(&key[0], &key[1]);
    let third = on.xor(&both, &parity);
    let [mut x, mut y] = [on.add(&counter[0], &key[0]), on.add(&counter[1], &key[1])];
    let [first, second] = key;
    let schedule = [first, second, third];
    for group in 1..=5 {
        for distance in ROTATIONS[(group - 1) % 2] {
            x = on.add(&x, &y);
            y = on.rotate_left(&y, distance);
            y = on.xor(&y, &x);
        }
        let number = on.constant(group as u32);
        let numbered = on.add(&schedule[(group + 1) % 3], &number);
        x = on.add(&x, &schedule[group % 3]);
        y = on.add(&y, &numbered);
    }
    [x, y]
}

struct PlainArithmetic;

impl Arithmetic for PlainArithmetic {
    type Word = u32;
    fn constant(&mut self, number: u32) -> u32 {
        number
    }
    fn add(&mut self, a: &u32, b: &u32) -> u32 {
        a.wrapping_add(*b)
    }
    fn xor(&mut self, a: &u32, b: &u32) -> u32 {
        a ^ b
    }
    fn rotate_left(&mut self, word: &u32, distance: u32) -> u32 {
        word.rotate_left(distance)
    }
}

struct Tensors {
    site: CallSite,
    device: Device,
    /// The constants below 32 made so far: most are used several times.
    small: [Option<Tensor>; 32],
}

impl Tensors {
    fn alu(&self, op: AluOp, a: &Tensor, b: &Tensor) -> Tensor {
        self.site.apply(Op::Alu(op), &[a, b])
    }
}

impl Arithmetic for Tensors {
    type Word = Tensor;
    fn constant(&mut self, number: u32) -> Tensor {
        let make = || self.site.scalar(number, DType::U32, self.device);
        match self.small.get_mut(number as usize) {
            Some(known) => known.get_or_insert_with(make).clone(),
            None => make(),
        }
    }
    fn add(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        self.alu(AluOp::Add, a, b)
    }
    fn xor(&mut self, a: &Tensor, b: &Tensor) -> Tensor {
        self.alu(AluOp::Xor, a, b)
    }
    fn rotate_left(&mut self, word: &Tensor, distance: u32) -> Tensor {
        let (left, right) = (self.constant(distance), self.constant(32 - distance));
        let (upper, lower) = (self.alu(AluOp::Shl, word, &left), self.alu(AluOp::Shr, word, &right));
        self.alu(AluOp::Or, &upper, &lower)
    }
}

/// The positions of a shape's elements, as the halves of 64-bit numbers; the
/// upper is a single 0 where the lower can count them all.
fn positions(tensors: &mut Tensors, shape: &Shape) -> [Tensor; 2] {
    let (site, device, numel) = (tensors.site, tensors.device, shape.numel());
    let iota = |dtype| site.reshape(&site.iota(numel, dtype, device), shape);
    if numel as u64 <= 1 << 32 {
        return [tensors.constant(0), iota(DType::U32)];
    }
    let position = iota(DType::I64);
    let upper = site.alu(AluOp::Shr, &[&position, &site.scalar(32, DType::I64, device)]);
    [upper, position].map(|half| site.cast(&half, DType::U32))
}
