// Attention whose scores are never in global memory, by the online softmax
// (Milakov and Gimelshein 2018; Dao et al. 2022). A block of threads has 64
// queries and goes through the keys by 64; each thread has the scores of four
// queries with eight keys, and so many columns of four rows of the result. Eight
// neighbouring threads share the queries.
//
// What it computes on is the caller's: `Extents` has the sizes as constants, the
// functions give elements and take results.

constexpr i32 ATTENTION_THREADS = 128;
// Queries of a block, and keys that it looks at together.
constexpr i32 ATTENTION_SIDE = 64;
// Depths, and keys of values, that are in shared memory at a time.
constexpr i32 ATTENTION_STEP = 16;
// Threads that share queries.
constexpr i32 ATTENTION_SHARERS = 8;
// Queries of a thread.
constexpr i32 ATTENTION_ROWS = ATTENTION_SIDE / (ATTENTION_THREADS / ATTENTION_SHARERS);
// Keys of a thread.
constexpr i32 ATTENTION_KEYS = ATTENTION_SIDE / ATTENTION_SHARERS;

// What a block has in shared memory, for so many columns of the values.
template <i32 COLUMNS>
struct AttentionBlock {
    // Columns of a thread.
    static constexpr i32 OWN = (COLUMNS + ATTENTION_SHARERS - 1) / ATTENTION_SHARERS;
    static constexpr i32 WIDTH = OWN * ATTENTION_SHARERS;
    // A column more than there are, for threads to meet in different banks.
    f32 queries[ATTENTION_SIDE][ATTENTION_STEP + 1];
    f32 keys[ATTENTION_SIDE][ATTENTION_STEP + 1];
    f32 powers[ATTENTION_SIDE][ATTENTION_SIDE + 1];
    f32 values[ATTENTION_STEP][WIDTH];
};

// The largest, or the sum, of what the eight threads have that share queries.
KILN_FUNCTION f32 largest_of_sharers(f32 x) {
    const i32 lane = threadIdx.x & 31;
#pragma unroll
    for (i32 by = 1; by < ATTENTION_SHARERS; by *= 2) x = fmaxf(x, __shfl_sync(0xffffffffu, x, lane ^ by));
    return x;
}
KILN_FUNCTION f32 sum_of_sharers(f32 x) {
    const i32 lane = threadIdx.x & 31;
#pragma unroll
    for (i32 by = 1; by < ATTENTION_SHARERS; by *= 2) x = x + __shfl_sync(0xffffffffu, x, lane ^ by);
    return x;
}

template <class Extents, class Place, class Q, class K, class V, class Masked, class Store>
KILN_FUNCTION void attention(
    AttentionBlock<Extents::COLUMNS>& block, f32 scale, const Q& load_q, const K& load_k, const V& load_v,
    const Masked& masked, const Store& store_o
) {
    using Block = AttentionBlock<Extents::COLUMNS>;
    constexpr i32 SIDE = ATTENTION_SIDE, STEP = ATTENTION_STEP;
    constexpr i32 TILES = (Extents::ROWS + SIDE - 1) / SIDE;
    const f32 nowhere = __int_as_float(0xff800000);
    const i32 thread = threadIdx.x, sharer = thread % ATTENTION_SHARERS;
    const i32 own_row = thread / ATTENTION_SHARERS * ATTENTION_ROWS;
    // Neighbours share the keys and values of a batch.
    const Place batch = blockIdx.x / TILES;
    const i32 first = (i32)(blockIdx.x % TILES) * SIDE;

    f32 sums[ATTENTION_ROWS][Block::OWN];
    // The largest score so far, from the least finite number on, so that
    // differences are numbers; and this thread's part of the sum of powers.
    f32 most[ATTENTION_ROWS], total[ATTENTION_ROWS];
#pragma unroll
    for (i32 i = 0; i < ATTENTION_ROWS; i++) {
        most[i] = -3.4028235e38f;
        total[i] = 0.0f;
#pragma unroll
        for (i32 c = 0; c < Block::OWN; c++) sums[i][c] = 0.0f;
    }

    // No query of the block looks beyond the last one's own place.
    const i32 end = Extents::CAUSAL && first + SIDE < Extents::KEYS ? first + SIDE : Extents::KEYS;
    for (i32 key = 0; key < end; key += SIDE) {
        f32 scores[ATTENTION_ROWS][ATTENTION_KEYS];
#pragma unroll
        for (i32 i = 0; i < ATTENTION_ROWS; i++) {
#pragma unroll
            for (i32 j = 0; j < ATTENTION_KEYS; j++) scores[i][j] = 0.0f;
        }
        for (i32 depth = 0; depth < Extents::DEPTH; depth += STEP) {
            // What was there has been read.
            __syncthreads();
            for (i32 n = thread; n < SIDE * STEP; n += ATTENTION_THREADS) {
                const i32 row = n / STEP, d = n % STEP;
                const bool inside = depth + d < Extents::DEPTH;
                block.queries[row][d] = inside && first + row < Extents::ROWS ? load_q(batch, first + row, depth + d) : 0.0f;
                block.keys[row][d] = inside && key + row < Extents::KEYS ? load_k(batch, key + row, depth + d) : 0.0f;
            }
            __syncthreads();
#pragma unroll
            for (i32 d = 0; d < STEP; d++) {
                f32 q[ATTENTION_ROWS], k[ATTENTION_KEYS];
#pragma unroll
                for (i32 i = 0; i < ATTENTION_ROWS; i++) q[i] = block.queries[own_row + i][d];
#pragma unroll
                for (i32 j = 0; j < ATTENTION_KEYS; j++) k[j] = block.keys[j * ATTENTION_SHARERS + sharer][d];
#pragma unroll
                for (i32 i = 0; i < ATTENTION_ROWS; i++) {
#pragma unroll
                    for (i32 j = 0; j < ATTENTION_KEYS; j++) scores[i][j] = multiply_add(q[i], k[j], scores[i][j]);
                }
            }
        }
#pragma unroll
        for (i32 i = 0; i < ATTENTION_ROWS; i++) {
            const i32 row = first + own_row + i;
            f32 largest = most[i];
#pragma unroll
            for (i32 j = 0; j < ATTENTION_KEYS; j++) {
                const i32 place = key + j * ATTENTION_SHARERS + sharer;
                const bool seen = place < Extents::KEYS && row < Extents::ROWS && !(Extents::CAUSAL && place > row);
                f32 x = scores[i][j] * scale;
                if (seen) x = masked(batch, row, place, x);
                scores[i][j] = seen ? x : nowhere;
                largest = fmaxf(largest, scores[i][j]);
            }
            largest = largest_of_sharers(largest);
            const f32 shrink = exponential(most[i] - largest);
            most[i] = largest;
            total[i] = total[i] * shrink;
#pragma unroll
            for (i32 c = 0; c < Block::OWN; c++) sums[i][c] = sums[i][c] * shrink;
#pragma unroll
            for (i32 j = 0; j < ATTENTION_KEYS; j++) {
                const f32 power = exponential(scores[i][j] - largest);
                block.powers[own_row + i][j * ATTENTION_SHARERS + sharer] = power;
                total[i] = total[i] + power;
            }
        }
        for (i32 step = 0; step < SIDE; step += STEP) {
            // Powers are there, and values have been read.
            __syncthreads();
            for (i32 n = thread; n < STEP * Block::WIDTH; n += ATTENTION_THREADS) {
                const i32 t = n / Block::WIDTH, column = n % Block::WIDTH, place = key + step + t;
                const bool inside = place < Extents::KEYS && column < Extents::COLUMNS;
                block.values[t][column] = inside ? load_v(batch, place, column) : 0.0f;
            }
            __syncthreads();
#pragma unroll 4
            for (i32 t = 0; t < STEP; t++) {
                f32 p[ATTENTION_ROWS];
#pragma unroll
                for (i32 i = 0; i < ATTENTION_ROWS; i++) p[i] = block.powers[own_row + i][step + t];
#pragma unroll
                for (i32 c = 0; c < Block::OWN; c++) {
                    const f32 v = block.values[t][c * ATTENTION_SHARERS + sharer];
#pragma unroll
                    for (i32 i = 0; i < ATTENTION_ROWS; i++) sums[i][c] = multiply_add(p[i], v, sums[i][c]);
                }
            }
        }
    }
#pragma unroll
    for (i32 i = 0; i < ATTENTION_ROWS; i++) {
        const i32 row = first + own_row + i;
        const f32 all = sum_of_sharers(total[i]);
        // Where only a mask leaves nothing to look at, the result is zero.
        const f32 part = Extents::MASKED && all == 0.0f ? 0.0f : 1.0f / all;
#pragma unroll
        for (i32 c = 0; c < Block::OWN; c++) {
            const i32 column = c * ATTENTION_SHARERS + sharer;
            if (row < Extents::ROWS && column < Extents::COLUMNS) store_o(batch, row, column, sums[i][c] * part);
        }
    }
}
