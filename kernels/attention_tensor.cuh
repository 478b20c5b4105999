// Attention of 16-bit floats on tensor cores (mma.sync), whose scores are never in memory,
// by the online softmax (Milakov and Gimelshein 2018) in the order of FlashAttention-2
// (Dao 2023): a warp has its queries' scores, powers and sums in registers, where powers
// are an operand of the second product as they are. Keys and values are each brought to
// shared memory while the other is multiplied: copied by chunks of 16 bytes (cp.async),
// or, where something is computed from what memory holds, by way of registers
// (`attention_rows.cuh`).
//
// What it computes on is the caller's: `Extents` has the sizes as constants, the functions
// give operands and take results.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
// Queries of a block and of a warp.
constexpr i32 ATTENTION_TILE_ROWS = 64, ATTENTION_WARP_ROWS = 16;
constexpr bool ATTENTION_BY_WARPGROUPS = false;
// TEMPLATE

// How a block's shared memory is divided.
template <class Extents>
struct AttentionSharedLayout {
    static constexpr i32 DEPTH = (Extents::DEPTH + 15) / 16 * 16, WIDTH = (Extents::WIDTH + 15) / 16 * 16;
    typedef AttentionLines<DEPTH> Lines;
    typedef AttentionLines<WIDTH> ValueLines;
    // Queries that stay in registers are where values come later; others stay beside them.
    static constexpr bool IN_REGISTERS = ATTENTION_WARP_ROWS == 16;
    static constexpr i32 QUERIES = ATTENTION_TILE_ROWS * Lines::LINE, KEYS = ATTENTION_TILE_OTHERS * Lines::LINE;
    static constexpr i32 VALUES = Extents::LOG_SUM ? 0 : ATTENTION_TILE_OTHERS * ValueLines::LINE;
    static constexpr i32 OTHERS = !IN_REGISTERS ? QUERIES + VALUES : VALUES < QUERIES ? QUERIES : VALUES;
    static constexpr i32 RESULTS = Extents::LOG_SUM ? 0 : AttentionStoreStrip<WIDTH>::ELEMENTS;
    static constexpr i32 ELEMENTS = RESULTS < KEYS + OTHERS ? KEYS + OTHERS : RESULTS;
};

template <class Extents, class Place, class Q, class K, class V, class Masked, class Store>
KILN_FUNCTION void attention(u16* block, f32 scale, const Q& from_q, const K& from_k, const V& from_v, const Masked& masked, const Store& store) {
    typedef typename Extents::Shares S;
    typedef AttentionSharedLayout<Extents> Parts;
    typedef typename Parts::Lines Lines;
    typedef typename Parts::ValueLines ValueLines;
    constexpr i32 HEIGHT = ATTENTION_TILE_ROWS, SIDE = ATTENTION_TILE_OTHERS, HIGH = ATTENTION_WARP_ROWS / 16;
    constexpr i32 DEPTH = Parts::DEPTH, WIDTH = Parts::WIDTH;
    u16* const keys = block;
    u16* const values = keys + Parts::KEYS;
    u16* const queries = Parts::IN_REGISTERS ? values : values + Parts::VALUES;
    const i32 lane = threadIdx.x % 32, own = threadIdx.x / 32 * ATTENTION_WARP_ROWS;
    Place batch;
    const i32 first = attention_place<Extents>(batch), end = attention_end<Extents>(first);

    const auto stage_keys = [&](i32 key) {
        attention_stage<S, Lines, Extents::K_IS_ASYNC, SIDE, DEPTH>(keys, Extents::KEYS - key, Extents::DEPTH, [&](i32 line, i32 d, auto&... is_inside) {
            return from_k(batch, key + line, d, is_inside...);
        });
    };
    const auto stage_values = [&](i32 key) {
        attention_stage<S, ValueLines, Extents::V_IS_ASYNC, SIDE, WIDTH>(values, Extents::KEYS - key, Extents::WIDTH, [&](i32 line, i32 column, auto&... is_inside) {
            return from_v(batch, key + line, column, is_inside...);
        });
    };
    attention_stage<S, Lines, Extents::Q_IS_ASYNC, HEIGHT, DEPTH>(queries, Extents::ROWS - first, Extents::DEPTH, [&](i32 line, i32 d, auto&... is_inside) {
        return from_q(batch, first + line, d, is_inside...);
    });
    stage_keys(0);
    cp_async_commit();
    u32 query_fragments[DEPTH / 16][4];
    constexpr i32 UNROLLED = Parts::IN_REGISTERS ? DEPTH / 16 : 2;
    if constexpr (Parts::IN_REGISTERS) {
        cp_async_wait<0>();
        // Queries are there for all.
        __syncthreads();
#pragma unroll
        for (i32 d = 0; d < DEPTH / 16; d++) attention_load_fragment<Lines>(query_fragments[d], queries, own, d * 16);
    }

    f32 sums[HIGH][WIDTH / 8][4];
    AttentionRows rows[HIGH];
#pragma unroll
    for (i32 h = 0; h < HIGH; h++) {
        rows[h].begin();
#pragma unroll
        for (i32 i = 0; i < WIDTH / 2; i++) sums[h][i / 4][i % 4] = 0.0f;
    }
#pragma unroll 1
    for (i32 key = 0; key < end; key += SIDE) {
        cp_async_wait<0>();
        // Keys are there for all, and values (or queries, where they were) have been read.
        __syncthreads();
        if constexpr (!Extents::LOG_SUM) stage_values(key);
        cp_async_commit();

        f32 scores[HIGH][SIDE / 8][4];
#pragma unroll
        for (i32 i = 0; i < HIGH * SIDE / 2; i++) scores[i / (SIDE / 2)][i / 4 % (SIDE / 8)][i % 4] = 0.0f;
#pragma unroll UNROLLED
        for (i32 d = 0; d < DEPTH / 16; d++) {
            u32 a[HIGH][4];
#pragma unroll
            for (i32 h = 0; h < HIGH; h++) {
                if constexpr (Parts::IN_REGISTERS) {
#pragma unroll
                    for (i32 i = 0; i < 4; i++) a[h][i] = query_fragments[d][i];
                } else {
                    attention_load_fragment<Lines>(a[h], queries, own + h * 16, d * 16);
                }
            }
#pragma unroll
            for (i32 j = 0; j < SIDE / 8; j += 2) {
                u32 x[4];
                ldmatrix(x, keys + Lines::at(j * 8 + lane % 8 + lane / 16 * 8, d * 16 + lane / 8 % 2 * 8));
                const u32 b[2][2] = {{x[0], x[1]}, {x[2], x[3]}};
#pragma unroll
                for (i32 h = 0; h < HIGH; h++) {
                    S::multiply(scores[h][j], a[h], b[0]);
                    S::multiply(scores[h][j + 1], a[h], b[1]);
                }
            }
        }

        u32 weights[HIGH][SIDE / 16][4];
#pragma unroll
        for (i32 h = 0; h < HIGH; h++) {
            attention_softmax<Extents>(scores[h], rows[h], batch, first + own + h * 16, key, scale, masked);
            attention_rescale(sums[h], rows[h]);
            attention_pack<S>(weights[h], scores[h]);
        }

        cp_async_wait<0>();
        // Values are there for all, and keys have been read.
        __syncthreads();
        if (key + SIDE < end) stage_keys(key + SIDE);
        cp_async_commit();
        if constexpr (Extents::LOG_SUM) continue;
#pragma unroll
        for (i32 t = 0; t < SIDE / 16; t++) {
#pragma unroll
            for (i32 n = 0; n < WIDTH / 8; n += 2) {
                u32 x[4];
                ldmatrix_trans(x, values + ValueLines::at(t * 16 + lane % 16, n * 8 + lane / 16 * 8));
                const u32 b[2][2] = {{x[0], x[1]}, {x[2], x[3]}};
#pragma unroll
                for (i32 h = 0; h < HIGH; h++) {
                    S::multiply(sums[h][n], weights[h][t], b[0]);
                    S::multiply(sums[h][n + 1], weights[h][t], b[1]);
                }
            }
        }
    }

    // Values have been read: their place is for results.
    __syncthreads();
#pragma unroll
    for (i32 h = 0; h < HIGH; h++) {
        const i32 top = first + own + h * 16;
        if constexpr (Extents::LOG_SUM) {
            attention_store_log_sums<Extents>(rows[h], batch, top, store);
        } else {
            f32 part[2];
            attention_normalizers<Extents>(part, rows[h]);
            attention_store<Extents>(sums[h], part, block, batch, top, store);
        }
    }
}
