// How warps multiply 16-bit floats for attention (mma.sync), 16 rows at a time. It stands
// behind `attention_rows.cuh`, before a template.

struct AttentionF16 {
    KILN_FUNCTION u32 pair(f32 x, f32 y) { return narrow_f16x2(x, y); }
    KILN_FUNCTION void multiply(f32 (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) { mma_f16(c, a, b); }
};
struct AttentionBF16 {
    KILN_FUNCTION u32 pair(f32 x, f32 y) { return narrow_bf16x2(x, y); }
    KILN_FUNCTION void multiply(f32 (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) { mma_bf16(c, a, b); }
};

// A tile of what a block goes through, in lines of at least so many elements.
template <i32 LEAST>
struct AttentionTile {
    static constexpr i32 LENGTH = (LEAST + 15) / 16 * 16;
    typedef AttentionLines<LENGTH> Lines;
    static constexpr i32 ELEMENTS = ATTENTION_TILE_OTHERS * Lines::LINE;
};

// Products of a warp's rows with a tile's lines.
template <class S, class Tile, i32 DEEP>
KILN_FUNCTION void attention_start_products(f32 (&products)[ATTENTION_TILE_OTHERS / 8][4], const u32 (&own)[DEEP][4], const u16* tile) {
    const i32 lane = threadIdx.x % 32;
#pragma unroll
    for (i32 i = 0; i < ATTENTION_TILE_OTHERS / 2; i++) products[i / 4][i % 4] = 0.0f;
#pragma unroll
    for (i32 d = 0; d < DEEP; d++) {
#pragma unroll
        for (i32 j = 0; j < ATTENTION_TILE_OTHERS / 8; j += 2) {
            u32 x[4];
            ldmatrix(x, tile + Tile::Lines::at(j * 8 + lane % 8 + lane / 16 * 8, d * 16 + lane / 8 % 2 * 8));
            const u32 b[2][2] = {{x[0], x[1]}, {x[2], x[3]}};
            S::multiply(products[j], own[d], b[0]);
            S::multiply(products[j + 1], own[d], b[1]);
        }
    }
}

// Adds a tile's lines times a warp's weights.
template <class S, class Tile, i32 WIDE>
KILN_FUNCTION void attention_start_sums(f32 (&sums)[WIDE][4], const u32 (&weights)[ATTENTION_TILE_OTHERS / 16][4], const u16* tile) {
    const i32 lane = threadIdx.x % 32;
#pragma unroll
    for (i32 t = 0; t < ATTENTION_TILE_OTHERS / 16; t++) {
#pragma unroll
        for (i32 n = 0; n < WIDE; n += 2) {
            u32 x[4];
            ldmatrix_trans(x, tile + Tile::Lines::at(t * 16 + lane % 16, n * 8 + lane / 16 * 8));
            const u32 b[2][2] = {{x[0], x[1]}, {x[2], x[3]}};
            S::multiply(sums[n], weights[t], b[0]);
            S::multiply(sums[n + 1], weights[t], b[1]);
        }
    }
}

// Products by warps are there when they return.
KILN_FUNCTION void attention_copied() {}
template <i32 PENDING, i32 WIDE>
KILN_FUNCTION void attention_wait(f32 (&)[WIDE][4]) {}
