// contract_mul[2, 4, 16, 16]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
fn number_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits ^ uniforms[0].x);
}
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ uniforms[0].x);
}
fn multiply_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x * y);
}
fn wide_u64(low: u32, high: u32) -> u64 {
    return (u64(high) << 32u) | u64(low);
}
fn words_of(x: vec2<u64>) -> vec4<u32> {
    return vec4<u32>(u32(x.x), u32(x.x >> 32u), u32(x.y), u32(x.y >> 32u));
}
fn long_words(x: vec4<u32>) -> vec2<u64> {
    return vec2<u64>(wide_u64(x.x, x.y), wide_u64(x.z, x.w));
}
@group(0) @binding(1) var<storage, read_write> in0_0: array<vec2<u64>>;
fn in0(quad: i32) -> vec4<f32> {
    let e = u32(quad);
    return bitcast<vec4<f32>>(words_of(in0_0[e]));
}
var<private> vec4_offset0: i32;
fn in0_vector_index(group: i32) -> i32 {
    return group + vec4_offset0;
}
@group(0) @binding(2) var<storage, read_write> in1_0: array<vec2<u64>>;
fn in1(quad: i32) -> vec4<f32> {
    let e = u32(quad);
    return bitcast<vec4<f32>>(words_of(in1_0[e]));
}
var<private> vec4_offset1: i32;
fn in1_vector_index(group: i32) -> i32 {
    return group + vec4_offset1;
}
@group(0) @binding(3) var<storage, read_write> out0_0: array<vec2<u64>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = long_words(bitcast<vec4<u32>>(vec4<f32>(a, b, c, d)));
}
alias Element = f32;
fn batches() -> i32 {
    return 8;
}
fn m() -> i32 {
    return 16;
}
fn n() -> i32 {
    return 16;
}
fn k() -> i32 {
    return 8;
}
const LANES = 8;
const ROWS = 16;
const VEC4S = 1;
fn zero() -> vec4<Element> {
    return vec4<Element>(number_f32(0x00000000u /* 0.0 */));
}
fn load_a(batch: i32, row: i32, depth: i32) -> array<vec4<Element>, 4> {
    let i1 = batch;
    let row_first = min(row, 12);
    let i2_0 = row_first;
    let i2_1 = i2_0 + 1;
    let i2_2 = i2_0 + 2;
    let i2_3 = i2_0 + 3;
    let depth_first = min(depth, 4);
    let i4_0 = depth_first;
    let i4_1 = i4_0 + 1;
    let i4_2 = i4_0 + 2;
    let i4_3 = i4_0 + 3;
    let at1 = in0_vector_index((i1 * 128 + i2_0 * 8 + i4_0) >> 2u);
    let vec4_2 = in0(at1);
    let v0_0_0 = vec4_2.x;
    let v0_0_1 = vec4_2.y;
    let v0_0_2 = vec4_2.z;
    let v0_0_3 = vec4_2.w;
    let at3 = in0_vector_index((i1 * 128 + i2_1 * 8 + i4_0) >> 2u);
    let vec4_4 = in0(at3);
    let v0_1_0 = vec4_4.x;
    let v0_1_1 = vec4_4.y;
    let v0_1_2 = vec4_4.z;
    let v0_1_3 = vec4_4.w;
    let at5 = in0_vector_index((i1 * 128 + i2_2 * 8 + i4_0) >> 2u);
    let vec4_6 = in0(at5);
    let v0_2_0 = vec4_6.x;
    let v0_2_1 = vec4_6.y;
    let v0_2_2 = vec4_6.z;
    let v0_2_3 = vec4_6.w;
    let at7 = in0_vector_index((i1 * 128 + i2_3 * 8 + i4_0) >> 2u);
    let vec4_8 = in0(at7);
    let v0_3_0 = vec4_8.x;
    let v0_3_1 = vec4_8.y;
    let v0_3_2 = vec4_8.z;
    let v0_3_3 = vec4_8.w;
    let v1 = number_f32(0x3eb504f3u /* 0.35355338 */);
    let v2_0_0 = multiply_f32(v0_0_0, v1);
    let v2_0_1 = multiply_f32(v0_0_1, v1);
    let v2_0_2 = multiply_f32(v0_0_2, v1);
    let v2_0_3 = multiply_f32(v0_0_3, v1);
    let v2_1_0 = multiply_f32(v0_1_0, v1);
    let v2_1_1 = multiply_f32(v0_1_1, v1);
    let v2_1_2 = multiply_f32(v0_1_2, v1);
    let v2_1_3 = multiply_f32(v0_1_3, v1);
    let v2_2_0 = multiply_f32(v0_2_0, v1);
    let v2_2_1 = multiply_f32(v0_2_1, v1);
    let v2_2_2 = multiply_f32(v0_2_2, v1);
    let v2_2_3 = multiply_f32(v0_2_3, v1);
    let v2_3_0 = multiply_f32(v0_3_0, v1);
    let v2_3_1 = multiply_f32(v0_3_1, v1);
    let v2_3_2 = multiply_f32(v0_3_2, v1);
    let v2_3_3 = multiply_f32(v0_3_3, v1);
    return array<vec4<Element>, 4>(
        vec4<Element>(v2_0_0, v2_0_1, v2_0_2, v2_0_3),
        vec4<Element>(v2_1_0, v2_1_1, v2_1_2, v2_1_3),
        vec4<Element>(v2_2_0, v2_2_1, v2_2_2, v2_2_3),
        vec4<Element>(v2_3_0, v2_3_1, v2_3_2, v2_3_3),
    );
}
fn load_b(batch: i32, depth: i32, column: i32) -> array<vec4<Element>, 4> {
    let i1 = batch;
    let depth_first = min(depth, 4);
    let i4_0 = depth_first;
    let i4_1 = i4_0 + 1;
    let i4_2 = i4_0 + 2;
    let i4_3 = i4_0 + 3;
    let column_first = min(column, 12);
    let i3_0 = column_first;
    let i3_1 = i3_0 + 1;
    let i3_2 = i3_0 + 2;
    let i3_3 = i3_0 + 3;
    let at1 = in1_vector_index((i1 * 128 + i3_0 * 8 + i4_0) >> 2u);
    let vec4_2 = in1(at1);
    let v3_0_0 = vec4_2.x;
    let v3_0_1 = vec4_2.y;
    let v3_0_2 = vec4_2.z;
    let v3_0_3 = vec4_2.w;
    let at3 = in1_vector_index((i1 * 128 + i3_1 * 8 + i4_0) >> 2u);
    let vec4_4 = in1(at3);
    let v3_1_0 = vec4_4.x;
    let v3_1_1 = vec4_4.y;
    let v3_1_2 = vec4_4.z;
    let v3_1_3 = vec4_4.w;
    let at5 = in1_vector_index((i1 * 128 + i3_2 * 8 + i4_0) >> 2u);
    let vec4_6 = in1(at5);
    let v3_2_0 = vec4_6.x;
    let v3_2_1 = vec4_6.y;
    let v3_2_2 = vec4_6.z;
    let v3_2_3 = vec4_6.w;
    let at7 = in1_vector_index((i1 * 128 + i3_3 * 8 + i4_0) >> 2u);
    let vec4_8 = in1(at7);
    let v3_3_0 = vec4_8.x;
    let v3_3_1 = vec4_8.y;
    let v3_3_2 = vec4_8.z;
    let v3_3_3 = vec4_8.w;
    return array<vec4<Element>, 4>(
        vec4<Element>(v3_0_0, v3_1_0, v3_2_0, v3_3_0),
        vec4<Element>(v3_0_1, v3_1_1, v3_2_1, v3_3_1),
        vec4<Element>(v3_0_2, v3_1_2, v3_2_2, v3_3_2),
        vec4<Element>(v3_0_3, v3_1_3, v3_2_3, v3_3_3),
    );
}
fn store_c(batch: i32, row: i32, column: i32, x: vec4<Element>) {
    let i1 = batch;
    let i2 = row;
    let column_first = min(column, 12);
    let i3_0 = column_first;
    let i3_1 = i3_0 + 1;
    let i3_2 = i3_0 + 2;
    let i3_3 = i3_0 + 3;
    let v4_0 = x[0];
    let v4_1 = x[1];
    let v4_2 = x[2];
    let v4_3 = x[3];
    let at1 = (i1 * 256 + i2 * 16 + i3_0) >> 2u;
    out0(at1, v4_0, v4_1, v4_2, v4_3);
}
fn read_offsets() {
    vec4_offset0 = i32(uniforms[1].x / 4u);
    vec4_offset1 = i32(uniforms[1].y / 4u);
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

// max_sum_sub_exp_reciprocal_mul[2, 4, 16, 16]
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
fn negate_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ (0x80000000u ^ uniforms[0].x));
}
fn subtract_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x + negate_f32(y));
}
fn multiply_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x * y);
}
fn reciprocal_f32(x: f32) -> f32 {
    return opaque_f32(number_f32(0x3f800000u) / x);
}
fn rank_max_f32(x: f32) -> i32 {
    let bits = select(bitcast<i32>(x), 0x7fc00000, nan_f32(x));
    return bits ^ ((bits >> 31u) & 0x7fffffff);
}
fn unrank_f32(rank: i32) -> f32 {
    return bitcast<f32>(rank ^ ((rank >> 31u) & 0x7fffffff));
}
fn scale_f32(x: f32, n: i32) -> f32 {
    let half = n >> 1u;
    let other = n - half;
    return x * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(other + 127) << 23u);
}
fn rest_expm1_f32(c: f32, n: f32) -> f32 {
    let r = opaque_f32(c - n * 0.693359375) - n * -2.12194440e-4;
    let p = (((0.0013898227 * r + 0.008366046) * r + 0.041666854) * r + 0.16666548) * r + 0.5;
    return p * (r * r) + r;
}
fn exp_f32(x: f32) -> f32 {
    let c = min(max(x, -104.0), 89.0);
    let n = round(c * 1.4426950);
    let y = 1.0 + rest_expm1_f32(c, n);
    let value = opaque_f32(select(scale_f32(y, i32(n)), 0.0, c < -103.98));
    return select(value, x, nan_f32(x));
}
fn wide_u64(low: u32, high: u32) -> u64 {
    return (u64(high) << 32u) | u64(low);
}
fn words_of(x: vec2<u64>) -> vec4<u32> {
    return vec4<u32>(u32(x.x), u32(x.x >> 32u), u32(x.y), u32(x.y >> 32u));
}
fn long_words(x: vec4<u32>) -> vec2<u64> {
    return vec2<u64>(wide_u64(x.x, x.y), wide_u64(x.z, x.w));
}
@group(0) @binding(1) var<storage, read_write> in0_0: array<vec4<u64>>;
struct Vec8_f32 { low: vec4<f32>, high: vec4<f32> }
fn in0(eighth: i32) -> Vec8_f32 {
    let e = u32(eighth);
    var x: vec4<u64>;
    x = in0_0[e];
    return Vec8_f32(bitcast<vec4<f32>>(words_of(x.xy)), bitcast<vec4<f32>>(words_of(x.zw)));
}
var<private> vec8_offset0: i32;
fn in0_vector_index(group: i32) -> i32 {
    return group + vec8_offset0;
}
@group(0) @binding(2) var<storage, read_write> out0_0: array<vec4<u64>>;
fn out0(eighth: i32, low: vec4<f32>, high: vec4<f32>) {
    let e = u32(eighth);
    out0_0[e] = vec4<u64>(long_words(bitcast<vec4<u32>>(low)), long_words(bitcast<vec4<u32>>(high)));
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    vec8_offset0 = i32(uniforms[1].x / 8u);
    let one = i32(min(groups.y, 1u));
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 128) { return; }
    let over1 = i32((u32(point) / 16u));
    let i1 = over1;
    let i2 = point - over1 * 16;
    let v5 = number_f32(0xff800000u /* -inf */);
    var s2a: i32 = i32(-2139095041);
    for (var row: i32 = 0; row < 16 * one; row += 8) {
        let i3_0 = row;
        let i3_1 = i3_0 + 1;
        let i3_2 = i3_0 + 2;
        let i3_3 = i3_0 + 3;
        let i3_4 = i3_0 + 4;
        let i3_5 = i3_0 + 5;
        let i3_6 = i3_0 + 6;
        let i3_7 = i3_0 + 7;
        let v2_0 = ((i2) < (i3_0));
        let v2_1 = ((i2) < (i3_1));
        let v2_2 = ((i2) < (i3_2));
        let v2_3 = ((i2) < (i3_3));
        let v2_4 = ((i2) < (i3_4));
        let v2_5 = ((i2) < (i3_5));
        let v2_6 = ((i2) < (i3_6));
        let v2_7 = ((i2) < (i3_7));
        let v3_0 = (!v2_0);
        let v3_1 = (!v2_1);
        let v3_2 = (!v2_2);
        let v3_3 = (!v2_3);
        let v3_4 = (!v2_4);
        let v3_5 = (!v2_5);
        let v3_6 = (!v2_6);
        let v3_7 = (!v2_7);
        let at3 = in0_vector_index((i1 * 256 + i2 * 16 + i3_0) >> 3u);
        let vec8_4 = in0(at3);
        let v4_0 = vec8_4.low.x;
        let v4_1 = vec8_4.low.y;
        let v4_2 = vec8_4.low.z;
        let v4_3 = vec8_4.low.w;
        let v4_4 = vec8_4.high.x;
        let v4_5 = vec8_4.high.y;
        let v4_6 = vec8_4.high.z;
        let v4_7 = vec8_4.high.w;
        let v6_0 = select(v5, v4_0, v3_0);
        let v6_1 = select(v5, v4_1, v3_1);
        let v6_2 = select(v5, v4_2, v3_2);
        let v6_3 = select(v5, v4_3, v3_3);
        let v6_4 = select(v5, v4_4, v3_4);
        let v6_5 = select(v5, v4_5, v3_5);
        let v6_6 = select(v5, v4_6, v3_6);
        let v6_7 = select(v5, v4_7, v3_7);
        s2a = max(s2a, rank_max_f32(v6_0));
        s2a = max(s2a, rank_max_f32(v6_1));
        s2a = max(s2a, rank_max_f32(v6_2));
        s2a = max(s2a, rank_max_f32(v6_3));
        s2a = max(s2a, rank_max_f32(v6_4));
        s2a = max(s2a, rank_max_f32(v6_5));
        s2a = max(s2a, rank_max_f32(v6_6));
        s2a = max(s2a, rank_max_f32(v6_7));
    }
    let v7 = unrank_f32(s2a);
    var s5a: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var row: i32 = 0; row < 16 * one; row += 8) {
        let i3_0 = row;
        let i3_1 = i3_0 + 1;
        let i3_2 = i3_0 + 2;
        let i3_3 = i3_0 + 3;
        let i3_4 = i3_0 + 4;
        let i3_5 = i3_0 + 5;
        let i3_6 = i3_0 + 6;
        let i3_7 = i3_0 + 7;
        let v2_0 = ((i2) < (i3_0));
        let v2_1 = ((i2) < (i3_1));
        let v2_2 = ((i2) < (i3_2));
        let v2_3 = ((i2) < (i3_3));
        let v2_4 = ((i2) < (i3_4));
        let v2_5 = ((i2) < (i3_5));
        let v2_6 = ((i2) < (i3_6));
        let v2_7 = ((i2) < (i3_7));
        let v3_0 = (!v2_0);
        let v3_1 = (!v2_1);
        let v3_2 = (!v2_2);
        let v3_3 = (!v2_3);
        let v3_4 = (!v2_4);
        let v3_5 = (!v2_5);
        let v3_6 = (!v2_6);
        let v3_7 = (!v2_7);
        let at6 = in0_vector_index((i1 * 256 + i2 * 16 + i3_0) >> 3u);
        let vec8_7 = in0(at6);
        let v4_0 = vec8_7.low.x;
        let v4_1 = vec8_7.low.y;
        let v4_2 = vec8_7.low.z;
        let v4_3 = vec8_7.low.w;
        let v4_4 = vec8_7.high.x;
        let v4_5 = vec8_7.high.y;
        let v4_6 = vec8_7.high.z;
        let v4_7 = vec8_7.high.w;
        let v6_0 = select(v5, v4_0, v3_0);
        let v6_1 = select(v5, v4_1, v3_1);
        let v6_2 = select(v5, v4_2, v3_2);
        let v6_3 = select(v5, v4_3, v3_3);
        let v6_4 = select(v5, v4_4, v3_4);
        let v6_5 = select(v5, v4_5, v3_5);
        let v6_6 = select(v5, v4_6, v3_6);
        let v6_7 = select(v5, v4_7, v3_7);
        let v8_0 = subtract_f32(v6_0, v7);
        let v8_1 = subtract_f32(v6_1, v7);
        let v8_2 = subtract_f32(v6_2, v7);
        let v8_3 = subtract_f32(v6_3, v7);
        let v8_4 = subtract_f32(v6_4, v7);
        let v8_5 = subtract_f32(v6_5, v7);
        let v8_6 = subtract_f32(v6_6, v7);
        let v8_7 = subtract_f32(v6_7, v7);
        let v9_0 = exp_f32(v8_0);
        let v9_1 = exp_f32(v8_1);
        let v9_2 = exp_f32(v8_2);
        let v9_3 = exp_f32(v8_3);
        let v9_4 = exp_f32(v8_4);
        let v9_5 = exp_f32(v8_5);
        let v9_6 = exp_f32(v8_6);
        let v9_7 = exp_f32(v8_7);
        s5a = add_f32(s5a, add_f32(add_f32(add_f32(v9_0, v9_1), add_f32(v9_2, v9_3)), add_f32(add_f32(v9_4, v9_5), add_f32(v9_6, v9_7))));
    }
    let v10 = s5a;
    let v11 = reciprocal_f32(v10);
    for (var row: i32 = 0; row < 16 * one; row += 8) {
        let i3_0 = row;
        let i3_1 = i3_0 + 1;
        let i3_2 = i3_0 + 2;
        let i3_3 = i3_0 + 3;
        let i3_4 = i3_0 + 4;
        let i3_5 = i3_0 + 5;
        let i3_6 = i3_0 + 6;
        let i3_7 = i3_0 + 7;
        let v2_0 = ((i2) < (i3_0));
        let v2_1 = ((i2) < (i3_1));
        let v2_2 = ((i2) < (i3_2));
        let v2_3 = ((i2) < (i3_3));
        let v2_4 = ((i2) < (i3_4));
        let v2_5 = ((i2) < (i3_5));
        let v2_6 = ((i2) < (i3_6));
        let v2_7 = ((i2) < (i3_7));
        let v3_0 = (!v2_0);
        let v3_1 = (!v2_1);
        let v3_2 = (!v2_2);
        let v3_3 = (!v2_3);
        let v3_4 = (!v2_4);
        let v3_5 = (!v2_5);
        let v3_6 = (!v2_6);
        let v3_7 = (!v2_7);
        let at8 = in0_vector_index((i1 * 256 + i2 * 16 + i3_0) >> 3u);
        let vec8_9 = in0(at8);
        let v4_0 = vec8_9.low.x;
        let v4_1 = vec8_9.low.y;
        let v4_2 = vec8_9.low.z;
        let v4_3 = vec8_9.low.w;
        let v4_4 = vec8_9.high.x;
        let v4_5 = vec8_9.high.y;
        let v4_6 = vec8_9.high.z;
        let v4_7 = vec8_9.high.w;
        let v6_0 = select(v5, v4_0, v3_0);
        let v6_1 = select(v5, v4_1, v3_1);
        let v6_2 = select(v5, v4_2, v3_2);
        let v6_3 = select(v5, v4_3, v3_3);
        let v6_4 = select(v5, v4_4, v3_4);
        let v6_5 = select(v5, v4_5, v3_5);
        let v6_6 = select(v5, v4_6, v3_6);
        let v6_7 = select(v5, v4_7, v3_7);
        let v8_0 = subtract_f32(v6_0, v7);
        let v8_1 = subtract_f32(v6_1, v7);
        let v8_2 = subtract_f32(v6_2, v7);
        let v8_3 = subtract_f32(v6_3, v7);
        let v8_4 = subtract_f32(v6_4, v7);
        let v8_5 = subtract_f32(v6_5, v7);
        let v8_6 = subtract_f32(v6_6, v7);
        let v8_7 = subtract_f32(v6_7, v7);
        let v9_0 = exp_f32(v8_0);
        let v9_1 = exp_f32(v8_1);
        let v9_2 = exp_f32(v8_2);
        let v9_3 = exp_f32(v8_3);
        let v9_4 = exp_f32(v8_4);
        let v9_5 = exp_f32(v8_5);
        let v9_6 = exp_f32(v8_6);
        let v9_7 = exp_f32(v8_7);
        let v12_0 = multiply_f32(v9_0, v11);
        let v12_1 = multiply_f32(v9_1, v11);
        let v12_2 = multiply_f32(v9_2, v11);
        let v12_3 = multiply_f32(v9_3, v11);
        let v12_4 = multiply_f32(v9_4, v11);
        let v12_5 = multiply_f32(v9_5, v11);
        let v12_6 = multiply_f32(v9_6, v11);
        let v12_7 = multiply_f32(v9_7, v11);
        let at10 = (i1 * 256 + i2 * 16 + i3_0) >> 3u;
        out0(at10, vec4(v12_0, v12_1, v12_2, v12_3), vec4(v12_4, v12_5, v12_6, v12_7));
    }
}

// contract[2, 4, 16, 8]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
fn number_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits ^ uniforms[0].x);
}
fn wide_u64(low: u32, high: u32) -> u64 {
    return (u64(high) << 32u) | u64(low);
}
fn words_of(x: vec2<u64>) -> vec4<u32> {
    return vec4<u32>(u32(x.x), u32(x.x >> 32u), u32(x.y), u32(x.y >> 32u));
}
fn long_words(x: vec4<u32>) -> vec2<u64> {
    return vec2<u64>(wide_u64(x.x, x.y), wide_u64(x.z, x.w));
}
@group(0) @binding(1) var<storage, read_write> in0_0: array<vec2<u64>>;
fn in0(quad: i32) -> vec4<f32> {
    let e = u32(quad);
    return bitcast<vec4<f32>>(words_of(in0_0[e]));
}
var<private> vec4_offset0: i32;
fn in0_vector_index(group: i32) -> i32 {
    return group + vec4_offset0;
}
@group(0) @binding(2) var<storage, read_write> in1_0: array<vec2<u64>>;
fn in1(quad: i32) -> vec4<f32> {
    let e = u32(quad);
    return bitcast<vec4<f32>>(words_of(in1_0[e]));
}
var<private> vec4_offset1: i32;
fn in1_vector_index(group: i32) -> i32 {
    return group + vec4_offset1;
}
@group(0) @binding(3) var<storage, read_write> out0_0: array<vec2<u64>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = long_words(bitcast<vec4<u32>>(vec4<f32>(a, b, c, d)));
}
alias Element = f32;
fn batches() -> i32 {
    return 8;
}
fn m() -> i32 {
    return 16;
}
fn n() -> i32 {
    return 8;
}
fn k() -> i32 {
    return 16;
}
const LANES = 8;
const ROWS = 16;
const VEC4S = 1;
fn zero() -> vec4<Element> {
    return vec4<Element>(number_f32(0x00000000u /* 0.0 */));
}
fn load_a(batch: i32, row: i32, depth: i32) -> array<vec4<Element>, 4> {
    let i1 = batch;
    let row_first = min(row, 12);
    let i2_0 = row_first;
    let i2_1 = i2_0 + 1;
    let i2_2 = i2_0 + 2;
    let i2_3 = i2_0 + 3;
    let depth_first = min(depth, 12);
    let i4_0 = depth_first;
    let i4_1 = i4_0 + 1;
    let i4_2 = i4_0 + 2;
    let i4_3 = i4_0 + 3;
    let at1 = in0_vector_index((i1 * 256 + i2_0 * 16 + i4_0) >> 2u);
    let vec4_2 = in0(at1);
    let v0_0_0 = vec4_2.x;
    let v0_0_1 = vec4_2.y;
    let v0_0_2 = vec4_2.z;
    let v0_0_3 = vec4_2.w;
    let at3 = in0_vector_index((i1 * 256 + i2_1 * 16 + i4_0) >> 2u);
    let vec4_4 = in0(at3);
    let v0_1_0 = vec4_4.x;
    let v0_1_1 = vec4_4.y;
    let v0_1_2 = vec4_4.z;
    let v0_1_3 = vec4_4.w;
    let at5 = in0_vector_index((i1 * 256 + i2_2 * 16 + i4_0) >> 2u);
    let vec4_6 = in0(at5);
    let v0_2_0 = vec4_6.x;
    let v0_2_1 = vec4_6.y;
    let v0_2_2 = vec4_6.z;
    let v0_2_3 = vec4_6.w;
    let at7 = in0_vector_index((i1 * 256 + i2_3 * 16 + i4_0) >> 2u);
    let vec4_8 = in0(at7);
    let v0_3_0 = vec4_8.x;
    let v0_3_1 = vec4_8.y;
    let v0_3_2 = vec4_8.z;
    let v0_3_3 = vec4_8.w;
    return array<vec4<Element>, 4>(
        vec4<Element>(v0_0_0, v0_0_1, v0_0_2, v0_0_3),
        vec4<Element>(v0_1_0, v0_1_1, v0_1_2, v0_1_3),
        vec4<Element>(v0_2_0, v0_2_1, v0_2_2, v0_2_3),
        vec4<Element>(v0_3_0, v0_3_1, v0_3_2, v0_3_3),
    );
}
fn load_b(batch: i32, depth: i32, column: i32) -> array<vec4<Element>, 4> {
    let i1 = batch;
    let depth_first = min(depth, 12);
    let i4_0 = depth_first;
    let i4_1 = i4_0 + 1;
    let i4_2 = i4_0 + 2;
    let i4_3 = i4_0 + 3;
    let column_first = min(column, 4);
    let i3_0 = column_first;
    let i3_1 = i3_0 + 1;
    let i3_2 = i3_0 + 2;
    let i3_3 = i3_0 + 3;
    let at1 = in1_vector_index((i1 * 128 + i3_0 + i4_0 * 8) >> 2u);
    let vec4_2 = in1(at1);
    let v1_0_0 = vec4_2.x;
    let v1_1_0 = vec4_2.y;
    let v1_2_0 = vec4_2.z;
    let v1_3_0 = vec4_2.w;
    let at3 = in1_vector_index((i1 * 128 + i3_0 + i4_1 * 8) >> 2u);
    let vec4_4 = in1(at3);
    let v1_0_1 = vec4_4.x;
    let v1_1_1 = vec4_4.y;
    let v1_2_1 = vec4_4.z;
    let v1_3_1 = vec4_4.w;
    let at5 = in1_vector_index((i1 * 128 + i3_0 + i4_2 * 8) >> 2u);
    let vec4_6 = in1(at5);
    let v1_0_2 = vec4_6.x;
    let v1_1_2 = vec4_6.y;
    let v1_2_2 = vec4_6.z;
    let v1_3_2 = vec4_6.w;
    let at7 = in1_vector_index((i1 * 128 + i3_0 + i4_3 * 8) >> 2u);
    let vec4_8 = in1(at7);
    let v1_0_3 = vec4_8.x;
    let v1_1_3 = vec4_8.y;
    let v1_2_3 = vec4_8.z;
    let v1_3_3 = vec4_8.w;
    return array<vec4<Element>, 4>(
        vec4<Element>(v1_0_0, v1_1_0, v1_2_0, v1_3_0),
        vec4<Element>(v1_0_1, v1_1_1, v1_2_1, v1_3_1),
        vec4<Element>(v1_0_2, v1_1_2, v1_2_2, v1_3_2),
        vec4<Element>(v1_0_3, v1_1_3, v1_2_3, v1_3_3),
    );
}
fn store_c(batch: i32, row: i32, column: i32, x: vec4<Element>) {
    let i1 = batch;
    let i2 = row;
    let column_first = min(column, 4);
    let i3_0 = column_first;
    let i3_1 = i3_0 + 1;
    let i3_2 = i3_0 + 2;
    let i3_3 = i3_0 + 3;
    let v2_0 = x[0];
    let v2_1 = x[1];
    let v2_2 = x[2];
    let v2_3 = x[3];
    let at1 = (i1 * 128 + i2 * 8 + i3_0) >> 2u;
    out0(at1, v2_0, v2_1, v2_2, v2_3);
}
fn read_offsets() {
    vec4_offset0 = i32(uniforms[1].x / 4u);
    vec4_offset1 = i32(uniforms[1].y / 4u);
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

