//! Stable sorting permutations: by digits, the lowest first (Knuth, The Art of
//! Computer Programming 3, 5.2.5), where lines are long enough for that.

use half::{bf16, f16};

use crate::base::DType;
use crate::kernel::Sort;
use crate::runtime::cpu::memory::MemoryView;
use crate::runtime::cpu::threads;
use crate::runtime::cpu::thresholds::{
    RADIX_BITS, RADIX_MIN_ROW, SELECT_BLOCK, SELECT_FRACTION, SORT_ELEMENTS_PER_JOB,
};

/// Writes the first positions of the permutation that sorts `keys` along an
/// axis into `to`, both dense and row-major.
pub fn sort(work: &Sort, keys: MemoryView, to: MemoryView) {
    match work.dtype {
        DType::Bool | DType::U8 => typed(work, keys, to, u32::from as fn(u8) -> u32),
        DType::I32 => typed(work, keys, to, |key: i32| key as u32 ^ 1 << 31),
        DType::U32 => typed(work, keys, to, |key: u32| key),
        DType::I64 => typed(work, keys, to, |key: i64| key as u64 ^ 1 << 63),
        DType::F16 => typed(work, keys, to, |key: f16| sort_key(key.to_f32())),
        DType::BF16 => typed(work, keys, to, |key: bf16| sort_key(key.to_f32())),
        DType::F32 => typed(work, keys, to, sort_key),
        DType::F64 => typed(work, keys, to, sort_key_wide),
    }
}

/// A number whose order is that of the key's: `-0` equal to `+0`, NaN above
/// everything.
fn sort_key(key: f32) -> u32 {
    let bits = (key + 0.0).to_bits();
    match (key.is_nan(), bits >> 31) {
        (true, _) => u32::MAX,
        (false, 0) => bits | 1 << 31,
        (false, _) => !bits,
    }
}

/// As [`sort_key`].
fn sort_key_wide(key: f64) -> u64 {
    let bits = (key + 0.0).to_bits();
    match (key.is_nan(), bits >> 63) {
        (true, _) => u64::MAX,
        (false, 0) => bits | 1 << 63,
        (false, _) => !bits,
    }
}

/// What keys are sorted by.
trait SortKey: Copy + Ord + Into<u64> {
    const BITS: u32;
    /// The rank in the reverse order.
    fn reversed(self) -> Self;
}

impl SortKey for u32 {
    const BITS: u32 = 32;
    fn reversed(self) -> u32 {
        !self
    }
}

impl SortKey for u64 {
    const BITS: u32 = 64;
    fn reversed(self) -> u64 {
        !self
    }
}

fn typed<T: Copy, R: SortKey>(work: &Sort, keys: MemoryView, to: MemoryView, rank: impl Fn(T) -> R + Sync) {
    let (length, inner, count) = (work.shape[work.axis], work.inner(), work.count);
    let lines = work.shape.numel() / length.max(1);
    let per_job = (SORT_ELEMENTS_PER_JOB / length.max(1)).max(1);
    threads::parallel_for(lines.div_ceil(per_job), |job| {
        let mut line_keys: Vec<(R, u32)> = Vec::with_capacity(length);
        let mut spare: Vec<(R, u32)> = Vec::new();
        for line in job * per_job..lines.min((job + 1) * per_job) {
            let start = |extent: usize| line / inner * inner * extent + line % inner;
            let key = |i: usize| {
                // SAFETY: line and position are inside the shape, which the
                // buffer holds.
                let rank = rank(unsafe { keys.at::<T>(start(length) + i * inner).read() });
                if work.descending { rank.reversed() } else { rank }
            };
            if count <= length / SELECT_FRACTION {
                select_smallest(&mut line_keys, length, count, key);
            } else {
                line_keys.clear();
                line_keys.extend((0..length).map(|i| (key(i), i as u32)));
                sort_line(&mut line_keys, &mut spare);
            }
            for (i, &(_, position)) in line_keys[..count].iter().enumerate() {
                // SAFETY: as above; lines are disjoint.
                unsafe { to.at::<i64>(start(count) + i * inner).write(i64::from(position)) };
            }
        }
    });
}

/// The least `count` of as many ranks as a line has, in order. Those that may be among
/// them are gathered; when twice as many have come, the greater half goes, and what is
/// no less than the rest is passed over from then on.
fn select_smallest<R: SortKey>(
    found: &mut Vec<(R, u32)>,
    length: usize,
    count: usize,
    key: impl Fn(usize) -> R,
) {
    found.clear();
    if count == 0 {
        return;
    }
    let mut bound = None;
    for start in (0..length).step_by(SELECT_BLOCK) {
        let block = start..length.min(start + SELECT_BLOCK);
        // Later positions follow equal ranks, so equal to the bound is too late.
        // Asked of a whole block, without a branch for each, for speed.
        let below = |rank: R| bound.is_none_or(|bound| rank < bound);
        if !block.clone().fold(false, |any, i| any | below(key(i))) {
            continue;
        }
        found.extend(block.map(|i| (key(i), i as u32)).filter(|&(rank, _)| below(rank)));
        if found.len() >= 2 * count {
            let (_, last, _) = found.select_nth_unstable(count - 1);
            bound = Some(last.0);
            found.truncate(count);
        }
    }
    found.sort_unstable();
}

/// Sorts ranks, equal ones by position, in which order they come.
fn sort_line<R: SortKey>(line: &mut Vec<(R, u32)>, spare: &mut Vec<(R, u32)>) {
    if line.len() < RADIX_MIN_ROW {
        return line.sort_unstable();
    }
    spare.clone_from(line);
    for shift in (0..R::BITS).step_by(RADIX_BITS as usize) {
        let digit = |rank: R| (rank.into() >> shift) as usize & ((1 << RADIX_BITS) - 1);
        let mut ends = [0u32; 1 << RADIX_BITS];
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
        for (count, few) in [
            (RADIX_MIN_ROW, u64::MAX),
            (3 * RADIX_MIN_ROW + 1, u64::MAX),
            (2 * RADIX_MIN_ROW, 5),
            (2 * RADIX_MIN_ROW, 1),
        ] {
            let mut line: Vec<(u64, u32)> =
                (0..count as u32).map(|i| (hash(u64::from(i)) % few, i)).collect();
            let mut want = line.clone();
            want.sort_by_key(|&(rank, _)| rank);
            sort_line(&mut line, &mut Vec::new());
            assert_eq!(line, want, "{count} keys, {few} of them different");
        }
    }

    #[test]
    fn the_least_few_are_those_of_the_whole_line() {
        let hash = |i: u64| (i ^ 0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let falling = |i: u64| u64::MAX - i;
        for (length, few) in [(1, u64::MAX), (31, 3), (1000, 5), (1000, 1), (4099, u64::MAX)] {
            for number in [hash, falling] {
                let key = |i: usize| number(i as u64) % few;
                let mut want: Vec<(u64, u32)> = (0..length).map(|i| (key(i), i as u32)).collect();
                want.sort_unstable();
                for count in [0, 1, 7, length / 2, length].map(|count| count.min(length)) {
                    let mut found = vec![(9, 9)];
                    select_smallest(&mut found, length, count, key);
                    assert_eq!(found[..count], want[..count], "{count} of {length}");
                }
            }
        }
    }

    #[test]
    fn ranks_keep_the_order_of_numbers() {
        let numbers = [f64::NEG_INFINITY, -2.5, -1e-40, 0.0, 1e-40, 2.5, f64::INFINITY, f64::NAN];
        for pair in numbers.windows(2) {
            assert!(sort_key_wide(pair[0]) < sort_key_wide(pair[1]), "{pair:?}");
            assert!(sort_key(pair[0] as f32) < sort_key(pair[1] as f32), "{pair:?}");
        }
        assert_eq!((sort_key(-0.0), sort_key_wide(-0.0)), (sort_key(0.0), sort_key_wide(0.0)));
        assert_eq!(sort_key(-f32::NAN), sort_key(f32::NAN));
    }
}
