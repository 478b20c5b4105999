// The gradients of attention whose scores are never in global memory (Dao et al.
// 2022), on blocks of `attention_block.cuh`: shares are computed again from the
// scores and the logarithms of the sums of their powers. Own rows are those of the
// gradient; it is the sum over the others, in their order, so that it repeats bitwise.
//
// What it computes on is the caller's: `Extents` has the sizes as constants, the
// functions give elements and take results. Where attentions share what the gradient
// is of, the others are those of all these attentions, one after the other.

template <
    class Extents, class Place, class Q, class K, class V, class G, class LogSum, class Product, class Masked,
    class Store>
KILN_FUNCTION void attention_backward(
    AttentionBlock<typename Extents::Shares, Extents::WIDTH>& block, f32 scale, const Q& load_q, const K& load_k, const V& load_v,
    const G& load_g, const LogSum& load_log_sum, const Product& load_product, const Masked& masked,
    const Store& store
) {
    typedef typename Extents::Shares S;
    using Block = AttentionBlock<S, Extents::WIDTH>;
    constexpr i32 HEIGHT = ATTENTION_TILE_ROWS, SIDE = ATTENTION_TILE_OTHERS;
    constexpr bool BY_QUERY = Extents::BY_QUERY;
    constexpr i32 OWN = BY_QUERY ? Extents::ROWS : Extents::KEYS;
    constexpr i32 EACH = BY_QUERY ? Extents::KEYS : Extents::ROWS;
    constexpr i32 OTHERS = Extents::SUMMED * EACH;
    constexpr i32 TILES = (OWN + HEIGHT - 1) / HEIGHT;
    const f32 minus_infinity = __int_as_float(0xff800000);
    const i32 thread = threadIdx.x;
    const Place batch = blockIdx.x / TILES;
    const i32 first = (i32)(blockIdx.x % TILES) * HEIGHT;

    // Of the queries among own rows and others.
    constexpr i32 QUERIES = BY_QUERY ? HEIGHT : SIDE;
    __shared__ f32 log_sums[QUERIES], deltas[QUERIES];
    f32 sums[S::ROWS][Block::OWN];
#pragma unroll
    for (i32 i = 0; i < S::ROWS; i++) {
#pragma unroll
        for (i32 c = 0; c < Block::OWN; c++) sums[i][c] = 0.0f;
    }

    for (i32 other = 0; other < OTHERS; other += SIDE) {
        if (Extents::CAUSAL) {
            // Places in their attention: from 0 on where the block reaches into the next one.
            const i32 least = other % EACH;
            const bool is_whole = least + SIDE <= EACH;
            const i32 least_key = BY_QUERY ? (is_whole ? least : 0) : first;
            const i32 last_row = BY_QUERY ? first + HEIGHT - 1 : (is_whole ? least + SIDE - 1 : EACH - 1);
            if (least_key > last_row) continue;
        }
        const i32 query = (BY_QUERY ? first : other) + thread;
        if (thread < QUERIES) {
            const bool inside = query < (BY_QUERY ? OWN : OTHERS);
            const f32 log_sum = inside ? load_log_sum(batch, query) : 0.0f;
            // Where only a mask leaves nothing to look at, no key has a share.
            log_sums[thread] = Extents::MASKED && log_sum == minus_infinity ? -minus_infinity : log_sum;
            deltas[thread] = inside ? load_product(batch, query) : 0.0f;
        }
        const auto q = [&](i32 row, i32 d) -> f32 {
            const i32 query = (BY_QUERY ? first : other) + row;
            return query < (BY_QUERY ? OWN : OTHERS) ? load_q(batch, query, d) : 0.0f;
        };
        const auto k = [&](i32 row, i32 d) -> f32 {
            const i32 key = (BY_QUERY ? other : first) + row;
            return key < (BY_QUERY ? OTHERS : OWN) ? load_k(batch, key, d) : 0.0f;
        };
        const auto v = [&](i32 row, i32 column) -> f32 {
            const i32 key = (BY_QUERY ? other : first) + row;
            return key < (BY_QUERY ? OTHERS : OWN) ? load_v(batch, key, column) : 0.0f;
        };
        const auto g = [&](i32 row, i32 column) -> f32 {
            const i32 query = (BY_QUERY ? first : other) + row;
            return query < (BY_QUERY ? OWN : OTHERS) ? load_g(batch, query, column) : 0.0f;
        };
        f32 scores[S::ROWS][S::OTHERS];
        if constexpr (BY_QUERY) attention_products<Extents::DEPTH>(block, q, k, scores);
        else attention_products<Extents::DEPTH>(block, k, q, scores);
        // The gradients of the shares.
        f32 gradients[S::ROWS][S::OTHERS];
        if constexpr (Extents::OF_VALUES) {
        } else if constexpr (BY_QUERY) attention_products<Extents::COLUMNS>(block, g, v, gradients);
        else attention_products<Extents::COLUMNS>(block, v, g, gradients);
#pragma unroll
        for (i32 i = 0; i < S::ROWS; i++) {
            const i32 own = first + S::row(i);
#pragma unroll
            for (i32 j = 0; j < S::OTHERS; j++) {
                const i32 among = S::along(j), it = other + among;
                const i32 row = BY_QUERY ? own : it, key = BY_QUERY ? it : own;
                const bool later = BY_QUERY ? it % EACH > own : own > it % EACH;
                const bool visible = own < OWN && it < OTHERS && !(Extents::CAUSAL && later);
                const i32 n = BY_QUERY ? S::row(i) : among;
                f32 x = scores[i][j] * scale;
                if (visible) x = masked(batch, row, key, x);
                f32 share = exponential(x - log_sums[n]);
                if (!Extents::OF_VALUES) share = share * (gradients[i][j] - deltas[n]);
                block.weights[S::row(i)][among] = visible ? share : 0.0f;
            }
        }
        attention_add(
            block,
            [&](i32 t, i32 column) -> f32 {
                if (column >= Extents::WIDTH) return 0.0f;
                return Extents::OF_VALUES ? g(t, column) : BY_QUERY ? k(t, column) : q(t, column);
            },
            sums
        );
    }
#pragma unroll
    for (i32 i = 0; i < S::ROWS; i++) {
        const i32 row = first + S::row(i);
#pragma unroll
        for (i32 c = 0; c < Block::OWN; c++) {
            const i32 column = S::template column<Block::WIDTH>(c);
            const f32 x = Extents::OF_VALUES ? sums[i][c] : sums[i][c] * scale;
            if (row < OWN && column < Extents::WIDTH) store(batch, row, column, x);
        }
    }
}
