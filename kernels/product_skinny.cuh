// The product of a matrix of few rows and a large one, which is as fast as the large one
// is read: each of its elements goes from memory to one thread, which multiplies it by all
// rows. The threads of a block share its columns and, side by side, its depth; their sums
// meet at the end, always in the same order.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
typedef f32 Element;
typedef i32 Place;
constexpr i32 BATCHES = 3, M = 7, N = 45, K = 529;
constexpr i32 ROWS = 8, COLUMNS = 32, STEP = 256;
// Whether an operand's depths are neighbours in memory.
constexpr bool A_K_MAJOR = true, B_K_MAJOR = false;
// Threads along the depth, and vec4s of depths that each takes at a time.
constexpr i32 DEEP = 32, K_UNROLL = 2;
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

// Threads along the columns, four of which each has.
constexpr i32 ACROSS = COLUMNS / 4;
constexpr i32 THREADS = ACROSS * DEEP;
constexpr i32 ROW_TILES = (M + ROWS - 1) / ROWS;
constexpr i32 COLUMN_TILES = (N + COLUMNS - 1) / COLUMNS;
constexpr i32 STEPS = (K + STEP - 1) / STEP;
// Vec4s of depths in a step, those of a row in shared memory; blocks of four of them.
constexpr i32 VEC4S = DEEP * K_UNROLL;
constexpr i32 A_BLOCKS = (ROWS + 3) / 4 * VEC4S;
constexpr i32 STAGE = ROWS * VEC4S;
static_assert(STEP == VEC4S * 4, "a step is what all threads take");
static_assert((DEEP & (DEEP - 1)) == 0, "halves of halves");

typedef vec4<Element> Vec4;
typedef Element Block[4][4];
typedef Vec4 Sums[ROWS];

// Puts a step's depths of all rows into shared memory.
template <class P>
KILN_FUNCTION void stage_rows(const P& own, Vec4* stage, Place batch, Place row, Place depth) {
#pragma unroll
    for (i32 block = threadIdx.x; block < A_BLOCKS; block += THREADS) {
        constexpr i32 HIGH = (ROWS + 3) / 4;
        const i32 high = A_K_MAJOR ? block / VEC4S : block % HIGH;
        const i32 deep = A_K_MAJOR ? block % VEC4S : block / HIGH;
        Block x;
        own.load_a(batch, row + high * 4, depth + deep * 4, x);
#pragma unroll
        for (i32 i = 0; i < (ROWS < 4 ? ROWS : 4); i++) stage[(high * 4 + i) * VEC4S + deep] = {x[i][0], x[i][1], x[i][2], x[i][3]};
    }
}

// A row's sums, and products added to them.
KILN_FUNCTION void multiply_add(Vec4& sum, Element x, const Element (&y)[4]) {
    sum.x = multiply_add(x, y[0], sum.x);
    sum.y = multiply_add(x, y[1], sum.y);
    sum.z = multiply_add(x, y[2], sum.z);
    sum.w = multiply_add(x, y[3], sum.w);
}

KILN_FUNCTION void multiply_block(Sums& sums, const Vec4* stage, const Block& y) {
#pragma unroll
    for (i32 r = 0; r < ROWS; r++) {
        const Vec4 x = stage[r * VEC4S];
        multiply_add(sums[r], x.x, y[0]);
        multiply_add(sums[r], x.y, y[1]);
        multiply_add(sums[r], x.z, y[2]);
        multiply_add(sums[r], x.w, y[3]);
    }
}

// Adds the sums of threads along the depth up, the second half's to the first's, and so on.
KILN_FUNCTION void gather_sums(Sums& sums, Vec4* shared, i32 deep, i32 across) {
#pragma unroll
    for (i32 half = DEEP / 2; half > 0; half /= 2) {
        __syncthreads();
        Vec4* const place = shared + deep % half * ACROSS + across;
        if (deep >= half && deep < 2 * half) {
#pragma unroll
            for (i32 r = 0; r < ROWS; r++) place[r * half * ACROSS] = sums[r];
        }
        __syncthreads();
        if (deep < half) {
#pragma unroll
            for (i32 r = 0; r < ROWS; r++) {
                const Vec4 other = place[r * half * ACROSS];
                const Element y[4] = {other.x, other.y, other.z, other.w};
                multiply_add(sums[r], 1, y);
            }
        }
    }
}

template <class P>
KILN_FUNCTION void product(const P& own) {
    KILN_SHARED(bytes);
    Vec4* const shared = (Vec4*)bytes;
    i32 batch, tile_row, tile_column;
    tile_of(blockIdx.x, ROW_TILES, COLUMN_TILES, batch, tile_row, tile_column);
    const Place row = (Place)tile_row * ROWS, column = (Place)tile_column * COLUMNS;
    // Neighbouring threads read neighbours in memory.
    const i32 deep = B_K_MAJOR ? threadIdx.x % DEEP : threadIdx.x / ACROSS;
    const i32 across = B_K_MAJOR ? threadIdx.x / DEEP : threadIdx.x % ACROSS;

    Sums sums;
#pragma unroll
    for (i32 r = 0; r < ROWS; r++) sums[r] = {0, 0, 0, 0};
#pragma unroll 1
    for (i32 step = 0; step < STEPS; step++) {
        const Place depth = (Place)step * STEP;
        Block y[K_UNROLL];
#pragma unroll
        for (i32 iteration = 0; iteration < K_UNROLL; iteration++) own.load_b(batch, depth + (iteration * DEEP + deep) * 4, column + across * 4, y[iteration]);
        // Two stages: one may be read still while the other is written.
        Vec4* const stage = shared + step % 2 * STAGE;
        stage_rows(own, stage, batch, row, depth);
        __syncthreads();
#pragma unroll
        for (i32 iteration = 0; iteration < K_UNROLL; iteration++) multiply_block(sums, stage + iteration * DEEP + deep, y[iteration]);
    }
    gather_sums(sums, shared, deep, across);
    __syncthreads();
    if (deep == 0) {
#pragma unroll
        for (i32 r = 0; r < ROWS; r++) shared[r * ACROSS + across] = sums[r];
    }
    __syncthreads();
#pragma unroll 1
    for (i32 i = threadIdx.x; i < ROWS * ACROSS; i += THREADS) {
        const Place to_row = row + i / ACROSS, to_column = column + i % ACROSS * 4;
        const Element x[4] = {shared[i].x, shared[i].y, shared[i].z, shared[i].w};
        if (to_row < M && to_column < N) own.store_c(batch, to_row, to_column, x);
    }
}
