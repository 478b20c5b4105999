// contract_add_tanh[4, 8]
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
@group(0) @binding(3) var<storage, read_write> in2_0: array<vec2<u64>>;
fn in2(quad: i32) -> vec4<f32> {
    let e = u32(quad);
    return bitcast<vec4<f32>>(words_of(in2_0[e]));
}
var<private> vec4_offset2: i32;
fn in2_vector_index(group: i32) -> i32 {
    return group + vec4_offset2;
}
@group(0) @binding(4) var<storage, read_write> out0_0: array<vec2<u64>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = long_words(bitcast<vec4<u32>>(vec4<f32>(a, b, c, d)));
}

@compute @workgroup_size(32)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    vec4_offset0 = i32(uniforms[1].x / 4u);
    vec4_offset1 = i32(uniforms[1].y / 4u);
    vec4_offset2 = i32(uniforms[1].z / 4u);
    let tile = i32((group.y * groups.x + group.x) * 32u + local);
    if (tile >= 4) { return; }
    let one = i32(min(groups.y, 1u));
    let over1 = i32((u32(tile) / 1u));
    let over2 = i32((u32(over1) / 4u));
    let column = tile - over1 * 1;
    let row = over1 - over2 * 4;
    let batch = over2;
    let i0 = row;
    let column_first = column * 8;
    let i1_0 = column_first;
    let i1_1 = i1_0 + 1;
    let i1_2 = i1_0 + 2;
    let i1_3 = i1_0 + 3;
    let i1_4 = i1_0 + 4;
    let i1_5 = i1_0 + 5;
    let i1_6 = i1_0 + 6;
    let i1_7 = i1_0 + 7;
    var sum_0_0: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_0_1: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_0_2: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_0_3: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_0_4: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_0_5: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_0_6: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_0_7: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var step: i32 = 0; step < 8 * one; step += 4) {
        let i2_0 = step;
        let i2_1 = i2_0 + 1;
        let i2_2 = i2_0 + 2;
        let i2_3 = i2_0 + 3;
        let at3 = in0_vector_index((i0 * 8 + i2_0) >> 2u);
        let vec4_4 = in0(at3);
        let v0_0 = vec4_4.x;
        let v0_1 = vec4_4.y;
        let v0_2 = vec4_4.z;
        let v0_3 = vec4_4.w;
        let at5 = in1_vector_index((i1_0 + i2_0 * 8) >> 2u);
        let vec4_6 = in1(at5);
        let v1_0_0 = vec4_6.x;
        let v1_1_0 = vec4_6.y;
        let v1_2_0 = vec4_6.z;
        let v1_3_0 = vec4_6.w;
        let at7 = in1_vector_index((i1_0 + i2_1 * 8) >> 2u);
        let vec4_8 = in1(at7);
        let v1_0_1 = vec4_8.x;
        let v1_1_1 = vec4_8.y;
        let v1_2_1 = vec4_8.z;
        let v1_3_1 = vec4_8.w;
        let at9 = in1_vector_index((i1_0 + i2_2 * 8) >> 2u);
        let vec4_10 = in1(at9);
        let v1_0_2 = vec4_10.x;
        let v1_1_2 = vec4_10.y;
        let v1_2_2 = vec4_10.z;
        let v1_3_2 = vec4_10.w;
        let at11 = in1_vector_index((i1_0 + i2_3 * 8) >> 2u);
        let vec4_12 = in1(at11);
        let v1_0_3 = vec4_12.x;
        let v1_1_3 = vec4_12.y;
        let v1_2_3 = vec4_12.z;
        let v1_3_3 = vec4_12.w;
        let vec4_13 = in1(at5 + 1);
        let v1_4_0 = vec4_13.x;
        let v1_5_0 = vec4_13.y;
        let v1_6_0 = vec4_13.z;
        let v1_7_0 = vec4_13.w;
        let vec4_14 = in1(at7 + 1);
        let v1_4_1 = vec4_14.x;
        let v1_5_1 = vec4_14.y;
        let v1_6_1 = vec4_14.z;
        let v1_7_1 = vec4_14.w;
        let vec4_15 = in1(at9 + 1);
        let v1_4_2 = vec4_15.x;
        let v1_5_2 = vec4_15.y;
        let v1_6_2 = vec4_15.z;
        let v1_7_2 = vec4_15.w;
        let vec4_16 = in1(at11 + 1);
        let v1_4_3 = vec4_16.x;
        let v1_5_3 = vec4_16.y;
        let v1_6_3 = vec4_16.z;
        let v1_7_3 = vec4_16.w;
        sum_0_0 = sum_0_0 + v0_0 * v1_0_0;
        sum_0_1 = sum_0_1 + v0_0 * v1_1_0;
        sum_0_2 = sum_0_2 + v0_0 * v1_2_0;
        sum_0_3 = sum_0_3 + v0_0 * v1_3_0;
        sum_0_4 = sum_0_4 + v0_0 * v1_4_0;
        sum_0_5 = sum_0_5 + v0_0 * v1_5_0;
        sum_0_6 = sum_0_6 + v0_0 * v1_6_0;
        sum_0_7 = sum_0_7 + v0_0 * v1_7_0;
        sum_0_0 = sum_0_0 + v0_1 * v1_0_1;
        sum_0_1 = sum_0_1 + v0_1 * v1_1_1;
        sum_0_2 = sum_0_2 + v0_1 * v1_2_1;
        sum_0_3 = sum_0_3 + v0_1 * v1_3_1;
        sum_0_4 = sum_0_4 + v0_1 * v1_4_1;
        sum_0_5 = sum_0_5 + v0_1 * v1_5_1;
        sum_0_6 = sum_0_6 + v0_1 * v1_6_1;
        sum_0_7 = sum_0_7 + v0_1 * v1_7_1;
        sum_0_0 = sum_0_0 + v0_2 * v1_0_2;
        sum_0_1 = sum_0_1 + v0_2 * v1_1_2;
        sum_0_2 = sum_0_2 + v0_2 * v1_2_2;
        sum_0_3 = sum_0_3 + v0_2 * v1_3_2;
        sum_0_4 = sum_0_4 + v0_2 * v1_4_2;
        sum_0_5 = sum_0_5 + v0_2 * v1_5_2;
        sum_0_6 = sum_0_6 + v0_2 * v1_6_2;
        sum_0_7 = sum_0_7 + v0_2 * v1_7_2;
        sum_0_0 = sum_0_0 + v0_3 * v1_0_3;
        sum_0_1 = sum_0_1 + v0_3 * v1_1_3;
        sum_0_2 = sum_0_2 + v0_3 * v1_2_3;
        sum_0_3 = sum_0_3 + v0_3 * v1_3_3;
        sum_0_4 = sum_0_4 + v0_3 * v1_4_3;
        sum_0_5 = sum_0_5 + v0_3 * v1_5_3;
        sum_0_6 = sum_0_6 + v0_3 * v1_6_3;
        sum_0_7 = sum_0_7 + v0_3 * v1_7_3;
    }
    let v2_0 = sum_0_0;
    let v2_1 = sum_0_1;
    let v2_2 = sum_0_2;
    let v2_3 = sum_0_3;
    let v2_4 = sum_0_4;
    let v2_5 = sum_0_5;
    let v2_6 = sum_0_6;
    let v2_7 = sum_0_7;
    let at17 = in2_vector_index((i0 * 8 + i1_0) >> 2u);
    let vec4_18 = in2(at17);
    let v3_0 = vec4_18.x;
    let v3_1 = vec4_18.y;
    let v3_2 = vec4_18.z;
    let v3_3 = vec4_18.w;
    let vec4_19 = in2(at17 + 1);
    let v3_4 = vec4_19.x;
    let v3_5 = vec4_19.y;
    let v3_6 = vec4_19.z;
    let v3_7 = vec4_19.w;
    let v4_0 = add_f32(v2_0, v3_0);
    let v4_1 = add_f32(v2_1, v3_1);
    let v4_2 = add_f32(v2_2, v3_2);
    let v4_3 = add_f32(v2_3, v3_3);
    let v4_4 = add_f32(v2_4, v3_4);
    let v4_5 = add_f32(v2_5, v3_5);
    let v4_6 = add_f32(v2_6, v3_6);
    let v4_7 = add_f32(v2_7, v3_7);
    let v5_0 = tanh_f32(v4_0);
    let v5_1 = tanh_f32(v4_1);
    let v5_2 = tanh_f32(v4_2);
    let v5_3 = tanh_f32(v4_3);
    let v5_4 = tanh_f32(v4_4);
    let v5_5 = tanh_f32(v4_5);
    let v5_6 = tanh_f32(v4_6);
    let v5_7 = tanh_f32(v4_7);
    let at20 = (i0 * 8 + i1_0) >> 2u;
    out0(at20, v5_0, v5_1, v5_2, v5_3);
    out0(at20 + 1, v5_4, v5_5, v5_6, v5_7);
}

