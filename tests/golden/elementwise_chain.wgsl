// tanh_sub_mul_add_div[32, 64]
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
fn divide_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x / y);
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
@group(0) @binding(2) var<storage, read_write> in1_0: array<vec4<u64>>;
fn in1(eighth: i32) -> Vec8_f32 {
    let e = u32(eighth);
    var x: vec4<u64>;
    x = in1_0[e];
    return Vec8_f32(bitcast<vec4<f32>>(words_of(x.xy)), bitcast<vec4<f32>>(words_of(x.zw)));
}
var<private> vec8_offset1: i32;
fn in1_vector_index(group: i32) -> i32 {
    return group + vec8_offset1;
}
@group(0) @binding(3) var<storage, read_write> out0_0: array<vec4<u64>>;
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
    vec8_offset1 = i32(uniforms[1].y / 8u);
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 256) { return; }
    let point_first = point * 8;
    let i1_0 = point_first;
    let i1_1 = i1_0 + 1;
    let i1_2 = i1_0 + 2;
    let i1_3 = i1_0 + 3;
    let i1_4 = i1_0 + 4;
    let i1_5 = i1_0 + 5;
    let i1_6 = i1_0 + 6;
    let i1_7 = i1_0 + 7;
    let at1 = in0_vector_index((i1_0) >> 3u);
    let vec8_2 = in0(at1);
    let v0_0 = vec8_2.low.x;
    let v0_1 = vec8_2.low.y;
    let v0_2 = vec8_2.low.z;
    let v0_3 = vec8_2.low.w;
    let v0_4 = vec8_2.high.x;
    let v0_5 = vec8_2.high.y;
    let v0_6 = vec8_2.high.z;
    let v0_7 = vec8_2.high.w;
    let v1 = number_f32(0x40000000u /* 2.0 */);
    let v2_0 = multiply_f32(v0_0, v1);
    let v2_1 = multiply_f32(v0_1, v1);
    let v2_2 = multiply_f32(v0_2, v1);
    let v2_3 = multiply_f32(v0_3, v1);
    let v2_4 = multiply_f32(v0_4, v1);
    let v2_5 = multiply_f32(v0_5, v1);
    let v2_6 = multiply_f32(v0_6, v1);
    let v2_7 = multiply_f32(v0_7, v1);
    let at3 = in1_vector_index((i1_0) >> 3u);
    let vec8_4 = in1(at3);
    let v3_0 = vec8_4.low.x;
    let v3_1 = vec8_4.low.y;
    let v3_2 = vec8_4.low.z;
    let v3_3 = vec8_4.low.w;
    let v3_4 = vec8_4.high.x;
    let v3_5 = vec8_4.high.y;
    let v3_6 = vec8_4.high.z;
    let v3_7 = vec8_4.high.w;
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
    let v6_0 = subtract_f32(v5_0, v3_0);
    let v6_1 = subtract_f32(v5_1, v3_1);
    let v6_2 = subtract_f32(v5_2, v3_2);
    let v6_3 = subtract_f32(v5_3, v3_3);
    let v6_4 = subtract_f32(v5_4, v3_4);
    let v6_5 = subtract_f32(v5_5, v3_5);
    let v6_6 = subtract_f32(v5_6, v3_6);
    let v6_7 = subtract_f32(v5_7, v3_7);
    let v7_0 = multiply_f32(v0_0, v0_0);
    let v7_1 = multiply_f32(v0_1, v0_1);
    let v7_2 = multiply_f32(v0_2, v0_2);
    let v7_3 = multiply_f32(v0_3, v0_3);
    let v7_4 = multiply_f32(v0_4, v0_4);
    let v7_5 = multiply_f32(v0_5, v0_5);
    let v7_6 = multiply_f32(v0_6, v0_6);
    let v7_7 = multiply_f32(v0_7, v0_7);
    let v8 = number_f32(0x3f800000u /* 1.0 */);
    let v9_0 = add_f32(v7_0, v8);
    let v9_1 = add_f32(v7_1, v8);
    let v9_2 = add_f32(v7_2, v8);
    let v9_3 = add_f32(v7_3, v8);
    let v9_4 = add_f32(v7_4, v8);
    let v9_5 = add_f32(v7_5, v8);
    let v9_6 = add_f32(v7_6, v8);
    let v9_7 = add_f32(v7_7, v8);
    let v10_0 = divide_f32(v6_0, v9_0);
    let v10_1 = divide_f32(v6_1, v9_1);
    let v10_2 = divide_f32(v6_2, v9_2);
    let v10_3 = divide_f32(v6_3, v9_3);
    let v10_4 = divide_f32(v6_4, v9_4);
    let v10_5 = divide_f32(v6_5, v9_5);
    let v10_6 = divide_f32(v6_6, v9_6);
    let v10_7 = divide_f32(v6_7, v9_7);
    let at5 = (i1_0) >> 3u;
    out0(at5, vec4(v10_0, v10_1, v10_2, v10_3), vec4(v10_4, v10_5, v10_6, v10_7));
}

