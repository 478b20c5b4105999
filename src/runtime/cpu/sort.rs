//! Stable sorting permutations: by digits, the lowest first (Knuth, The Art of
//! Computer Programming 3, 5.2.5), where lines are long enough for that.

use half::{bf16, f16};

use crate::base::DType;
use crate::kernel::Sort;
use crate::runtime::cpu::memory::Memory;
use crate::runtime::cpu::threads;

/// Bits of a digit.
const DIGIT: u32 = 11;

/// Elements of a line from which on digits beat comparisons.
const LONG: usize = 512;

/// Writes the permutation that sorts `keys` along an axis into `to`, both
/// dense and row-major.
pub fn sort(work: &Sort, keys: Memory, to: Memory) {
    match work.dtype {
        DType::Bool | DType::U8 => typed(work, keys, to, u32::from as fn(u8) -> u32),
        DType::I32 => typed(work, keys, to, |key: i32| key as u32 ^ 1 << 31),
        DType::U32 => typed(work, keys, to, |key: u32| key),
        DType::I64 => typed(work, keys, to, |key: i64| key as u64 ^ 1 << 63),
        DType::F16 => typed(work, keys, to, |key: f16| rank(key.to_f32())),
        DType::BF16 => typed(work, keys, to, |key: bf16| rank(key.to_f32())),
        DType::F32 => typed(work, keys, to, rank),
        DType::F64 => typed(work, keys, to, rank_wide),
    }
}

/// A number whose order is that of the key's: `-0` equal to `+0`, NaN above
/// everything.
fn rank(key: f32) -> u32 {
    let bits = (key + 0.0).to_bits();
    match (key.is_nan(), bits >> 31) {
        (true, _) => u32::MAX,
        (false, 0) => bits | 1 << 31,
        (false, _) => !bits,
    }
}

/// As [`rank`].
fn rank_wide(key: f64) -> u64 {
    let bits = (key + 0.0).to_bits();
    match (key.is_nan(), bits >> 63) {
        (true, _) => u64::MAX,
        (false, 0) => bits | 1 << 63,
        (false, _) => !bits,
    }
}

/// What keys are sorted by.
trait Rank: Copy + Ord + Into<u64> {
    const BITS: u32;
    /// The rank in the reverse order.
    fn reversed(self) -> Self;
}

impl Rank for u32 {
    const BITS: u32 = 32;
    fn reversed(self) -> u32 {
        !self
    }
}

impl Rank for u64 {
    const BITS: u32 = 64;
    fn reversed(self) -> u64 {
        !self
    }
}

fn typed<T: Copy, R: Rank>(work: &Sort, keys: Memory, to: Memory, rank: impl Fn(T) -> R + Sync) {
    let shape = &work.shape;
    let length = shape[work.axis];
    let inner: usize = shape[work.axis + 1..].iter().product();
    let lines = shape.numel() / length.max(1);
    let per_job = ((1 << 14) / length.max(1)).max(1);
    threads::jobs(lines.div_ceil(per_job), |job| {
        let mut line_keys: Vec<(R, u32)> = Vec::with_capacity(length);
        let mut spare: Vec<(R, u32)> = Vec::new();
        for line in job * per_job..lines.min((job + 1) * per_job) {
            let start = line / inner * inner * length + line % inner;
            line_keys.clear();
            line_keys.extend((0..length).map(|i| {
                // SAFETY: line and position are inside the shape, which the
                // buffers hold.
                let rank = rank(unsafe { keys.at::<T>(start + i * inner).read() });
                (if work.descending { rank.reversed() } else { rank }, i as u32)
            }));
            sort_line(&mut line_keys, &mut spare);
            for (i, &(_, position)) in line_keys.iter().enumerate() {
                // SAFETY: as above; lines are disjoint.
                unsafe { to.at::<i64>(start + i * inner).write(i64::from(position)) };
            }
        }
    });
}

/// Sorts ranks, equal ones by position, in which order they come.
fn sort_line<R: Rank>(line: &mut Vec<(R, u32)>, spare: &mut Vec<(R, u32)>) {
    if line.len() < LONG {
        return line.sort_unstable();
    }
    spare.clone_from(line);
    for shift in (0..R::BITS).step_by(DIGIT as usize) {
        let digit = |rank: R| (rank.into() >> shift) as usize & ((1 << DIGIT) - 1);
        let mut ends = [0u32; 1 << DIGIT];
        line.iter().for_each(|&(rank, _)| ends[digit(rank)] += 1);
        if ends.iter().any(|&count| count as usize == line.len()) {
            continue;
        }
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        for &(rank, position) in line.iter() {
            let place = &mut ends[digit(rank)];
            spare[*place as usize] = (rank, position);
            *place += 1;
        }
        std::mem::swap(line, spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_sort_as_comparisons_do() {
        let hash = |i: u64| (i ^ 0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for (count, few) in [(LONG, u64::MAX), (3 * LONG + 1, u64::MAX), (2 * LONG, 5), (2 * LONG, 1)] {
            let mut line: Vec<(u64, u32)> =
                (0..count as u32).map(|i| (hash(u64::from(i)) % few, i)).collect();
            let mut want = line.clone();
            want.sort_by_key(|&(rank, _)| rank);
            sort_line(&mut line, &mut Vec::new());
            assert_eq!(line, want, "{count} keys, {few} of them different");
        }
    }

    #[test]
    fn ranks_keep_the_order_of_numbers() {
        let numbers = [f64::NEG_INFINITY, -2.5, -1e-40, 0.0, 1e-40, 2.5, f64::INFINITY, f64::NAN];
        for pair in numbers.windows(2) {
            assert!(rank_wide(pair[0]) < rank_wide(pair[1]), "{pair:?}");
            assert!(rank(pair[0] as f32) < rank(pair[1] as f32), "{pair:?}");
        }
        assert_eq!((rank(-0.0), rank_wide(-0.0)), (rank(0.0), rank_wide(0.0)));
        assert_eq!(rank(-f32::NAN), rank(f32::NAN));
    }
}
