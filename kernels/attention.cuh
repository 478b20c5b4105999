// Attention whose scores are never in global memory, by the online softmax
// (Milakov and Gimelshein 2018; Dao et al. 2022), on blocks of `attention_block.cuh`:
// its own rows are queries.
//
// What it computes on is the caller's: `Extents` has the sizes as constants, the
// functions give elements and take results. Where only the logarithms of the sums of
// powers are wanted, each is the one column of its row.

// The largest, or the sum, of what the threads have that share queries.
template <class S>
KILN_FUNCTION f32 row_max(f32 x) {
    const i32 lane = threadIdx.x & 31;
#pragma unroll
    for (i32 by = 1; by < S::SHARERS; by *= 2) x = fmaxf(x, __shfl_sync(0xffffffffu, x, lane ^ by));
    return x;
}
template <class S>
KILN_FUNCTION f32 row_sum(f32 x) {
    const i32 lane = threadIdx.x & 31;
#pragma unroll
    for (i32 by = 1; by < S::SHARERS; by *= 2) x = x + __shfl_sync(0xffffffffu, x, lane ^ by);
    return x;
}

template <class Extents, class Place, class Q, class K, class V, class Masked, class Store>
KILN_FUNCTION void attention(
    AttentionBlock<typename Extents::Shares, Extents::WIDTH>& block, f32 scale, const Q& load_q, const K& load_k, const V& load_v,
    const Masked& masked, const Store& store
) {
    typedef typename Extents::Shares S;
    using Block = AttentionBlock<S, Extents::WIDTH>;
    constexpr i32 HEIGHT = ATTENTION_TILE_ROWS, SIDE = ATTENTION_TILE_OTHERS;
    constexpr i32 TILES = (Extents::ROWS + HEIGHT - 1) / HEIGHT;
    const f32 minus_infinity = __int_as_float(0xff800000);
    // Neighbours share the keys and values of a batch.
    const Place batch = blockIdx.x / TILES;
    const i32 first = (i32)(blockIdx.x % TILES) * HEIGHT;

    f32 sums[S::ROWS][Block::OWN];
    // The largest score so far, from the least finite number on, so that
    // differences are numbers; and this thread's part of the sum of powers.
    f32 running_max[S::ROWS], running_sum[S::ROWS];
#pragma unroll
    for (i32 i = 0; i < S::ROWS; i++) {
        running_max[i] = -3.4028235e38f;
        running_sum[i] = 0.0f;
#pragma unroll
        for (i32 c = 0; c < Block::OWN; c++) sums[i][c] = 0.0f;
    }

    // No query of the block looks beyond the last one's own place.
    const i32 end = Extents::CAUSAL && first + HEIGHT < Extents::KEYS ? first + HEIGHT : Extents::KEYS;
    for (i32 key = 0; key < end; key += SIDE) {
        f32 scores[S::ROWS][S::OTHERS];
        attention_products<Extents::DEPTH>(
            block,
            [&](i32 row, i32 d) -> f32 { return first + row < Extents::ROWS ? load_q(batch, first + row, d) : 0.0f; },
            [&](i32 row, i32 d) -> f32 { return key + row < Extents::KEYS ? load_k(batch, key + row, d) : 0.0f; },
            scores
        );
#pragma unroll
        for (i32 i = 0; i < S::ROWS; i++) {
            const i32 row = first + S::row(i);
            f32 largest = running_max[i];
#pragma unroll
            for (i32 j = 0; j < S::OTHERS; j++) {
                const i32 place = key + S::along(j);
                const bool visible = place < Extents::KEYS && row < Extents::ROWS && !(Extents::CAUSAL && place > row);
                f32 x = scores[i][j] * scale;
                if (visible) x = masked(batch, row, place, x);
                scores[i][j] = visible ? x : minus_infinity;
                largest = fmaxf(largest, scores[i][j]);
            }
            largest = row_max<S>(largest);
            const f32 rescale = exponential(running_max[i] - largest);
            running_max[i] = largest;
            running_sum[i] = running_sum[i] * rescale;
#pragma unroll
            for (i32 c = 0; c < Block::OWN; c++) sums[i][c] = sums[i][c] * rescale;
#pragma unroll
            for (i32 j = 0; j < S::OTHERS; j++) {
                const f32 power = exponential(scores[i][j] - largest);
                block.weights[S::row(i)][S::along(j)] = power;
                running_sum[i] = running_sum[i] + power;
            }
        }
        if (Extents::LOG_SUM) continue;
        attention_add(
            block,
            [&](i32 t, i32 column) -> f32 {
                const bool inside = key + t < Extents::KEYS && column < Extents::WIDTH;
                return inside ? load_v(batch, key + t, column) : 0.0f;
            },
            sums
        );
    }
#pragma unroll
    for (i32 i = 0; i < S::ROWS; i++) {
        const i32 row = first + S::row(i);
        const f32 all = row_sum<S>(running_sum[i]);
        // Where only a mask leaves nothing to look at, the result is zero.
        const f32 part = Extents::MASKED && all == 0.0f ? 0.0f : 1.0f / all;
#pragma unroll
        for (i32 c = 0; c < Block::OWN; c++) {
            const i32 column = S::template column<Block::WIDTH>(c);
            const f32 x = Extents::LOG_SUM ? running_max[i] + logarithm(all) : sums[i][c] * part;
            if (row < Extents::ROWS && column < Extents::WIDTH) store(batch, row, column, x);
        }
    }
}
