// lt_where_mul[10, 8]
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
    if (point >= 10) { return; }
    let point_first = point * 8;
    let over1 = i32((u32(point_first) / 8u));
    let i0 = over1;
    let i1_0 = point_first - over1 * 8;
    let i1_1 = i1_0 + 1;
    let i1_2 = i1_0 + 2;
    let i1_3 = i1_0 + 3;
    let i1_4 = i1_0 + 4;
    let i1_5 = i1_0 + 5;
    let i1_6 = i1_0 + 6;
    let i1_7 = i1_0 + 7;
    let v2 = ((i0) < (4));
    let v3 = (i0 < 4);
    let v4 = number_f32(0x00000000u /* 0.0 */);
    let vec8_2 = in0(in0_vector_index((select(0, i0 * 8 + i1_0, (i0 < 4))) >> 3u));
    let v5_0 = select(number_f32(0x00000000u /* 0.0 */), vec8_2.low.x, (i0 < 4));
    let v5_1 = select(number_f32(0x00000000u /* 0.0 */), vec8_2.low.y, (i0 < 4));
    let v5_2 = select(number_f32(0x00000000u /* 0.0 */), vec8_2.low.z, (i0 < 4));
    let v5_3 = select(number_f32(0x00000000u /* 0.0 */), vec8_2.low.w, (i0 < 4));
    let v5_4 = select(number_f32(0x00000000u /* 0.0 */), vec8_2.high.x, (i0 < 4));
    let v5_5 = select(number_f32(0x00000000u /* 0.0 */), vec8_2.high.y, (i0 < 4));
    let v5_6 = select(number_f32(0x00000000u /* 0.0 */), vec8_2.high.z, (i0 < 4));
    let v5_7 = select(number_f32(0x00000000u /* 0.0 */), vec8_2.high.w, (i0 < 4));
    let v6 = number_f32(0x3f800000u /* 1.0 */);
    let v7_0 = add_f32(v5_0, v6);
    let v7_1 = add_f32(v5_1, v6);
    let v7_2 = add_f32(v5_2, v6);
    let v7_3 = add_f32(v5_3, v6);
    let v7_4 = add_f32(v5_4, v6);
    let v7_5 = add_f32(v5_5, v6);
    let v7_6 = add_f32(v5_6, v6);
    let v7_7 = add_f32(v5_7, v6);
    let v8_0 = select(v4, v7_0, v3);
    let v8_1 = select(v4, v7_1, v3);
    let v8_2 = select(v4, v7_2, v3);
    let v8_3 = select(v4, v7_3, v3);
    let v8_4 = select(v4, v7_4, v3);
    let v8_5 = select(v4, v7_5, v3);
    let v8_6 = select(v4, v7_6, v3);
    let v8_7 = select(v4, v7_7, v3);
    let vec8_3 = in1(in1_vector_index((select(0, i0 * 8 + i1_0 + (-32), (i0 + (-4) >= 0))) >> 3u));
    let v10_0 = select(number_f32(0x00000000u /* 0.0 */), vec8_3.low.x, (i0 + (-4) >= 0));
    let v10_1 = select(number_f32(0x00000000u /* 0.0 */), vec8_3.low.y, (i0 + (-4) >= 0));
    let v10_2 = select(number_f32(0x00000000u /* 0.0 */), vec8_3.low.z, (i0 + (-4) >= 0));
    let v10_3 = select(number_f32(0x00000000u /* 0.0 */), vec8_3.low.w, (i0 + (-4) >= 0));
    let v10_4 = select(number_f32(0x00000000u /* 0.0 */), vec8_3.high.x, (i0 + (-4) >= 0));
    let v10_5 = select(number_f32(0x00000000u /* 0.0 */), vec8_3.high.y, (i0 + (-4) >= 0));
    let v10_6 = select(number_f32(0x00000000u /* 0.0 */), vec8_3.high.z, (i0 + (-4) >= 0));
    let v10_7 = select(number_f32(0x00000000u /* 0.0 */), vec8_3.high.w, (i0 + (-4) >= 0));
    let v11_0 = select(v10_0, v8_0, v2);
    let v11_1 = select(v10_1, v8_1, v2);
    let v11_2 = select(v10_2, v8_2, v2);
    let v11_3 = select(v10_3, v8_3, v2);
    let v11_4 = select(v10_4, v8_4, v2);
    let v11_5 = select(v10_5, v8_5, v2);
    let v11_6 = select(v10_6, v8_6, v2);
    let v11_7 = select(v10_7, v8_7, v2);
    let v12 = number_f32(0x40000000u /* 2.0 */);
    let v13_0 = multiply_f32(v11_0, v12);
    let v13_1 = multiply_f32(v11_1, v12);
    let v13_2 = multiply_f32(v11_2, v12);
    let v13_3 = multiply_f32(v11_3, v12);
    let v13_4 = multiply_f32(v11_4, v12);
    let v13_5 = multiply_f32(v11_5, v12);
    let v13_6 = multiply_f32(v11_6, v12);
    let v13_7 = multiply_f32(v11_7, v12);
    let at4 = (i0 * 8 + i1_0) >> 3u;
    out0(at4, vec4(v13_0, v13_1, v13_2, v13_3), vec4(v13_4, v13_5, v13_6, v13_7));
}

