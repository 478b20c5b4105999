// What attention and its gradients share: a block of threads has 64 rows of what is
// computed, its own, and goes through the others by 64 (keys, where its own are
// queries). Each thread has the scores of four of its own with eight others, and so
// many columns of four rows of the result. Eight neighbouring threads share rows.

constexpr i32 ATTENTION_THREADS = 128;
// Own rows of a block, and others that it looks at together.
constexpr i32 ATTENTION_SIDE = 64;
// Columns of rows, and others to be summed, that are in shared memory at a time.
constexpr i32 ATTENTION_STEP = 16;
// Threads that share rows.
constexpr i32 ATTENTION_SHARERS = 8;
// Own rows of a thread.
constexpr i32 ATTENTION_ROWS = ATTENTION_SIDE / (ATTENTION_THREADS / ATTENTION_SHARERS);
// Others of a thread.
constexpr i32 ATTENTION_OTHERS = ATTENTION_SIDE / ATTENTION_SHARERS;

// What a block has in shared memory, for results so wide.
template <i32 COLUMNS>
struct AttentionBlock {
    // Columns of a thread.
    static constexpr i32 OWN = (COLUMNS + ATTENTION_SHARERS - 1) / ATTENTION_SHARERS;
    static constexpr i32 WIDTH = OWN * ATTENTION_SHARERS;
    // A column more than there are, for threads to meet in different banks.
    f32 own[ATTENTION_SIDE][ATTENTION_STEP + 1];
    f32 others[ATTENTION_SIDE][ATTENTION_STEP + 1];
    f32 weights[ATTENTION_SIDE][ATTENTION_SIDE + 1];
    f32 values[ATTENTION_STEP][WIDTH];
};

// Products of a block's own rows, `DEPTH` wide, with others. The functions give 0
// beyond the last row.
template <i32 DEPTH, class Block, class Own, class Others>
KILN_FUNCTION void attention_products(
    Block& block, const Own& load_own, const Others& load_others, f32 (&products)[ATTENTION_ROWS][ATTENTION_OTHERS]
) {
    constexpr i32 SIDE = ATTENTION_SIDE, STEP = ATTENTION_STEP;
    const i32 thread = threadIdx.x, sharer = thread % ATTENTION_SHARERS;
    const i32 own_row = thread / ATTENTION_SHARERS * ATTENTION_ROWS;
#pragma unroll
    for (i32 i = 0; i < ATTENTION_ROWS; i++) {
#pragma unroll
        for (i32 j = 0; j < ATTENTION_OTHERS; j++) products[i][j] = 0.0f;
    }
    for (i32 depth = 0; depth < DEPTH; depth += STEP) {
        // What was there has been read.
        __syncthreads();
        for (i32 n = thread; n < SIDE * STEP; n += ATTENTION_THREADS) {
            const i32 row = n / STEP, d = n % STEP;
            block.own[row][d] = depth + d < DEPTH ? load_own(row, depth + d) : 0.0f;
            block.others[row][d] = depth + d < DEPTH ? load_others(row, depth + d) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (i32 d = 0; d < STEP; d++) {
            f32 x[ATTENTION_ROWS], y[ATTENTION_OTHERS];
#pragma unroll
            for (i32 i = 0; i < ATTENTION_ROWS; i++) x[i] = block.own[own_row + i][d];
#pragma unroll
            for (i32 j = 0; j < ATTENTION_OTHERS; j++) y[j] = block.others[j * ATTENTION_SHARERS + sharer][d];
#pragma unroll
            for (i32 i = 0; i < ATTENTION_ROWS; i++) {
#pragma unroll
                for (i32 j = 0; j < ATTENTION_OTHERS; j++) products[i][j] = multiply_add(x[i], y[j], products[i][j]);
            }
        }
    }
}

// Adds what others have, times the block's weights. The function gives 0 beyond the
// last of them and the last column.
template <class Block, class Value>
KILN_FUNCTION void attention_add(Block& block, const Value& load_value, f32 (&sums)[ATTENTION_ROWS][Block::OWN]) {
    constexpr i32 SIDE = ATTENTION_SIDE, STEP = ATTENTION_STEP;
    const i32 thread = threadIdx.x, sharer = thread % ATTENTION_SHARERS;
    const i32 own_row = thread / ATTENTION_SHARERS * ATTENTION_ROWS;
    for (i32 step = 0; step < SIDE; step += STEP) {
        // Weights are there, and values have been read.
        __syncthreads();
        for (i32 n = thread; n < STEP * Block::WIDTH; n += ATTENTION_THREADS) {
            const i32 t = n / Block::WIDTH, column = n % Block::WIDTH;
            block.values[t][column] = load_value(step + t, column);
        }
        __syncthreads();
#pragma unroll 4
        for (i32 t = 0; t < STEP; t++) {
            f32 w[ATTENTION_ROWS];
#pragma unroll
            for (i32 i = 0; i < ATTENTION_ROWS; i++) w[i] = block.weights[own_row + i][step + t];
#pragma unroll
            for (i32 c = 0; c < Block::OWN; c++) {
                const f32 v = block.values[t][c * ATTENTION_SHARERS + sharer];
#pragma unroll
                for (i32 i = 0; i < ATTENTION_ROWS; i++) sums[i][c] = multiply_add(w[i], v, sums[i][c]);
            }
        }
    }
}
