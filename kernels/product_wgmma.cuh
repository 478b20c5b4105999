// The product of matrices of 16-bit floats by warpgroups (wgmma), which read both
// operands from shared memory, with sums of 32 bits: for compute capability 9.0.
// A block computes a tile of the result, step by step of the depth, each group 64 rows of
// it. The parts of the operands that coming steps need are under way while a step is
// multiplied: copied by the device itself, given a tensor map of the matrix (TMA), or by
// chunks of 16 bytes (cp.async), or, where something is computed from what memory holds,
// by way of registers (`product_stages.cuh`).

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
typedef f32 Element;
typedef u16 Stored;
typedef i32 Place;
constexpr i32 BATCHES = 3, M = 40, N = 45, K = 136;
constexpr i32 ROWS = 128, COLUMNS = 64, STEP = 64, STAGES = 4, THREADS = 256;
// Whether an operand is copied as it is, and whether its depths are neighbours.
constexpr bool A_IS_ASYNC = true, A_K_MAJOR = true, B_IS_ASYNC = false, B_K_MAJOR = false;
// Whether the device itself copies it, by a tensor map of its matrix.
constexpr bool A_BY_TMA = false, B_BY_TMA = false;
// What tensor cores take of a number, and their product.
KILN_FUNCTION u32 stored(f32 x) { return narrow_bf16(x); }
template <bool A_TRANSPOSED, bool B_TRANSPOSED>
KILN_FUNCTION void wgmma(f32 (&c)[COLUMNS / 8][4], u64 a, u64 b) {
    wgmma_bf16<A_TRANSPOSED, B_TRANSPOSED>(c, a, b);
}
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

// Depths of a multiplication, rows of a group, bytes of eight lines.
constexpr i32 DEEP = 16;
constexpr i32 WARPGROUP_ROWS = 64;
constexpr u32 EIGHT_LINES = 1024;
static_assert(STEP == 64 && ROWS % WARPGROUP_ROWS == 0 && COLUMNS % 64 == 0, "lines of 128 bytes");
static_assert(THREADS == ROWS / WARPGROUP_ROWS * 128, "a group for its rows");

// The rows (columns of the second operand) from a multiple of 64 on, at DEEP depths.
template <class L, bool K_MAJOR>
KILN_FUNCTION u64 operand(const Stored* part, i32 first, i32 depth) {
    const Stored* at = K_MAJOR ? part + first * STEP + depth : part + (first * STEP + depth * 64);
    return wgmma_operand(at, K_MAJOR ? 16 : L::LINES * 128, EIGHT_LINES);
}

// Bytes of a step that the device copies itself.
constexpr u32 BY_TMA = (A_BY_TMA ? LayoutA::ELEMENTS : 0) * sizeof(Stored) + (B_BY_TMA ? LayoutB::ELEMENTS : 0) * sizeof(Stored);

// Has the device copy a part: blocks of lines of 128 bytes from a row (column of the
// second operand) and a depth on. Beyond the matrix they are zeros.
template <class L, bool K_MAJOR, class Map>
KILN_FUNCTION void copy_part(Stored* part, const Map* map, u64* mbarrier, i32 batch, i32 first, i32 depth) {
    if constexpr (K_MAJOR) {
        tma_copy(part, map, mbarrier, depth, first, batch);
    } else {
#pragma unroll
        for (i32 i = 0; i < L::LINE / 64; i++) tma_copy(part + i * L::LINES * 64, map, mbarrier, first + i * 64, depth, batch);
    }
}

// Starts bringing what the device copies itself, once nobody reads that stage.
template <class P>
KILN_FUNCTION void start_tma(const Pipeline<P>& pipeline, u64* mbarriers, i32 step) {
    if (BY_TMA == 0 || threadIdx.x != 0) return;
    u64* const mbarrier = mbarriers + step % STAGES;
    mbarrier_expect(mbarrier, BY_TMA);
    const i32 batch = (i32)pipeline.batch, depth = step * STEP;
    if constexpr (A_BY_TMA) copy_part<LayoutA, A_K_MAJOR>(pipeline.a_part(step), pipeline.own.map_a, mbarrier, batch, (i32)pipeline.row, depth);
    if constexpr (B_BY_TMA) copy_part<LayoutB, B_K_MAJOR>(pipeline.b_part(step), pipeline.own.map_b, mbarrier, batch, (i32)pipeline.column, depth);
}

template <class P>
KILN_FUNCTION void product(const P& own) {
    KILN_SHARED(shared);
    // Of each stage: whether what the device copies is there.
    __shared__ u64 mbarriers[STAGES];
    Pipeline<P> pipeline(own, (Stored*)shared);
    if constexpr (BY_TMA > 0) {
        if (threadIdx.x == 0) mbarriers_init(mbarriers, STAGES);
        __syncthreads();
    }
    const i32 group_row = threadIdx.x / 128 * WARPGROUP_ROWS;
    f32 sums[1][COLUMNS / 8][4];
#pragma unroll
    for (i32 i = 0; i < COLUMNS / 2; i++) sums[0][i / 4][i % 4] = 0;
    // A stage is written again once its step and the next one are multiplied: all have
    // waited for the one, and still multiply the other.
    constexpr i32 AHEAD = STAGES - 2;
#pragma unroll 1
    for (i32 step = 0; step < AHEAD; step++) {
        if (step < STEPS) {
            start_tma(pipeline, mbarriers, step);
            pipeline.start(step);
            pipeline.finish(step);
        }
        cp_async_commit();
    }
#pragma unroll 1
    for (i32 step = 0; step < STEPS; step++) {
        // This step's parts are there for all, and nobody reads those before the last.
        cp_async_wait<AHEAD - 1>();
        if constexpr (BY_TMA > 0) mbarrier_wait(mbarriers + step % STAGES, step / STAGES % 2);
        fence_async();
        __syncthreads();
        wgmma_fence();
#pragma unroll
        for (i32 depth = 0; depth < STEP; depth += DEEP) {
            const u64 a = operand<LayoutA, A_K_MAJOR>(pipeline.a_part(step), group_row, depth);
            const u64 b = operand<LayoutB, B_K_MAJOR>(pipeline.b_part(step), 0, depth);
            wgmma<!A_K_MAJOR, !B_K_MAJOR>(sums[0], a, b);
        }
        wgmma_commit();
        const i32 next = step + AHEAD;
        if (next < STEPS) {
            start_tma(pipeline, mbarriers, next);
            pipeline.start(next);
            pipeline.finish(next);
        }
        cp_async_commit();
        wgmma_wait<1>(sums[0]);
    }
    wgmma_wait<0>(sums[0]);
    __syncthreads();
    const i32 warp_row = threadIdx.x % 128 / 32 * 16;
    store_sums(own, sums, (f32*)shared, pipeline.batch, pipeline.row + group_row + warp_row, pipeline.column);
}
