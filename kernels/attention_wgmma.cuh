// Attention of 16-bit floats by warpgroups (wgmma), for compute capability 9.0:
// as `attention_tensor.cuh`, but each group has 64 queries, and the products of a tile's powers
// with values are under way while the next tile's scores become powers (Shah et al. 2024).
// Queries and powers are operands in registers; keys and values come to shared memory a tile
// ahead of their products, in lines of 128 bytes whose chunks change places.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
// Queries of a block and of a warp.
constexpr i32 ATTENTION_TILE_ROWS = 64, ATTENTION_WARP_ROWS = 16;
constexpr bool ATTENTION_BY_WARPGROUPS = true;
// TEMPLATE

// How a block's shared memory is divided.
template <class Extents>
struct AttentionSharedLayout {
    typedef AttentionTile<Extents::DEPTH> Keys;
    typedef AttentionTile<Extents::WIDTH> Values;
    static constexpr i32 DEPTH = Keys::LENGTH, WIDTH = Values::LENGTH;
    static constexpr i32 STAGES = 2;
    static constexpr i32 KEY_STAGE = Keys::ELEMENTS, VALUE_STAGE = Values::ELEMENTS;
    // Queries are where values come later.
    typedef AttentionLines<DEPTH> Lines;
    static constexpr i32 QUERIES = ATTENTION_TILE_ROWS * Lines::LINE, VALUES = Extents::LOG_SUM ? 0 : STAGES * VALUE_STAGE;
    static constexpr i32 ALL = STAGES * KEY_STAGE + (VALUES < QUERIES ? QUERIES : VALUES);
    static constexpr i32 RESULTS = Extents::LOG_SUM ? 0 : AttentionStoreStrip<WIDTH>::ELEMENTS;
    static constexpr i32 ELEMENTS = RESULTS < ALL ? ALL : RESULTS;
};

template <class Extents, class Place, class Q, class K, class V, class Masked, class Store>
KILN_FUNCTION void attention(u16* block, f32 scale, const Q& from_q, const K& from_k, const V& from_v, const Masked& masked, const Store& store) {
    typedef typename Extents::Shares S;
    typedef AttentionSharedLayout<Extents> Parts;
    typedef typename Parts::Lines Lines;
    constexpr i32 HEIGHT = ATTENTION_TILE_ROWS, SIDE = ATTENTION_TILE_OTHERS, DEPTH = Parts::DEPTH, WIDTH = Parts::WIDTH;
    u16* const keys = block;
    u16* const values = keys + Parts::STAGES * Parts::KEY_STAGE;
    u16* const queries = values;
    const i32 own = threadIdx.x / 32 * 16;
    Place batch;
    const i32 first = attention_place<Extents>(batch);
    const i32 tiles = (attention_end<Extents>(first) + SIDE - 1) / SIDE;

    const auto key_stage = [&](i32 tile) { return keys + tile % Parts::STAGES * Parts::KEY_STAGE; };
    const auto value_stage = [&](i32 tile) { return values + tile % Parts::STAGES * Parts::VALUE_STAGE; };
    const auto stage_keys = [&](i32 tile) {
        const i32 key = tile * SIDE;
        attention_stage<S, AttentionBlocks, Extents::K_IS_ASYNC, SIDE, DEPTH>(key_stage(tile), Extents::KEYS - key, Extents::DEPTH, [&](i32 line, i32 d, auto&... is_inside) {
            return from_k(batch, key + line, d, is_inside...);
        });
    };
    const auto stage_values = [&](i32 tile) {
        const i32 key = tile * SIDE;
        attention_stage<S, AttentionBlocks, Extents::V_IS_ASYNC, SIDE, WIDTH>(value_stage(tile), Extents::KEYS - key, Extents::WIDTH, [&](i32 line, i32 column, auto&... is_inside) {
            return from_v(batch, key + line, column, is_inside...);
        });
    };
    attention_stage<S, Lines, Extents::Q_IS_ASYNC, HEIGHT, DEPTH>(queries, Extents::ROWS - first, Extents::DEPTH, [&](i32 line, i32 d, auto&... is_inside) {
        return from_q(batch, first + line, d, is_inside...);
    });
    stage_keys(0);
    cp_async_commit();
    cp_async_wait<0>();
    fence_async();
    // Queries and the first keys are there for all.
    __syncthreads();
    u32 query_fragments[DEPTH / 16][4];
#pragma unroll
    for (i32 d = 0; d < DEPTH / 16; d++) attention_load_fragment<Lines>(query_fragments[d], queries, own, d * 16);
    // Queries have been read.
    __syncthreads();
    if (tiles > 1) stage_keys(1);
    if constexpr (!Extents::LOG_SUM) stage_values(0);
    cp_async_commit();

    f32 sums[WIDTH / 8][4];
    AttentionRows rows;
    rows.begin();
#pragma unroll
    for (i32 i = 0; i < WIDTH / 2; i++) sums[i / 4][i % 4] = 0.0f;

    f32 scores[SIDE / 8][4];
    u32 weights[SIDE / 16][4];
    const auto start_scores = [&](i32 tile) { attention_start_products<S, typename Parts::Keys>(scores, query_fragments, key_stage(tile)); };
    const auto start_sums = [&](i32 tile) { attention_start_sums<S, typename Parts::Values>(sums, weights, value_stage(tile)); };
    start_scores(0);
    wgmma_wait<0>(scores);
    attention_softmax<Extents>(scores, rows, batch, first + own, 0, scale, masked);
    attention_pack<S>(weights, scores);
#pragma unroll 1
    for (i32 tile = 1; tile < tiles; tile++) {
        cp_async_wait<0>();
        fence_async();
        // This tile's keys, and the last one's values, are there for all; the last one's keys, and
        // the values before, have been multiplied by all.
        __syncthreads();
        if (tile + 1 < tiles) stage_keys(tile + 1);
        if constexpr (!Extents::LOG_SUM) stage_values(tile);
        cp_async_commit();
        start_scores(tile);
        if constexpr (!Extents::LOG_SUM) start_sums(tile - 1);
        // Scores are there.
        wgmma_wait<Extents::LOG_SUM ? 0 : 1>(scores);
        attention_softmax<Extents>(scores, rows, batch, first + own, tile * SIDE, scale, masked);
        if constexpr (Extents::LOG_SUM) continue;
        // The last powers are multiplied.
        wgmma_wait<0>(sums);
        attention_rescale(sums, rows);
        attention_pack<S>(weights, scores);
    }
    if constexpr (Extents::LOG_SUM) return attention_store_log_sums<Extents>(rows, batch, first + own, store);
    cp_async_wait<0>();
    fence_async();
    // The last values are there for all.
    __syncthreads();
    start_sums(tiles - 1);
    wgmma_wait<0>(sums);
    // Values have been multiplied by all: their place is for results.
    __syncthreads();
    f32 part[2];
    attention_normalizers<Extents>(part, rows);
    attention_store<Extents>(sums, part, block, batch, first + own, store);
}
