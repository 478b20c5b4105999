//! Movement in random programs.

use kiln::unstable::ir::op::WindowAxis;
use kiln::unstable::ir::{Axes, Op, PadAxis, SliceAxis};
use kiln::{DType, Dims, Shape};

use super::random_leaf::Numbers;
use super::random_steps::{Construction, Entry};

impl Construction {
    pub(super) fn reshape(&self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let mut dims = a.shape().0.clone();
        let axis = if dims.is_empty() { 0 } else { usize::from(with[1]) % dims.len() };
        match with[0] % 5 {
            0 => dims = Dims::from_slice(&[a.shape().numel()]),
            1 => dims.insert(axis, 1),
            2 => dims.retain(|extent| *extent != 1),
            3 if axis + 1 < dims.len() => {
                let extent = dims.remove(axis + 1);
                dims[axis] *= extent;
            }
            _ if !dims.is_empty() => {
                let extent = dims[axis];
                let divisor = (2..=extent)
                    .rev()
                    .find(|&d| extent.is_multiple_of(d) && d <= 2 + usize::from(with[2]) % 7);
                let divisor = divisor.unwrap_or(1);
                dims[axis] = extent / divisor;
                dims.insert(axis + 1, divisor);
            }
            _ => {}
        }
        self.moved(Op::reshape(Shape(dims)), &a)
    }

    pub(super) fn permute(&self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let mut numbers = Numbers(u64::from(with[0]));
        let mut order: Axes = (0..a.rank() as u8).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, numbers.below(i + 1));
        }
        self.moved(Op::Permute(order), &a)
    }

    pub(super) fn expand(&self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let mut dims = a.shape().0.clone();
        let extent = [2, 3, 4, 2, 3, 5, 2, 3, 1, 7, 2, 3, 4, 2, 3, 0][usize::from(with[1]) % 16];
        match dims.iter().position(|&d| d == 1) {
            Some(axis) if with[0].is_multiple_of(2) => dims[axis] = extent,
            _ => dims.insert(0, extent),
        }
        self.moved(Op::expand(Shape(dims)), &a)
    }

    pub(super) fn pad(&self, a: Entry, fill: Entry, with: [u8; 4]) -> Option<Entry> {
        let mut numbers = Numbers(u64::from(with[0]));
        let mut axes = Vec::new();
        for &extent in a.shape().iter() {
            let interior = [0, 0, 0, 0, 1, 2][numbers.below(6)];
            let spread = extent + extent.saturating_sub(1) * interior;
            let lo = numbers.below(5) as i64 - 2;
            let hi = (numbers.below(5) as i64 - 2).max(-(spread as i64) - lo);
            axes.push(PadAxis { lo, hi, interior });
        }
        let fill = match with[1] % 4 {
            0 if fill.rank() == 0 => self.cast(fill, a.dtype())?,
            1 => self.constant(a.dtype()),
            _ => self.number(0.0, a.dtype()),
        };
        let bound = a.bound.max(fill.bound);
        let stored = a.stored && fill.stored;
        Some(Entry { stored, ..self.computed(Op::Pad(axes.into()), &[&a, &fill], bound)? })
    }

    pub(super) fn slice(&self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let mut numbers = Numbers(u64::from(with[0]));
        // Something is left of an axis, but for once in a while.
        let least = usize::from(with[1] > 12);
        let mut range = |&extent: &usize| {
            let start = numbers.below(4).min(extent.saturating_sub(least));
            let stop = (start + least).min(extent).max(extent - numbers.below(3).min(extent - start));
            SliceAxis { start, stop, step: [1, 1, 1, 2, 3][numbers.below(5)] }
        };
        let axes: Vec<SliceAxis> = a.shape().iter().map(&mut range).collect();
        self.moved(Op::Slice(axes.into()), &a)
    }

    pub(super) fn flip(&self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let axes = (0..a.rank() as u8).filter(|axis| with[0] >> axis & 1 == 1).collect();
        self.moved(Op::Flip(axes), &a)
    }

    pub(super) fn window(&self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let axis = usize::from(with[0]).checked_rem(a.rank())? as u8;
        let size = 1 + usize::from(with[1]) % 4;
        let (stride, dilation) = (1 + usize::from(with[2]) % 3, 1 + usize::from(with[3]) % 2);
        self.moved(Op::window(WindowAxis { axis, size, stride, dilation }), &a)
    }

    pub(super) fn unwindow(&self, a: Entry, with: [u8; 4]) -> Option<Entry> {
        let last = a.rank().checked_sub(1).filter(|&last| last > 0 && a.dtype() != DType::Bool)?;
        let (count, size) = (a.shape()[usize::from(with[0]) % last], a.shape()[last]);
        let axis = (usize::from(with[0]) % last) as u8;
        let (stride, dilation) = (1 + usize::from(with[1]) % 3, 1 + usize::from(with[2]) % 2);
        let span = dilation * size.checked_sub(1)? + 1;
        let rest = usize::from(with[3]) % stride;
        let extent = if count == 0 { span - 1 } else { (count - 1) * stride + span + rest };
        // At most one element of each window falls on a result.
        let terms = count.min(size).max(1) as f64;
        let a = self.summable(a, terms)?;
        let bound = terms * a.bound;
        self.computed(Op::unwindow(WindowAxis { axis, size, stride, dilation }, extent), &[&a], bound)
    }
}
