//! Stable sorting permutations.

use std::cmp::Ordering;

use half::{bf16, f16};

use crate::base::DType;
use crate::kernel::Sort;
use crate::runtime::cpu::memory::Memory;
use crate::runtime::cpu::threads;

/// Writes the permutation that sorts `keys` along an axis into `to`, both
/// dense and row-major.
pub fn sort(work: &Sort, keys: Memory, to: Memory) {
    match work.dtype {
        DType::Bool | DType::U8 => typed::<u8>(work, keys, to, u8::cmp),
        DType::I32 => typed::<i32>(work, keys, to, i32::cmp),
        DType::U32 => typed::<u32>(work, keys, to, u32::cmp),
        DType::I64 => typed::<i64>(work, keys, to, i64::cmp),
        DType::F16 => typed::<f16>(work, keys, to, |a, b| nan_largest(a.to_f32(), b.to_f32())),
        DType::BF16 => typed::<bf16>(work, keys, to, |a, b| nan_largest(a.to_f32(), b.to_f32())),
        DType::F32 => typed::<f32>(work, keys, to, |a, b| nan_largest(*a, *b)),
        DType::F64 => typed::<f64>(work, keys, to, |a, b| nan_largest(*a, *b)),
    }
}

/// The numeric order, `-0` equal to `+0`, with NaN above everything.
fn nan_largest<T: PartialOrd>(a: T, b: T) -> Ordering {
    #[allow(clippy::eq_op)]
    let nan = |x: &T| x != x;
    a.partial_cmp(&b).unwrap_or_else(|| nan(&a).cmp(&nan(&b)))
}

fn typed<T: Copy + Sync>(work: &Sort, keys: Memory, to: Memory, order: fn(&T, &T) -> Ordering) {
    let shape = &work.shape;
    let length = shape[work.axis];
    let inner: usize = shape[work.axis + 1..].iter().product();
    let lines = shape.numel() / length.max(1);
    let per_job = ((1 << 14) / length.max(1)).max(1);
    threads::jobs(lines.div_ceil(per_job), |job| {
        let mut permutation: Vec<u32> = Vec::with_capacity(length);
        let mut line_keys: Vec<T> = Vec::with_capacity(length);
        for line in job * per_job..lines.min((job + 1) * per_job) {
            let start = line / inner * inner * length + line % inner;
            line_keys.clear();
            // SAFETY: line and position are inside the shape, which the
            // buffers hold; lines are disjoint.
            line_keys.extend((0..length).map(|i| unsafe { keys.at::<T>(start + i * inner).read() }));
            permutation.clear();
            permutation.extend(0..length as u32);
            permutation.sort_by(|&a, &b| {
                let ordering = order(&line_keys[a as usize], &line_keys[b as usize]);
                if work.descending { ordering.reverse() } else { ordering }
            });
            for (i, &p) in permutation.iter().enumerate() {
                // SAFETY: as above.
                unsafe { to.at::<i64>(start + i * inner).write(i64::from(p)) };
            }
        }
    });
}
