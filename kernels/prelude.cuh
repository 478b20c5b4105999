// What generated CUDA C calls. It stands before every kernel, needs no header
// of the toolkit, and is the only text with inline assembly: a compiler for
// another machine (the simulator of the tests) replaces the functions between
// `#ifndef KILN_HOST` and its `#endif`.

typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

#define KILN_FUNCTION static __device__ __forceinline__
#define KILN_METHOD __device__ __forceinline__

#ifndef KILN_HOST
KILN_FUNCTION f32 widen_f16(u16 half) {
    f32 x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
}

KILN_FUNCTION u16 narrow_f16(f32 x) {
    u16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}

KILN_FUNCTION u16 narrow_bf16(f32 x) {
    u16 half;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
}

// Two at once, the first in the low half.
KILN_FUNCTION u32 narrow_f16x2(f32 x, f32 y) {
    u32 halves;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(y), "f"(x));
    return halves;
}

KILN_FUNCTION u32 narrow_bf16x2(f32 x, f32 y) {
    u32 halves;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(y), "f"(x));
    return halves;
}

// 2 to that power, with an error of two units in the last place; subnormal ones are 0.
KILN_FUNCTION f32 power_of_two(f32 x) {
    f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The larger; NaN if either is, and +0 above -0.
KILN_FUNCTION f32 maximum(f32 x, f32 y) {
    f32 z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}

KILN_FUNCTION f32 minimum(f32 x, f32 y) {
    f32 z;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}

// Shared memory of the size that a launch asks for.
#define KILN_SHARED(name) extern __shared__ __align__(1024) u8 name[]

KILN_FUNCTION u32 shared_address(const void* shared) { return (u32)__cvta_generic_to_shared(shared); }

// Rounds to the 11 significant bits that tensor cores take of a 32-bit float.
KILN_FUNCTION u32 round_tf32(f32 x) {
    u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// Starts a copy of 16 bytes to shared memory, or fills them with zeros. They may
// be read once this thread has waited for the copy's group.
KILN_FUNCTION void cp_async(void* shared, const void* global, bool is_inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(is_inside ? 16 : 0) : "memory");
}

// The copies since the last call are a group.
KILN_FUNCTION void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for this thread's groups but for the last so many.
template <i32 PENDING>
KILN_FUNCTION void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Four 8 by 8 matrices of 16-bit elements: lane 8 m + r says where row r of matrix
// m lies, lane 4 r + c gets elements 2 c and 2 c + 1 of row r of each.
KILN_FUNCTION void ldmatrix(u32 (&x)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// The same, of the transposed matrices.
KILN_FUNCTION void ldmatrix_trans(u32 (&x)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// c += a * b for a warp's 16 by 16 and 16 by 8 matrices.
KILN_FUNCTION void mma_f16(f32 (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

KILN_FUNCTION void mma_bf16(f32 (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The same for 16 by 8 and 8 by 8 matrices of rounded 32-bit floats.
KILN_FUNCTION void mma_tf32(f32 (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

KILN_FUNCTION f32 widen_bf16(u16 half) { return __uint_as_float((u32)half << 16); }
KILN_FUNCTION f32 round_f16(f32 x) { return widen_f16(narrow_f16(x)); }
KILN_FUNCTION f32 round_bf16(f32 x) { return widen_bf16(narrow_bf16(x)); }

// Four neighbours; those of four bytes each move in one access.
template <class T>
struct __align__(sizeof(T) >= 4 ? 16 : 4 * sizeof(T)) vec4 {
    T x, y, z, w;
};

template <class T>
KILN_FUNCTION vec4<T> load4(const T* from, i64 quad) {
    return ((const vec4<T>*)from)[quad];
}

KILN_FUNCTION vec4<bool> load4_bool(const u8* from, i64 quad) {
    const vec4<u8> raw = load4(from, quad);
    return {raw.x != 0, raw.y != 0, raw.z != 0, raw.w != 0};
}

KILN_FUNCTION vec4<u32> load4_u8(const u8* from, i64 quad) {
    const vec4<u8> raw = load4(from, quad);
    return {raw.x, raw.y, raw.z, raw.w};
}

KILN_FUNCTION vec4<f32> load4_f16(const u16* from, i64 quad) {
    const vec4<u16> raw = load4(from, quad);
    return {widen_f16(raw.x), widen_f16(raw.y), widen_f16(raw.z), widen_f16(raw.w)};
}

KILN_FUNCTION vec4<f32> load4_bf16(const u16* from, i64 quad) {
    const vec4<u16> raw = load4(from, quad);
    return {widen_bf16(raw.x), widen_bf16(raw.y), widen_bf16(raw.z), widen_bf16(raw.w)};
}

template <class T>
KILN_FUNCTION void store4(T* to, i64 quad, T x, T y, T z, T w) {
    ((vec4<T>*)to)[quad] = {x, y, z, w};
}

// Eight neighbours of two bytes each, in one access.
template <class T>
struct __align__(sizeof(T) == 2 ? 16 : alignof(T)) vec8 {
    vec4<T> low, high;
};

KILN_FUNCTION vec8<f32> load8_f16(const u16* from, i64 eighth) {
    const vec8<u16> raw = ((const vec8<u16>*)from)[eighth];
    return {{widen_f16(raw.low.x), widen_f16(raw.low.y), widen_f16(raw.low.z), widen_f16(raw.low.w)},
            {widen_f16(raw.high.x), widen_f16(raw.high.y), widen_f16(raw.high.z), widen_f16(raw.high.w)}};
}

KILN_FUNCTION vec8<f32> load8_bf16(const u16* from, i64 eighth) {
    const vec8<u16> raw = ((const vec8<u16>*)from)[eighth];
    return {{widen_bf16(raw.low.x), widen_bf16(raw.low.y), widen_bf16(raw.low.z), widen_bf16(raw.low.w)},
            {widen_bf16(raw.high.x), widen_bf16(raw.high.y), widen_bf16(raw.high.z), widen_bf16(raw.high.w)}};
}

KILN_FUNCTION void store8(u16* to, i64 eighth, vec4<u16> low, vec4<u16> high) {
    ((vec8<u16>*)to)[eighth] = {low, high};
}

// Keeps a launch's first index out of range: the launch, the index, the axis's extent.
KILN_FUNCTION void report(u32* reports, u32 launch, i64 index, i64 extent) {
    u32* status = reports + 6u * (launch % 256u);
    if (atomicCAS(status, 0u, 1u) == 0u) {
        status[1] = launch;
        status[2] = (u32)(u64)index;
        status[3] = (u32)((u64)index >> 32);
        status[4] = (u32)(u64)extent;
        status[5] = (u32)((u64)extent >> 32);
    }
}

// A position on an axis: the nearest there is.
KILN_FUNCTION i64 clamped(i64 index, i64 last) {
    return index < 0 ? 0 : index > last ? last : index;
}

// Floats lose their fraction, and become the least integer where they fit none.
KILN_FUNCTION i32 to_i32(f32 x) {
    return x >= -2147483648.0f && x < 2147483648.0f ? (i32)x : (-2147483647 - 1);
}
KILN_FUNCTION i32 to_i32(f64 x) {
    return x > -2147483649.0 && x < 2147483648.0 ? (i32)x : (-2147483647 - 1);
}
KILN_FUNCTION i64 to_i64(f32 x) {
    const bool fits = x >= -9223372036854775808.0f && x < 9223372036854775808.0f;
    return fits ? (i64)x : (-9223372036854775807LL - 1);
}
KILN_FUNCTION i64 to_i64(f64 x) {
    const bool fits = x >= -9223372036854775808.0 && x < 9223372036854775808.0;
    return fits ? (i64)x : (-9223372036854775807LL - 1);
}

// Signed arithmetic wraps, which C leaves undefined.
KILN_FUNCTION i32 add(i32 x, i32 y) { return (i32)((u32)x + (u32)y); }
KILN_FUNCTION u32 add(u32 x, u32 y) { return x + y; }
KILN_FUNCTION i64 add(i64 x, i64 y) { return (i64)((u64)x + (u64)y); }
KILN_FUNCTION i32 subtract(i32 x, i32 y) { return (i32)((u32)x - (u32)y); }
KILN_FUNCTION u32 subtract(u32 x, u32 y) { return x - y; }
KILN_FUNCTION i64 subtract(i64 x, i64 y) { return (i64)((u64)x - (u64)y); }
KILN_FUNCTION i32 multiply(i32 x, i32 y) { return (i32)((u32)x * (u32)y); }
KILN_FUNCTION u32 multiply(u32 x, u32 y) { return x * y; }
KILN_FUNCTION i64 multiply(i64 x, i64 y) { return (i64)((u64)x * (u64)y); }

template <class T>
KILN_FUNCTION T negate(T x) {
    return subtract((T)0, x);
}

KILN_FUNCTION u32 magnitude(u32 x) { return x; }
template <class T>
KILN_FUNCTION T magnitude(T x) {
    return x < 0 ? negate(x) : x;
}

// Anything over 0 is 0; the least number over -1 is itself.
KILN_FUNCTION u32 quotient(u32 x, u32 y) { return y == 0 ? 0 : x / y; }
template <class T>
KILN_FUNCTION T quotient(T x, T y) {
    return y == 0 ? 0 : y == -1 ? negate(x) : x / y;
}

KILN_FUNCTION u32 remainder(u32 x, u32 y) { return y == 0 ? 0 : x % y; }
template <class T>
KILN_FUNCTION T remainder(T x, T y) {
    return y == 0 || y == -1 ? 0 : x % y;
}

KILN_FUNCTION bool negative(u32) { return false; }
template <class T>
KILN_FUNCTION bool negative(T x) {
    return x < 0;
}

// To a negative power: 0 unless the base is 1 or -1.
template <class T>
KILN_FUNCTION T power(T x, T y) {
    if (negative(y)) {
        return x == 1 ? 1 : x == (T)-1 ? ((y & 1) ? (T)-1 : 1) : 0;
    }
    T result = 1;
    for (T square = x, left = y; left != 0; left >>= 1, square = multiply(square, square)) {
        if (left & 1) result = multiply(result, square);
    }
    return result;
}

// A distance that is negative or not below the width shifts everything out.
KILN_FUNCTION u32 shift_left(u32 x, u32 y) { return y > 31 ? 0 : x << y; }
KILN_FUNCTION i32 shift_left(i32 x, i32 y) { return (u32)y > 31 ? 0 : (i32)((u32)x << y); }
KILN_FUNCTION i64 shift_left(i64 x, i64 y) { return (u64)y > 63 ? 0 : (i64)((u64)x << y); }
KILN_FUNCTION u32 shift_right(u32 x, u32 y) { return y > 31 ? 0 : x >> y; }
KILN_FUNCTION i32 shift_right(i32 x, i32 y) { return x >> ((u32)y > 31 ? 31 : y); }
KILN_FUNCTION i64 shift_right(i64 x, i64 y) { return x >> ((u64)y > 63 ? 63 : y); }

KILN_FUNCTION f32 multiply_add(f32 x, f32 y, f32 z) { return fmaf(x, y, z); }
KILN_FUNCTION f64 multiply_add(f64 x, f64 y, f64 z) { return fma(x, y, z); }
template <class T>
KILN_FUNCTION T multiply_add(T x, T y, T z) {
    return add(multiply(x, y), z);
}

// An integer ordered as the numbers are, both zeros 0.
KILN_FUNCTION i32 ordinal(f32 x) {
    const i32 bits = __float_as_int(x);
    return bits < 0 ? subtract((i32)0x80000000u, bits) : bits;
}
KILN_FUNCTION i64 ordinal(f64 x) {
    const i64 bits = __double_as_longlong(x);
    return bits < 0 ? subtract((i64)0x8000000000000000ull, bits) : bits;
}

// An integer ordered as the numbers are, -0 below +0, NaN above all (for
// maxima) or below all (for minima).
KILN_FUNCTION i32 rank_max(f32 x) {
    const i32 bits = x != x ? 0x7fc00000 : __float_as_int(x);
    return bits ^ ((bits >> 31) & 0x7fffffff);
}
KILN_FUNCTION i64 rank_max(f64 x) {
    const i64 bits = x != x ? 0x7ff8000000000000ll : __double_as_longlong(x);
    return bits ^ ((bits >> 63) & 0x7fffffffffffffffll);
}
KILN_FUNCTION i32 rank_min(f32 x) {
    const i32 bits = x != x ? (i32)0xffc00000u : __float_as_int(x);
    return bits ^ ((bits >> 31) & 0x7fffffff);
}
KILN_FUNCTION i64 rank_min(f64 x) {
    const i64 bits = x != x ? (i64)0xfff8000000000000ull : __double_as_longlong(x);
    return bits ^ ((bits >> 63) & 0x7fffffffffffffffll);
}
KILN_FUNCTION f32 unrank(i32 rank) { return __int_as_float(rank ^ ((rank >> 31) & 0x7fffffff)); }
KILN_FUNCTION f64 unrank(i64 rank) {
    return __longlong_as_double(rank ^ ((rank >> 63) & 0x7fffffffffffffffll));
}

KILN_FUNCTION i32 rank_argmax(f32 x) { return x != x ? 0x7fffffff : ordinal(x); }
KILN_FUNCTION i64 rank_argmax(f64 x) { return x != x ? 0x7fffffffffffffffll : ordinal(x); }
KILN_FUNCTION i32 rank_argmin(f32 x) { return x != x ? (i32)0x80000000u : ordinal(x); }
KILN_FUNCTION i64 rank_argmin(f64 x) { return x != x ? (i64)0x8000000000000000ull : ordinal(x); }

KILN_FUNCTION f64 maximum(f64 x, f64 y) {
    const i64 a = rank_max(x), b = rank_max(y);
    return unrank(a > b ? a : b);
}
KILN_FUNCTION f64 minimum(f64 x, f64 y) {
    const i64 a = rank_min(x), b = rank_min(y);
    return unrank(a < b ? a : b);
}
#ifdef KILN_HOST
KILN_FUNCTION f32 maximum(f32 x, f32 y) {
    const i32 a = rank_max(x), b = rank_max(y);
    return unrank(a > b ? a : b);
}
KILN_FUNCTION f32 minimum(f32 x, f32 y) {
    const i32 a = rank_min(x), b = rank_min(y);
    return unrank(a < b ? a : b);
}
#endif
KILN_FUNCTION i32 maximum(i32 x, i32 y) { return x > y ? x : y; }
KILN_FUNCTION u32 maximum(u32 x, u32 y) { return x > y ? x : y; }
KILN_FUNCTION i64 maximum(i64 x, i64 y) { return x > y ? x : y; }
KILN_FUNCTION i32 minimum(i32 x, i32 y) { return x < y ? x : y; }
KILN_FUNCTION u32 minimum(u32 x, u32 y) { return x < y ? x : y; }
KILN_FUNCTION i64 minimum(i64 x, i64 y) { return x < y ? x : y; }

KILN_FUNCTION f32 exponential(f32 x) { return expf(x); }
KILN_FUNCTION f64 exponential(f64 x) { return exp(x); }
KILN_FUNCTION f32 logarithm(f32 x) { return logf(x); }
KILN_FUNCTION f64 logarithm(f64 x) { return log(x); }

// The factor by which a sum of exponentials relative to x counts relative to
// the maximum.
template <class T>
KILN_FUNCTION T weight(T x, T most) {
    return x == most ? (T)1 : exponential(x - most);
}

// An infinite maximum is the result by itself.
template <class T>
KILN_FUNCTION T finish_logsumexp(T most, T sum) {
    return most - most == 0 ? most + logarithm(sum) : most;
}

// Moments of two parts from those of each: count, mean, sum of squared
// deviations (Chan, Golub and LeVeque 1983).
template <class T>
KILN_FUNCTION T merged_mean(T n, T mean, T, T m, T other, T) {
    return m == 0 ? mean : n == 0 ? other : mean + (other - mean) * (m / (n + m));
}

template <class T>
KILN_FUNCTION T merged_squares(T n, T mean, T squares, T m, T other, T others) {
    const T gap = other - mean;
    return m == 0 ? squares : n == 0 ? others : squares + others + gap * gap * (n * m / (n + m));
}

// The value of the lane so many above in the warp; the own where there is none.
template <class T>
KILN_FUNCTION T lane_above(u32 lanes, T x, u32 distance) {
    return __shfl_down_sync(lanes, x, distance);
}

// The value of the warp's first lane.
template <class T>
KILN_FUNCTION T first_lane(u32 lanes, T x) {
    return __shfl_sync(lanes, x, 0);
}

// The tile of a product that a block computes. Bands of eight rows of tiles, so that
// blocks that run together share both operands' parts in the cache.
KILN_FUNCTION void tile_of(u32 block, i32 rows, i32 columns, i32& batch, i32& row, i32& column) {
    constexpr i32 BAND = 8;
    const i32 tile = block % (u32)(rows * columns);
    const i32 first = tile / (BAND * columns) * BAND, within = tile % (BAND * columns);
    const i32 high = minimum(rows - first, BAND);
    batch = block / (u32)(rows * columns);
    row = first + within % high;
    column = within / high;
}
