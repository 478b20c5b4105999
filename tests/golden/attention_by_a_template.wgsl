// lt[40, 40]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
fn number_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits ^ uniforms[0].x);
}
fn ordinal_f32(x: f32) -> i32 {
    let bits = bitcast<i32>(x);
    return select(bits, bitcast<i32>(0x80000000u) - bits, bits < 0);
}
fn less_f32(x: f32, y: f32) -> bool {
    let a = ordinal_f32(x);
    let b = ordinal_f32(y);
    return a < b && a >= -0x7f800000 && b <= 0x7f800000;
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
@group(0) @binding(2) var<storage, read_write> out0_0: array<u32>;
fn out0(quad: i32, a: bool, b: bool, c: bool, d: bool) {
    let e = u32(quad);
    out0_0[e] = select(0u, 1u, a) | (select(0u, 1u, b) << 8u) | (select(0u, 1u, c) << 16u) | (select(0u, 1u, d) << 24u);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    vec8_offset0 = i32(uniforms[1].x / 8u);
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 200) { return; }
    let point_first = point * 8;
    let i1_0 = point_first;
    let i1_1 = i1_0 + 1;
    let i1_2 = i1_0 + 2;
    let i1_3 = i1_0 + 3;
    let i1_4 = i1_0 + 4;
    let i1_5 = i1_0 + 5;
    let i1_6 = i1_0 + 6;
    let i1_7 = i1_0 + 7;
    let v0 = number_f32(0x00000000u /* 0.0 */);
    let at1 = in0_vector_index((i1_0) >> 3u);
    let vec8_2 = in0(at1);
    let v1_0 = vec8_2.low.x;
    let v1_1 = vec8_2.low.y;
    let v1_2 = vec8_2.low.z;
    let v1_3 = vec8_2.low.w;
    let v1_4 = vec8_2.high.x;
    let v1_5 = vec8_2.high.y;
    let v1_6 = vec8_2.high.z;
    let v1_7 = vec8_2.high.w;
    let v2_0 = less_f32(v0, v1_0);
    let v2_1 = less_f32(v0, v1_1);
    let v2_2 = less_f32(v0, v1_2);
    let v2_3 = less_f32(v0, v1_3);
    let v2_4 = less_f32(v0, v1_4);
    let v2_5 = less_f32(v0, v1_5);
    let v2_6 = less_f32(v0, v1_6);
    let v2_7 = less_f32(v0, v1_7);
    let at3 = (i1_0) >> 2u;
    out0(at3, v2_0, v2_1, v2_2, v2_3);
    out0(at3 + 1, v2_4, v2_5, v2_6, v2_7);
}

// attention[2, 40, 32]
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
@group(0) @binding(1) var<storage, read_write> in0_0: array<vec2<u64>>;
fn in0(quad: i32) -> vec4<f32> {
    let e = u32(quad);
    return bitcast<vec4<f32>>(words_of(in0_0[e]));
}
var<private> vec4_offset0: i32;
fn in0_vector_index(group: i32) -> i32 {
    return group + vec4_offset0;
}
@group(0) @binding(2) var<storage, read_write> in1_0: array<u32>;
fn in1(quad: i32) -> vec4<bool> {
    let e = u32(quad);
    return vec4<bool>(((in1_0[e] >> 0u) & 0xffu) != 0u, ((in1_0[e] >> 8u) & 0xffu) != 0u, ((in1_0[e] >> 16u) & 0xffu) != 0u, ((in1_0[e] >> 24u) & 0xffu) != 0u);
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
const BATCHES = 8;
const ROWS = 40;
const KEYS = 40;
const DEPTH = 8;
const COLUMNS = 8;
const LANES = 8;
const KEY_LANES = 8;
const COLUMN_LANES = 2;
const COLUMN_PASSES = 1;
const CAUSAL = false;
const MASKED = true;
fn scale() -> Element {
    return number_f32(0x3eb504f3u /* 0.35355338 */);
}
fn zero() -> vec4<Element> {
    return vec4<Element>(number_f32(0x00000000u /* 0.0 */));
}
fn minus_infinity() -> vec4<Element> {
    return vec4<Element>(number_f32(0xff800000u /* -inf */));
}
fn load_q(batch: i32, depth: i32, row: i32) -> array<vec4<Element>, 4> {
    let over1 = i32((u32(batch) / 4u));
    let i0 = over1;
    let i2 = batch - over1 * 4;
    let depth_first = min(depth, 4);
    let i5_0 = depth_first;
    let i5_1 = i5_0 + 1;
    let i5_2 = i5_0 + 2;
    let i5_3 = i5_0 + 3;
    let row_first = min(row, 36);
    let i1_0 = row_first;
    let i1_1 = i1_0 + 1;
    let i1_2 = i1_0 + 2;
    let i1_3 = i1_0 + 3;
    let at2 = in0_vector_index((i0 * 3840 + i1_0 * 96 + i2 * 8 + i5_0) >> 2u);
    let vec4_3 = in0(at2);
    let v0_0_0 = vec4_3.x;
    let v0_0_1 = vec4_3.y;
    let v0_0_2 = vec4_3.z;
    let v0_0_3 = vec4_3.w;
    let at4 = in0_vector_index((i0 * 3840 + i1_1 * 96 + i2 * 8 + i5_0) >> 2u);
    let vec4_5 = in0(at4);
    let v0_1_0 = vec4_5.x;
    let v0_1_1 = vec4_5.y;
    let v0_1_2 = vec4_5.z;
    let v0_1_3 = vec4_5.w;
    let at6 = in0_vector_index((i0 * 3840 + i1_2 * 96 + i2 * 8 + i5_0) >> 2u);
    let vec4_7 = in0(at6);
    let v0_2_0 = vec4_7.x;
    let v0_2_1 = vec4_7.y;
    let v0_2_2 = vec4_7.z;
    let v0_2_3 = vec4_7.w;
    let at8 = in0_vector_index((i0 * 3840 + i1_3 * 96 + i2 * 8 + i5_0) >> 2u);
    let vec4_9 = in0(at8);
    let v0_3_0 = vec4_9.x;
    let v0_3_1 = vec4_9.y;
    let v0_3_2 = vec4_9.z;
    let v0_3_3 = vec4_9.w;
    return array<vec4<Element>, 4>(
        vec4<Element>(v0_0_0, v0_1_0, v0_2_0, v0_3_0),
        vec4<Element>(v0_0_1, v0_1_1, v0_2_1, v0_3_1),
        vec4<Element>(v0_0_2, v0_1_2, v0_2_2, v0_3_2),
        vec4<Element>(v0_0_3, v0_1_3, v0_2_3, v0_3_3),
    );
}
fn load_k(batch: i32, key: i32, depth: i32) -> array<vec4<Element>, 4> {
    let over1 = i32((u32(batch) / 4u));
    let i0 = over1;
    let i2 = batch - over1 * 4;
    let key_first = min(key, 36);
    let i4_0 = key_first;
    let i4_1 = i4_0 + 1;
    let i4_2 = i4_0 + 2;
    let i4_3 = i4_0 + 3;
    let depth_first = min(depth, 4);
    let i5_0 = depth_first;
    let i5_1 = i5_0 + 1;
    let i5_2 = i5_0 + 2;
    let i5_3 = i5_0 + 3;
    let at2 = in0_vector_index((i0 * 3840 + i2 * 8 + i4_0 * 96 + i5_0 + 32) >> 2u);
    let vec4_3 = in0(at2);
    let v1_0_0 = vec4_3.x;
    let v1_0_1 = vec4_3.y;
    let v1_0_2 = vec4_3.z;
    let v1_0_3 = vec4_3.w;
    let at4 = in0_vector_index((i0 * 3840 + i2 * 8 + i4_1 * 96 + i5_0 + 32) >> 2u);
    let vec4_5 = in0(at4);
    let v1_1_0 = vec4_5.x;
    let v1_1_1 = vec4_5.y;
    let v1_1_2 = vec4_5.z;
    let v1_1_3 = vec4_5.w;
    let at6 = in0_vector_index((i0 * 3840 + i2 * 8 + i4_2 * 96 + i5_0 + 32) >> 2u);
    let vec4_7 = in0(at6);
    let v1_2_0 = vec4_7.x;
    let v1_2_1 = vec4_7.y;
    let v1_2_2 = vec4_7.z;
    let v1_2_3 = vec4_7.w;
    let at8 = in0_vector_index((i0 * 3840 + i2 * 8 + i4_3 * 96 + i5_0 + 32) >> 2u);
    let vec4_9 = in0(at8);
    let v1_3_0 = vec4_9.x;
    let v1_3_1 = vec4_9.y;
    let v1_3_2 = vec4_9.z;
    let v1_3_3 = vec4_9.w;
    return array<vec4<Element>, 4>(
        vec4<Element>(v1_0_0, v1_0_1, v1_0_2, v1_0_3),
        vec4<Element>(v1_1_0, v1_1_1, v1_1_2, v1_1_3),
        vec4<Element>(v1_2_0, v1_2_1, v1_2_2, v1_2_3),
        vec4<Element>(v1_3_0, v1_3_1, v1_3_2, v1_3_3),
    );
}
fn load_v(batch: i32, column: i32, key: i32) -> array<vec4<Element>, 4> {
    let over1 = i32((u32(batch) / 4u));
    let i0 = over1;
    let i2 = batch - over1 * 4;
    let column_first = min(column, 4);
    let i3_0 = column_first;
    let i3_1 = i3_0 + 1;
    let i3_2 = i3_0 + 2;
    let i3_3 = i3_0 + 3;
    let key_first = min(key, 36);
    let i4_0 = key_first;
    let i4_1 = i4_0 + 1;
    let i4_2 = i4_0 + 2;
    let i4_3 = i4_0 + 3;
    let at2 = in0_vector_index((i0 * 3840 + i2 * 8 + i3_0 + i4_0 * 96 + 64) >> 2u);
    let vec4_3 = in0(at2);
    let v2_0_0 = vec4_3.x;
    let v2_1_0 = vec4_3.y;
    let v2_2_0 = vec4_3.z;
    let v2_3_0 = vec4_3.w;
    let at4 = in0_vector_index((i0 * 3840 + i2 * 8 + i3_0 + i4_1 * 96 + 64) >> 2u);
    let vec4_5 = in0(at4);
    let v2_0_1 = vec4_5.x;
    let v2_1_1 = vec4_5.y;
    let v2_2_1 = vec4_5.z;
    let v2_3_1 = vec4_5.w;
    let at6 = in0_vector_index((i0 * 3840 + i2 * 8 + i3_0 + i4_2 * 96 + 64) >> 2u);
    let vec4_7 = in0(at6);
    let v2_0_2 = vec4_7.x;
    let v2_1_2 = vec4_7.y;
    let v2_2_2 = vec4_7.z;
    let v2_3_2 = vec4_7.w;
    let at8 = in0_vector_index((i0 * 3840 + i2 * 8 + i3_0 + i4_3 * 96 + 64) >> 2u);
    let vec4_9 = in0(at8);
    let v2_0_3 = vec4_9.x;
    let v2_1_3 = vec4_9.y;
    let v2_2_3 = vec4_9.z;
    let v2_3_3 = vec4_9.w;
    let inside_0 = key + 0 < 40;
    let inside_1 = key + 1 < 40;
    let inside_2 = key + 2 < 40;
    let inside_3 = key + 3 < 40;
    return array<vec4<Element>, 4>(
        vec4<Element>(select(Element(), v2_0_0, inside_0), select(Element(), v2_0_1, inside_1), select(Element(), v2_0_2, inside_2), select(Element(), v2_0_3, inside_3)),
        vec4<Element>(select(Element(), v2_1_0, inside_0), select(Element(), v2_1_1, inside_1), select(Element(), v2_1_2, inside_2), select(Element(), v2_1_3, inside_3)),
        vec4<Element>(select(Element(), v2_2_0, inside_0), select(Element(), v2_2_1, inside_1), select(Element(), v2_2_2, inside_2), select(Element(), v2_2_3, inside_3)),
        vec4<Element>(select(Element(), v2_3_0, inside_0), select(Element(), v2_3_1, inside_1), select(Element(), v2_3_2, inside_2), select(Element(), v2_3_3, inside_3)),
    );
}
fn masked(batch: i32, key: i32, row: i32, x: array<vec4<Element>, 4>) -> array<vec4<Element>, 4> {
    let i2 = batch;
    let key_first = min(key, 36);
    let i4_0 = key_first;
    let i4_1 = i4_0 + 1;
    let i4_2 = i4_0 + 2;
    let i4_3 = i4_0 + 3;
    let row_first = min(row, 36);
    let i1_0 = row_first;
    let i1_1 = i1_0 + 1;
    let i1_2 = i1_0 + 2;
    let i1_3 = i1_0 + 3;
    let at1 = in1_vector_index((i1_0 * 40 + i4_0) >> 2u);
    let vec4_2 = in1(at1);
    let v3_0_0 = vec4_2.x;
    let v3_0_1 = vec4_2.y;
    let v3_0_2 = vec4_2.z;
    let v3_0_3 = vec4_2.w;
    let at3 = in1_vector_index((i1_1 * 40 + i4_0) >> 2u);
    let vec4_4 = in1(at3);
    let v3_1_0 = vec4_4.x;
    let v3_1_1 = vec4_4.y;
    let v3_1_2 = vec4_4.z;
    let v3_1_3 = vec4_4.w;
    let at5 = in1_vector_index((i1_2 * 40 + i4_0) >> 2u);
    let vec4_6 = in1(at5);
    let v3_2_0 = vec4_6.x;
    let v3_2_1 = vec4_6.y;
    let v3_2_2 = vec4_6.z;
    let v3_2_3 = vec4_6.w;
    let at7 = in1_vector_index((i1_3 * 40 + i4_0) >> 2u);
    let vec4_8 = in1(at7);
    let v3_3_0 = vec4_8.x;
    let v3_3_1 = vec4_8.y;
    let v3_3_2 = vec4_8.z;
    let v3_3_3 = vec4_8.w;
    return array<vec4<Element>, 4>(
        vec4<Element>(select(minus_infinity().x, x[0][0], v3_0_0), select(minus_infinity().x, x[0][1], v3_1_0), select(minus_infinity().x, x[0][2], v3_2_0), select(minus_infinity().x, x[0][3], v3_3_0)),
        vec4<Element>(select(minus_infinity().x, x[1][0], v3_0_1), select(minus_infinity().x, x[1][1], v3_1_1), select(minus_infinity().x, x[1][2], v3_2_1), select(minus_infinity().x, x[1][3], v3_3_1)),
        vec4<Element>(select(minus_infinity().x, x[2][0], v3_0_2), select(minus_infinity().x, x[2][1], v3_1_2), select(minus_infinity().x, x[2][2], v3_2_2), select(minus_infinity().x, x[2][3], v3_3_2)),
        vec4<Element>(select(minus_infinity().x, x[3][0], v3_0_3), select(minus_infinity().x, x[3][1], v3_1_3), select(minus_infinity().x, x[3][2], v3_2_3), select(minus_infinity().x, x[3][3], v3_3_3)),
    );
}
fn store_o(batch: i32, row: i32, column: i32, x: vec4<Element>) {
    let over1 = i32((u32(batch) / 4u));
    let i0 = over1;
    let i2 = batch - over1 * 4;
    let i1 = row;
    let column_first = min(column, 4);
    let i3_0 = column_first;
    let i3_1 = i3_0 + 1;
    let i3_2 = i3_0 + 2;
    let i3_3 = i3_0 + 3;
    let v4_0 = x[0];
    let v4_1 = x[1];
    let v4_2 = x[2];
    let v4_3 = x[3];
    let at2 = (i0 * 1280 + i1 * 32 + i2 * 8 + i3_0) >> 2u;
    out0(at2, v4_0, v4_1, v4_2, v4_3);
}
fn read_offsets() {
    vec4_offset0 = i32(uniforms[1].x / 4u);
    vec4_offset1 = i32(uniforms[1].y / 4u);
}

// Keys of a block, whose scores are computed before the first value is needed.
const BLOCK = 4 * KEY_LANES;
// Depths that the invocations hold of the block's keys at a time.
const DEPTH_STEP = 4 * LANES / KEY_LANES;
// Columns of the result that a workgroup computes.
const WIDTH = 4 * COLUMN_LANES * COLUMN_PASSES;
// Keys of which they hold a column's values at a time.
const KEY_STEP = 4 * LANES / COLUMN_LANES;
const HEIGHT = 4 * LANES;
const ROW_TILES = (ROWS + HEIGHT - 1) / HEIGHT;
const COLUMN_TILES = (COLUMNS + WIDTH - 1) / WIDTH;
const TILES = BATCHES * ROW_TILES * COLUMN_TILES;

alias Block4x4 = array<vec4<Element>, 4>;
// The same, as single numbers: software drivers keep a vector that loops carry in one variable,
// of which they read all for each number, and so compile it for longer.
alias ScalarBlock = array<array<Element, 4>, 4>;
// By key and by column: an invocation's four queries.
alias Scores = array<ScalarBlock, KEY_LANES>;
alias Sums = array<ScalarBlock, COLUMN_LANES * COLUMN_PASSES>;
alias Depths = array<Block4x4, DEPTH_STEP / 4>;
alias Weights = array<Block4x4, KEY_STEP / 4>;

fn as_vec4(x: array<Element, 4>) -> vec4<Element> {
    return vec4<Element>(x[0], x[1], x[2], x[3]);
}

fn as_array(x: vec4<Element>) -> array<Element, 4> {
    return array<Element, 4>(x.x, x.y, x.z, x.w);
}

// Adds what four depths contribute to key `i` of the four that `lane` holds.
fn add_depths(scores: ptr<function, Scores>, q: ptr<function, Depths>, lane: i32, i: i32, k: vec4<Element>) {
    let y = (*q)[lane / KEY_LANES];
    let four = lane % KEY_LANES;
    let own = &(*scores)[four][i];
    (*own)[0] = (*own)[0] + k.x * y[0].x + k.y * y[1].x + k.z * y[2].x + k.w * y[3].x;
    (*own)[1] = (*own)[1] + k.x * y[0].y + k.y * y[1].y + k.z * y[2].y + k.w * y[3].y;
    (*own)[2] = (*own)[2] + k.x * y[0].z + k.y * y[1].z + k.z * y[2].z + k.w * y[3].z;
    (*own)[3] = (*own)[3] + k.x * y[0].w + k.y * y[1].w + k.z * y[2].w + k.w * y[3].w;
}

// Adds what four keys contribute to column `i` of the four that `lane` holds.
fn add_keys(sums: ptr<function, Sums>, p: ptr<function, Weights>, pass_number: i32, lane: i32, i: i32, v: vec4<Element>) {
    let y = (*p)[lane / COLUMN_LANES];
    let four = pass_number * COLUMN_LANES + lane % COLUMN_LANES;
    let own = &(*sums)[four][i];
    (*own)[0] = (*own)[0] + v.x * y[0].x + v.y * y[1].x + v.z * y[2].x + v.w * y[3].x;
    (*own)[1] = (*own)[1] + v.x * y[0].y + v.y * y[1].y + v.z * y[2].y + v.w * y[3].y;
    (*own)[2] = (*own)[2] + v.x * y[0].z + v.y * y[1].z + v.z * y[2].z + v.w * y[3].z;
    (*own)[3] = (*own)[3] + v.x * y[0].w + v.y * y[1].w + v.z * y[2].w + v.w * y[3].w;
}

// The number of a broadcast's lane must be a constant; a loop over turns
// around these would not be written out, and so leave its sums in memory.
fn take_keys(scores: ptr<function, Scores>, q: ptr<function, Depths>, own: Block4x4) {
    var k = own;
    for (var i = 0; i < 4; i++) {
        add_depths(scores, q, 0, i, subgroupBroadcast(k[i], 0u));
        add_depths(scores, q, 1, i, subgroupBroadcast(k[i], 1u));
        add_depths(scores, q, 2, i, subgroupBroadcast(k[i], 2u));
        add_depths(scores, q, 3, i, subgroupBroadcast(k[i], 3u));
        if (LANES > 4) {
            add_depths(scores, q, 4 % LANES, i, subgroupBroadcast(k[i], 4u));
            add_depths(scores, q, 5 % LANES, i, subgroupBroadcast(k[i], 5u));
            add_depths(scores, q, 6 % LANES, i, subgroupBroadcast(k[i], 6u));
            add_depths(scores, q, 7 % LANES, i, subgroupBroadcast(k[i], 7u));
        }
    }
}

fn take_values(sums: ptr<function, Sums>, p: ptr<function, Weights>, pass_number: i32, own: Block4x4) {
    var v = own;
    for (var i = 0; i < 4; i++) {
        add_keys(sums, p, pass_number, 0, i, subgroupBroadcast(v[i], 0u));
        add_keys(sums, p, pass_number, 1, i, subgroupBroadcast(v[i], 1u));
        add_keys(sums, p, pass_number, 2, i, subgroupBroadcast(v[i], 2u));
        add_keys(sums, p, pass_number, 3, i, subgroupBroadcast(v[i], 3u));
        if (LANES > 4) {
            add_keys(sums, p, pass_number, 4 % LANES, i, subgroupBroadcast(v[i], 4u));
            add_keys(sums, p, pass_number, 5 % LANES, i, subgroupBroadcast(v[i], 5u));
            add_keys(sums, p, pass_number, 6 % LANES, i, subgroupBroadcast(v[i], 6u));
            add_keys(sums, p, pass_number, 7 % LANES, i, subgroupBroadcast(v[i], 7u));
        }
    }
}

fn exponentials(x: vec4<Element>) -> vec4<Element> {
    return vec4<Element>(exp_f32(x.x), exp_f32(x.y), exp_f32(x.z), exp_f32(x.w));
}

// Hides the scores of keys that a query does not look at; gives the largest of those
// left, or `most`.
fn apply_mask(batch: i32, key: i32, row: i32, fours: i32, own: ptr<function, Scores>, running_max: vec4<Element>) -> vec4<Element> {
    var scores = *own;
    var largest = running_max;
    let last_of_row = row + vec4<i32>(0, 1, 2, 3);
    let last = min(vec4<i32>(KEYS - 1), select(vec4<i32>(KEYS - 1), last_of_row, vec4<bool>(CAUSAL)));
    for (var t = 0; t < fours; t++) {
        var x: Block4x4;
        for (var i = 0; i < 4; i++) { x[i] = as_vec4(scores[0][i]); }
        x = masked(batch, key + 4 * t, row, x);
        for (var i = 0; i < 4; i++) {
            x[i] = select(minus_infinity(), x[i], vec4<i32>(key + 4 * t + i) <= last);
            largest = max(largest, x[i]);
        }
        for (var i = 0; i < KEY_LANES - 1; i++) { scores[i] = scores[i + 1]; }
        scores[KEY_LANES - 1] = ScalarBlock(as_array(x[0]), as_array(x[1]), as_array(x[2]), as_array(x[3]));
    }
    *own = scores;
    return largest;
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_invocation_id) own: u32,
) {
    read_offsets();
    let tile = i32(group.y * groups.x + group.x);
    let lane = i32(own);
    // One, which no compiler knows: drivers would write out the iterations of loops that
    // they can count. So values that a loop takes one after the other move up meanwhile.
    // Where there is no tile it is zero, and so no loop does anything: after a return,
    // software drivers would mask all that follows.
    let one = select(0, i32(min(groups.y, 1u)), tile < TILES);
    // Neighbours share the keys and values of a batch.
    let column = tile % COLUMN_TILES * WIDTH;
    let first = tile / COLUMN_TILES % ROW_TILES * HEIGHT;
    let batch = tile / (COLUMN_TILES * ROW_TILES);
    let row = first + lane * 4;
    var sums: Sums;
    for (var c = 0; c < COLUMN_LANES * COLUMN_PASSES; c++) {
        for (var i = 0; i < 4; i++) { sums[c][i] = as_array(zero()); }
    }
    // The largest score so far, from the least finite number on, so that
    // differences are numbers; and the sum of powers relative to it.
    var running_max = vec4<Element>(-3.4028235e38);
    var running_sum = zero();
    // Zero at the start of each block.
    var scores: Scores;
    for (var t = 0; t < KEY_LANES; t++) {
        for (var i = 0; i < 4; i++) { scores[t][i] = as_array(zero()); }
    }
    // No query of the tile looks beyond the last one's own place.
    let end = select(KEYS, min(KEYS, first + HEIGHT), CAUSAL) * one;
    for (var key = 0; key < end; key += BLOCK) {
        for (var depth = 0; depth < DEPTH; depth += DEPTH_STEP) {
            var q: Depths;
            // Queries are scaled, not scores: those are more, and written out.
            for (var d = 0; d < DEPTH_STEP / 4; d++) {
                q[d] = load_q(batch, depth + d * 4, row);
                for (var i = 0; i < 4; i++) { q[d][i] = q[d][i] * scale(); }
            }
            take_keys(&scores, &q, load_k(batch, key + lane % KEY_LANES * 4, depth + lane / KEY_LANES * 4));
        }
        var largest = running_max;
        for (var t = 0; t < KEY_LANES; t++) {
            for (var i = 0; i < 4; i++) { largest = max(largest, as_vec4(scores[t][i])); }
        }
        if (MASKED || (KEYS % BLOCK != 0 && key + BLOCK > KEYS) || (CAUSAL && key + BLOCK > first + 1)) {
            largest = apply_mask(batch, key, row, KEY_LANES * one, &scores, running_max);
        }
        let rescale = exponentials(running_max - largest);
        running_max = largest;
        running_sum = running_sum * rescale;
        for (var c = 0; c < COLUMN_LANES * COLUMN_PASSES; c++) {
            for (var i = 0; i < 4; i++) { sums[c][i] = as_array(as_vec4(sums[c][i]) * rescale); }
        }
        for (var t = 0; t < BLOCK * one; t += KEY_STEP) {
            var p: Weights;
            for (var d = 0; d < KEY_STEP / 4; d++) {
                for (var i = 0; i < 4; i++) {
                    p[d][i] = exponentials(as_vec4(scores[d][i]) - running_max);
                    running_sum = running_sum + p[d][i];
                }
            }
            let own_key = key + t + lane / COLUMN_LANES * 4;
            let own_column = column + lane % COLUMN_LANES * 4;
            take_values(&sums, &p, 0, load_v(batch, own_column, own_key));
            if (COLUMN_PASSES > 1) {
                take_values(&sums, &p, 1 % COLUMN_PASSES, load_v(batch, own_column + 4 * COLUMN_LANES, own_key));
            }
            for (var i = 0; i < KEY_LANES - KEY_STEP / 4; i++) { scores[i] = scores[i + KEY_STEP / 4]; }
            for (var i = KEY_LANES - KEY_STEP / 4; i < KEY_LANES; i++) {
                scores[i] = ScalarBlock(as_array(zero()), as_array(zero()), as_array(zero()), as_array(zero()));
            }
        }
    }
    // Where only a mask leaves nothing to look at, the result is zero.
    let none = vec4<bool>(MASKED) & (bitcast<vec4<u32>>(running_sum) == vec4<u32>());
    let part = select(1.0 / running_sum, vec4<Element>(), none);
    for (var c = 0; c < WIDTH * one; c += 4) {
        for (var i = 0; i < 4; i++) {
            let x = vec4<Element>(sums[0][0][i], sums[0][1][i], sums[0][2][i], sums[0][3][i]) * part[i];
            if (row + i < ROWS && column + c < COLUMNS) { store_o(batch, row + i, column + c, x); }
        }
        for (var i = 0; i < COLUMN_LANES * COLUMN_PASSES - 1; i++) { sums[i] = sums[i + 1]; }
    }
}

