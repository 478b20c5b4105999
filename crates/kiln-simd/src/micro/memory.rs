//! Loads and stores: contiguous, strided, gathered, broadcast.

use half::{bf16, f16};
use std::marker::PhantomData;
use std::ptr::null;

use crate::DType;
use crate::micro::alu::{Micro, micro};
use crate::micro::batched_rows::RowBatch;
use crate::micro::half16::{self, narrow_bf16, narrow_f16, widen_bf16, widen_f16};
use crate::micro::isa::{CacheLine, Isa, versioned};
#[cfg(target_arch = "x86_64")]
use crate::micro::isa::{Level, level};
use crate::micro::lane::LaneType;
use crate::micro::{MAX_OPERANDS, MicroFn, OperandPtrs, view, view_mut};

/// A strided load or store of rows: `fn(dst, src, stride, n, batch)`, the stride in elements
/// of the side in memory.
///
/// # Safety
/// Of each row the register is valid for `n` elements, memory at every `i * stride` for
/// `i < n`; both aligned, and they do not overlap.
pub type StridedFn = unsafe fn(dst: *mut u8, src: *const u8, stride: isize, n: usize, batch: &RowBatch);

/// A broadcast to a tile: `fn(dst, src, rows, cols)`, `dst` row-major.
///
/// # Safety
/// `dst` is valid for `rows * cols` elements, `src` for the vector's; both
/// aligned, and they do not overlap.
pub type ExpandFn = unsafe fn(dst: *mut u8, src: *const u8, rows: usize, cols: usize);

/// Contiguous memory to a register; `None` where a register may point at the
/// memory itself.
pub fn load(dtype: DType) -> Option<MicroFn> {
    match dtype {
        DType::F16 => Some(half16::load_f16()),
        DType::BF16 => Some(half16::load_bf16()),
        DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 | DType::F32 | DType::F64 => None,
    }
}

/// A register to contiguous memory, rounding to the 16-bit floats.
pub fn store(dtype: DType) -> MicroFn {
    match dtype {
        DType::F16 => half16::store_f16(),
        DType::BF16 => half16::store_bf16(),
        DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 | DType::F32 | DType::F64 => {
            copy(LaneType::of(dtype))
        }
    }
}

/// Copies operand `a`.
pub fn copy(lane: LaneType) -> MicroFn {
    match lane.size() {
        1 => copy_elements::<u8>,
        4 => copy_elements::<u32>,
        _ => copy_elements::<u64>,
    }
}

/// Repeats the one element at operand `a`.
pub fn fill(lane: LaneType) -> MicroFn {
    match lane.size() {
        1 => micro::<FillLoop<u8>>(),
        4 => micro::<FillLoop<u32>>(),
        _ => micro::<FillLoop<u64>>(),
    }
}

/// Non-temporal stores of 4-byte elements, for outputs larger than the caches; an ordinary
/// copy where the machine has none. Call [`nt_fence`] before another thread reads the result.
pub fn store_nt() -> MicroFn {
    #[cfg(target_arch = "x86_64")]
    return match level() {
        Level::Avx512 => non_temporal::store512,
        Level::Base | Level::Avx2 => non_temporal::store,
    };
    #[cfg(not(target_arch = "x86_64"))]
    copy_elements::<u32>
}

/// Orders non-temporal stores before all later stores.
#[inline]
pub fn nt_fence() {
    // SAFETY: every x86-64 has the instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Prefetches memory that is read soon to L1. `start` may be any address: an
/// unmapped one is ignored.
#[inline]
pub fn prefetch_l1(start: *const u8, bytes: usize) {
    const CACHE_LINE: usize = 64;
    #[cfg(target_arch = "x86_64")]
    for offset in (0..bytes).step_by(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on time, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes, CACHE_LINE);
}

/// Prefetches memory that is read later to L2, where cache lines a power of two apart
/// do not evict each other.
#[inline]
pub fn prefetch_l2(start: *const u8, bytes: usize) {
    const CACHE_LINE: usize = 64;
    #[cfg(target_arch = "x86_64")]
    for offset in (0..bytes).step_by(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(offset).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes, CACHE_LINE);
}

/// Strided memory to a register.
pub fn load_strided(dtype: DType) -> StridedFn {
    match dtype {
        DType::Bool | DType::U8 => strided_loop::<StridedLoad<u8>>(),
        DType::I32 | DType::U32 | DType::F32 => strided_loop::<StridedLoad32>(),
        DType::I64 | DType::F64 => strided_loop::<StridedLoad<u64>>(),
        DType::F16 => strided_load_float16::<f16>,
        DType::BF16 => strided_load_float16::<bf16>,
    }
}

/// A register to strided memory.
pub fn store_strided(dtype: DType) -> StridedFn {
    match dtype {
        DType::Bool | DType::U8 => strided_store::<u8>,
        DType::I32 | DType::U32 | DType::F32 => strided_store::<u32>,
        DType::I64 | DType::F64 => strided_store::<u64>,
        DType::F16 => strided_store::<f16>,
        DType::BF16 => strided_store::<bf16>,
    }
}

/// Broadcasts a vector of `rows` elements along the columns of a tile.
pub fn expand_cols(lane: LaneType) -> ExpandFn {
    match lane.size() {
        1 => repeat_each::<u8>,
        4 => repeat_each::<u32>,
        _ => repeat_each::<u64>,
    }
}

/// Broadcasts a vector of `cols` elements to every row of a tile.
pub fn expand_rows(lane: LaneType) -> ExpandFn {
    match lane.size() {
        1 => repeat_all::<u8>,
        4 => repeat_all::<u32>,
        _ => repeat_all::<u64>,
    }
}

/// Writes `start`, `start + step`, ... (wrapping) as `n` `I64` elements.
///
/// # Safety
/// `dst` is valid for `n` elements of 8 bytes and aligned.
pub unsafe fn iota_i64(dst: *mut u8, start: i64, step: i64, n: usize) {
    // SAFETY: the caller's promise.
    let dst: &mut [i64] = unsafe { view_mut(dst, n) };
    let mut next: [i64; 8] = std::array::from_fn(|i| start.wrapping_add(step.wrapping_mul(i as i64)));
    let mut blocks = dst.chunks_exact_mut(8);
    for block in &mut blocks {
        block.copy_from_slice(&next);
        next = next.map(|x| x.wrapping_add(step.wrapping_mul(8)));
    }
    for (d, x) in blocks.into_remainder().iter_mut().zip(next) {
        *d = x;
    }
}

/// An element as memory holds it, and its register form.
pub(super) trait MemoryElement: Copy + 'static {
    /// Register element.
    type Register: Copy + 'static;
    /// Memory to register.
    fn widen(self) -> Self::Register;
    /// Register to memory.
    fn narrow(value: Self::Register) -> Self;
}
macro_rules! memory_element {
    ($($t:ty, $register:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl MemoryElement for $t {
            type Register = $register;
            #[inline(always)]
            fn widen(self) -> $register { $widen(self) }
            #[inline(always)]
            fn narrow(value: $register) -> $t { $narrow(value) }
        }
    )*};
}
memory_element! {
    u8, u8, |x| x, |x| x;
    i32, i32, |x| x, |x| x;
    u32, u32, |x| x, |x| x;
    i64, i64, |x| x, |x| x;
    u64, u64, |x| x, |x| x;
    f32, f32, |x| x, |x| x;
    f64, f64, |x| x, |x| x;
    f16, f32, widen_f16, narrow_f16;
    bf16, f32, widen_bf16, narrow_bf16;
}

/// A 16-bit float, gathered as it is in memory and widened by the vector loop.
pub(super) trait Float16: MemoryElement<Register = f32> + Default {
    /// The loop from contiguous memory to a register.
    fn widen_all() -> MicroFn;
}
impl Float16 for f16 {
    fn widen_all() -> MicroFn {
        half16::load_f16()
    }
}
impl Float16 for bf16 {
    fn widen_all() -> MicroFn {
        half16::load_bf16()
    }
}

/// Elements gathered before they are widened.
pub(super) const GATHER_CHUNK: usize = 64;

unsafe fn strided_load_float16<T: Float16>(
    dst: *mut u8,
    src: *const u8,
    stride: isize,
    n: usize,
    batch: &RowBatch,
) {
    for (dst, src) in batch.row_ptrs(dst, src) {
        // SAFETY: the contract of `StridedFn`.
        unsafe { load_float16::<T>(dst, src.cast(), stride, n) }
    }
}

/// # Safety
/// The contract of [`StridedFn`], for one row.
unsafe fn load_float16<T: Float16>(dst: *mut u8, src: *const T, stride: isize, n: usize) {
    let widen = T::widen_all();
    let mut raw = [T::default(); GATHER_CHUNK];
    for start in (0..n).step_by(GATHER_CHUNK) {
        let raw = &mut raw[..GATHER_CHUNK.min(n - start)];
        // SAFETY: the caller's promise, for a part of the row.
        unsafe {
            for (i, raw) in raw.iter_mut().enumerate() {
                *raw = src.offset((start + i) as isize * stride).read();
            }
            widen(dst.add(4 * start), [raw.as_ptr().cast(); MAX_OPERANDS], raw.len(), null());
        }
    }
}

unsafe fn copy_elements<T: Copy>(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, _next: *const u8) {
    // SAFETY: the contract of `MicroFn`.
    unsafe { dst.cast::<T>().copy_from_nonoverlapping(a.cast(), n) }
}

struct FillLoop<T>(PhantomData<T>);
impl<T: Copy> Micro for FillLoop<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, _next: *const u8) {
        // SAFETY: the contract of `MicroFn`, with `a` a broadcast.
        unsafe { view_mut::<T>(dst, n).fill(a.cast::<T>().read()) }
    }
}

versioned! {
    /// A loop with the signature [`StridedFn`].
    StridedLoop, strided_loop, base_strided_loop,
    fn(dst: *mut u8, src: *const u8, stride: isize, n: usize, batch: &RowBatch)
}

/// A strided load. Small strides have specialised loops, which read whole
/// vectors and shuffle them.
struct StridedLoad<T>(PhantomData<T>);
impl<T: MemoryElement> StridedLoop for StridedLoad<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, src: *const u8, stride: isize, n: usize, batch: &RowBatch) {
        if n == 0 {
            return;
        }
        for (dst, src) in batch.row_ptrs(dst, src) {
            // SAFETY: the contract of `StridedFn`: from the first element to the
            // last all memory is the input's, so runs between them are, too.
            unsafe {
                let to: &mut [T::Register] = view_mut(dst, n);
                match stride {
                    -1 => backwards::<T>(to, view(src.cast::<T>().sub(n - 1).cast(), n)),
                    2 => every::<T, 2>(to, view(src, 2 * (n - 1) + 1)),
                    3 => every::<T, 3>(to, view(src, 3 * (n - 1) + 1)),
                    4 => every::<T, 4>(to, view(src, 4 * (n - 1) + 1)),
                    _ => {
                        for (i, d) in to.iter_mut().enumerate() {
                            *d = src.cast::<T>().offset(i as isize * stride).read().widen();
                        }
                    }
                }
            }
        }
    }
}

/// Elements `STEP` apart, the last of which ends the slice.
#[inline(always)]
fn every<T: MemoryElement, const STEP: usize>(to: &mut [T::Register], from: &[T]) {
    let last = to.len() - 1;
    for (d, x) in to[..last].iter_mut().zip(from.chunks_exact(STEP)) {
        *d = x[0].widen();
    }
    to[last] = from[STEP * last].widen();
}

/// Elements from the last to the first.
#[inline(always)]
fn backwards<T: MemoryElement>(to: &mut [T::Register], from: &[T]) {
    for (d, x) in to.iter_mut().zip(from.iter().rev()) {
        *d = x.widen();
    }
}

/// A strided load of 32-bit elements.
struct StridedLoad32;
impl StridedLoop for StridedLoad32 {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, src: *const u8, stride: isize, n: usize, batch: &RowBatch) {
        // SAFETY: the contract of `StridedFn`.
        unsafe {
            if stride != 2 || n <= PAIRS {
                return StridedLoad::<u32>::run::<I>(dst, src, stride, n, batch);
            }
            for (dst, src) in batch.row_ptrs(dst, src) {
                deinterleave(view_mut(dst, n), view(src, 2 * (n - 1) + 1));
            }
        }
    }
}

/// Pairs of elements that [`deinterleave`] splits at a time.
const PAIRS: usize = 16;

/// More than [`PAIRS`] elements, two apart, the last of which ends the slice. The last pairs overlap
/// those before: they end with the slice, so their wanted elements come second.
#[inline(always)]
fn deinterleave(to: &mut [u32], from: &[u32]) {
    let last = to.len() - PAIRS;
    let pairs = |start: usize| -> [u64; PAIRS] {
        let elements = &from[start..start + 2 * PAIRS];
        // SAFETY: as many elements as twice the pairs.
        unsafe { elements.as_ptr().cast::<[u64; PAIRS]>().read_unaligned() }
    };
    let (first, second) = if cfg!(target_endian = "little") { (0, 32) } else { (32, 0) };
    for start in (0..last).step_by(PAIRS) {
        to[start..start + PAIRS].copy_from_slice(&pairs(2 * start).map(|pair| (pair >> first) as u32));
    }
    to[last..].copy_from_slice(&pairs(2 * last - 1).map(|pair| (pair >> second) as u32));
}

/// Elements that a strided store writes at a time. A loop of single stores takes up to 1.6 times as long
/// where its instructions straddle a line of the cache.
const STORE_RUN: usize = 8;

unsafe fn strided_store<T: MemoryElement>(
    dst: *mut u8,
    src: *const u8,
    stride: isize,
    n: usize,
    batch: &RowBatch,
) {
    for (dst, src) in batch.row_ptrs(dst, src) {
        // SAFETY: the contract of `StridedFn`.
        unsafe {
            let (runs, rest) = view::<T::Register>(src, n).as_chunks::<STORE_RUN>();
            let mut to = dst.cast::<T>();
            for run in runs {
                for (i, &x) in run.iter().enumerate() {
                    to.offset(i as isize * stride).write(T::narrow(x));
                }
                to = to.wrapping_offset(STORE_RUN as isize * stride);
            }
            for (i, &x) in rest.iter().enumerate() {
                to.offset(i as isize * stride).write(T::narrow(x));
            }
        }
    }
}

unsafe fn repeat_each<T: Copy>(dst: *mut u8, src: *const u8, rows: usize, cols: usize) {
    // SAFETY: the contract of `ExpandFn`.
    unsafe {
        let (dst, src): (&mut [T], &[T]) = (view_mut(dst, rows * cols), view(src, rows));
        for (row, &x) in dst.chunks_exact_mut(cols.max(1)).zip(src) {
            row.fill(x);
        }
    }
}

unsafe fn repeat_all<T: Copy>(dst: *mut u8, src: *const u8, rows: usize, cols: usize) {
    // SAFETY: the contract of `ExpandFn`.
    unsafe {
        let (dst, src): (&mut [T], &[T]) = (view_mut(dst, rows * cols), view(src, cols));
        for row in dst.chunks_exact_mut(cols.max(1)) {
            row.copy_from_slice(src);
        }
    }
}

/// Of a run of 4-byte elements, how many lie before the first whole cache line, and how many up to
/// the end of the last.
pub(super) fn whole_cache_lines(dst: *mut u8, n: usize) -> (usize, usize) {
    const CACHE_LINE: usize = CacheLine::ELEMENTS;
    let before = (dst.addr().wrapping_neg() / size_of::<f32>() % CACHE_LINE).min(n);
    (before, n - (n - before) % CACHE_LINE)
}

/// Non-temporal stores, which every x86-64 has: whole cache lines, since partial ones
/// cannot combine and stall.
#[cfg(target_arch = "x86_64")]
mod non_temporal {
    use std::arch::x86_64::{_mm_loadu_ps, _mm_stream_ps, _mm512_loadu_ps, _mm512_stream_ps};

    use super::{CacheLine, OperandPtrs, whole_cache_lines};

    /// # Safety
    /// `n` elements at both.
    unsafe fn copy(to: *mut f32, from: *const f32, n: usize) {
        // Usually there are none, and a call would cost more than a cache line.
        if n > 0 {
            // SAFETY: the caller's promise.
            unsafe { to.copy_from_nonoverlapping(from, n) }
        }
    }

    pub(super) unsafe fn store(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, _next: *const u8) {
        let (to, from, (start, end)) = (dst.cast::<f32>(), a.cast::<f32>(), whole_cache_lines(dst, n));
        // SAFETY: the contract of `MicroFn`; whole cache lines lie inside `n`.
        unsafe {
            copy(to, from, start);
            for i in (start..end).step_by(4) {
                _mm_stream_ps(to.add(i), _mm_loadu_ps(from.add(i)));
            }
            copy(to.add(end), from.add(end), n - end);
        }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn store512(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, _next: *const u8) {
        let (to, from, (start, end)) = (dst.cast::<f32>(), a.cast::<f32>(), whole_cache_lines(dst, n));
        // SAFETY: as above.
        unsafe {
            copy(to, from, start);
            for i in (start..end).step_by(CacheLine::ELEMENTS) {
                _mm512_stream_ps(to.add(i), _mm512_loadu_ps(from.add(i)));
            }
            copy(to.add(end), from.add(end), n - end);
        }
    }
}
