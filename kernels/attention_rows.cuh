// What attention of 16-bit floats on tensor cores is made of: operands come to shared
// memory, scores become powers, sums leave. It stands between a template's header and the
// template. A warp has 16 rows of queries at a time; of these by 8 columns a thread
// has, as tensor cores give them, columns lane % 4 * 2 and the next of rows lane / 4 and
// lane / 4 + 8.

constexpr i32 ATTENTION_THREADS = ATTENTION_TILE_ROWS / ATTENTION_WARP_ROWS * 32;
// Keys that a block looks at together.
constexpr i32 ATTENTION_TILE_OTHERS = 64;
static_assert(ATTENTION_TILE_ROWS % ATTENTION_WARP_ROWS == 0 && ATTENTION_WARP_ROWS % 16 == 0, "whole matrices");
// Elements of a chunk of 16 bytes.
constexpr i32 ATTENTION_CHUNK = 8;
// Pieces of a thread that are written out: more share what addresses have in common, and
// take registers from sums.
constexpr i32 ATTENTION_AT_ONCE = ATTENTION_BY_WARPGROUPS ? 4 : 1;

// Where a chunk of a line lies: lines have one chunk more, so that rows that a warp reads
// together are in different banks.
template <i32 LENGTH>
struct AttentionLines {
    static constexpr i32 LINE = LENGTH + ATTENTION_CHUNK;
    KILN_FUNCTION i32 at(i32 line, i32 along) { return line * LINE + along; }
};

// Brings lines, those from `end` on and what is beyond `width` as zeros: `from` says where
// a chunk begins, or what an element is.
template <class S, class Lines, bool IS_ASYNC, i32 LINES, i32 LENGTH, class From>
KILN_FUNCTION void attention_stage(u16* lines, i32 end, i32 width, const From& from) {
    constexpr i32 CHUNKS = LENGTH / ATTENTION_CHUNK;
#pragma unroll ATTENTION_AT_ONCE
    for (i32 i = 0; i < (LINES * CHUNKS + ATTENTION_THREADS - 1) / ATTENTION_THREADS; i++) {
        const i32 number = i * ATTENTION_THREADS + threadIdx.x;
        const i32 line = number / CHUNKS, along = number % CHUNKS * ATTENTION_CHUNK;
        if (LINES * CHUNKS % ATTENTION_THREADS != 0 && line >= LINES) break;
        u16* const to = lines + Lines::at(line, along);
        if constexpr (IS_ASYNC) {
            bool is_inside = line < end && along < width;
            const u16* const chunk = from(line, along, is_inside);
            cp_async(to, chunk, is_inside);
        } else {
            u32 pairs[4];
#pragma unroll
            for (i32 j = 0; j < 4; j++) {
                const i32 at = along + 2 * j;
                pairs[j] = S::pair(line < end && at < width ? from(line, at) : 0.0f, line < end && at + 1 < width ? from(line, at + 1) : 0.0f);
            }
            *(vec4<u32>*)to = {pairs[0], pairs[1], pairs[2], pairs[3]};
        }
    }
}

// The largest, or the sum, of what the four threads have that share rows.
KILN_FUNCTION f32 attention_row_max(f32 x) {
    const i32 lane = threadIdx.x % 32;
#pragma unroll
    for (i32 by = 1; by < 4; by *= 2) x = fmaxf(x, __shfl_sync(0xffffffffu, x, lane ^ by));
    return x;
}
KILN_FUNCTION f32 attention_row_sum(f32 x) {
    const i32 lane = threadIdx.x % 32;
#pragma unroll
    for (i32 by = 1; by < 4; by *= 2) x = x + __shfl_sync(0xffffffffu, x, lane ^ by);
    return x;
}

// Of two rows, the largest score so far, from so small a number on that differences are
// numbers and so are they in powers of two; a thread's part of the sum of powers; and what
// sums so far are multiplied by.
struct AttentionRows {
    f32 running_max[2], running_sum[2], rescale[2];
    KILN_METHOD void begin() {
#pragma unroll
        for (i32 r = 0; r < 2; r++) {
            running_max[r] = -2.3e38f;
            running_sum[r] = 0.0f;
        }
    }
};

// Makes powers of the scores of 16 rows, from `top` on, with keys from `key` on.
template <class Extents, class Place, class Masked>
KILN_FUNCTION void attention_softmax(f32 (&scores)[ATTENTION_TILE_OTHERS / 8][4], AttentionRows& rows, Place batch, i32 top, i32 key, f32 scale, const Masked& masked) {
    constexpr i32 SIDE = ATTENTION_TILE_OTHERS;
    constexpr f32 TO_TWO = 1.4426950408889634f;
    const f32 minus_infinity = __int_as_float(0xff800000);
    const i32 lane = threadIdx.x % 32;
    // Where all rows look at all keys, nothing is asked of each, and scores grow with the products.
    const bool is_whole = key + SIDE <= Extents::KEYS && !(Extents::CAUSAL && key + SIDE > top + 1);
    const bool is_plain = !Extents::MASKED && is_whole && scale > 0.0f;
    const f32 unit = is_plain ? scale : 1.0f, to_two = unit * TO_TWO;
    if (!is_plain) {
#pragma unroll
        for (i32 i = 0; i < SIDE / 2; i++) {
            const i32 row = top + lane / 4 + i % 4 / 2 * 8, place = key + i / 4 * 8 + lane % 4 * 2 + i % 2;
            const bool visible = place < Extents::KEYS && row < Extents::ROWS && !(Extents::CAUSAL && place > row);
            f32 x = scores[i / 4][i % 4] * scale;
            if (visible) x = masked(batch, row, place, x);
            scores[i / 4][i % 4] = visible ? x : minus_infinity;
        }
    }
#pragma unroll
    for (i32 r = 0; r < 2; r++) {
        f32 largest = fmaxf(scores[0][r * 2], scores[0][r * 2 + 1]);
#pragma unroll
        for (i32 j = 1; j < SIDE / 8; j++) largest = fmaxf(largest, fmaxf(scores[j][r * 2], scores[j][r * 2 + 1]));
        largest = attention_row_max(fmaxf(rows.running_max[r], largest * unit));
        rows.rescale[r] = power_of_two((rows.running_max[r] - largest) * TO_TWO);
        rows.running_max[r] = largest;
        const f32 base = -largest * TO_TWO;
        f32 running_sum = rows.running_sum[r] * rows.rescale[r];
#pragma unroll
        for (i32 j = 0; j < SIDE / 8; j++) {
            const f32 x = power_of_two(multiply_add(scores[j][r * 2], to_two, base));
            const f32 y = power_of_two(multiply_add(scores[j][r * 2 + 1], to_two, base));
            running_sum = running_sum + (x + y);
            scores[j][r * 2] = x;
            scores[j][r * 2 + 1] = y;
        }
        rows.running_sum[r] = running_sum;
    }
}

// Powers as the first operand of a product has them: 16 rows by 16 keys in four words.
template <class S>
KILN_FUNCTION void attention_pack(u32 (&words)[ATTENTION_TILE_OTHERS / 16][4], const f32 (&weights)[ATTENTION_TILE_OTHERS / 8][4]) {
#pragma unroll
    for (i32 i = 0; i < ATTENTION_TILE_OTHERS / 4; i++) {
        const f32(&x)[4] = weights[i / 2];
        words[i / 4][i % 4] = S::pair(x[i % 2 * 2], x[i % 2 * 2 + 1]);
    }
}

template <i32 WIDE>
KILN_FUNCTION void attention_rescale(f32 (&sums)[WIDE][4], const AttentionRows& rows) {
#pragma unroll
    for (i32 i = 0; i < WIDE * 4; i++) sums[i / 4][i % 4] *= rows.rescale[i % 4 / 2];
}

// Sums leave by 16 rows of at most 64 columns of each warp.
template <i32 WIDTH>
struct AttentionStoreStrip {
    static constexpr i32 STRIP = WIDTH < 64 ? WIDTH : 64, STRIDE = STRIP + 8;
    static constexpr i32 ELEMENTS = ATTENTION_THREADS / 32 * 16 * STRIDE * 2;
};

// What sums are multiplied by for the powers to be shares.
template <class Extents>
KILN_FUNCTION void attention_normalizers(f32 (&part)[2], const AttentionRows& rows) {
#pragma unroll
    for (i32 r = 0; r < 2; r++) {
        const f32 all = attention_row_sum(rows.running_sum[r]);
        // Where only a mask leaves nothing to look at, the result is zero.
        part[r] = Extents::MASKED && all == 0.0f ? 0.0f : 1.0f / all;
    }
}

// Stores the logarithms of the sums of 16 rows' powers, where only these are wanted: each is
// the one column of its row.
template <class Extents, class Place, class Store>
KILN_FUNCTION void attention_store_log_sums(const AttentionRows& rows, Place batch, i32 top, const Store& store) {
    const i32 lane = threadIdx.x % 32;
#pragma unroll
    for (i32 r = 0; r < 2; r++) {
        const i32 row = top + lane / 4 + r * 8;
        const f32 x[4] = {rows.running_max[r] + logarithm(attention_row_sum(rows.running_sum[r])), 0.0f, 0.0f, 0.0f};
        if (lane % 4 == 0 && row < Extents::ROWS) store(batch, row, 0, x);
    }
}

// Rows of what is computed.
template <class Extents>
constexpr i32 ATTENTION_OWN = Extents::BY_QUERY ? Extents::ROWS : Extents::KEYS;

// Stores the sums of 16 rows, each times its part, by way of shared memory that nobody else
// uses any more, so that neighbours in memory are stored together.
template <class Extents, i32 WIDE, class Place, class Store>
KILN_FUNCTION void attention_store(const f32 (&sums)[WIDE][4], const f32 (&part)[2], void* block, Place batch, i32 top, const Store& store) {
    constexpr i32 STRIP = AttentionStoreStrip<WIDE * 8>::STRIP, STRIDE = AttentionStoreStrip<WIDE * 8>::STRIDE;
    const i32 lane = threadIdx.x % 32;
    f32* const band = (f32*)block + threadIdx.x / 32 * 16 * STRIDE;
#pragma unroll
    for (i32 strip = 0; strip < WIDE * 8; strip += STRIP) {
#pragma unroll
        for (i32 n = 0; n < STRIP / 8; n++) {
            if (strip + n * 8 >= WIDE * 8) break;
#pragma unroll
            for (i32 r = 0; r < 2; r++) {
                f32* const to = band + (lane / 4 + r * 8) * STRIDE + n * 8 + lane % 4 * 2;
                to[0] = sums[strip / 8 + n][r * 2] * part[r];
                to[1] = sums[strip / 8 + n][r * 2 + 1] * part[r];
            }
        }
        // The warp's sums are there.
        __syncwarp();
#pragma unroll 1
        for (i32 number = lane; number < 16 * (STRIP / 4); number += 32) {
            const i32 down = number / (STRIP / 4), along = number % (STRIP / 4) * 4;
            const vec4<f32> x = *(const vec4<f32>*)(band + down * STRIDE + along);
            const f32 fours[4] = {x.x, x.y, x.z, x.w};
            const i32 row = top + down, column = strip + along;
            if (row < ATTENTION_OWN<Extents> && column < Extents::WIDTH) store(batch, row, column, fours);
        }
        __syncwarp();
    }
}

// A block's place: its batch and first own row. Neighbours share what a batch's blocks go
// through; those that go through more begin earlier.
template <class Extents, class Place>
KILN_FUNCTION i32 attention_place(Place& batch) {
    constexpr i32 TILES = (ATTENTION_OWN<Extents> + ATTENTION_TILE_ROWS - 1) / ATTENTION_TILE_ROWS;
    batch = blockIdx.x / TILES;
    const i32 tile = blockIdx.x % TILES;
    return (Extents::CAUSAL && Extents::BY_QUERY ? TILES - 1 - tile : tile) * ATTENTION_TILE_ROWS;
}

// Keys that a block looks at: no query looks beyond the last one's own place.
template <class Extents>
KILN_FUNCTION i32 attention_end(i32 first) {
    return Extents::CAUSAL && first + ATTENTION_TILE_ROWS < Extents::KEYS ? first + ATTENTION_TILE_ROWS : Extents::KEYS;
}

// The 16 rows, from `row` on, by 16 columns, as the first operand of a product has them.
template <class Lines>
KILN_FUNCTION void attention_load_fragment(u32 (&a)[4], const u16* lines, i32 row, i32 column) {
    const i32 lane = threadIdx.x % 32;
    ldmatrix(a, lines + Lines::at(row + lane % 16, column + lane / 16 * 8));
}
