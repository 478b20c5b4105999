//! What an instruction set brings, and how exponentials of many registers are taken.

/// A vector register of `f32`.
///
/// # Safety
/// Every method needs the instruction set that the type stands for; pointers are valid for the
/// elements that are accessed, and need no alignment unless that is said.
pub(super) trait Register: Copy {
    /// Elements of it, at most 16.
    const WIDTH: usize;
    /// One number in every lane.
    unsafe fn splat(x: f32) -> Self;
    /// `WIDTH` elements.
    unsafe fn load(from: *const f32) -> Self;
    /// `count <= WIDTH` elements, no others read, then zeros.
    unsafe fn load_first(from: *const f32, count: usize) -> Self;
    /// Writes all lanes.
    unsafe fn store(self, to: *mut f32);
    /// Writes the first `count <= WIDTH` lanes.
    unsafe fn store_first(self, to: *mut f32, count: usize);
    /// Writes all lanes past the caches, to an address that is a multiple of a register's bytes.
    unsafe fn stream(self, to: *mut f32);
    /// The first `count <= WIDTH` lanes, then zeros.
    unsafe fn first(self, count: usize) -> Self;
    /// The sum in each lane.
    unsafe fn add(self, other: Self) -> Self;
    /// The difference.
    unsafe fn sub(self, other: Self) -> Self;
    /// The product.
    unsafe fn mul(self, other: Self) -> Self;
    /// The greater; `other` where one is NaN.
    unsafe fn greater(self, other: Self) -> Self;
    /// Zero in the place of minus infinity.
    unsafe fn or_zero(self) -> Self;
    /// Whether all lanes are where [`Self::exp`] is right; with `BELOW`, none is greater than 0.
    unsafe fn inside<const N: usize, const BELOW: bool>(x: &[Self; N]) -> bool;
    /// e^x of what is [`Self::inside`].
    unsafe fn exp<const BELOW: bool>(self) -> Self;
    /// e^x of anything, with the same bits where that is inside.
    unsafe fn exp_any(self) -> Self;
}

/// Registers of numbers, and what their exponentials are for.
///
/// # Safety
/// As [`Register`]'s methods.
pub(super) trait Numbers<R: Register> {
    /// `N` registers, the first of them `i`.
    unsafe fn load<const N: usize>(&self, i: usize) -> [R; N];
    /// Takes the exponentials of `N` registers, the first of them `i`.
    unsafe fn take<const N: usize>(&mut self, i: usize, e: [R; N]);
}

/// Takes the exponentials of so many registers.
///
/// # Safety
/// The instruction set's, and that of the numbers' methods.
#[inline(always)]
pub(super) unsafe fn each<R: Register, const GROUP: usize, const BELOW: bool>(
    numbers: &mut impl Numbers<R>,
    registers: usize,
) {
    let whole = registers - registers % GROUP;
    // SAFETY: the caller's promise.
    unsafe {
        some::<R, GROUP, BELOW>(numbers, 0, whole);
        some::<R, 1, BELOW>(numbers, whole, registers);
    }
}

/// # Safety
/// As [`each`].
#[inline(always)]
unsafe fn some<R: Register, const N: usize, const BELOW: bool>(
    numbers: &mut impl Numbers<R>,
    mut i: usize,
    end: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        loop {
            // Nothing here is a call: across one, sums and factors would lie in memory.
            while i < end {
                let mut x = numbers.load::<N>(i);
                if !R::inside::<N, BELOW>(&x) {
                    break;
                }
                for x in &mut x {
                    *x = x.exp::<BELOW>();
                }
                numbers.take(i, x);
                i += N;
            }
            if i >= end {
                return;
            }
            let mut x = numbers.load::<N>(i);
            for x in &mut x {
                *x = x.exp_any();
            }
            numbers.take(i, x);
            i += N;
        }
    }
}

/// e^x of a register.
///
/// # Safety
/// The instruction set's.
#[inline(always)]
pub(super) unsafe fn one<R: Register, const BELOW: bool>(x: R) -> R {
    // SAFETY: the caller's promise.
    unsafe { if R::inside::<1, BELOW>(&[x]) { x.exp::<BELOW>() } else { x.exp_any() } }
}
