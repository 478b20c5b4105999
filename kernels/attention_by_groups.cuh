// How warpgroups multiply 16-bit floats for attention (wgmma), 64 rows at a time:
// own rows and weights are operands in registers, tiles of others lie in shared memory in
// lines of 128 bytes whose chunks change places. It stands behind `attention_rows.cuh`,
// before a template.

static_assert(ATTENTION_WARP_ROWS == 16 && ATTENTION_THREADS % 128 == 0, "whole groups");

struct AttentionF16 {
    KILN_FUNCTION u32 pair(f32 x, f32 y) { return narrow_f16x2(x, y); }
    template <bool TRANSPOSED, bool ADDS, i32 WIDE>
    KILN_FUNCTION void multiply(f32 (&c)[WIDE][4], const u32 (&a)[4], u64 b) { wgmma_rs_f16<TRANSPOSED, ADDS>(c, a, b); }
};
struct AttentionBF16 {
    KILN_FUNCTION u32 pair(f32 x, f32 y) { return narrow_bf16x2(x, y); }
    template <bool TRANSPOSED, bool ADDS, i32 WIDE>
    KILN_FUNCTION void multiply(f32 (&c)[WIDE][4], const u32 (&a)[4], u64 b) { wgmma_rs_bf16<TRANSPOSED, ADDS>(c, a, b); }
};

// Elements of a line of 128 bytes, and bytes of eight such lines.
constexpr i32 ATTENTION_LINE = 64;
constexpr u32 ATTENTION_EIGHT = 1024;

// Where a chunk of a tile's line lies: blocks of lines of 128 bytes.
struct AttentionBlocks {
    KILN_FUNCTION i32 at(i32 line, i32 along) {
        const i32 chunk = along / ATTENTION_CHUNK;
        return ((chunk / 8 * ATTENTION_TILE_OTHERS + line) * 8 + (chunk % 8 ^ line % 8)) * ATTENTION_CHUNK;
    }
};

// A tile of what a block goes through, in lines of at least so many elements.
template <i32 LEAST>
struct AttentionTile {
    static constexpr i32 LENGTH = (LEAST + 63) / 64 * 64;
    typedef AttentionBlocks Lines;
    static constexpr i32 ELEMENTS = ATTENTION_TILE_OTHERS * LENGTH;
};

// Starts the products of a group's rows with a tile's lines.
template <class S, class Tile, i32 DEEP>
KILN_FUNCTION void attention_start_products(f32 (&products)[ATTENTION_TILE_OTHERS / 8][4], const u32 (&own)[DEEP][4], const u16* tile) {
    wgmma_fence();
#pragma unroll
    for (i32 d = 0; d < DEEP * 16; d += 16) {
        const u16* const from = tile + d / ATTENTION_LINE * ATTENTION_TILE_OTHERS * ATTENTION_LINE + d % ATTENTION_LINE;
        const u64 other = wgmma_operand(from, 16, ATTENTION_EIGHT);
        if (d == 0) S::template multiply<false, false>(products, own[0], other);
        else S::template multiply<false, true>(products, own[d / 16], other);
    }
    wgmma_commit();
}

// Starts to add a tile's lines times a group's weights.
template <class S, class Tile, i32 WIDE>
KILN_FUNCTION void attention_start_sums(f32 (&sums)[WIDE][4], const u32 (&weights)[ATTENTION_TILE_OTHERS / 16][4], const u16* tile) {
    wgmma_fence();
#pragma unroll
    for (i32 t = 0; t < ATTENTION_TILE_OTHERS / 16; t++) {
        const u16* const from = tile + t * 16 * ATTENTION_LINE;
        S::template multiply<true, true>(sums, weights[t], wgmma_operand(from, ATTENTION_TILE_OTHERS * 128, ATTENTION_EIGHT));
    }
    wgmma_commit();
}

// What this thread's copies brought is there for groups' products.
KILN_FUNCTION void attention_copied() { fence_async(); }
// Waits for the products that were started but for the last so many.
template <i32 PENDING, i32 WIDE>
KILN_FUNCTION void attention_wait(f32 (&products)[WIDE][4]) { wgmma_wait<PENDING>(products); }
