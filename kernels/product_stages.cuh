// How the parts of a product's operands come to shared memory, and its sums leave it:
// what the templates for tensor cores have in common. It stands between a template's
// header and the template.

// Elements of a piece of 16 bytes.
constexpr i32 PIECE = 16 / sizeof(Stored);
constexpr i32 ROW_TILES = (M + ROWS - 1) / ROWS;
constexpr i32 COLUMN_TILES = (N + COLUMNS - 1) / COLUMNS;
constexpr i32 STEPS = (K + STEP - 1) / STEP;

// How a step's part of an operand lies: neighbours in lines, along the depth or along
// the operand's rows (columns of the second). Lines of more than 128 bytes are in
// blocks of lines of 128 bytes.
template <bool ALONG_DEPTH, i32 EXTENT>
struct Layout {
    static constexpr i32 LINES = ALONG_DEPTH ? EXTENT : STEP;
    static constexpr i32 LINE = ALONG_DEPTH ? STEP : EXTENT;
    static constexpr i32 PIECES = LINE / PIECE;
    static constexpr i32 WIDTH = PIECES < 8 ? PIECES : 8;
    static constexpr i32 ELEMENTS = LINES * LINE;
    // Where a piece lies. Pieces change places from line to line, so that those that a
    // warp reads at once are in different banks.
    static KILN_METHOD i32 at(i32 line, i32 piece) {
        const bool by_word = sizeof(Stored) == 4 && !ALONG_DEPTH;
        const i32 turn = by_word ? 2 * line : line / (8 / WIDTH);
        return ((piece / WIDTH * LINES + line) * WIDTH + (piece % WIDTH ^ (turn & (WIDTH - 1)))) * PIECE;
    }
};
typedef Layout<A_ALONG_DEPTH, ROWS> LayoutA;
typedef Layout<B_ALONG_DEPTH, COLUMNS> LayoutB;
constexpr i32 STAGE = LayoutA::ELEMENTS + LayoutB::ELEMENTS;

// Starts copies of the pieces of a part, each from where `piece` says that the one at a
// line and a place along it begins.
template <class L, class Piece>
KILN_FUNCTION void start_copies(Stored* part, const Piece& piece_at) {
#pragma unroll
    for (i32 i = 0; i < (L::LINES * L::PIECES + THREADS - 1) / THREADS; i++) {
        const i32 number = i * THREADS + threadIdx.x, line = number / L::PIECES, piece = number % L::PIECES;
        if (line >= L::LINES) break;
        bool is_inside;
        const Stored* from = piece_at(line, piece * PIECE, is_inside);
        cp_async(part + L::at(line, piece), from, is_inside);
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

// The first line, and the place along it, of the block that a thread's turn brings;
// none beyond the end.
template <class L>
KILN_FUNCTION bool block_of(i32 turn, i32& line, i32& along) {
    const i32 block = turn * THREADS + threadIdx.x;
    line = block / (L::LINE / 4) * 4;
    along = block % (L::LINE / 4) * 4;
    return line < L::LINES;
}

// Reads blocks by `load`, which gives them for a line and a place along it.
template <class L, bool LINES_FIRST, class Load>
KILN_FUNCTION void fetch(Block (&all)[blocks<L>()], const Load& load) {
#pragma unroll
    for (i32 turn = 0; turn < blocks<L>(); turn++) {
        i32 line, along;
        if (!block_of<L>(turn, line, along)) break;
        Element x[4][4];
        load(line, along, x);
#pragma unroll
        for (i32 i = 0; i < 4; i++) {
            if constexpr (LINES_FIRST) {
                pack<Stored>(all[turn][i], x[i][0], x[i][1], x[i][2], x[i][3]);
            } else {
                pack<Stored>(all[turn][i], x[0][i], x[1][i], x[2][i], x[3][i]);
            }
        }
    }
}

template <class L>
KILN_FUNCTION void put(Stored* part, const Block (&all)[blocks<L>()]) {
#pragma unroll
    for (i32 turn = 0; turn < blocks<L>(); turn++) {
        i32 line, along;
        if (!block_of<L>(turn, line, along)) break;
#pragma unroll
        for (i32 i = 0; i < 4; i++) {
            const u32(&words)[WORDS] = all[turn][i];
            Stored* to = part + L::at(line + i, along / PIECE) + along % PIECE;
            if constexpr (WORDS == 2) {
                *(u64*)to = (u64)words[1] << 32 | words[0];
            } else {
                *(four<u32>*)to = {words[0], words[1], words[2], words[3]};
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
        tile_of(ROW_TILES, COLUMN_TILES, tile_batch, tile_row, tile_column);
        batch = tile_batch;
        row = (Place)tile_row * ROWS;
        column = (Place)tile_column * COLUMNS;
    }
    KILN_METHOD Stored* a_part(i32 step) const { return parts + step % STAGES * STAGE; }
    KILN_METHOD Stored* b_part(i32 step) const { return a_part(step) + LayoutA::ELEMENTS; }

    // Starts bringing a step's parts, but for those that the device copies itself.
    KILN_METHOD void start(i32 step) {
        const Place depth = (Place)step * STEP;
        if constexpr (A_BY_MAP) {
        } else if constexpr (A_IS_COPIED) {
            start_copies<LayoutA>(a_part(step), [&](i32 line, i32 along, bool& is_inside) {
                return own.piece_a(batch, row + (A_ALONG_DEPTH ? line : along), depth + (A_ALONG_DEPTH ? along : line), is_inside);
            });
        } else {
            fetch<LayoutA, A_ALONG_DEPTH>(a_next, [&](i32 line, i32 along, Element(&x)[4][4]) {
                own.load_a(batch, row + (A_ALONG_DEPTH ? line : along), depth + (A_ALONG_DEPTH ? along : line), x);
            });
        }
        if constexpr (B_BY_MAP) {
        } else if constexpr (B_IS_COPIED) {
            start_copies<LayoutB>(b_part(step), [&](i32 line, i32 along, bool& is_inside) {
                return own.piece_b(batch, depth + (B_ALONG_DEPTH ? along : line), column + (B_ALONG_DEPTH ? line : along), is_inside);
            });
        } else {
            fetch<LayoutB, !B_ALONG_DEPTH>(b_next, [&](i32 line, i32 along, Element(&x)[4][4]) {
                own.load_b(batch, depth + (B_ALONG_DEPTH ? along : line), column + (B_ALONG_DEPTH ? line : along), x);
            });
        }
    }

    // Puts down what went through registers.
    KILN_METHOD void finish(i32 step) {
        if constexpr (!A_IS_COPIED) put<LayoutA>(a_part(step), a_next);
        if constexpr (!B_IS_COPIED) put<LayoutB>(b_part(step), b_next);
    }
};

// Sums leave by way of shared memory, 16 rows of at most 64 columns at a time, so that
// neighbours in memory are stored together. Lane l has, of each 16 by 8 sums, columns
// l % 4 * 2 and the next of rows l / 4 and l / 4 + 8.
template <i32 HIGH, i32 WIDE, class P>
KILN_FUNCTION void store_sums(const P& own, const f32 (&sums)[HIGH][WIDE][4], f32* shared, Place batch, Place row, Place column) {
    constexpr i32 STRIP = WIDE < 8 ? WIDE : 8, STRIDE = STRIP * 8 + 8, FOURS = STRIP * 2;
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
            for (i32 number = lane; number < 16 * FOURS; number += 32) {
                const i32 down = number / FOURS, along = number % FOURS * 4;
                const four<f32> x = *(const four<f32>*)(band + down * STRIDE + along);
                const Element sum[4] = {x.x, x.y, x.z, x.w};
                const Place to_row = row + i * 16 + down, to_column = column + first * 8 + along;
                if (to_row < M && to_column < N) own.store_c(batch, to_row, to_column, sum);
            }
            __syncwarp();
        }
    }
}
