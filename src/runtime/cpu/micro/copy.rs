//! Copies of lines that lie apart: all of a tile's in one call, which for short ones costs as
//! much as such a line.

use crate::runtime::cpu::micro::isa::Isa;
use crate::runtime::cpu::micro::lane::Lane;
use crate::runtime::cpu::micro::lines::{Apart, LinesFn, Loop, by_line};
use crate::runtime::cpu::micro::{Operands, Operation, Streaming, Variants, memory};

/// A copy of operand `a`, whose lanes are such.
pub fn copied(lane: Lane) -> Operation {
    let streaming = Streaming { function: memory::store_nt(), late: false };
    // Other lanes have no stores past the caches.
    let words = lane.size() == size_of::<u32>();
    let variants = words.then(|| Variants { lines: copy_lines(lane), streaming });
    Operation { function: memory::copy(lane), name: "copy", variants }
}

/// Copies lines of operand `a`.
pub fn copy_lines(lane: Lane) -> LinesFn {
    match lane.size() {
        1 => by_line::<Lines<1>>(),
        4 => by_line::<Lines<4>>(),
        _ => by_line::<Lines<8>>(),
    }
}

/// Lines of elements of so many bytes.
struct Lines<const SIZE: usize>;
impl<const SIZE: usize> Loop for Lines<SIZE> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, ..]: Operands, n: usize, apart: &Apart) {
        let bytes = n * SIZE;
        // SAFETY: the caller's promise; a line has as many bytes as are copied at a time.
        unsafe {
            match bytes {
                64.. => pieces::<64>(dst, a, bytes, apart),
                32.. => pieces::<32>(dst, a, bytes, apart),
                16.. => pieces::<16>(dst, a, bytes, apart),
                8.. => pieces::<8>(dst, a, bytes, apart),
                4.. => pieces::<4>(dst, a, bytes, apart),
                _ => pieces::<1>(dst, a, bytes, apart),
            }
        }
    }
}

/// Copies so many bytes at a time. A line's last ones lie over those before and end there.
///
/// # Safety
/// The contract of [`LinesFn`], for lines of bytes, of which there are none or `BYTES`.
#[inline(always)]
unsafe fn pieces<const BYTES: usize>(dst: *mut u8, a: *const u8, bytes: usize, apart: &Apart) {
    let Some(last) = bytes.checked_sub(BYTES) else { return };
    for (to, from) in apart.each(dst, a) {
        // SAFETY: the caller's promise.
        let copy = |at: usize| unsafe {
            to.add(at).cast::<[u8; BYTES]>().write(from.add(at).cast::<[u8; BYTES]>().read());
        };
        (0..last).step_by(BYTES).for_each(copy);
        copy(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cpu::micro::OPERANDS;
    use crate::runtime::cpu::micro::isa::forced;

    #[test]
    fn lines_of_any_length_are_copied_and_nothing_beside_them() {
        forced::each_level(|_| {
            for (lane, size) in [(Lane::U8, 1), (Lane::F32, 4), (Lane::F64, 8)] {
                for n in 0..80 {
                    let (lines, to_apart, from_apart) = (3, (n + 2) * size, (n + 5) * size);
                    let from: Vec<u8> = (0..lines * from_apart).map(|i| (i % 251) as u8).collect();
                    let mut to = vec![255u8; lines * to_apart];
                    let apart = Apart::of_one(lines, to_apart, from_apart);
                    // SAFETY: three lines of both, which lie apart.
                    unsafe { copy_lines(lane)(to.as_mut_ptr(), [from.as_ptr(); OPERANDS], n, &apart) }
                    for (to, from) in to.chunks(to_apart).zip(from.chunks(from_apart)) {
                        assert_eq!(to[..n * size], from[..n * size], "{n} of {size} bytes");
                        assert!(to[n * size..].iter().all(|&byte| byte == 255), "{n} of {size} bytes");
                    }
                }
            }
        });
    }
}
