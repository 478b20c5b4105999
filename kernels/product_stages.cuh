// How the parts of a product's operands come to shared memory, and its sums leave it:
// what the templates for tensor cores have in common. It stands between a template's
// header and the template.

// Elements of a chunk of 16 bytes.
constexpr i32 CHUNK = 16 / sizeof(Stored);
constexpr i32 ROW_TILES = (M + ROWS - 1) / ROWS;
constexpr i32 COLUMN_TILES = (N + COLUMNS - 1) / COLUMNS;
constexpr i32 STEPS = (K + STEP - 1) / STEP;

// How a step's part of an operand lies: neighbours in lines, along the depth or along
// the operand's rows (columns of the second). Lines of more than 128 bytes are in
// blocks of lines of 128 bytes.
template <bool K_MAJOR, i32 EXTENT>
struct Layout {
    static constexpr i32 LINES = K_MAJOR ? EXTENT : STEP;
    static constexpr i32 LINE = K_MAJOR ? STEP : EXTENT;
    static constexpr i32 CHUNKS = LINE / CHUNK;
    static constexpr i32 WIDTH = CHUNKS < 8 ? CHUNKS : 8;
    static constexpr i32 ELEMENTS = LINES * LINE;
    // Where a chunk lies. Pieces change places from line to line, so that those that a
    // warp reads at once are in different banks.
    static KILN_METHOD i32 at(i32 line, i32 chunk) {
        const bool by_word = sizeof(Stored) == 4 && !K_MAJOR;
        const i32 swizzle = by_word ? 2 * line : line / (8 / WIDTH);
        return ((chunk / WIDTH * LINES + line) * WIDTH + (chunk % WIDTH ^ (swizzle & (WIDTH - 1)))) * CHUNK;
    }
};
typedef Layout<A_K_MAJOR, ROWS> LayoutA;
typedef Layout<B_K_MAJOR, COLUMNS> LayoutB;
constexpr i32 STAGE = LayoutA::ELEMENTS + LayoutB::ELEMENTS;

// Starts copies of the chunks of a part, each from where `chunk_at` says that the one at a
// line and a place along it begins.
template <class L, class ChunkAt>
KILN_FUNCTION void start_copies(Stored* part, const ChunkAt& chunk_at) {
#pragma unroll
    for (i32 i = 0; i < (L::LINES * L::CHUNKS + THREADS - 1) / THREADS; i++) {
        const i32 number = i * THREADS + threadIdx.x, line = number / L::CHUNKS, chunk = number % L::CHUNKS;
        if (line >= L::LINES) break;
        bool is_inside;
        const Stored* from = chunk_at(line, chunk * CHUNK, is_inside);
        cp_async(part + L::at(line, chunk), from, is_inside);
    }
}

// Operands that go through registers: four by four elements at a time, packed.
constexpr i32 WORDS = sizeof(Stored);
typedef u32 Block[4][WORDS];
template <class L>
constexpr i32 blocks() {
    return (L::ELEMENTS / 16 + THREADS - 1) / THREADS;
}

template <class S>
KILN_FUNCTION void pack(u32 (&words)[WORDS], f32 x, f32 y, f32 z, f32 w) {
    if constexpr (sizeof(S) == 2) {
        words[0] = stored(x) | stored(y) << 16;
        words[1] = stored(z) | stored(w) << 16;
    } else {
        words[0] = stored(x);
        words[1] = stored(y);
        words[2] = stored(z);
        words[3] = stored(w);
    }
}

// The first line, and the place along it, of the block that a thread's iteration loads;
// none beyond the end.
template <class L>
KILN_FUNCTION bool block_of(i32 iteration, i32& line, i32& along) {
    const i32 block = iteration * THREADS + threadIdx.x;
    line = block / (L::LINE / 4) * 4;
    along = block % (L::LINE / 4) * 4;
    return line < L::LINES;
}

// Reads blocks by `load`, which gives them for a line and a place along it.
template <class L, bool LINES_FIRST, class Load>
KILN_FUNCTION void fetch(Block (&all)[blocks<L>()], const Load& load) {
#pragma unroll
    for (i32 iteration = 0; iteration < blocks<L>(); iteration++) {
        i32 line, along;
        if (!block_of<L>(iteration, line, along)) break;
        Element x[4][4];
        load(line, along, x);
#pragma unroll
        for (i32 i = 0; i < 4; i++) {
            if constexpr (LINES_FIRST) {
                pack<Stored>(all[iteration][i], x[i][0], x[i][1], x[i][2], x[i][3]);
            } else {
                pack<Stored>(all[iteration][i], x[0][i], x[1][i], x[2][i], x[3][i]);
            }
        }
    }
}

template <class L>
KILN_FUNCTION void put(Stored* part, const Block (&all)[blocks<L>()]) {
#pragma unroll
    for (i32 iteration = 0; iteration < blocks<L>(); iteration++) {
        i32 line, along;
        if (!block_of<L>(iteration, line, along)) break;
#pragma unroll
        for (i32 i = 0; i < 4; i++) {
            const u32(&words)[WORDS] = all[iteration][i];
            Stored* to = part + L::at(line + i, along / CHUNK) + along % CHUNK;
            if constexpr (WORDS == 2) {
                *(u64*)to = (u64)words[1] << 32 | words[0];
            } else {
                *(vec4<u32>*)to = {words[0], words[1], words[2], words[3]};
            }
        }
    }
}

// A block's tile, and what it has under way.
template <class P>
struct Pipeline {
    const P& own;
    Stored* parts;
    Place batch, row, column;
    Block a_next[blocks<LayoutA>()], b_next[blocks<LayoutB>()];

    KILN_METHOD Pipeline(const P& own, Stored* parts) : own(own), parts(parts) {
        i32 tile_batch, tile_row, tile_column;
        tile_of(blockIdx.x, ROW_TILES, COLUMN_TILES, tile_batch, tile_row, tile_column);
        batch = tile_batch;
        row = (Place)tile_row * ROWS;
        column = (Place)tile_column * COLUMNS;
    }
    KILN_METHOD Stored* a_part(i32 step) const { return parts + step % STAGES * STAGE; }
    KILN_METHOD Stored* b_part(i32 step) const { return a_part(step) + LayoutA::ELEMENTS; }

    // Starts bringing a step's parts, but for those that the device copies itself.
    KILN_METHOD void start(i32 step) {
        const Place depth = (Place)step * STEP;
        if constexpr (A_BY_TMA) {
        } else if constexpr (A_IS_ASYNC) {
            start_copies<LayoutA>(a_part(step), [&](i32 line, i32 along, bool& is_inside) {
                return own.chunk_a(batch, row + (A_K_MAJOR ? line : along), depth + (A_K_MAJOR ? along : line), is_inside);
            });
        } else {
            fetch<LayoutA, A_K_MAJOR>(a_next, [&](i32 line, i32 along, Element(&x)[4][4]) {
                own.load_a(batch, row + (A_K_MAJOR ? line : along), depth + (A_K_MAJOR ? along : line), x);
            });
        }
        if constexpr (B_BY_TMA) {
        } else if constexpr (B_IS_ASYNC) {
            start_copies<LayoutB>(b_part(step), [&](i32 line, i32 along, bool& is_inside) {
                return own.chunk_b(batch, depth + (B_K_MAJOR ? along : line), column + (B_K_MAJOR ? line : along), is_inside);
            });
        } else {
            fetch<LayoutB, !B_K_MAJOR>(b_next, [&](i32 line, i32 along, Element(&x)[4][4]) {
                own.load_b(batch, depth + (B_K_MAJOR ? along : line), column + (B_K_MAJOR ? line : along), x);
            });
        }
    }

    // Puts down what went through registers.
    KILN_METHOD void finish(i32 step) {
        if constexpr (!A_IS_ASYNC) put<LayoutA>(a_part(step), a_next);
        if constexpr (!B_IS_ASYNC) put<LayoutB>(b_part(step), b_next);
    }
};

// Sums leave by way of shared memory, 16 rows of at most 64 columns at a time, so that
// neighbours in memory are stored together. Lane l has, of each 16 by 8 sums, columns
// l % 4 * 2 and the next of rows l / 4 and l / 4 + 8.
template <i32 HIGH, i32 WIDE, class P>
KILN_FUNCTION void store_sums(const P& own, const f32 (&sums)[HIGH][WIDE][4], f32* shared, Place batch, Place row, Place column) {
    constexpr i32 STRIP = WIDE < 8 ? WIDE : 8, STRIDE = STRIP * 8 + 8, VEC4S = STRIP * 2;
    static_assert(WIDE % STRIP == 0, "whole strips");
    const i32 lane = threadIdx.x % 32;
    f32* const band = shared + threadIdx.x / 32 * 16 * STRIDE;
#pragma unroll
    for (i32 i = 0; i < HIGH; i++) {
#pragma unroll
        for (i32 first = 0; first < WIDE; first += STRIP) {
#pragma unroll
            for (i32 j = 0; j < STRIP * 2; j++) {
                f32* to = band + (lane / 4 + j % 2 * 8) * STRIDE + j / 2 * 8 + lane % 4 * 2;
                to[0] = sums[i][first + j / 2][j % 2 * 2];
                to[1] = sums[i][first + j / 2][j % 2 * 2 + 1];
            }
            __syncwarp();
#pragma unroll 1
            for (i32 number = lane; number < 16 * VEC4S; number += 32) {
                const i32 down = number / VEC4S, along = number % VEC4S * 4;
                const vec4<f32> x = *(const vec4<f32>*)(band + down * STRIDE + along);
                const Element sum[4] = {x.x, x.y, x.z, x.w};
                const Place to_row = row + i * 16 + down, to_column = column + first * 8 + along;
                if (to_row < M && to_column < N) own.store_c(batch, to_row, to_column, sum);
            }
            __syncwarp();
        }
    }
}
