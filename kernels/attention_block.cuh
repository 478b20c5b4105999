// What attention and its gradients share: a block of threads has so many rows of what
// is computed, its own, and goes through the others by 64 (keys, where its own are
// queries). Each thread has the scores of some of its own with some of the others, and
// so many columns of its rows of the result; `Shares` says which, and neighbouring
// threads share rows.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
// Own rows of a block: 32 or more.
constexpr i32 ATTENTION_TILE_ROWS = 64;
// TEMPLATE

constexpr i32 ATTENTION_THREADS = 2 * ATTENTION_TILE_ROWS;
// Others that a block looks at together.
constexpr i32 ATTENTION_TILE_OTHERS = 64;
static_assert(ATTENTION_TILE_ROWS % 16 == 0 && ATTENTION_THREADS >= ATTENTION_TILE_OTHERS, "whole warps");
// Columns of rows, and others to be summed, that are in shared memory at a time.
constexpr i32 ATTENTION_STEP = 16;
// Whether what comes next is read while what is there is multiplied: few threads would have
// too much of it for their registers.
constexpr bool ATTENTION_AHEAD = ATTENTION_TILE_ROWS >= 64;

// Four own rows with eight others.
struct AttentionExact {
    static constexpr i32 ROWS = 4, OTHERS = 8, SHARERS = 8;
    // A thread's rows, its others, and its columns of so many: by vec4 accesses where all have some.
    KILN_FUNCTION i32 row(i32 i) { return i * (ATTENTION_TILE_ROWS / ROWS) + threadIdx.x / SHARERS; }
    KILN_FUNCTION i32 along(i32 j) { return j * SHARERS + threadIdx.x % SHARERS; }
    template <i32 WIDTH>
    KILN_FUNCTION i32 column(i32 c) {
        return WIDTH % (4 * SHARERS) == 0 ? (c / 4 * SHARERS + threadIdx.x % SHARERS) * 4 + c % 4 : along(c);
    }
};

// What a block has in shared memory, for results so wide.
template <class S, i32 COLUMNS>
struct AttentionBlock {
    typedef S Shares;
    static constexpr i32 WIDTH = (COLUMNS + S::SHARERS - 1) / S::SHARERS * S::SHARERS;
    // Columns of a thread.
    static constexpr i32 OWN = WIDTH / S::SHARERS;
    // Columns more than there are, for threads that read vec4s to meet in different banks.
    static constexpr i32 MORE = 4;
    alignas(16) f32 own[ATTENTION_TILE_ROWS][ATTENTION_STEP + MORE];
    alignas(16) f32 others[ATTENTION_TILE_OTHERS][ATTENTION_STEP + MORE];
    alignas(16) f32 weights[ATTENTION_TILE_ROWS][ATTENTION_TILE_OTHERS + MORE];
    alignas(16) f32 values[ATTENTION_STEP][WIDTH];
};

// Four neighbours from a multiple of four on.
KILN_FUNCTION void attention_vec4(f32 (&x)[4], const f32* from) {
    const vec4<f32> all = *(const vec4<f32>*)from;
    x[0] = all.x;
    x[1] = all.y;
    x[2] = all.z;
    x[3] = all.w;
}

// Products of a block's own rows, `DEPTH` wide, with others. The functions give 0
// beyond the last row.
template <i32 DEPTH, class Block, class Own, class Others>
KILN_FUNCTION void attention_products(
    Block& block, const Own& load_own, const Others& load_others,
    f32 (&products)[Block::Shares::ROWS][Block::Shares::OTHERS]
) {
    typedef typename Block::Shares S;
    constexpr i32 HEIGHT = ATTENTION_TILE_ROWS, SIDE = ATTENTION_TILE_OTHERS, STEP = ATTENTION_STEP;
    constexpr i32 MOST = HEIGHT > SIDE ? HEIGHT : SIDE;
    // A single step would leave no loop around its products: the compiler then moves what
    // follows, such as loads of a mask, in among them, for which registers do not suffice.
    constexpr i32 UNROLLED = DEPTH > STEP ? STEP : STEP / 2;
#pragma unroll
    for (i32 i = 0; i < S::ROWS; i++) {
#pragma unroll
        for (i32 j = 0; j < S::OTHERS; j++) products[i][j] = 0.0f;
    }
    constexpr i32 EACH = MOST * STEP / ATTENTION_THREADS, AT_ONCE = ATTENTION_AHEAD ? EACH : 1;
    static_assert(MOST * STEP % ATTENTION_THREADS == 0, "as many for each");
    f32 own_next[EACH], others_next[EACH];
    const auto fetch_one = [&](i32 depth, i32 i, auto& own, auto& other) {
        const i32 n = i * ATTENTION_THREADS + threadIdx.x, row = n / STEP, d = depth + n % STEP;
        if (HEIGHT == MOST || row < HEIGHT) own = d < DEPTH ? load_own(row, d) : 0.0f;
        if (SIDE == MOST || row < SIDE) other = d < DEPTH ? load_others(row, d) : 0.0f;
    };
    const auto fetch = [&](i32 depth) {
#pragma unroll
        for (i32 i = 0; i < EACH; i++) fetch_one(depth, i, own_next[i], others_next[i]);
    };
    if (ATTENTION_AHEAD) fetch(0);
    for (i32 depth = 0; depth < DEPTH; depth += STEP) {
        // What was there has been read.
        __syncthreads();
#pragma unroll AT_ONCE
        for (i32 i = 0; i < EACH; i++) {
            const i32 n = i * ATTENTION_THREADS + threadIdx.x, row = n / STEP, d = n % STEP;
            if constexpr (!ATTENTION_AHEAD) fetch_one(depth, i, own_next[0], others_next[0]);
            if (HEIGHT == MOST || row < HEIGHT) block.own[row][d] = own_next[ATTENTION_AHEAD ? i : 0];
            if (SIDE == MOST || row < SIDE) block.others[row][d] = others_next[ATTENTION_AHEAD ? i : 0];
        }
        // All of it is there.
        __syncthreads();
        if (ATTENTION_AHEAD && depth + STEP < DEPTH) fetch(depth + STEP);
#pragma unroll(UNROLLED / 4)
        for (i32 d = 0; d < STEP; d += 4) {
            f32 x[S::ROWS][4], y[4];
#pragma unroll
            for (i32 i = 0; i < S::ROWS; i++) attention_vec4(x[i], &block.own[S::row(i)][d]);
#pragma unroll
            for (i32 j = 0; j < S::OTHERS; j++) {
                attention_vec4(y, &block.others[S::along(j)][d]);
#pragma unroll
                for (i32 n = 0; n < 4 * S::ROWS; n++) products[n / 4][j] = multiply_add(x[n / 4][n % 4], y[n % 4], products[n / 4][j]);
            }
        }
    }
}

// Adds what others have, times the block's weights. The function gives 0 beyond the
// last of them and the last column.
template <class Block, class Value>
KILN_FUNCTION void attention_add(Block& block, const Value& load_value, f32 (&sums)[Block::Shares::ROWS][Block::OWN]) {
    typedef typename Block::Shares S;
    constexpr i32 SIDE = ATTENTION_TILE_OTHERS, STEP = ATTENTION_STEP;
    constexpr i32 VALUES = STEP * Block::WIDTH, EACH = (VALUES + ATTENTION_THREADS - 1) / ATTENTION_THREADS;
    constexpr i32 AT_ONCE = ATTENTION_AHEAD ? EACH : 1;
    f32 next[EACH];
    const auto fetch_one = [&](i32 step, i32 i, auto& value) {
        const i32 n = i * ATTENTION_THREADS + threadIdx.x;
        if (VALUES % ATTENTION_THREADS == 0 || n < VALUES) value = load_value(step + n / Block::WIDTH, n % Block::WIDTH);
    };
    const auto fetch = [&](i32 step) {
#pragma unroll
        for (i32 i = 0; i < EACH; i++) fetch_one(step, i, next[i]);
    };
    if (ATTENTION_AHEAD) fetch(0);
    for (i32 step = 0; step < SIDE; step += STEP) {
        // Weights are there, and values have been read.
        __syncthreads();
#pragma unroll AT_ONCE
        for (i32 i = 0; i < EACH; i++) {
            const i32 n = i * ATTENTION_THREADS + threadIdx.x;
            if constexpr (!ATTENTION_AHEAD) fetch_one(step, i, next[0]);
            if (VALUES % ATTENTION_THREADS == 0 || n < VALUES) block.values[n / Block::WIDTH][n % Block::WIDTH] = next[ATTENTION_AHEAD ? i : 0];
        }
        // All values are there.
        __syncthreads();
        if (ATTENTION_AHEAD && step + STEP < SIDE) fetch(step + STEP);
        constexpr i32 FOUR = Block::WIDTH % (4 * S::SHARERS) == 0 ? 4 : 1;
#pragma unroll 1
        for (i32 t = 0; t < STEP; t += 4) {
            f32 w[S::ROWS][4];
#pragma unroll
            for (i32 i = 0; i < S::ROWS; i++) attention_vec4(w[i], &block.weights[S::row(i)][step + t]);
#pragma unroll
            for (i32 u = 0; u < 4; u++) {
#pragma unroll
                for (i32 c = 0; c < Block::OWN; c += FOUR) {
                    f32 v[4];
                    const f32* const from = &block.values[t + u][S::template column<Block::WIDTH>(c)];
                    if constexpr (FOUR == 4) attention_vec4(v, from);
                    else v[0] = *from;
#pragma unroll
                    for (i32 n = 0; n < FOUR * S::ROWS; n++) {
                        f32& sum = sums[n / FOUR][c + n % FOUR];
                        sum = multiply_add(w[n / FOUR][u], v[n % FOUR], sum);
                    }
                }
            }
        }
    }
}
