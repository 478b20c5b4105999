// The product of matrices by ordinary multiplications, through memory that a block
// shares: for the numbers that tensor cores would round, or do not know.
// A block computes a tile of the result, step by step of the depth. While a step is
// multiplied the next one's parts of the operands are read into registers.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
typedef f32 Element;
typedef i32 Place;
constexpr i32 BATCHES = 3, M = 37, N = 45, K = 29;
constexpr i32 ROWS = 64, COLUMNS = 64, STEP = 16, ROW_VEC4S = 2, COLUMN_VEC4S = 1;
// Whether an operand's depths are neighbours in memory.
constexpr bool A_K_MAJOR = true, B_K_MAJOR = false;
struct Product {
    const f32 *a, *b;
    f32* c;
    // Four depths of each of four rows; zero beyond the last depth, anything beyond the last row.
    KILN_METHOD void load_a(Place batch, Place row, Place depth, Element (&x)[4][4]) const {
        for (i32 i = 0; i < 16; i++) {
            const i32 k = depth + i % 4, m = minimum(row + i / 4, M - 1);
            x[i / 4][i % 4] = k < K ? a[(batch * M + m) * K + k] : 0;
        }
    }
    // Four columns at each of four depths; zero beyond the last depth, anything beyond the last column.
    KILN_METHOD void load_b(Place batch, Place depth, Place column, Element (&x)[4][4]) const {
        for (i32 i = 0; i < 16; i++) {
            const i32 k = depth + i / 4, n = minimum(column + i % 4, N - 1);
            x[i / 4][i % 4] = k < K ? b[(batch * K + k) * N + n] : 0;
        }
    }
    // Four columns of a row of the result; those beyond the last are dropped.
    KILN_METHOD void store_c(Place batch, Place row, Place column, const Element (&x)[4]) const {
        for (i32 i = 0; i < minimum(4, N - column); i++) c[(batch * M + row) * N + column + i] = x[i];
    }
};
// TEMPLATE

// Vec4s of rows and of columns in a tile, and threads along them.
constexpr i32 HIGH = ROWS / 4;
constexpr i32 WIDE = COLUMNS / 4;
constexpr i32 DEEP = STEP / 4;
constexpr i32 DOWN = HIGH / ROW_VEC4S;
constexpr i32 ACROSS = WIDE / COLUMN_VEC4S;
constexpr i32 THREADS = DOWN * ACROSS;
constexpr i32 ROW_TILES = (M + ROWS - 1) / ROWS;
constexpr i32 COLUMN_TILES = (N + COLUMNS - 1) / COLUMNS;
constexpr i32 STEPS = (K + STEP - 1) / STEP;
// Blocks of four by four elements of the operands, and those of a thread.
constexpr i32 A_BLOCKS = HIGH * DEEP;
constexpr i32 B_BLOCKS = WIDE * DEEP;
constexpr i32 BLOCKS_PER_THREAD = (A_BLOCKS + B_BLOCKS + THREADS - 1) / THREADS;
// Vec4s of elements in a stage: of the first operand's rows at each depth, then of
// the second's columns.
constexpr i32 STAGE = STEP * (HIGH + WIDE);
static_assert(DOWN % 4 == 0 && ACROSS % 8 == 0, "warps of four by eight threads");

typedef vec4<Element> Vec4;
typedef Element Block[4][4];

// Where a four lies. Fours change places from depth to depth, so that those that a warp
// writes at once are in different banks.
template <i32 VEC4S>
KILN_FUNCTION i32 place(i32 depth, i32 at) {
    return depth * VEC4S + (at ^ (depth / 4 * 2 & (VEC4S < 8 ? VEC4S : 8) - 1));
}

// A block's four of rows or columns, and its first depth.
template <i32 VEC4S, bool K_MAJOR>
KILN_FUNCTION void block_of(i32 block, i32& at, i32& depth) {
    at = K_MAJOR ? block / DEEP : block % VEC4S;
    depth = (K_MAJOR ? block % DEEP : block / VEC4S) * 4;
}

template <class P>
KILN_FUNCTION void fetch(const P& own, Block (&blocks)[BLOCKS_PER_THREAD], Place batch, Place row, Place depth, Place column) {
#pragma unroll
    for (i32 iteration = 0; iteration < BLOCKS_PER_THREAD; iteration++) {
        const i32 block = iteration * THREADS + threadIdx.x;
        i32 at, deep;
        if (block < A_BLOCKS) {
            block_of<HIGH, A_K_MAJOR>(block, at, deep);
            own.load_a(batch, row + at * 4, depth + deep, blocks[iteration]);
        } else if (block < A_BLOCKS + B_BLOCKS) {
            block_of<WIDE, B_K_MAJOR>(block - A_BLOCKS, at, deep);
            own.load_b(batch, depth + deep, column + at * 4, blocks[iteration]);
        }
    }
}

KILN_FUNCTION void put(Vec4* stage, const Block (&blocks)[BLOCKS_PER_THREAD]) {
#pragma unroll
    for (i32 iteration = 0; iteration < BLOCKS_PER_THREAD; iteration++) {
        const Block& x = blocks[iteration];
        const i32 block = iteration * THREADS + threadIdx.x;
        i32 at, deep;
        if (block < A_BLOCKS) {
            block_of<HIGH, A_K_MAJOR>(block, at, deep);
#pragma unroll
            for (i32 i = 0; i < 4; i++) stage[place<HIGH>(deep + i, at)] = {x[0][i], x[1][i], x[2][i], x[3][i]};
        } else if (block < A_BLOCKS + B_BLOCKS) {
            block_of<WIDE, B_K_MAJOR>(block - A_BLOCKS, at, deep);
#pragma unroll
            for (i32 i = 0; i < 4; i++) stage[STEP * HIGH + place<WIDE>(deep + i, at)] = {x[i][0], x[i][1], x[i][2], x[i][3]};
        }
    }
}

typedef Element Sums[ROW_VEC4S * 4][COLUMN_VEC4S][4];

KILN_FUNCTION void multiply_add(Sums& sums, i32 row, Element x, i32 column, const Vec4& y) {
    sums[row][column][0] = multiply_add(x, y.x, sums[row][column][0]);
    sums[row][column][1] = multiply_add(x, y.y, sums[row][column][1]);
    sums[row][column][2] = multiply_add(x, y.z, sums[row][column][2]);
    sums[row][column][3] = multiply_add(x, y.w, sums[row][column][3]);
}

KILN_FUNCTION void multiply_step(Sums& sums, const Vec4* stage, i32 down, i32 across) {
#pragma unroll
    for (i32 k = 0; k < STEP; k++) {
        Vec4 y[COLUMN_VEC4S];
#pragma unroll
        for (i32 q = 0; q < COLUMN_VEC4S; q++) y[q] = stage[STEP * HIGH + place<WIDE>(k, across + q * ACROSS)];
#pragma unroll
        for (i32 r = 0; r < ROW_VEC4S; r++) {
            const Vec4 x = stage[place<HIGH>(k, down + r * DOWN)];
#pragma unroll
            for (i32 q = 0; q < COLUMN_VEC4S; q++) {
                multiply_add(sums, r * 4, x.x, q, y[q]);
                multiply_add(sums, r * 4 + 1, x.y, q, y[q]);
                multiply_add(sums, r * 4 + 2, x.z, q, y[q]);
                multiply_add(sums, r * 4 + 3, x.w, q, y[q]);
            }
        }
    }
}

template <class P>
KILN_FUNCTION void product(const P& own) {
    KILN_SHARED(shared);
    Vec4* const stages = (Vec4*)shared;
    i32 batch, tile_row, tile_column;
    tile_of(blockIdx.x, ROW_TILES, COLUMN_TILES, batch, tile_row, tile_column);
    const Place row = (Place)tile_row * ROWS, column = (Place)tile_column * COLUMNS;
    // A warp's threads are four by eight.
    const i32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const i32 down = warp / (ACROSS / 8) * 4 + lane / 8, across = warp % (ACROSS / 8) * 8 + lane % 8;

    Sums sums;
#pragma unroll
    for (i32 i = 0; i < ROW_VEC4S * COLUMN_VEC4S * 16; i++) sums[i / 4 / COLUMN_VEC4S][i / 4 % COLUMN_VEC4S][i % 4] = 0;
    Block blocks[BLOCKS_PER_THREAD];
    fetch(own, blocks, batch, row, 0, column);
    put(stages, blocks);
    __syncthreads();
#pragma unroll 1
    for (i32 step = 0; step < STEPS; step++) {
        const bool is_last = step + 1 == STEPS;
        if (!is_last) fetch(own, blocks, batch, row, (Place)(step + 1) * STEP, column);
        multiply_step(sums, stages + step % 2 * STAGE, down, across);
        if (!is_last) put(stages + (step + 1) % 2 * STAGE, blocks);
        __syncthreads();
    }
#pragma unroll
    for (i32 r = 0; r < ROW_VEC4S * 4; r++) {
#pragma unroll
        for (i32 q = 0; q < COLUMN_VEC4S; q++) {
            const Place to_row = row + (down + r / 4 * DOWN) * 4 + r % 4, to_column = column + (across + q * ACROSS) * 4;
            if (to_row < M && to_column < N) own.store_c(batch, to_row, to_column, sums[r][q]);
        }
    }
}
