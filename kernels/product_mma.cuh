// The product of matrices on tensor cores (mma.sync), with sums of 32 bits: for
// every GPU of compute capability 8.0 or later.
// A block computes a tile of the result, step by step of the depth. The parts of
// the operands that coming steps need are under way while a step is multiplied:
// copied as they are by chunks of 16 bytes (cp.async), or, where something is
// computed from what memory holds, by way of registers (`product_stages.cuh`).

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
typedef f32 Element;
typedef u16 Stored;
typedef i32 Place;
constexpr i32 BATCHES = 3, M = 40, N = 45, K = 72;
constexpr i32 ROWS = 64, COLUMNS = 64, STEP = 32, STAGES = 3, THREADS = 128;
constexpr i32 PART_ROWS = 32, PART_COLUMNS = 32;
// Whether an operand is copied as it is, and whether its depths are neighbours.
constexpr bool A_IS_ASYNC = true, A_K_MAJOR = true, B_IS_ASYNC = false, B_K_MAJOR = false;
// Whether the device itself copies it, by a tensor map of its matrix.
constexpr bool A_BY_TMA = false, B_BY_TMA = false;
// What tensor cores take of a number, and their product.
KILN_FUNCTION u32 stored(f32 x) { return narrow_bf16(x); }
KILN_FUNCTION void mma(f32 (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) { mma_bf16(c, a, b); }
struct Product {
    const u16 *a, *b;
    f32* c;
    // Where a chunk of the first operand begins, if it is one: else it counts as zeros.
    KILN_METHOD const u16* chunk_a(Place batch, Place row, Place depth, bool& is_inside) const {
        is_inside = row < M && depth < K;
        return a + (is_inside ? (batch * M + row) * K + depth : 0);
    }
    // Four columns at each of four depths; zero beyond the last depth, anything beyond the last column.
    KILN_METHOD void load_b(Place batch, Place depth, Place column, Element (&x)[4][4]) const {
        for (i32 i = 0; i < 16; i++) {
            const i32 k = depth + i / 4, n = minimum(column + i % 4, N - 1);
            x[i / 4][i % 4] = k < K ? widen_bf16(b[(batch * K + k) * N + n]) : 0;
        }
    }
    // Four columns of a row of the result; those beyond the last are dropped.
    KILN_METHOD void store_c(Place batch, Place row, Place column, const Element (&x)[4]) const {
        for (i32 i = 0; i < minimum(4, N - column); i++) c[(batch * M + row) * N + column + i] = x[i];
    }
};
// TEMPLATE

// Two chunks are as deep as a multiplication.
constexpr i32 DEEP = 2 * CHUNK;
constexpr i32 ACROSS = COLUMNS / PART_COLUMNS;
// Matrices of a warp's part.
constexpr i32 HIGH = PART_ROWS / 16;
constexpr i32 WIDE = PART_COLUMNS / 8;
static_assert(STEP % DEEP == 0 && PART_ROWS % 16 == 0 && PART_COLUMNS % 16 == 0, "whole matrices");
static_assert(THREADS == ROWS / PART_ROWS * ACROSS * 32, "a warp for each part");

// What a copied 32-bit float is to tensor cores.
KILN_FUNCTION void round_copied(bool is_copied, u32& x) {
    if (sizeof(Stored) == 4 && is_copied) x = round_tf32(__uint_as_float(x));
}

template <class L>
KILN_FUNCTION u32 word(const Stored* part, i32 line, i32 along) {
    return *(const u32*)(part + L::at(line, along / CHUNK) + along % CHUNK);
}

// The 16 rows by DEEP depths from there on, as a multiplication takes them.
KILN_FUNCTION void load_fragment_a(u32 (&a)[4], const Stored* part, i32 row, i32 depth) {
    typedef LayoutA L;
    const i32 lane = threadIdx.x % 32;
    if constexpr (A_K_MAJOR) {
        ldmatrix(a, part + L::at(row + lane % 16, depth / CHUNK + lane / 16));
    } else if constexpr (sizeof(Stored) == 2) {
        ldmatrix_trans(a, part + L::at(depth + lane % 8 + lane / 16 * 8, row / CHUNK + lane / 8 % 2));
    } else {
#pragma unroll
        for (i32 i = 0; i < 4; i++) a[i] = word<L>(part, depth + lane % 4 + i / 2 * 4, row + lane / 4 + i % 2 * 8);
    }
#pragma unroll
    for (i32 i = 0; i < 4; i++) round_copied(A_IS_ASYNC, a[i]);
}

// The DEEP depths by 16 columns from there on, as two multiplications take them.
KILN_FUNCTION void load_fragment_b(u32 (&b)[2][2], const Stored* part, i32 depth, i32 column) {
    typedef LayoutB L;
    const i32 lane = threadIdx.x % 32;
    u32 x[4];
    if constexpr (B_K_MAJOR) {
        ldmatrix(x, part + L::at(column + lane % 8 + lane / 16 * 8, depth / CHUNK + lane / 8 % 2));
    } else if constexpr (sizeof(Stored) == 2) {
        ldmatrix_trans(x, part + L::at(depth + lane % 16, column / CHUNK + lane / 16));
    } else {
#pragma unroll
        for (i32 i = 0; i < 4; i++) x[i] = word<L>(part, depth + lane % 4 + i % 2 * 4, column + lane / 4 + i / 2 * 8);
    }
#pragma unroll
    for (i32 i = 0; i < 4; i++) {
        round_copied(B_IS_ASYNC, x[i]);
        b[i / 2][i % 2] = x[i];
    }
}

typedef f32 Sums[HIGH][WIDE][4];

KILN_FUNCTION void multiply_step(Sums& sums, const Stored* a_part, const Stored* b_part, i32 own_row, i32 own_column) {
#pragma unroll
    for (i32 depth = 0; depth < STEP; depth += DEEP) {
        u32 b[WIDE / 2][2][2];
#pragma unroll
        for (i32 j = 0; j < WIDE / 2; j++) load_fragment_b(b[j], b_part, depth, own_column + j * 16);
#pragma unroll
        for (i32 i = 0; i < HIGH; i++) {
            u32 a[4];
            load_fragment_a(a, a_part, own_row + i * 16, depth);
#pragma unroll
            for (i32 j = 0; j < WIDE; j++) mma(sums[i][j], a, b[j / 2][j % 2]);
        }
    }
}

template <class P>
KILN_FUNCTION void product(const P& own) {
    KILN_SHARED(shared);
    Pipeline<P> pipeline(own, (Stored*)shared);
    const i32 warp = threadIdx.x / 32;
    const i32 own_row = warp / ACROSS * PART_ROWS, own_column = warp % ACROSS * PART_COLUMNS;
    Sums sums;
#pragma unroll
    for (i32 i = 0; i < HIGH * WIDE * 4; i++) sums[i / 4 / WIDE][i / 4 % WIDE][i % 4] = 0;
#pragma unroll 1
    for (i32 step = 0; step < STAGES - 1; step++) {
        if (step < STEPS) {
            pipeline.start(step);
            pipeline.finish(step);
        }
        cp_async_commit();
    }
#pragma unroll 1
    for (i32 step = 0; step < STEPS; step++) {
        // This step's parts are there for all, and nobody reads the last one's any more.
        cp_async_wait<STAGES - 2>();
        __syncthreads();
        const i32 next = step + STAGES - 1;
        if (next < STEPS) pipeline.start(next);
        cp_async_commit();
        multiply_step(sums, pipeline.a_part(step), pipeline.b_part(step), own_row, own_column);
        if (next < STEPS) pipeline.finish(next);
    }
    __syncthreads();
    store_sums(own, sums, (f32*)shared, pipeline.batch, pipeline.row + own_row, pipeline.column + own_column);
}
