// contract_erf_mul_add[64, 48]
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
fn multiply_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x * y);
}
fn magnitude_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu);
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
fn with_sign_f32(x: f32, sign: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ (bitcast<u32>(sign) & 0x80000000u));
}
fn erf_f32(x: f32) -> f32 {
    let a = magnitude_f32(x);
    let z = a * a;
    let p = ((((-5.976588e-4 * z + 0.0049904124) * z - 0.026764754) * z + 0.11281766) * z - 0.3761249) * z + 0.12837915;
    let near = p * a + a;
    let b = min(a, 3.95);
    let q = (((((1.9593717e-4 * b - 0.003043217) * b + 0.022226919) * b - 0.10393159) * b - 0.63718224) * b - 1.1276757) * b - 1.9567568e-4;
    let value = with_sign_f32(select(1.0 - exp_f32(q), near, a < 0.92), x);
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
@group(0) @binding(2) var<storage, read_write> in1_0: array<vec2<u64>>;
fn in1(quad: i32) -> vec4<f32> {
    let e = u32(quad);
    return bitcast<vec4<f32>>(words_of(in1_0[e]));
}
var<private> vec4_offset1: i32;
fn in1_vector_index(group: i32) -> i32 {
    return group + vec4_offset1;
}
@group(0) @binding(3) var<storage, read_write> in2_0: array<vec2<u64>>;
fn in2(quad: i32) -> vec4<f32> {
    let e = u32(quad);
    return bitcast<vec4<f32>>(words_of(in2_0[e]));
}
var<private> vec4_offset2: i32;
fn in2_vector_index(group: i32) -> i32 {
    return group + vec4_offset2;
}
@group(0) @binding(4) var<storage, read_write> in3_0: array<vec2<u64>>;
fn in3(quad: i32) -> vec4<f32> {
    let e = u32(quad);
    return bitcast<vec4<f32>>(words_of(in3_0[e]));
}
var<private> vec4_offset3: i32;
fn in3_vector_index(group: i32) -> i32 {
    return group + vec4_offset3;
}
@group(0) @binding(5) var<storage, read_write> out0_0: array<vec2<u64>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = long_words(bitcast<vec4<u32>>(vec4<f32>(a, b, c, d)));
}
alias Element = f32;
fn batches() -> i32 {
    return 1;
}
fn m() -> i32 {
    return 64;
}
fn n() -> i32 {
    return 48;
}
fn k() -> i32 {
    return 32;
}
const LANES = 8;
const ROWS = 16;
const VEC4S = 1;
fn zero() -> vec4<Element> {
    return vec4<Element>(number_f32(0x00000000u /* 0.0 */));
}
fn load_a(batch: i32, row: i32, depth: i32) -> array<vec4<Element>, 4> {
    let row_first = min(row, 60);
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
    let column_first = min(column, 44);
    let i1_0 = column_first;
    let i1_1 = i1_0 + 1;
    let i1_2 = i1_0 + 2;
    let i1_3 = i1_0 + 3;
    let at1 = in1_vector_index((i1_0 + i2_0 * 48) >> 2u);
    let vec4_2 = in1(at1);
    let v1_0_0 = vec4_2.x;
    let v1_1_0 = vec4_2.y;
    let v1_2_0 = vec4_2.z;
    let v1_3_0 = vec4_2.w;
    let at3 = in1_vector_index((i1_0 + i2_1 * 48) >> 2u);
    let vec4_4 = in1(at3);
    let v1_0_1 = vec4_4.x;
    let v1_1_1 = vec4_4.y;
    let v1_2_1 = vec4_4.z;
    let v1_3_1 = vec4_4.w;
    let at5 = in1_vector_index((i1_0 + i2_2 * 48) >> 2u);
    let vec4_6 = in1(at5);
    let v1_0_2 = vec4_6.x;
    let v1_1_2 = vec4_6.y;
    let v1_2_2 = vec4_6.z;
    let v1_3_2 = vec4_6.w;
    let at7 = in1_vector_index((i1_0 + i2_3 * 48) >> 2u);
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
    let column_first = min(column, 44);
    let i1_0 = column_first;
    let i1_1 = i1_0 + 1;
    let i1_2 = i1_0 + 2;
    let i1_3 = i1_0 + 3;
    let v2_0 = x[0];
    let v2_1 = x[1];
    let v2_2 = x[2];
    let v2_3 = x[3];
    let at1 = in2_vector_index((i1_0) >> 2u);
    let vec4_2 = in2(at1);
    let v3_0 = vec4_2.x;
    let v3_1 = vec4_2.y;
    let v3_2 = vec4_2.z;
    let v3_3 = vec4_2.w;
    let v4_0 = add_f32(v2_0, v3_0);
    let v4_1 = add_f32(v2_1, v3_1);
    let v4_2 = add_f32(v2_2, v3_2);
    let v4_3 = add_f32(v2_3, v3_3);
    let v5 = number_f32(0x3f000000u /* 0.5 */);
    let v6_0 = multiply_f32(v4_0, v5);
    let v6_1 = multiply_f32(v4_1, v5);
    let v6_2 = multiply_f32(v4_2, v5);
    let v6_3 = multiply_f32(v4_3, v5);
    let v7 = number_f32(0x3f3504f3u /* 0.70710677 */);
    let v8_0 = multiply_f32(v4_0, v7);
    let v8_1 = multiply_f32(v4_1, v7);
    let v8_2 = multiply_f32(v4_2, v7);
    let v8_3 = multiply_f32(v4_3, v7);
    let v9_0 = erf_f32(v8_0);
    let v9_1 = erf_f32(v8_1);
    let v9_2 = erf_f32(v8_2);
    let v9_3 = erf_f32(v8_3);
    let v10 = number_f32(0x3f800000u /* 1.0 */);
    let v11_0 = add_f32(v9_0, v10);
    let v11_1 = add_f32(v9_1, v10);
    let v11_2 = add_f32(v9_2, v10);
    let v11_3 = add_f32(v9_3, v10);
    let v12_0 = multiply_f32(v6_0, v11_0);
    let v12_1 = multiply_f32(v6_1, v11_1);
    let v12_2 = multiply_f32(v6_2, v11_2);
    let v12_3 = multiply_f32(v6_3, v11_3);
    let at3 = in3_vector_index((i0 * 48 + i1_0) >> 2u);
    let vec4_4 = in3(at3);
    let v13_0 = vec4_4.x;
    let v13_1 = vec4_4.y;
    let v13_2 = vec4_4.z;
    let v13_3 = vec4_4.w;
    let v14_0 = add_f32(v12_0, v13_0);
    let v14_1 = add_f32(v12_1, v13_1);
    let v14_2 = add_f32(v12_2, v13_2);
    let v14_3 = add_f32(v12_3, v13_3);
    let at5 = (i0 * 48 + i1_0) >> 2u;
    out0(at5, v14_0, v14_1, v14_2, v14_3);
}
fn read_offsets() {
    vec4_offset0 = i32(uniforms[1].x / 4u);
    vec4_offset1 = i32(uniforms[1].y / 4u);
    vec4_offset2 = i32(uniforms[1].z / 4u);
    vec4_offset3 = i32(uniforms[1].w / 4u);
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

