// add[16, 24]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ uniforms[0].x);
}
fn add_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x + y);
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
@group(0) @binding(1) var<storage, read_write> in0_0: array<f32>;
var<private> offset0: u32;
fn in0(at: i32) -> f32 {
    let e = u32(at) + offset0;
    return in0_0[e];
}
@group(0) @binding(2) var<storage, read_write> in1_0: array<vec4<u64>>;
struct Vec8_f32 { low: vec4<f32>, high: vec4<f32> }
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
    offset0 = uniforms[1].x;
    vec8_offset1 = i32(uniforms[1].y / 8u);
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 48) { return; }
    let point_first = point * 8;
    let over1 = i32((u32(point_first) / 24u));
    let i0 = over1;
    let i2_0 = point_first - over1 * 24;
    let i2_1 = i2_0 + 1;
    let i2_2 = i2_0 + 2;
    let i2_3 = i2_0 + 3;
    let i2_4 = i2_0 + 4;
    let i2_5 = i2_0 + 5;
    let i2_6 = i2_0 + 6;
    let i2_7 = i2_0 + 7;
    let v0_0 = in0(i0 * 24 + i2_0 * (-1) + 23);
    let v0_1 = in0(i0 * 24 + i2_1 * (-1) + 23);
    let v0_2 = in0(i0 * 24 + i2_2 * (-1) + 23);
    let v0_3 = in0(i0 * 24 + i2_3 * (-1) + 23);
    let v0_4 = in0(i0 * 24 + i2_4 * (-1) + 23);
    let v0_5 = in0(i0 * 24 + i2_5 * (-1) + 23);
    let v0_6 = in0(i0 * 24 + i2_6 * (-1) + 23);
    let v0_7 = in0(i0 * 24 + i2_7 * (-1) + 23);
    let at2 = in1_vector_index((i0 * 24 + i2_0) >> 3u);
    let vec8_3 = in1(at2);
    let v1_0 = vec8_3.low.x;
    let v1_1 = vec8_3.low.y;
    let v1_2 = vec8_3.low.z;
    let v1_3 = vec8_3.low.w;
    let v1_4 = vec8_3.high.x;
    let v1_5 = vec8_3.high.y;
    let v1_6 = vec8_3.high.z;
    let v1_7 = vec8_3.high.w;
    let v2_0 = add_f32(v0_0, v1_0);
    let v2_1 = add_f32(v0_1, v1_1);
    let v2_2 = add_f32(v0_2, v1_2);
    let v2_3 = add_f32(v0_3, v1_3);
    let v2_4 = add_f32(v0_4, v1_4);
    let v2_5 = add_f32(v0_5, v1_5);
    let v2_6 = add_f32(v0_6, v1_6);
    let v2_7 = add_f32(v0_7, v1_7);
    let at4 = (i0 * 24 + i2_0) >> 3u;
    out0(at4, vec4(v2_0, v2_1, v2_2, v2_3), vec4(v2_4, v2_5, v2_6, v2_7));
}

