//! Pairs of bfloat16 by AMX (Advanced Matrix Extensions): an instruction multiplies tiles of 16 rows by 16 pairs.
//!
//! Two tiles of A's rows and two of B's columns make four of C, so that each that is loaded is used twice.
//! A tile's rows are exactly those there are; a tile that a narrow block lacks is one row of another, whose sums
//! nobody stores. Like `vdpbf16ps`, the instruction takes subnormal factors for zeros.
//!
//! The intrinsics are not stable, so this is inline assembly, which tells the compiler nothing of tiles: it uses
//! none of its own. Intel, "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 1, chapter 18.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use std::sync::OnceLock;

use super::avx512bf16;
use super::simd::RegisterTile;
use super::{Bf16x2, MicroKernel, TileFunction};
use crate::micro::prefetch_l2;

/// Rows of a tile, and pairs or sums of each.
const SIDE: usize = 16;
/// Bytes of an element.
const ELEMENT: usize = size_of::<Bf16x2>();
/// Rows and columns of a block of C: two tiles each.
const BLOCK: usize = 2 * SIDE;

/// What `ldtilecfg` reads.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    /// Bytes of a row, by tile.
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// The tiles of C are 0 to 3, row by row; B's are 4 and 5, A's 6 and 7.
impl TileConfig {
    /// Of blocks of C of so many rows and columns, by halves; a half that is missing has one.
    fn of(rows: [usize; 2], columns: [usize; 2]) -> TileConfig {
        let mut config =
            TileConfig { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        let mut shape = |tile: usize, rows: usize, columns: usize| {
            (config.rows[tile], config.row_bytes[tile]) = (rows as u8, (columns * ELEMENT) as u16);
        };
        for half in 0..2 {
            shape(2 * half, rows[half], columns[0]);
            shape(2 * half + 1, rows[half], columns[1]);
            shape(4 + half, SIDE, columns[half]);
            shape(6 + half, rows[half], SIDE);
        }
        config
    }
}

/// Rows of tiles: where the first half begins, where the second does, and bytes from a row to the next.
#[derive(Clone, Copy)]
struct TileRows {
    halves: [*const Bf16x2; 2],
    stride: usize,
}

/// Adds `steps` products of tiles: A goes on by 16 pairs a step, B by 16 rows.
///
/// # Safety
/// Tiles are configured, and all that they cover is readable.
#[inline(always)]
unsafe fn multiply_steps(steps: usize, a: TileRows, b: TileRows) {
    if steps == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "2:",
            "tileloadd tmm4, [{b0} + {b_stride}*1]",
            "tileloadd tmm6, [{a0} + {a_stride}*1]",
            "tdpbf16ps tmm0, tmm6, tmm4",
            "tileloadd tmm5, [{b1} + {b_stride}*1]",
            "tdpbf16ps tmm1, tmm6, tmm5",
            "tileloadd tmm7, [{a1} + {a_stride}*1]",
            "tdpbf16ps tmm2, tmm7, tmm4",
            "tdpbf16ps tmm3, tmm7, tmm5",
            "add {a0}, 64",
            "add {a1}, 64",
            "add {b0}, {b_step}",
            "add {b1}, {b_step}",
            "dec {steps}",
            "jnz 2b",
            a0 = inout(reg) a.halves[0] => _,
            a1 = inout(reg) a.halves[1] => _,
            b0 = inout(reg) b.halves[0] => _,
            b1 = inout(reg) b.halves[1] => _,
            steps = inout(reg) steps => _,
            a_stride = in(reg) a.stride,
            b_stride = in(reg) b.stride,
            b_step = in(reg) b.stride.wrapping_mul(SIDE),
            options(nostack),
        )
    }
}

/// What is left of k, as a step has it: 32 rows of 16 pairs of A, or 16 rows of 32 of B; the rest is zero.
#[repr(C, align(64))]
struct LastStep([Bf16x2; SIDE * BLOCK]);

impl LastStep {
    /// Copies the first `width` elements of each row, to rows `line` apart.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn of(from: *const Bf16x2, row: isize, [rows, width]: [usize; 2], line: usize) -> LastStep {
        let mut step = LastStep([Bf16x2::ZERO; SIDE * BLOCK]);
        for (r, to) in step.0.chunks_exact_mut(line).take(rows).enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                to[..width].as_mut_ptr().copy_from_nonoverlapping(from.offset(r as isize * row), width);
            }
        }
        step
    }
}

/// Halves that a block of so many rows or columns has, each at most a tile's side.
fn halves(extent: usize) -> [usize; 2] {
    [extent.min(SIDE), extent.saturating_sub(SIDE)]
}

/// Computes a block of `rows` by `vectors` of C.
///
/// # Safety
/// The contract of [`super::simd::tile`], with A's rows contiguous along k; the processor has AMX.
unsafe fn multiply(tile: &RegisterTile<Bf16x2>, rows: usize, vectors: usize) {
    prefetch_l2(tile.ahead.start, tile.k * tile.ahead.step.unsigned_abs());
    let columns = (vectors - 1) * SIDE + tile.last;
    let (tall, wide) = (rows > SIDE, vectors > 1);
    let config = TileConfig::of(halves(rows).map(|n| n.max(1)), halves(columns).map(|n| n.max(1)));
    // What is missing reads what is there.
    let second = |start: *const Bf16x2, there: bool, by: isize| {
        [start, if there { start.wrapping_offset(by) } else { start }]
    };
    let bytes = |elements: isize| (elements * ELEMENT as isize) as usize;
    let a_rows =
        |start, row: isize| TileRows { halves: second(start, tall, SIDE as isize * row), stride: bytes(row) };
    let b_rows =
        |start, row: isize| TileRows { halves: second(start, wide, SIDE as isize), stride: bytes(row) };
    // SAFETY: tiles cover no more than the block's rows and columns, and of k what there is.
    unsafe {
        asm!("ldtilecfg [{}]", in(reg) &raw const config, options(nostack, readonly));
        load_sums(tile, tall, wide);
        let (whole, rest) = (tile.k - tile.k % SIDE, tile.k % SIDE);
        multiply_steps(whole / SIDE, a_rows(tile.a, tile.a_row), b_rows(tile.b, tile.b_k_stride));
        if rest > 0 {
            let (a, b) = (tile.a.add(whole), tile.b.offset(whole as isize * tile.b_k_stride));
            let a = LastStep::of(a, tile.a_row, [rows, rest], SIDE);
            let b = LastStep::of(b, tile.b_k_stride, [rest, columns], BLOCK);
            multiply_steps(1, a_rows(a.0.as_ptr(), SIDE as isize), b_rows(b.0.as_ptr(), BLOCK as isize));
        }
        store_sums(tile, tall, wide);
        asm!("tilerelease", options(nostack, nomem));
    }
}

/// Calls a macro with the number of each tile of C, where it is in the block, and whether the block has it.
macro_rules! for_tiles_of_c {
    ($tile:ident, $tall:ident, $wide:ident, $each:ident) => {
        $each!("tmm0", $tile.c, true);
        $each!("tmm1", $tile.c.wrapping_add(SIDE), $wide);
        $each!("tmm2", $tile.c.wrapping_offset(SIDE as isize * $tile.c_row), $tall);
        $each!(
            "tmm3",
            $tile.c.wrapping_offset(SIDE as isize * $tile.c_row).wrapping_add(SIDE),
            $tall && $wide
        );
    };
}

/// Loads the sums so far, or zeros.
///
/// # Safety
/// Tiles are configured as the block is.
unsafe fn load_sums(tile: &RegisterTile<Bf16x2>, tall: bool, wide: bool) {
    let stride = tile.c_row * ELEMENT as isize;
    macro_rules! load {
        ($name:literal, $from:expr, $there:expr) => {
            // SAFETY: the caller's promise.
            unsafe {
                if tile.accumulate && $there {
                    asm!(concat!("tileloadd ", $name, ", [{} + {}*1]"), in(reg) $from, in(reg) stride,
                         options(nostack, readonly));
                } else {
                    asm!(concat!("tilezero ", $name), options(nostack, nomem));
                }
            }
        };
    }
    for_tiles_of_c!(tile, tall, wide, load);
}

/// Stores the sums.
///
/// # Safety
/// As [`load_sums`]; the block is writable.
unsafe fn store_sums(tile: &RegisterTile<Bf16x2>, tall: bool, wide: bool) {
    let stride = tile.c_row * ELEMENT as isize;
    macro_rules! store {
        ($name:literal, $to:expr, $there:expr) => {
            if $there {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(concat!("tilestored [{} + {}*1], ", $name), in(reg) $to, in(reg) stride,
                         options(nostack));
                }
            }
        };
    }
    for_tiles_of_c!(tile, tall, wide, store);
}

unsafe fn tile<const R: usize, const V: usize>(tile: &RegisterTile<Bf16x2>) {
    // SAFETY: the caller keeps the contract, with `R` rows and `V` vectors.
    unsafe { multiply(tile, R, V) }
}

/// The functions of blocks of `R` rows.
const fn of_rows<const R: usize>() -> &'static [TileFunction<Bf16x2>] {
    &[tile::<R, 1>, tile::<R, 2>]
}

macro_rules! tiles {
    ($($rows:literal)*) => { &[$(of_rows::<$rows>()),*] };
}
static TILES: &[&[TileFunction<Bf16x2>]] =
    tiles!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);

/// The kernel for pairs, where the processor, the system and this process have AMX.
pub(super) fn bf16x2() -> Option<MicroKernel<Bf16x2>> {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    let allowed = *ALLOWED.get_or_init(|| has_tiles() && request_permission());
    let rest = avx512bf16::bf16x2().filter(|_| allowed)?;
    Some(MicroKernel { name: "amx", rows: BLOCK, columns: BLOCK, contiguous_k: true, tiles: TILES, ..rest })
}

/// Whether the processor has tiles of 16 rows of 64 bytes and products of bfloat16, and the system saves them.
fn has_tiles() -> bool {
    /// Bits of the features: bfloat16 products, and tiles.
    const BF16_AND_TILES: u32 = 1 << 22 | 1 << 24;
    /// Bits of the state that the system saves: the configuration, and the tiles.
    const TILE_STATE: u64 = 0b11 << 17;
    const OSXSAVE: u32 = 1 << 27;
    if __cpuid(0).eax < 0x1d || __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    let palette = __cpuid_count(0x1d, 1);
    let (count, row_bytes, rows) = (palette.ebx >> 16, palette.ebx & 0xffff, palette.ecx & 0xffff);
    // SAFETY: the system has enabled the instruction.
    let state = unsafe { enabled_state() };
    __cpuid_count(7, 0).edx & BF16_AND_TILES == BF16_AND_TILES
        && state & TILE_STATE == TILE_STATE
        && count >= 8
        && row_bytes as usize >= SIDE * ELEMENT
        && rows as usize >= SIDE
}

/// # Safety
/// The processor says that the system has enabled XSAVE.
#[target_feature(enable = "xsave")]
unsafe fn enabled_state() -> u64 {
    // SAFETY: the caller's promise.
    unsafe { _xgetbv(0) }
}

/// Asks Linux for the use of tiles, which it grants to all threads of the process, those to come included. Without
/// it the first instruction would end the process; systems that do not ask for this call are not supported.
fn request_permission() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_PRCTL: i64 = 158;
        const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
        const TILE_DATA: u64 = 18;
        let mut result = ARCH_PRCTL;
        // SAFETY: the call writes no memory; the kernel clobbers these two registers.
        unsafe {
            asm!("syscall", inout("rax") result, in("rdi") ARCH_REQ_XCOMP_PERM, in("rsi") TILE_DATA,
                 out("rcx") _, out("r11") _, options(nostack));
        }
        result == 0
    }
    #[cfg(not(target_os = "linux"))]
    false
}
