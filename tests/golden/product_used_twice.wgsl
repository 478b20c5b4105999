// contract_tanh[32, 32]
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
fn magnitude_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu);
}
fn rest_expm1_f32(c: f32, n: f32) -> f32 {
    let r = opaque_f32(c - n * 0.693359375) - n * -2.12194440e-4;
    let p = (((0.0013898227 * r + 0.008366046) * r + 0.041666854) * r + 0.16666548) * r + 0.5;
    return p * (r * r) + r;
}
fn with_sign_f32(x: f32, sign: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ (bitcast<u32>(sign) & 0x80000000u));
}
fn tanh_f32(x: f32) -> f32 {
    let c = 2.0 * min(magnitude_f32(x), 10.0);
    let n = round(c * 1.4426950);
    let power = bitcast<f32>(u32(i32(n) + 127) << 23u);
    let m = rest_expm1_f32(c, n) * power + opaque_f32(power - 1.0);
    return select(with_sign_f32(m / (m + 2.0), x), x, nan_f32(x));
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
@group(0) @binding(4) var<storage, read_write> out1_0: array<vec2<u64>>;
fn out1(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out1_0[e] = long_words(bitcast<vec4<u32>>(vec4<f32>(a, b, c, d)));
}
alias Element = f32;
fn batches() -> i32 {
    return 1;
}
fn m() -> i32 {
    return 32;
}
fn n() -> i32 {
    return 32;
}
fn k() -> i32 {
    return 32;
}
const LANES = 8;
const ROWS = 4;
const VEC4S = 1;
fn zero() -> vec4<Element> {
    return vec4<Element>(number_f32(0x00000000u /* 0.0 */));
}
fn load_a(batch: i32, row: i32, depth: i32) -> array<vec4<Element>, 4> {
    let row_first = min(row, 28);
    let i0_0 = row_first;
    let i0_1 = i0_0 + 1;
    let i0_2 = i0_0 + 2;
    let i0_3 = i0_0 + 3;
    let depth_first = min(depth, 28);
    let i2_0 = depth_first;
    let i2_1 = i2_0 + 1;
    let i2_2 = i2_0 + 2;
    let i2_3 = i2_0 + 3;
    let at1 = in0_vector_index((i0_0 * 32 + i2_0) >> 2u);
    let vec4_2 = in0(at1);
    let v0_0_0 = vec4_2.x;
    let v0_0_1 = vec4_2.y;
    let v0_0_2 = vec4_2.z;
    let v0_0_3 = vec4_2.w;
    let at3 = in0_vector_index((i0_1 * 32 + i2_0) >> 2u);
    let vec4_4 = in0(at3);
    let v0_1_0 = vec4_4.x;
    let v0_1_1 = vec4_4.y;
    let v0_1_2 = vec4_4.z;
    let v0_1_3 = vec4_4.w;
    let at5 = in0_vector_index((i0_2 * 32 + i2_0) >> 2u);
    let vec4_6 = in0(at5);
    let v0_2_0 = vec4_6.x;
    let v0_2_1 = vec4_6.y;
    let v0_2_2 = vec4_6.z;
    let v0_2_3 = vec4_6.w;
    let at7 = in0_vector_index((i0_3 * 32 + i2_0) >> 2u);
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
    let depth_first = min(depth, 28);
    let i2_0 = depth_first;
    let i2_1 = i2_0 + 1;
    let i2_2 = i2_0 + 2;
    let i2_3 = i2_0 + 3;
    let column_first = min(column, 28);
    let i1_0 = column_first;
    let i1_1 = i1_0 + 1;
    let i1_2 = i1_0 + 2;
    let i1_3 = i1_0 + 3;
    let at1 = in1_vector_index((i1_0 + i2_0 * 32) >> 2u);
    let vec4_2 = in1(at1);
    let v1_0_0 = vec4_2.x;
    let v1_1_0 = vec4_2.y;
    let v1_2_0 = vec4_2.z;
    let v1_3_0 = vec4_2.w;
    let at3 = in1_vector_index((i1_0 + i2_1 * 32) >> 2u);
    let vec4_4 = in1(at3);
    let v1_0_1 = vec4_4.x;
    let v1_1_1 = vec4_4.y;
    let v1_2_1 = vec4_4.z;
    let v1_3_1 = vec4_4.w;
    let at5 = in1_vector_index((i1_0 + i2_2 * 32) >> 2u);
    let vec4_6 = in1(at5);
    let v1_0_2 = vec4_6.x;
    let v1_1_2 = vec4_6.y;
    let v1_2_2 = vec4_6.z;
    let v1_3_2 = vec4_6.w;
    let at7 = in1_vector_index((i1_0 + i2_3 * 32) >> 2u);
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
    let i0 = row;
    let column_first = min(column, 28);
    let i1_0 = column_first;
    let i1_1 = i1_0 + 1;
    let i1_2 = i1_0 + 2;
    let i1_3 = i1_0 + 3;
    let v2_0 = x[0];
    let v2_1 = x[1];
    let v2_2 = x[2];
    let v2_3 = x[3];
    let v3_0 = tanh_f32(v2_0);
    let v3_1 = tanh_f32(v2_1);
    let v3_2 = tanh_f32(v2_2);
    let v3_3 = tanh_f32(v2_3);
    let at1 = (i0 * 32 + i1_0) >> 2u;
    out0(at1, v2_0, v2_1, v2_2, v2_3);
    let at2 = (i0 * 32 + i1_0) >> 2u;
    out1(at2, v3_0, v3_1, v3_2, v3_3);
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

// sum[32]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
fn number_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits ^ uniforms[0].x);
}
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ uniforms[0].x);
}
fn add_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x + y);
}
fn words_of(x: vec2<u64>) -> vec4<u32> {
    return vec4<u32>(u32(x.x), u32(x.x >> 32u), u32(x.y), u32(x.y >> 32u));
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
@group(0) @binding(2) var<storage, read_write> out0_0: array<f32>;
fn out0(at: i32, x: f32) {
    let e = u32(at);
    out0_0[e] = x;
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
    if (point >= 32) { return; }
    let i0 = point;
    var s1a: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var row: i32 = 0; row < 32 * one; row += 16) {
        let i1_0 = row;
        let i1_1 = i1_0 + 1;
        let i1_2 = i1_0 + 2;
        let i1_3 = i1_0 + 3;
        let i1_4 = i1_0 + 4;
        let i1_5 = i1_0 + 5;
        let i1_6 = i1_0 + 6;
        let i1_7 = i1_0 + 7;
        let i1_8 = i1_0 + 8;
        let i1_9 = i1_0 + 9;
        let i1_10 = i1_0 + 10;
        let i1_11 = i1_0 + 11;
        let i1_12 = i1_0 + 12;
        let i1_13 = i1_0 + 13;
        let i1_14 = i1_0 + 14;
        let i1_15 = i1_0 + 15;
        let at2 = in0_vector_index((i0 * 32 + i1_0) >> 3u);
        let vec8_3 = in0(at2);
        let v0_0 = vec8_3.low.x;
        let v0_1 = vec8_3.low.y;
        let v0_2 = vec8_3.low.z;
        let v0_3 = vec8_3.low.w;
        let v0_4 = vec8_3.high.x;
        let v0_5 = vec8_3.high.y;
        let v0_6 = vec8_3.high.z;
        let v0_7 = vec8_3.high.w;
        let vec8_4 = in0(at2 + 1);
        let v0_8 = vec8_4.low.x;
        let v0_9 = vec8_4.low.y;
        let v0_10 = vec8_4.low.z;
        let v0_11 = vec8_4.low.w;
        let v0_12 = vec8_4.high.x;
        let v0_13 = vec8_4.high.y;
        let v0_14 = vec8_4.high.z;
        let v0_15 = vec8_4.high.w;
        s1a = add_f32(s1a, add_f32(add_f32(add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)), add_f32(add_f32(v0_4, v0_5), add_f32(v0_6, v0_7))), add_f32(add_f32(add_f32(v0_8, v0_9), add_f32(v0_10, v0_11)), add_f32(add_f32(v0_12, v0_13), add_f32(v0_14, v0_15)))));
    }
    let v1 = s1a;
    out0(i0, v1);
}

