//! Reductions, contractions, indexing and bodies in random programs.

use std::sync::Arc;

use kiln::opts::AttentionOpts;
use kiln::tensor::Tensor;
use kiln::unstable::ir::{
    AluOp, Axes, Body, Composite, ContractDims, LoopSpec, Monoid, Op, ScatterMode, Type,
};
use kiln::{DType, Dims, Scalar, Shape};

use super::device;
use super::random_leaf::{Buffers, Mode, Numbers, Sharing};
use super::random_steps::{Construction, Entry, exact_limit, largest};

impl Construction {
    /// `a`, small enough that this many of its elements can be added.
    pub(super) fn summable(&self, a: Entry, terms: f64) -> Option<Entry> {
        let limit = exact_limit(a.dtype());
        if self.mode == Mode::Smooth || !a.dtype().is_float() || a.bound * terms <= limit {
            return Some(a);
        }
        let most = (limit / terms).floor().min(8.0);
        if most < 1.0 { None } else { self.clamped(a, most) }
    }

    pub(super) fn reduce(&self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let axes: Axes = (0..a.rank() as u8).filter(|axis| with[1] >> axis & 1 == 1).collect();
        let terms: usize = axes.iter().map(|&axis| a.shape()[usize::from(axis)]).product();
        let usable = |m: &&Monoid| {
            m.accepts(a.dtype().kind()) && (self.mode == Mode::Smooth || !a.dtype().is_float() || exact(**m))
        };
        let monoids: Vec<&Monoid> = Monoid::ALL.iter().filter(usable).collect();
        let monoid = *monoids[usize::from(with[0]) % monoids.len()];
        let op = Op::Reduce(monoid, axes);
        // The extreme of nothing is the end of the type's range.
        let empty =
            if terms == 0 && matches!(monoid, Monoid::Max | Monoid::Min) { f64::INFINITY } else { 0.0 };
        if monoid == Monoid::Sum {
            let a = self.summable(a, terms as f64)?;
            let bound = a.bound * terms as f64;
            return self.computed(op, &[&a], bound);
        }
        if empty > 0.0 && a.dtype().is_float() {
            let result = self.computed(op, &[&a], a.bound)?;
            return Some(Entry { special: true, ..result });
        }
        let indices = matches!(monoid, Monoid::ArgMax | Monoid::ArgMin);
        let bound = match a.dtype().is_float() {
            _ if indices => terms as f64,
            true => a.bound,
            false => f64::INFINITY,
        };
        let result = self.computed(op, &[&a], bound)?;
        Some(Entry { special: result.special && !indices, ..result })
    }

    pub(super) fn scan(&self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let axis = usize::from(with[1]).checked_rem(a.rank())?;
        let usable = |m: &&Monoid| {
            let safe = self.mode == Mode::Smooth || !a.dtype().is_float() || exact(**m);
            m.scans() && m.accepts(a.dtype().kind()) && safe
        };
        let monoids: Vec<&Monoid> = Monoid::ALL.iter().filter(usable).collect();
        let monoid = *monoids[usize::from(with[0]) % monoids.len()];
        let terms = if monoid == Monoid::Sum { a.shape()[axis].max(1) as f64 } else { 1.0 };
        let a = self.summable(a, terms)?;
        let bound = if a.dtype().is_float() { a.bound * terms } else { f64::INFINITY };
        self.computed(Op::Scan(monoid, axis as u8), &[&a], bound)
    }

    pub(super) fn contract(&self, a: Entry, b: Entry, with: [u8; 4]) -> Option<Entry> {
        let a = if a.dtype() == DType::Bool { self.cast(a, DType::I32)? } else { a };
        let b = self.cast(b, a.dtype())?;
        let mut dims = ContractDims::default();
        let (mut left, mut right) = (vec![true; a.rank()], vec![true; b.rank()]);
        let mut terms = 1;
        for turn in 0..with[0] % 4 {
            let pairs = (0..a.rank()).rev().flat_map(|i| (0..b.rank()).map(move |j| (i, j)));
            let mut equal = pairs.filter(|&(i, j)| left[i] && right[j] && a.shape()[i] == b.shape()[j]);
            let Some((i, j)) = equal.nth(usize::from(with[1] >> turn & 1)) else { break };
            (left[i], right[j]) = (false, false);
            if with[2] >> turn & 1 == 1 {
                dims.batch.push((i as u8, j as u8));
            } else {
                dims.contract.push((i as u8, j as u8));
                terms *= a.shape()[i];
            }
        }
        let limit = exact_limit(a.dtype());
        let total = |a: &Entry, b: &Entry| terms as f64 * a.bound * b.bound;
        let fits = self.mode == Mode::Smooth || !a.dtype().is_float() || total(&a, &b) <= limit;
        let (a, b) = if fits { (a, b) } else { (self.clamped(a, 2.0)?, self.clamped(b, 2.0)?) };
        let bound = total(&a, &b);
        let exact = self.mode == Mode::Smooth || !a.dtype().is_float() || bound <= limit;
        if exact { self.computed(Op::Contract(Box::new(dims)), &[&a, &b], bound) } else { None }
    }

    /// Positions along an axis of `extent`, in the shape of `like` but with
    /// `count` on that axis: from memory, or computed from a ramp.
    pub(super) fn index(&mut self, like: &Shape, axis: usize, count: usize, with: u8) -> Option<Entry> {
        let extent = like[axis];
        let count = if extent == 0 { 0 } else { count };
        let mut dims = like.0.clone();
        dims[axis] = count;
        let ty = Type::new(Shape(dims), DType::I64, self.variant.device);
        if ty.shape.numel() > self.size.most() {
            return None;
        }
        let entry = |node| Entry { node, bound: extent as f64, special: false, stored: false };
        if !with.is_multiple_of(3) {
            let mut numbers = Numbers(self.variant.data ^ (self.number << 8) ^ 1);
            let fresh = || Scalar::Int(numbers.below(extent) as i64);
            // Never shared: what lies in another buffer may be no position.
            let mut buffers = Buffers::new(Sharing::Never, self.variant.offset);
            if device::has(DType::I64) {
                return Some(entry(buffers.leaf(ty, with % 64, fresh)));
            }
            let narrow = ty.with_dtype(DType::I32);
            let leaf = entry(buffers.leaf(narrow, with % 64, fresh));
            return self.moved(Op::Cast(DType::I64), &leaf);
        }
        let ramp = entry(self.node(Op::Iota(count, DType::I64, self.variant.device), &[])?);
        let (stride, modulus) =
            (self.number(f64::from(1 + with % 5), DType::I64), self.number(extent as f64, DType::I64));
        let scaled = self.computed(Op::Alu(AluOp::Mul), &[&ramp, &stride], f64::INFINITY)?;
        let position = self.computed(Op::Alu(AluOp::Rem), &[&scaled, &modulus], extent as f64)?;
        let mut shape = Dims::from_elem(1, like.rank());
        shape[axis] = count;
        let position = self.moved(Op::reshape(Shape(shape)), &position)?;
        self.moved(Op::expand(&ty.shape), &position)
    }

    pub(super) fn gather(&mut self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let axis = usize::from(with[0]).checked_rem(a.rank())?;
        let index = self.index(a.shape(), axis, usize::from(with[1]) % 7, with[2])?;
        let gathered = self.computed(Op::Gather(axis as u8), &[&a, &index], a.bound)?;
        Some(Entry { stored: a.stored, ..gathered })
    }

    pub(super) fn scatter(&mut self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let axis = usize::from(with[0]).checked_rem(a.rank())?;
        let count = usize::from(with[1]) % 7;
        let index = self.index(a.shape(), axis, count, with[2])?;
        let number = a.dtype() != DType::Bool;
        let modes =
            [ScatterMode::Set, ScatterMode::Add, ScatterMode::Max, ScatterMode::Min, ScatterMode::Mul];
        let float = a.dtype().is_float() && self.mode == Mode::Exact;
        let choices = match (number, float) {
            (false, _) => 1,
            (true, true) => 4,
            (true, false) => 5,
        };
        let mode = modes[usize::from(with[3]) % choices];
        let base = self.summable(a, 1.0 + count as f64)?;
        // The updates are other elements of the base, in another order.
        let updates = self.computed(Op::Gather(axis as u8), &[&base, &index], base.bound)?;
        let bound = if mode == ScatterMode::Add { base.bound * (1.0 + count as f64) } else { base.bound };
        let bound = if base.dtype().is_float() { bound } else { f64::INFINITY };
        self.computed(Op::Scatter(axis as u8, mode), &[&base, &index, &updates], bound)
    }

    pub(super) fn sort(&self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let axis = usize::from(with[0]).checked_rem(a.rank())?;
        let extent = a.shape()[axis];
        // Half of them whole, the others of every length.
        let count = if with[1] & 2 == 0 { extent } else { usize::from(with[3]) % (extent + 1) };
        let op = Op::Sort { axis: axis as u8, descending: with[1] % 2 == 1, count };
        let order = self.computed(op, &[&a], extent as f64)?;
        if with[2].is_multiple_of(2) {
            return Some(Entry { special: false, ..order });
        }
        self.computed(Op::Gather(axis as u8), &[&a, &order], a.bound)
    }

    pub(super) fn copy(&self, a: Entry) -> Option<Entry> {
        self.moved(Op::Copy(self.variant.device), &a)
    }

    /// A loop that adds slices to a carry and keeps it small: the next carry
    /// is the clamped sum, the stacked output the sum with the trip's number.
    pub(super) fn repeat(&mut self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let dtype = a.dtype();
        if dtype == DType::Bool {
            return None;
        }
        let a = self.clamped(a, 8.0)?;
        let trips = usize::from(with[0]) % 4;
        let stack: Dims = std::iter::once(trips).chain(a.shape().iter().copied()).collect();
        let stacked = self.moved(Op::expand(Shape(stack)), &a)?;
        let param = |number: u32, ty: &Type| self.node(Op::Param(number, ty.clone()), &[]);
        let scalar = Type::new((), DType::I64, self.variant.device);
        let limit = self.number(8.0, dtype).node;
        let params = vec![scalar, a.ty().clone(), a.ty().clone(), limit.ty().clone()];
        let [trip, carry, slice, most] = [0, 1, 2, 3].map(|i| param(i as u32, &params[i]));
        let (trip, most) = (self.node(Op::Cast(dtype), &[&trip?])?, most?);
        let sum = self.node(Op::Alu(AluOp::Add), &[&carry?, &slice?])?;
        let next = self.node(Op::Alu(AluOp::Min), &[&sum, &most])?;
        let least = self.node(Op::Alu(AluOp::Neg), &[&most])?;
        let next = if matches!(dtype, DType::U8 | DType::U32) {
            next
        } else {
            self.node(Op::Alu(AluOp::Max), &[&next, &least])?
        };
        let out = self.node(Op::Alu(AluOp::Add), &[&sum, &trip])?;
        let body = Body { params, results: vec![next, out] };
        let spec = Arc::new(LoopSpec { body, trips, carries: 1, stacked: 1, reverse: with[1] % 2 == 1 });
        let operands = [&a.node, &stacked.node, &limit];
        // Both results are on the stack, so that one run serves two users.
        for result in 0..2 {
            let node = self.node(Op::Loop(spec.clone(), result), &operands)?;
            let bound = if dtype.is_float() { 20.0 } else { largest(dtype) };
            self.stack.push(Entry { node, bound, special: a.special, stored: false });
        }
        None
    }

    /// A named operation of two results: the operand's positive part and twice it.
    pub(super) fn composite(&mut self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        if a.dtype() == DType::Bool {
            return None;
        }
        let a = self.summable(a, 2.0)?;
        let param = self.node(Op::Param(0, a.ty().clone()), &[])?;
        let zero = self.number(0.0, a.dtype()).node;
        let positive = self.node(Op::Alu(AluOp::Max), &[&param, &zero])?;
        let twice = self.node(Op::Alu(AluOp::Add), &[&positive, &param])?;
        let body = Body { params: vec![a.ty().clone()], results: vec![positive, twice] };
        let composite = Arc::new(Composite::new("parts", None, Vec::new(), body));
        let bound = if a.dtype().is_float() { 2.0 * a.bound } else { f64::INFINITY };
        let first = self.computed(Op::Composite(composite.clone(), 0), &[&a], bound)?;
        if with[0].is_multiple_of(2) {
            self.stack.push(first);
        }
        self.computed(Op::Composite(composite, 1), &[&a], bound)
    }

    /// Attention among the rows of `a`, often of all its axes but the last,
    /// with values taken from `b`.
    pub(super) fn attention(&self, a: Entry, b: Entry, with: [u8; 4]) -> Option<Entry> {
        let dtype = if a.dtype().is_float() { a.dtype() } else { DType::F32 };
        let (a, b) = (self.cast(a, dtype)?, self.cast(b, dtype)?);
        let width = *a.shape().last()?;
        let rows = a.shape().numel().checked_div(width)?;
        let x = Tensor::from_node(a.node.clone());
        let q = if a.rank() < 2 || !with[0].is_multiple_of(4) { x.reshape([rows, width]) } else { x };
        let keys = q.shape()[q.rank() - 2];
        if keys == 0 || q.shape().numel() / width * keys > 4 * self.size.most() {
            return None;
        }
        let columns = (b.shape().numel() / keys).min(130);
        let all = Tensor::from_node(b.node.clone()).reshape([b.shape().numel()]);
        let v = all.narrow(0, 0, keys * columns).reshape([keys, columns]);
        let k = q.flip(-2i64);
        let added = q.narrow(-1, 0, 1).transpose(-1, -2);
        let special = a.special || b.special;
        let opts = match with[2] % 4 {
            // Whether a value that nobody looks at is a number is left open.
            0 => AttentionOpts::default().causal(!special),
            1 => AttentionOpts::default().mask(&added.gt(0.0)),
            2 => AttentionOpts::default().mask(&added),
            _ => AttentionOpts::default(),
        };
        let y = q.scaled_dot_product_attention(&k, &v, opts);
        let node = y.node().unwrap_or_else(|e| panic!("{e}")).clone();
        let fits = node.ty().shape.numel() <= self.size.most();
        fits.then_some(Entry { node, bound: b.bound, special, stored: false })
    }
}

/// Whether combining small integers in any order gives an integer no larger
/// than their sum.
fn exact(monoid: Monoid) -> bool {
    match monoid {
        Monoid::Sum | Monoid::Max | Monoid::Min | Monoid::ArgMax | Monoid::ArgMin => true,
        Monoid::Prod | Monoid::M2 | Monoid::LogSumExp => false,
    }
}
