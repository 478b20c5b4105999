//! The vector type that an instruction set implements, and the loop over exponentials of many vectors.

/// A vector of `f32`.
///
/// # Safety
/// Every method needs the instruction set that the type stands for; pointers are valid for the
/// elements that are accessed, and need no alignment unless that is said.
pub(super) trait F32Vector: Copy {
    /// Lanes, at most 16.
    const WIDTH: usize;
    /// One scalar in every lane.
    unsafe fn splat(x: f32) -> Self;
    /// `WIDTH` elements.
    unsafe fn load(from: *const f32) -> Self;
    /// `count <= WIDTH` elements, no others read, then zeros.
    unsafe fn load_first(from: *const f32, count: usize) -> Self;
    /// Writes all lanes.
    unsafe fn store(self, to: *mut f32);
    /// Writes the first `count <= WIDTH` lanes.
    unsafe fn store_first(self, to: *mut f32, count: usize);
    /// Writes all lanes non-temporally, to an address aligned to the vector's size.
    unsafe fn store_non_temporal(self, to: *mut f32);
    /// The first `count <= WIDTH` lanes, then zeros.
    unsafe fn first(self, count: usize) -> Self;
    /// The sum in each lane.
    unsafe fn add(self, other: Self) -> Self;
    /// The difference.
    unsafe fn sub(self, other: Self) -> Self;
    /// The product.
    unsafe fn mul(self, other: Self) -> Self;
    /// The maximum; `other` where one is NaN.
    unsafe fn max(self, other: Self) -> Self;
    /// Zero in place of minus infinity.
    unsafe fn zero_if_neg_inf(self) -> Self;
    /// Whether all lanes are in the range of [`Self::exp`]; with `BELOW`, none is greater than 0.
    unsafe fn in_range<const N: usize, const BELOW: bool>(x: &[Self; N]) -> bool;
    /// e^x of lanes that are [`Self::in_range`].
    unsafe fn exp<const BELOW: bool>(self) -> Self;
    /// e^x of any lanes, with the same bits for those in range.
    unsafe fn exp_any(self) -> Self;
}

/// The source of a run of vectors, and the sink of their exponentials.
///
/// # Safety
/// As [`F32Vector`]'s methods.
pub(super) trait ExpStream<R: F32Vector> {
    /// Vectors `i..i + N`.
    unsafe fn load<const N: usize>(&self, i: usize) -> [R; N];
    /// Consumes the exponentials of vectors `i..i + N`.
    unsafe fn consume<const N: usize>(&mut self, i: usize, e: [R; N]);
}

/// Computes the exponentials of `vectors` vectors, `GROUP` at a time.
///
/// # Safety
/// The instruction set's, and that of the stream's methods.
#[inline(always)]
pub(super) unsafe fn exp_groups<R: F32Vector, const GROUP: usize, const BELOW: bool>(
    stream: &mut impl ExpStream<R>,
    vectors: usize,
) {
    let whole = vectors - vectors % GROUP;
    // SAFETY: the caller's promise.
    unsafe {
        exp_group_range::<R, GROUP, BELOW>(stream, 0, whole);
        exp_group_range::<R, 1, BELOW>(stream, whole, vectors);
    }
}

/// # Safety
/// As [`exp_groups`], for vectors `i..end`.
#[inline(always)]
unsafe fn exp_group_range<R: F32Vector, const N: usize, const BELOW: bool>(
    stream: &mut impl ExpStream<R>,
    mut i: usize,
    end: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        loop {
            // No calls in here: across one, sums and factors would be spilled.
            while i < end {
                let mut x = stream.load::<N>(i);
                if !R::in_range::<N, BELOW>(&x) {
                    break;
                }
                for x in &mut x {
                    *x = x.exp::<BELOW>();
                }
                stream.consume(i, x);
                i += N;
            }
            if i >= end {
                return;
            }
            let mut x = stream.load::<N>(i);
            for x in &mut x {
                *x = x.exp_any();
            }
            stream.consume(i, x);
            i += N;
        }
    }
}

/// e^x of a vector.
///
/// # Safety
/// The instruction set's.
#[inline(always)]
pub(super) unsafe fn exp_vector<R: F32Vector, const BELOW: bool>(x: R) -> R {
    // SAFETY: the caller's promise.
    unsafe { if R::in_range::<1, BELOW>(&[x]) { x.exp::<BELOW>() } else { x.exp_any() } }
}
