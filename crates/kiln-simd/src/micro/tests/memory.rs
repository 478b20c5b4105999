//! Loads, stores, broadcasts and transpositions.

use half::{bf16, f16};

use super::{LENGTHS, Register, Rng, equal, samples};
use crate::micro::isa::forced::each_level;
use crate::micro::*;
use crate::{DType, Scalar};

const NULL: *const u8 = std::ptr::null();

/// Memory of `n` elements of `dtype`: 16-bit floats as they are stored.
fn memory(dtype: DType, n: usize, rng: &mut Rng) -> Vec<u64> {
    let mut words = vec![0u64; n + 1];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    for (i, value) in samples(dtype, n, rng).into_iter().enumerate() {
        let raw = value.to_bits(dtype).to_le_bytes();
        bytes[i * dtype.size()..(i + 1) * dtype.size()].copy_from_slice(&raw[..dtype.size()]);
    }
    words
}

fn element(words: &[u64], dtype: DType, i: usize) -> Scalar {
    let mut raw = [0; 8];
    let bytes: &[u8] = bytemuck::cast_slice(words);
    raw[..dtype.size()].copy_from_slice(&bytes[i * dtype.size()..(i + 1) * dtype.size()]);
    Scalar::from_bits(u64::from_le_bytes(raw), dtype)
}

#[test]
fn sixteen_bit_floats_convert_exactly() {
    each_level(|level| {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let mut wide = vec![0f32; all.len()];
        let mut back = vec![0u16; all.len()];
        for dtype in [DType::F16, DType::BF16] {
            // SAFETY: all hold as many elements.
            unsafe {
                load(dtype).unwrap()(
                    wide.as_mut_ptr().cast(),
                    [all.as_ptr().cast(); MAX_OPERANDS],
                    all.len(),
                    NULL,
                );
                store(dtype)(back.as_mut_ptr().cast(), [wide.as_ptr().cast(); MAX_OPERANDS], all.len(), NULL);
            }
            for (&bits, (&x, &again)) in all.iter().zip(wide.iter().zip(&back)) {
                let want = if dtype == DType::F16 {
                    f16::from_bits(bits).to_f32()
                } else {
                    bf16::from_bits(bits).to_f32()
                };
                assert!(equal(Scalar::from(x), Scalar::from(want)), "{level:?} {dtype} {bits:x}: {x} {want}");
                assert!(again == bits || x.is_nan(), "{level:?} {dtype} {bits:x} {again:x}");
            }
        }
    });
}

#[test]
fn narrowing_rounds_to_nearest_even() {
    let mut rng = Rng(23);
    let mut x: Vec<f32> = (0..100_000).map(|_| f32::from_bits(rng.next() as u32)).collect();
    x.extend((0..100_000).map(|_| f32::from_bits(0x3280_0000 + (rng.next() as u32) % 0x1600_0000)));
    x.extend([65504.0, 65519.99, 65520.0, -65520.0, 65536.0, 5.96e-8, 2.98e-8, 2.981e-8, f32::NAN, f32::MAX]);
    let mut y = vec![0u16; x.len()];
    each_level(|level| {
        for dtype in [DType::F16, DType::BF16] {
            // SAFETY: both hold as many elements.
            unsafe { store(dtype)(y.as_mut_ptr().cast(), [x.as_ptr().cast(); MAX_OPERANDS], x.len(), NULL) };
            for (&x, &y) in x.iter().zip(&y) {
                let (got, want) = match dtype {
                    DType::F16 => (f16::from_bits(y).to_f32(), f16::from_f32(x).to_f32()),
                    _ => (bf16::from_bits(y).to_f32(), bf16::from_f32(x).to_f32()),
                };
                assert!(
                    equal(Scalar::from(got), Scalar::from(want)),
                    "{level:?} {dtype} {x:e}: {got} {want}"
                );
            }
        }
    });
}

#[test]
fn strided_accesses_agree_with_memory() {
    let mut rng = Rng(29);
    for dtype in DType::ALL {
        let lengths = LENGTHS.into_iter().chain([16, 17, 28]);
        for (n, stride) in lengths.flat_map(|n| [(n, 0), (n, 1), (n, 2), (n, 3), (n, 4), (n, -1), (n, -2)]) {
            let span = 4 * n + 1;
            let source = memory(dtype, span, &mut rng);
            let origin = if stride < 0 { 2 * n } else { 0 };
            let at = |i: usize| (origin as isize + i as isize * stride) as usize;
            let base = source.as_ptr().cast::<u8>().wrapping_add(origin * dtype.size());
            let mut strided = Register::new(dtype, n);
            each_level(|level| {
                // SAFETY: every position lies inside `source`.
                unsafe { load_strided(dtype)(strided.ptr_mut(), base, stride, n, &RowBatch::SINGLE) };
                for i in 0..n {
                    let want = element(&source, dtype, at(i));
                    assert!(equal(strided.get(i), want), "{dtype} stride {stride} at {level:?}");
                }
            });
            let mut copy = vec![0u64; span + 1];
            let to = copy.as_mut_ptr().cast::<u8>().wrapping_add(origin * dtype.size());
            // SAFETY: every position lies inside the copy.
            unsafe { store_strided(dtype)(to, strided.ptr(), stride, n, &RowBatch::SINGLE) };
            for i in 0..n {
                let last = if stride == 0 { n - 1 } else { i };
                let (got, want) = (element(&copy, dtype, at(i)), element(&source, dtype, at(last)));
                assert!(equal(got, want), "{dtype} store");
            }
        }
    }
}

#[test]
fn strided_lines_are_those_of_one_line_each() {
    const LINES: usize = 3;
    let mut rng = Rng(31);
    for (dtype, n, stride) in DType::ALL.into_iter().flat_map(|dtype| {
        [5, 16, 28].into_iter().flat_map(move |n| [2, 3, 5, -1].map(|stride| (dtype, n, stride)))
    }) {
        // Lines overlap in memory, and lie further apart than they are long in the register.
        let (size, lane) = (dtype.size(), LaneType::of(dtype).size());
        let source = memory(dtype, 5 * n + 2 * LINES, &mut rng);
        let from = source.as_ptr().cast::<u8>().wrapping_add(if stride < 0 { (n - 1) * size } else { 0 });
        let batch = RowBatch::unary(LINES, (n + 1) * lane, 2 * size);
        let [mut together, mut each] = [0; 2].map(|_| Register::new(dtype, LINES * (n + 1)));
        let [mut whole, mut parts] = [0; 2].map(|_| vec![0u64; source.len()]);
        each_level(|level| {
            let (load, store) = (load_strided(dtype), store_strided(dtype));
            // SAFETY: every position lies inside `source` or what is as long, and in the registers.
            unsafe {
                load(together.ptr_mut(), from, stride, n, &batch);
                for (to, from) in batch.row_ptrs(each.ptr_mut(), from) {
                    load(to, from, stride, n, &RowBatch::SINGLE);
                }
                let back = RowBatch::unary(LINES, batch.src_strides[0], batch.dst_stride);
                let start = from.addr() - source.as_ptr().addr();
                store(whole.as_mut_ptr().cast::<u8>().add(start), each.ptr(), stride, n, &back);
                for (to, from) in back.row_ptrs(parts.as_mut_ptr().cast::<u8>().add(start), each.ptr()) {
                    store(to, from, stride, n, &RowBatch::SINGLE);
                }
            }
            let same = (0..LINES * (n + 1)).all(|i| equal(together.get(i), each.get(i)));
            assert!(same && whole == parts, "{dtype} {LINES} lines of {n}, stride {stride} at {level:?}");
        });
    }
}

/// The n-th of a list of positions.
type Position = fn(usize, &mut Rng) -> i64;

#[test]
fn elements_are_gathered_from_wherever_they_are() {
    let near: [(&str, Position); 6] = [
        ("twice each", |i, _| i as i64 / 2),
        ("one in three", |i, _| 3 * i as i64),
        ("backwards", |i, _| 400 - i as i64),
        ("in disorder", |i, rng| i as i64 / 8 * 8 + (rng.next() % 8) as i64),
        ("anywhere", |_, rng| (rng.next() % 400) as i64),
        ("far apart for a while", |i, _| if i / 20 == 1 { 350 - 7 * i as i64 } else { i as i64 }),
    ];
    let mut rng = Rng(30);
    for dtype in DType::ALL {
        let source = memory(dtype, 403, &mut rng);
        let bases = [0, 2, 1].map(|first| source.as_ptr().cast::<u8>().wrapping_add(first * dtype.size()));
        for (n, (name, position)) in
            [1, 7, 8, 9, 16, 23, 40, 63, 100].into_iter().flat_map(|n| near.map(|p| (n, p)))
        {
            let index: Vec<i64> = (0..n).map(|i| position(i, &mut rng)).collect();
            each_level(|level| {
                let mut gathered = Register::new(dtype, 3 * n);
                let (to, apart) = (gathered.ptr_mut(), n * LaneType::of(dtype).size());
                // SAFETY: every position lies inside `source`.
                unsafe { load_gather(dtype)(to, &bases, index.as_ptr(), n, apart) };
                for (line, first) in [0, 2, 1].into_iter().enumerate() {
                    for (i, &position) in index.iter().enumerate() {
                        let want = element(&source, dtype, first + position as usize);
                        let got = gathered.get(line * n + i);
                        assert!(equal(got, want), "{dtype} {name} {n} at {level:?}");
                    }
                }
            });
        }
    }
}

#[test]
fn transposed_tiles_agree_with_memory() {
    each_level(|level| {
        let mut rng = Rng(31);
        for dtype in DType::ALL {
            for (rows, cols) in [(0, 3), (1, 1), (8, 8), (16, 16), (17, 40), (33, 7), (64, 32), (5, 100)] {
                let stride = rows + 3;
                let source = memory(dtype, stride * cols + 1, &mut rng);
                let mut dst = Register::new(dtype, rows * cols);
                let load = load_tile_transposed(dtype);
                // SAFETY: every position lies inside `source`.
                unsafe { load(dst.ptr_mut(), source.as_ptr().cast(), rows, cols, stride as isize, 5) };
                for i in 0..rows * cols {
                    let want = element(&source, dtype, i / cols + i % cols * stride);
                    assert!(equal(dst.get(i), want), "{level:?} {dtype} {rows}x{cols} at {i}");
                }
            }
        }
    });
}

#[test]
fn broadcasts_repeat_their_source() {
    each_level(|_| {
        let mut rng = Rng(37);
        for dtype in DType::ALL {
            let (rows, cols) = (5, 13);
            let lane = LaneType::of(dtype);
            let x = Register::of(dtype, &samples(dtype, cols, &mut rng));
            let [mut filled, mut by_row, mut by_col] = [0; 3].map(|_| Register::new(dtype, rows * cols));
            // SAFETY: registers of the types and lengths asked for.
            unsafe {
                fill(lane)(filled.ptr_mut(), [x.ptr(); MAX_OPERANDS], rows * cols, NULL);
                expand_rows(lane)(by_row.ptr_mut(), x.ptr(), rows, cols);
                expand_cols(lane)(by_col.ptr_mut(), x.ptr(), rows, cols);
            }
            for i in 0..rows * cols {
                assert!(equal(filled.get(i), x.get(0)));
                assert!(equal(by_row.get(i), x.get(i % cols)));
                assert!(equal(by_col.get(i), x.get(i / cols)));
            }
        }
    });
}

#[test]
fn streaming_stores_copy() {
    let x: Vec<u64> = (1..201).collect();
    let from: &[u32] = bytemuck::cast_slice(&x);
    each_level(|level| {
        for (offset, n) in (0..20).flat_map(|offset| [(offset, 397), (offset, 5), (offset, 0)]) {
            let mut y = vec![u64::MAX; 220];
            // SAFETY: both hold 4-byte elements enough.
            unsafe {
                let to = y.as_mut_ptr().cast::<u32>().add(offset);
                store_nt()(to.cast(), [x.as_ptr().cast(); MAX_OPERANDS], n, NULL);
            }
            nt_fence();
            let to: &[u32] = bytemuck::cast_slice(&y);
            assert_eq!(to[offset..offset + n], from[..n], "{level:?}");
            assert!(to[..offset].iter().chain(&to[offset + n..]).all(|&rest| rest == u32::MAX), "{level:?}");
        }
    });
}

#[test]
fn iota_counts() {
    let mut x = [0i64; 9];
    // SAFETY: nine elements.
    unsafe { iota_i64(x.as_mut_ptr().cast(), 5, -2, 9) };
    assert_eq!(x, [5, 3, 1, -1, -3, -5, -7, -9, -11]);
}
