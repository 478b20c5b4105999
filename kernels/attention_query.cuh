// Attention of few queries, such as the one of a token that is generated, by the online
// softmax (Milakov and Gimelshein 2018). A block of threads has one query; teams of its
// threads share out the keys, and the threads of a team share out the depths and columns of
// each. In the end the teams' results meet (Dao et al., "Flash-Decoding", 2023).
//
// What it computes on is the caller's, as in `attention.cuh`.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
// Threads of a team, teams, and keys that a team looks at together.
constexpr i32 ATTENTION_LANES = 8, ATTENTION_TEAMS = 32, ATTENTION_KEYS = 4;
// TEMPLATE

constexpr i32 ATTENTION_WARPS = ATTENTION_LANES * ATTENTION_TEAMS / 32;
static_assert(32 % ATTENTION_LANES == 0 && ATTENTION_TEAMS % (32 / ATTENTION_LANES) == 0, "whole warps of whole teams");

// What warps leave each other: of each the largest score, the powers' sum, and columns.
template <i32 COLUMNS>
struct AttentionWarps {
    f32 largest[ATTENTION_WARPS], sums[ATTENTION_WARPS], values[ATTENTION_WARPS][COLUMNS];
};

// The sum, or the largest, of what lanes have whose numbers differ in bits from `FROM` to below `TO`.
template <i32 FROM, i32 TO>
KILN_FUNCTION f32 lanes_sum(f32 x) {
#pragma unroll
    for (i32 by = FROM; by < TO; by *= 2) x = x + __shfl_sync(0xffffffffu, x, (threadIdx.x & 31) ^ by);
    return x;
}
template <i32 FROM, i32 TO>
KILN_FUNCTION f32 lanes_max(f32 x) {
#pragma unroll
    for (i32 by = FROM; by < TO; by *= 2) x = fmaxf(x, __shfl_sync(0xffffffffu, x, (threadIdx.x & 31) ^ by));
    return x;
}

template <class Extents, class Place, class Q, class K, class V, class Masked, class Store>
KILN_FUNCTION void attention_query(
    AttentionWarps<Extents::WIDTH>& block, f32 scale, const Q& load_q, const K& load_k, const V& load_v,
    const Masked& masked, const Store& store
) {
    constexpr i32 LANES = ATTENTION_LANES, AT_ONCE = ATTENTION_KEYS, WARPS = ATTENTION_WARPS;
    constexpr i32 DEPTHS = (Extents::DEPTH + LANES - 1) / LANES, COLUMNS = (Extents::WIDTH + LANES - 1) / LANES;
    const f32 minus_infinity = __int_as_float(0xff800000);
    const Place batch = blockIdx.x / Extents::ROWS;
    const i32 row = (i32)(blockIdx.x % Extents::ROWS);
    const i32 lane = threadIdx.x % LANES, team = threadIdx.x / LANES, warp = threadIdx.x / 32;

    f32 q[DEPTHS], sums[COLUMNS];
#pragma unroll
    for (i32 d = 0; d < DEPTHS; d++) {
        const i32 depth = d * LANES + lane;
        q[d] = depth < Extents::DEPTH ? load_q(batch, row, depth) * scale : 0.0f;
    }
#pragma unroll
    for (i32 c = 0; c < COLUMNS; c++) sums[c] = 0.0f;
    // The largest score so far, from the least finite number on, so that differences are
    // numbers; and the sum of powers relative to it.
    f32 running_max = -3.4028235e38f, running_sum = 0.0f;

    const i32 end = Extents::CAUSAL && row + 1 < Extents::KEYS ? row + 1 : Extents::KEYS;
    for (i32 first = team; first - team < end; first += AT_ONCE * ATTENTION_TEAMS) {
        f32 scores[AT_ONCE], largest = running_max;
#pragma unroll
        for (i32 j = 0; j < AT_ONCE; j++) {
            const i32 key = first + j * ATTENTION_TEAMS;
            f32 x = 0.0f;
#pragma unroll
            for (i32 d = 0; d < DEPTHS; d++) {
                const i32 depth = d * LANES + lane;
                if (key < end && depth < Extents::DEPTH) x = multiply_add(q[d], load_k(batch, key, depth), x);
            }
            x = lanes_sum<1, LANES>(x);
            scores[j] = key < end ? masked(batch, row, key, x) : minus_infinity;
            largest = fmaxf(largest, scores[j]);
        }
        const f32 rescale = exponential(running_max - largest);
        running_max = largest;
        running_sum = running_sum * rescale;
#pragma unroll
        for (i32 j = 0; j < AT_ONCE; j++) {
            scores[j] = exponential(scores[j] - largest);
            running_sum = running_sum + scores[j];
        }
#pragma unroll
        for (i32 c = 0; c < COLUMNS; c++) {
            const i32 column = c * LANES + lane;
            sums[c] = sums[c] * rescale;
#pragma unroll
            for (i32 j = 0; j < AT_ONCE; j++) {
                const i32 key = first + j * ATTENTION_TEAMS;
                if (key < end && column < Extents::WIDTH) sums[c] = multiply_add(scores[j], load_v(batch, key, column), sums[c]);
            }
        }
    }

    // The teams of a warp meet, then the warps.
    const f32 of_warp = lanes_max<LANES, 32>(running_max), factor = exponential(running_max - of_warp);
    const f32 sum_of_warp = lanes_sum<LANES, 32>(running_sum * factor);
    const bool writes = threadIdx.x % 32 < LANES;
#pragma unroll
    for (i32 c = 0; c < COLUMNS; c++) {
        const i32 column = c * LANES + lane;
        const f32 x = lanes_sum<LANES, 32>(sums[c] * factor);
        if (writes && column < Extents::WIDTH) block.values[warp][column] = x;
    }
    if (threadIdx.x % 32 == 0) {
        block.largest[warp] = of_warp;
        block.sums[warp] = sum_of_warp;
    }
    __syncthreads();
    f32 largest = block.largest[0], all = 0.0f;
#pragma unroll
    for (i32 w = 1; w < WARPS; w++) largest = fmaxf(largest, block.largest[w]);
#pragma unroll
    for (i32 w = 0; w < WARPS; w++) all = multiply_add(block.sums[w], exponential(block.largest[w] - largest), all);
    // Where only a mask leaves nothing to look at, the result is zero.
    const f32 part = Extents::MASKED && all == 0.0f ? 0.0f : 1.0f / all;
    for (i32 column = threadIdx.x; column < Extents::WIDTH; column += 32 * WARPS) {
        f32 x = 0.0f;
#pragma unroll
        for (i32 w = 0; w < WARPS; w++) x = multiply_add(block.values[w][column], exponential(block.largest[w] - largest), x);
        store(batch, row, column, x * part);
    }
}
