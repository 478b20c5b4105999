// scan_mul[2, 4096]
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
    if (point >= 2) { return; }
    let i0 = point;
    let v2 = number_f32(0x40000000u /* 2.0 */);
    var s1a: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var row: i32 = 0; row < 4096 * one; row += 16) {
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
        let at2 = in0_vector_index((i0 * 4096 + i1_0) >> 3u);
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
        s1a = add_f32(s1a, v0_0);
        let v1_0 = s1a;
        s1a = add_f32(s1a, v0_1);
        let v1_1 = s1a;
        s1a = add_f32(s1a, v0_2);
        let v1_2 = s1a;
        s1a = add_f32(s1a, v0_3);
        let v1_3 = s1a;
        s1a = add_f32(s1a, v0_4);
        let v1_4 = s1a;
        s1a = add_f32(s1a, v0_5);
        let v1_5 = s1a;
        s1a = add_f32(s1a, v0_6);
        let v1_6 = s1a;
        s1a = add_f32(s1a, v0_7);
        let v1_7 = s1a;
        s1a = add_f32(s1a, v0_8);
        let v1_8 = s1a;
        s1a = add_f32(s1a, v0_9);
        let v1_9 = s1a;
        s1a = add_f32(s1a, v0_10);
        let v1_10 = s1a;
        s1a = add_f32(s1a, v0_11);
        let v1_11 = s1a;
        s1a = add_f32(s1a, v0_12);
        let v1_12 = s1a;
        s1a = add_f32(s1a, v0_13);
        let v1_13 = s1a;
        s1a = add_f32(s1a, v0_14);
        let v1_14 = s1a;
        s1a = add_f32(s1a, v0_15);
        let v1_15 = s1a;
        let v3_0 = multiply_f32(v1_0, v2);
        let v3_1 = multiply_f32(v1_1, v2);
        let v3_2 = multiply_f32(v1_2, v2);
        let v3_3 = multiply_f32(v1_3, v2);
        let v3_4 = multiply_f32(v1_4, v2);
        let v3_5 = multiply_f32(v1_5, v2);
        let v3_6 = multiply_f32(v1_6, v2);
        let v3_7 = multiply_f32(v1_7, v2);
        let v3_8 = multiply_f32(v1_8, v2);
        let v3_9 = multiply_f32(v1_9, v2);
        let v3_10 = multiply_f32(v1_10, v2);
        let v3_11 = multiply_f32(v1_11, v2);
        let v3_12 = multiply_f32(v1_12, v2);
        let v3_13 = multiply_f32(v1_13, v2);
        let v3_14 = multiply_f32(v1_14, v2);
        let v3_15 = multiply_f32(v1_15, v2);
        let at5 = (i0 * 4096 + i1_0) >> 3u;
        out0(at5, vec4(v3_0, v3_1, v3_2, v3_3), vec4(v3_4, v3_5, v3_6, v3_7));
        out0(at5 + 1, vec4(v3_8, v3_9, v3_10, v3_11), vec4(v3_12, v3_13, v3_14, v3_15));
    }
}

