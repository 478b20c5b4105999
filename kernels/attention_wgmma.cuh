// Attention of 16-bit floats by groups of four warps (wgmma), for compute capability 9.0:
// as `attention_tensor.cuh`, but each group has 64 queries, and the products of a tile's powers
// with values are under way while the next tile's scores become powers (Shah et al. 2024).
// Queries and powers are operands in registers; keys and values come to shared memory a tile
// ahead of their products, in lines of 128 bytes whose pieces change places.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
// Queries of a block and of a warp.
constexpr i32 ATTENTION_HEIGHT = 64, ATTENTION_PART = 16;
constexpr bool ATTENTION_BY_GROUPS = true;
// TEMPLATE

static_assert(ATTENTION_PART == 16 && ATTENTION_THREADS % 128 == 0, "whole groups");

struct AttentionF16 {
    KILN_FUNCTION u32 pair(f32 x, f32 y) { return narrow_f16x2(x, y); }
    template <bool TURNED, bool ADDS, i32 WIDE>
    KILN_FUNCTION void multiply(f32 (&c)[WIDE][4], const u32 (&a)[4], u64 b) { wgmma_held_f16<TURNED, ADDS>(c, a, b); }
};
struct AttentionBF16 {
    KILN_FUNCTION u32 pair(f32 x, f32 y) { return narrow_bf16x2(x, y); }
    template <bool TURNED, bool ADDS, i32 WIDE>
    KILN_FUNCTION void multiply(f32 (&c)[WIDE][4], const u32 (&a)[4], u64 b) { wgmma_held_bf16<TURNED, ADDS>(c, a, b); }
};

// Elements of a line of 128 bytes, and bytes of eight such lines.
constexpr i32 ATTENTION_LINE = 64;
constexpr u32 ATTENTION_EIGHT = 1024;

// Where a piece of a tile's line lies: blocks of lines of 128 bytes.
struct AttentionBlocks {
    KILN_FUNCTION i32 at(i32 line, i32 along) {
        const i32 piece = along / ATTENTION_PIECE;
        return ((piece / 8 * ATTENTION_SIDE + line) * 8 + (piece % 8 ^ line % 8)) * ATTENTION_PIECE;
    }
};

// How a block's shared memory is divided.
template <class Extents>
struct AttentionParts {
    static constexpr i32 DEPTH = (Extents::DEPTH + 63) / 64 * 64, WIDTH = (Extents::WIDTH + 63) / 64 * 64;
    static constexpr i32 STAGES = 2;
    static constexpr i32 KEY_STAGE = ATTENTION_SIDE * DEPTH, VALUE_STAGE = ATTENTION_SIDE * WIDTH;
    // Queries are where values come later.
    typedef AttentionLines<DEPTH> Lines;
    static constexpr i32 QUERIES = ATTENTION_HEIGHT * Lines::LINE, VALUES = STAGES * VALUE_STAGE;
    static constexpr i32 ALL = STAGES * KEY_STAGE + (VALUES < QUERIES ? QUERIES : VALUES);
    static constexpr i32 RESULTS = AttentionBand<WIDTH>::ELEMENTS;
    static constexpr i32 ELEMENTS = RESULTS < ALL ? ALL : RESULTS;
};

template <class Extents, class Place, class Q, class K, class V, class Masked, class Store>
KILN_FUNCTION void attention(u16* block, f32 scale, const Q& from_q, const K& from_k, const V& from_v, const Masked& masked, const Store& store) {
    typedef typename Extents::Shares S;
    typedef AttentionParts<Extents> Parts;
    typedef typename Parts::Lines Lines;
    constexpr i32 HEIGHT = ATTENTION_HEIGHT, SIDE = ATTENTION_SIDE, DEPTH = Parts::DEPTH, WIDTH = Parts::WIDTH;
    u16* const keys = block;
    u16* const values = keys + Parts::STAGES * Parts::KEY_STAGE;
    u16* const queries = values;
    const i32 own = threadIdx.x / 32 * 16;
    Place batch;
    const i32 first = attention_place<Extents>(batch);
    const i32 tiles = (attention_end<Extents>(first) + SIDE - 1) / SIDE;

    const auto key_stage = [&](i32 tile) { return keys + tile % Parts::STAGES * Parts::KEY_STAGE; };
    const auto value_stage = [&](i32 tile) { return values + tile % Parts::STAGES * Parts::VALUE_STAGE; };
    const auto bring_keys = [&](i32 tile) {
        const i32 key = tile * SIDE;
        attention_bring<S, AttentionBlocks, Extents::K_IS_COPIED, SIDE, DEPTH>(key_stage(tile), Extents::KEYS - key, Extents::DEPTH, [&](i32 line, i32 d, auto&... is_inside) {
            return from_k(batch, key + line, d, is_inside...);
        });
    };
    const auto bring_values = [&](i32 tile) {
        const i32 key = tile * SIDE;
        attention_bring<S, AttentionBlocks, Extents::V_IS_COPIED, SIDE, WIDTH>(value_stage(tile), Extents::KEYS - key, Extents::WIDTH, [&](i32 line, i32 column, auto&... is_inside) {
            return from_v(batch, key + line, column, is_inside...);
        });
    };
    attention_bring<S, Lines, Extents::Q_IS_COPIED, HEIGHT, DEPTH>(queries, Extents::ROWS - first, Extents::DEPTH, [&](i32 line, i32 d, auto&... is_inside) {
        return from_q(batch, first + line, d, is_inside...);
    });
    bring_keys(0);
    cp_async_commit();
    cp_async_wait<0>();
    fence_async();
    // Queries and the first keys are there for all.
    __syncthreads();
    u32 held[DEPTH / 16][4];
#pragma unroll
    for (i32 d = 0; d < DEPTH / 16; d++) attention_take<Lines>(held[d], queries, own, d * 16);
    // Queries have been read.
    __syncthreads();
    if (tiles > 1) bring_keys(1);
    bring_values(0);
    cp_async_commit();

    f32 sums[WIDTH / 8][4];
    AttentionRows rows;
    rows.begin();
#pragma unroll
    for (i32 i = 0; i < WIDTH / 2; i++) sums[i / 4][i % 4] = 0.0f;

    f32 scores[SIDE / 8][4];
    u32 powers[SIDE / 16][4];
    // Starts the products of the group's queries with a tile's keys.
    const auto start_scores = [&](i32 tile) {
        wgmma_fence();
#pragma unroll
        for (i32 d = 0; d < DEPTH; d += 16) {
            const u16* const from = key_stage(tile) + d / ATTENTION_LINE * SIDE * ATTENTION_LINE + d % ATTENTION_LINE;
            const u64 other = wgmma_operand(from, 16, ATTENTION_EIGHT);
            if (d == 0) S::template multiply<false, false>(scores, held[0], other);
            else S::template multiply<false, true>(scores, held[d / 16], other);
        }
        wgmma_commit();
    };
    // Starts the products of a tile's powers with its values.
    const auto start_sums = [&](i32 tile) {
        wgmma_fence();
#pragma unroll
        for (i32 t = 0; t < SIDE / 16; t++) {
            const u16* const from = value_stage(tile) + t * 16 * ATTENTION_LINE;
            S::template multiply<true, true>(sums, powers[t], wgmma_operand(from, SIDE * 128, ATTENTION_EIGHT));
        }
        wgmma_commit();
    };
    start_scores(0);
    wgmma_wait<0>(scores);
    attention_powers<Extents>(scores, rows, batch, first + own, 0, scale, masked);
    attention_pack<S>(powers, scores);
#pragma unroll 1
    for (i32 tile = 1; tile < tiles; tile++) {
        cp_async_wait<0>();
        fence_async();
        // This tile's keys, and the last one's values, are there for all; the last one's keys, and
        // the values before, have been multiplied by all.
        __syncthreads();
        if (tile + 1 < tiles) bring_keys(tile + 1);
        bring_values(tile);
        cp_async_commit();
        start_scores(tile);
        start_sums(tile - 1);
        // Scores are there.
        wgmma_wait<1>(scores);
        attention_powers<Extents>(scores, rows, batch, first + own, tile * SIDE, scale, masked);
        // The last powers are multiplied.
        wgmma_wait<0>(sums);
        attention_shrink(sums, rows);
        attention_pack<S>(powers, scores);
    }
    cp_async_wait<0>();
    fence_async();
    // The last values are there for all.
    __syncthreads();
    start_sums(tiles - 1);
    wgmma_wait<0>(sums);
    // Values have been multiplied by all: their place is for results.
    __syncthreads();
    attention_store<Extents>(sums, rows, block, batch, first + own, store);
}
