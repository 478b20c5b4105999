// contract_add_maximum[2, 8, 16, 16]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
fn number_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits ^ uniforms[0].x);
}
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ uniforms[0].x);
}
fn nan_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn add_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x + y);
}
fn rank_max_f32(x: f32) -> i32 {
    let bits = select(bitcast<i32>(x), 0x7fc00000, nan_f32(x));
    return bits ^ ((bits >> 31u) & 0x7fffffff);
}
fn unrank_f32(rank: i32) -> f32 {
    return bitcast<f32>(rank ^ ((rank >> 31u) & 0x7fffffff));
}
fn maximum_f32(x: f32, y: f32) -> f32 {
    return unrank_f32(max(rank_max_f32(x), rank_max_f32(y)));
}
fn wide_u64(low: u32, high: u32) -> u64 {
    return (u64(high) << 32u) | u64(low);
}
fn long_words(x: vec4<u32>) -> vec2<u64> {
    return vec2<u64>(wide_u64(x.x, x.y), wide_u64(x.z, x.w));
}
@group(0) @binding(1) var<storage, read_write> in0_0: array<f32>;
var<private> offset0: u32;
fn in0(at: i32) -> f32 {
    let e = u32(at) + offset0;
    return in0_0[e];
}
@group(0) @binding(2) var<storage, read_write> in1_0: array<f32>;
var<private> offset1: u32;
fn in1(at: i32) -> f32 {
    let e = u32(at) + offset1;
    return in1_0[e];
}
@group(0) @binding(3) var<storage, read_write> in2_0: array<f32>;
var<private> offset2: u32;
fn in2(at: i32) -> f32 {
    let e = u32(at) + offset2;
    return in2_0[e];
}
@group(0) @binding(4) var<storage, read_write> out0_0: array<vec2<u64>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = long_words(bitcast<vec4<u32>>(vec4<f32>(a, b, c, d)));
}
alias Element = f32;
fn batches() -> i32 {
    return 1;
}
fn m() -> i32 {
    return 8;
}
fn n() -> i32 {
    return 512;
}
fn k() -> i32 {
    return 27;
}
const LANES = 8;
const ROWS = 8;
const VEC4S = 1;
fn zero() -> vec4<Element> {
    return vec4<Element>(number_f32(0x00000000u /* 0.0 */));
}
fn load_a(batch: i32, row: i32, depth: i32) -> array<vec4<Element>, 4> {
    let row_first = min(row, 4);
    let i1_0 = row_first;
    let i1_1 = i1_0 + 1;
    let i1_2 = i1_0 + 2;
    let i1_3 = i1_0 + 3;
    let depth_0 = min(depth + 0, 26);
    let i6_0 = depth_0;
    let depth_1 = min(depth + 1, 26);
    let i6_1 = depth_1;
    let depth_2 = min(depth + 2, 26);
    let i6_2 = depth_2;
    let depth_3 = min(depth + 3, 26);
    let i6_3 = depth_3;
    let v0_0_0 = in0(i1_0 * 27 + i6_0);
    let v0_0_1 = in0(i1_0 * 27 + i6_1);
    let v0_0_2 = in0(i1_0 * 27 + i6_2);
    let v0_0_3 = in0(i1_0 * 27 + i6_3);
    let v0_1_0 = in0(i1_1 * 27 + i6_0);
    let v0_1_1 = in0(i1_1 * 27 + i6_1);
    let v0_1_2 = in0(i1_1 * 27 + i6_2);
    let v0_1_3 = in0(i1_1 * 27 + i6_3);
    let v0_2_0 = in0(i1_2 * 27 + i6_0);
    let v0_2_1 = in0(i1_2 * 27 + i6_1);
    let v0_2_2 = in0(i1_2 * 27 + i6_2);
    let v0_2_3 = in0(i1_2 * 27 + i6_3);
    let v0_3_0 = in0(i1_3 * 27 + i6_0);
    let v0_3_1 = in0(i1_3 * 27 + i6_1);
    let v0_3_2 = in0(i1_3 * 27 + i6_2);
    let v0_3_3 = in0(i1_3 * 27 + i6_3);
    let inside_0 = depth + 0 < 27;
    let inside_1 = depth + 1 < 27;
    let inside_2 = depth + 2 < 27;
    let inside_3 = depth + 3 < 27;
    return array<vec4<Element>, 4>(
        vec4<Element>(select(Element(), v0_0_0, inside_0), select(Element(), v0_0_1, inside_1), select(Element(), v0_0_2, inside_2), select(Element(), v0_0_3, inside_3)),
        vec4<Element>(select(Element(), v0_1_0, inside_0), select(Element(), v0_1_1, inside_1), select(Element(), v0_1_2, inside_2), select(Element(), v0_1_3, inside_3)),
        vec4<Element>(select(Element(), v0_2_0, inside_0), select(Element(), v0_2_1, inside_1), select(Element(), v0_2_2, inside_2), select(Element(), v0_2_3, inside_3)),
        vec4<Element>(select(Element(), v0_3_0, inside_0), select(Element(), v0_3_1, inside_1), select(Element(), v0_3_2, inside_2), select(Element(), v0_3_3, inside_3)),
    );
}
fn load_b(batch: i32, depth: i32, column: i32) -> array<vec4<Element>, 4> {
    let depth_0 = min(depth + 0, 26);
    let over1 = i32((u32(depth_0) / 3u));
    let over2 = i32((u32(over1) / 3u));
    let i4_0 = over2;
    let i5_0 = over1 - over2 * 3;
    let i6_0 = depth_0 - over1 * 3;
    let depth_1 = min(depth + 1, 26);
    let over3 = i32((u32(depth_1) / 3u));
    let over4 = i32((u32(over3) / 3u));
    let i4_1 = over4;
    let i5_1 = over3 - over4 * 3;
    let i6_1 = depth_1 - over3 * 3;
    let depth_2 = min(depth + 2, 26);
    let over5 = i32((u32(depth_2) / 3u));
    let over6 = i32((u32(over5) / 3u));
    let i4_2 = over6;
    let i5_2 = over5 - over6 * 3;
    let i6_2 = depth_2 - over5 * 3;
    let depth_3 = min(depth + 3, 26);
    let over7 = i32((u32(depth_3) / 3u));
    let over8 = i32((u32(over7) / 3u));
    let i4_3 = over8;
    let i5_3 = over7 - over8 * 3;
    let i6_3 = depth_3 - over7 * 3;
    let column_first = min(column, 508);
    let over9 = i32((u32(column_first) / 16u));
    let over10 = i32((u32(over9) / 16u));
    let i0 = over10;
    let i2 = over9 - over10 * 16;
    let i3_0 = column_first - over9 * 16;
    let i3_1 = i3_0 + 1;
    let i3_2 = i3_0 + 2;
    let i3_3 = i3_0 + 3;
    let open11 = (i2 + i5_0 + (-1) >= 0 && i2 + i5_0 + (-1) < 16) && (i3_0 + i6_0 + (-1) >= 0 && i3_0 + i6_0 + (-1) < 16);
    let v5_0_0 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_0 + i4_0 * 256 + i5_0 * 16 + i6_0 + (-17), open11)), open11);
    let open12 = (i2 + i5_1 + (-1) >= 0 && i2 + i5_1 + (-1) < 16) && (i3_0 + i6_1 + (-1) >= 0 && i3_0 + i6_1 + (-1) < 16);
    let v5_0_1 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_0 + i4_1 * 256 + i5_1 * 16 + i6_1 + (-17), open12)), open12);
    let open13 = (i2 + i5_2 + (-1) >= 0 && i2 + i5_2 + (-1) < 16) && (i3_0 + i6_2 + (-1) >= 0 && i3_0 + i6_2 + (-1) < 16);
    let v5_0_2 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_0 + i4_2 * 256 + i5_2 * 16 + i6_2 + (-17), open13)), open13);
    let open14 = (i2 + i5_3 + (-1) >= 0 && i2 + i5_3 + (-1) < 16) && (i3_0 + i6_3 + (-1) >= 0 && i3_0 + i6_3 + (-1) < 16);
    let v5_0_3 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_0 + i4_3 * 256 + i5_3 * 16 + i6_3 + (-17), open14)), open14);
    let open15 = (i2 + i5_0 + (-1) >= 0 && i2 + i5_0 + (-1) < 16) && (i3_1 + i6_0 + (-1) >= 0 && i3_1 + i6_0 + (-1) < 16);
    let v5_1_0 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_1 + i4_0 * 256 + i5_0 * 16 + i6_0 + (-17), open15)), open15);
    let open16 = (i2 + i5_1 + (-1) >= 0 && i2 + i5_1 + (-1) < 16) && (i3_1 + i6_1 + (-1) >= 0 && i3_1 + i6_1 + (-1) < 16);
    let v5_1_1 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_1 + i4_1 * 256 + i5_1 * 16 + i6_1 + (-17), open16)), open16);
    let open17 = (i2 + i5_2 + (-1) >= 0 && i2 + i5_2 + (-1) < 16) && (i3_1 + i6_2 + (-1) >= 0 && i3_1 + i6_2 + (-1) < 16);
    let v5_1_2 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_1 + i4_2 * 256 + i5_2 * 16 + i6_2 + (-17), open17)), open17);
    let open18 = (i2 + i5_3 + (-1) >= 0 && i2 + i5_3 + (-1) < 16) && (i3_1 + i6_3 + (-1) >= 0 && i3_1 + i6_3 + (-1) < 16);
    let v5_1_3 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_1 + i4_3 * 256 + i5_3 * 16 + i6_3 + (-17), open18)), open18);
    let open19 = (i2 + i5_0 + (-1) >= 0 && i2 + i5_0 + (-1) < 16) && (i3_2 + i6_0 + (-1) >= 0 && i3_2 + i6_0 + (-1) < 16);
    let v5_2_0 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_2 + i4_0 * 256 + i5_0 * 16 + i6_0 + (-17), open19)), open19);
    let open20 = (i2 + i5_1 + (-1) >= 0 && i2 + i5_1 + (-1) < 16) && (i3_2 + i6_1 + (-1) >= 0 && i3_2 + i6_1 + (-1) < 16);
    let v5_2_1 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_2 + i4_1 * 256 + i5_1 * 16 + i6_1 + (-17), open20)), open20);
    let open21 = (i2 + i5_2 + (-1) >= 0 && i2 + i5_2 + (-1) < 16) && (i3_2 + i6_2 + (-1) >= 0 && i3_2 + i6_2 + (-1) < 16);
    let v5_2_2 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_2 + i4_2 * 256 + i5_2 * 16 + i6_2 + (-17), open21)), open21);
    let open22 = (i2 + i5_3 + (-1) >= 0 && i2 + i5_3 + (-1) < 16) && (i3_2 + i6_3 + (-1) >= 0 && i3_2 + i6_3 + (-1) < 16);
    let v5_2_3 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_2 + i4_3 * 256 + i5_3 * 16 + i6_3 + (-17), open22)), open22);
    let open23 = (i2 + i5_0 + (-1) >= 0 && i2 + i5_0 + (-1) < 16) && (i3_3 + i6_0 + (-1) >= 0 && i3_3 + i6_0 + (-1) < 16);
    let v5_3_0 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_3 + i4_0 * 256 + i5_0 * 16 + i6_0 + (-17), open23)), open23);
    let open24 = (i2 + i5_1 + (-1) >= 0 && i2 + i5_1 + (-1) < 16) && (i3_3 + i6_1 + (-1) >= 0 && i3_3 + i6_1 + (-1) < 16);
    let v5_3_1 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_3 + i4_1 * 256 + i5_1 * 16 + i6_1 + (-17), open24)), open24);
    let open25 = (i2 + i5_2 + (-1) >= 0 && i2 + i5_2 + (-1) < 16) && (i3_3 + i6_2 + (-1) >= 0 && i3_3 + i6_2 + (-1) < 16);
    let v5_3_2 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_3 + i4_2 * 256 + i5_2 * 16 + i6_2 + (-17), open25)), open25);
    let open26 = (i2 + i5_3 + (-1) >= 0 && i2 + i5_3 + (-1) < 16) && (i3_3 + i6_3 + (-1) >= 0 && i3_3 + i6_3 + (-1) < 16);
    let v5_3_3 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_3 + i4_3 * 256 + i5_3 * 16 + i6_3 + (-17), open26)), open26);
    let inside_0 = depth + 0 < 27;
    let inside_1 = depth + 1 < 27;
    let inside_2 = depth + 2 < 27;
    let inside_3 = depth + 3 < 27;
    return array<vec4<Element>, 4>(
        vec4<Element>(select(Element(), v5_0_0, inside_0), select(Element(), v5_1_0, inside_0), select(Element(), v5_2_0, inside_0), select(Element(), v5_3_0, inside_0)),
        vec4<Element>(select(Element(), v5_0_1, inside_1), select(Element(), v5_1_1, inside_1), select(Element(), v5_2_1, inside_1), select(Element(), v5_3_1, inside_1)),
        vec4<Element>(select(Element(), v5_0_2, inside_2), select(Element(), v5_1_2, inside_2), select(Element(), v5_2_2, inside_2), select(Element(), v5_3_2, inside_2)),
        vec4<Element>(select(Element(), v5_0_3, inside_3), select(Element(), v5_1_3, inside_3), select(Element(), v5_2_3, inside_3), select(Element(), v5_3_3, inside_3)),
    );
}
fn store_c(batch: i32, row: i32, column: i32, x: vec4<Element>) {
    let i1 = row;
    let column_first = min(column, 508);
    let over1 = i32((u32(column_first) / 256u));
    let i0 = over1;
    let i3_0 = column_first - over1 * 256;
    let i3_1 = i3_0 + 1;
    let i3_2 = i3_0 + 2;
    let i3_3 = i3_0 + 3;
    let v6_0 = x[0];
    let v6_1 = x[1];
    let v6_2 = x[2];
    let v6_3 = x[3];
    let v3 = number_f32(0x00000000u /* 0.0 */);
    let v7 = in2(i1);
    let v8_0 = add_f32(v6_0, v7);
    let v8_1 = add_f32(v6_1, v7);
    let v8_2 = add_f32(v6_2, v7);
    let v8_3 = add_f32(v6_3, v7);
    let v9_0 = maximum_f32(v8_0, v3);
    let v9_1 = maximum_f32(v8_1, v3);
    let v9_2 = maximum_f32(v8_2, v3);
    let v9_3 = maximum_f32(v8_3, v3);
    let at2 = (i0 * 2048 + i1 * 256 + i3_0) >> 2u;
    out0(at2, v9_0, v9_1, v9_2, v9_3);
}
fn read_offsets() {
    offset0 = uniforms[1].x;
    offset1 = uniforms[1].y;
    offset2 = uniforms[1].z;
}

// Vec4s of rows in a workgroup's tile.
const BLOCKS = ROWS / 4;
// Depths of a step: the lanes hold a block of four rows and four depths each.
const STEP = 4 * LANES / BLOCKS;
const COLUMNS = 4 * LANES * VEC4S;

// What loops carry is single numbers: software drivers keep a vector in one variable, of
// which they read all for each number, and so compile it for longer.
alias Scalars4 = array<Element, 4>;
alias Sums = array<array<Scalars4, VEC4S>, ROWS>;
alias Depths = array<array<array<vec4<Element>, 4>, VEC4S>, STEP / 4>;

// Adds what four depths contribute to a row: `x` is row `i` of the block that `lane` holds.
fn take_in(sums: ptr<function, Sums>, b: ptr<function, Depths>, lane: i32, i: i32, x: vec4<Element>) {
    let row = lane % BLOCKS * 4 + i;
    for (var q = 0; q < VEC4S; q++) {
        let y = (*b)[lane / BLOCKS][q];
        let own = &(*sums)[row][q];
        (*own)[0] = (*own)[0] + x.x * y[0].x + x.y * y[1].x + x.z * y[2].x + x.w * y[3].x;
        (*own)[1] = (*own)[1] + x.x * y[0].y + x.y * y[1].y + x.z * y[2].y + x.w * y[3].y;
        (*own)[2] = (*own)[2] + x.x * y[0].z + x.y * y[1].z + x.z * y[2].z + x.w * y[3].z;
        (*own)[3] = (*own)[3] + x.x * y[0].w + x.y * y[1].w + x.z * y[2].w + x.w * y[3].w;
    }
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_invocation_id) own: u32,
) {
    read_offsets();
    let tile = i32(group.y * groups.x + group.x);
    let row_tiles = (m() + ROWS - 1) / ROWS;
    let column_tiles = (n() + COLUMNS - 1) / COLUMNS;
    let lane = i32(own);
    // One, which no compiler knows: drivers would write out the iterations of a loop that
    // they can count, and may compile one anew for each launch that counts to a uniform.
    // Where there is no tile it is zero, and so no loop does anything: after a return,
    // software drivers would mask all that follows.
    let one = select(0, i32(min(groups.y, 1u)), tile < batches() * row_tiles * column_tiles);
    // Neighbours share what the caches hold worst: the wider operand's part.
    let place = tile % (row_tiles * column_tiles);
    let by_rows = m() < n();
    let column = select(place % column_tiles, place / row_tiles, by_rows) * COLUMNS + lane * 4;
    let row = select(place / column_tiles, place % row_tiles, by_rows) * ROWS;
    let batch = tile / (row_tiles * column_tiles);
    var sums: Sums;
    let none = zero().x;
    for (var r = 0; r < ROWS; r++) {
        for (var q = 0; q < VEC4S; q++) { sums[r][q] = Scalars4(none, none, none, none); }
    }
    var b: Depths;
    for (var depth = 0; depth < k() * one; depth += STEP) {
        let a = load_a(batch, row + lane % BLOCKS * 4, depth + lane / BLOCKS * 4);
        for (var d = 0; d < STEP / 4; d++) {
            for (var q = 0; q < VEC4S; q++) { b[d][q] = load_b(batch, depth + d * 4, column + q * LANES * 4); }
        }
        for (var i = 0; i < 4; i++) {
            // The number of a broadcast's lane must be a constant.
            take_in(&sums, &b, 0, i, subgroupBroadcast(a[i], 0u));
            take_in(&sums, &b, 1, i, subgroupBroadcast(a[i], 1u));
            take_in(&sums, &b, 2, i, subgroupBroadcast(a[i], 2u));
            take_in(&sums, &b, 3, i, subgroupBroadcast(a[i], 3u));
            if (LANES > 4) {
                take_in(&sums, &b, 4 % LANES, i, subgroupBroadcast(a[i], 4u));
                take_in(&sums, &b, 5 % LANES, i, subgroupBroadcast(a[i], 5u));
                take_in(&sums, &b, 6 % LANES, i, subgroupBroadcast(a[i], 6u));
                take_in(&sums, &b, 7 % LANES, i, subgroupBroadcast(a[i], 7u));
            }
        }
    }
    // Sums move up and are stored from the first row, since what becomes of each would
    // else be written out.
    for (var r = 0; r < ROWS * one; r++) {
        for (var q = 0; q < VEC4S; q++) {
            let own_column = column + q * LANES * 4;
            let x = sums[0][q];
            if (row + r < m() && own_column < n()) {
                store_c(batch, row + r, own_column, vec4<Element>(x[0], x[1], x[2], x[3]));
            }
        }
        for (var i = 0; i < ROWS - 1; i++) { sums[i] = sums[i + 1]; }
    }
}

