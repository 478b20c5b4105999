// mul_add[8, 4, 16]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ uniforms[0].x);
}
fn add_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x + y);
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
@group(0) @binding(2) var<storage, read_write> in1_0: array<f32>;
var<private> offset1: u32;
fn in1(at: i32) -> f32 {
    let e = u32(at) + offset1;
    return in1_0[e];
}
@group(0) @binding(3) var<storage, read_write> in2_0: array<vec4<u64>>;
fn in2(eighth: i32) -> Vec8_f32 {
    let e = u32(eighth);
    var x: vec4<u64>;
    x = in2_0[e];
    return Vec8_f32(bitcast<vec4<f32>>(words_of(x.xy)), bitcast<vec4<f32>>(words_of(x.zw)));
}
var<private> vec8_offset2: i32;
fn in2_vector_index(group: i32) -> i32 {
    return group + vec8_offset2;
}
@group(0) @binding(4) var<storage, read_write> out0_0: array<vec4<u64>>;
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
    offset1 = uniforms[1].y;
    vec8_offset2 = i32(uniforms[1].z / 8u);
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 64) { return; }
    let point_first = point * 8;
    let over1 = i32((u32(point_first) / 16u));
    let over2 = i32((u32(over1) / 4u));
    let i0 = over2;
    let i1 = over1 - over2 * 4;
    let i2_0 = point_first - over1 * 16;
    let i2_1 = i2_0 + 1;
    let i2_2 = i2_0 + 2;
    let i2_3 = i2_0 + 3;
    let i2_4 = i2_0 + 4;
    let i2_5 = i2_0 + 5;
    let i2_6 = i2_0 + 6;
    let i2_7 = i2_0 + 7;
    let at3 = in0_vector_index((i0 * 16 + i2_0) >> 3u);
    let vec8_4 = in0(at3);
    let v0_0 = vec8_4.low.x;
    let v0_1 = vec8_4.low.y;
    let v0_2 = vec8_4.low.z;
    let v0_3 = vec8_4.low.w;
    let v0_4 = vec8_4.high.x;
    let v0_5 = vec8_4.high.y;
    let v0_6 = vec8_4.high.z;
    let v0_7 = vec8_4.high.w;
    let v1 = in1(i1);
    let v2_0 = multiply_f32(v0_0, v1);
    let v2_1 = multiply_f32(v0_1, v1);
    let v2_2 = multiply_f32(v0_2, v1);
    let v2_3 = multiply_f32(v0_3, v1);
    let v2_4 = multiply_f32(v0_4, v1);
    let v2_5 = multiply_f32(v0_5, v1);
    let v2_6 = multiply_f32(v0_6, v1);
    let v2_7 = multiply_f32(v0_7, v1);
    let at5 = in2_vector_index((i2_0) >> 3u);
    let vec8_6 = in2(at5);
    let v3_0 = vec8_6.low.x;
    let v3_1 = vec8_6.low.y;
    let v3_2 = vec8_6.low.z;
    let v3_3 = vec8_6.low.w;
    let v3_4 = vec8_6.high.x;
    let v3_5 = vec8_6.high.y;
    let v3_6 = vec8_6.high.z;
    let v3_7 = vec8_6.high.w;
    let v4_0 = add_f32(v2_0, v3_0);
    let v4_1 = add_f32(v2_1, v3_1);
    let v4_2 = add_f32(v2_2, v3_2);
    let v4_3 = add_f32(v2_3, v3_3);
    let v4_4 = add_f32(v2_4, v3_4);
    let v4_5 = add_f32(v2_5, v3_5);
    let v4_6 = add_f32(v2_6, v3_6);
    let v4_7 = add_f32(v2_7, v3_7);
    let at7 = (i0 * 64 + i1 * 16 + i2_0) >> 3u;
    out0(at7, vec4(v4_0, v4_1, v4_2, v4_3), vec4(v4_4, v4_5, v4_6, v4_7));
}

