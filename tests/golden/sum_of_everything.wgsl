// sum[]
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
    if (point >= 64) { return; }
    let i0 = point;
    var s1a: f32 = number_f32(0x00000000u /* 0.0 */);
    var s2a: f32 = number_f32(0x00000000u /* 0.0 */);
    var taken3: i32 = 0;
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
        let at4 = in0_vector_index((i0 * 4096 + i1_0) >> 3u);
        let vec8_5 = in0(at4);
        let v0_0 = vec8_5.low.x;
        let v0_1 = vec8_5.low.y;
        let v0_2 = vec8_5.low.z;
        let v0_3 = vec8_5.low.w;
        let v0_4 = vec8_5.high.x;
        let v0_5 = vec8_5.high.y;
        let v0_6 = vec8_5.high.z;
        let v0_7 = vec8_5.high.w;
        let vec8_6 = in0(at4 + 1);
        let v0_8 = vec8_6.low.x;
        let v0_9 = vec8_6.low.y;
        let v0_10 = vec8_6.low.z;
        let v0_11 = vec8_6.low.w;
        let v0_12 = vec8_6.high.x;
        let v0_13 = vec8_6.high.y;
        let v0_14 = vec8_6.high.z;
        let v0_15 = vec8_6.high.w;
        s1a = add_f32(s1a, add_f32(add_f32(add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)), add_f32(add_f32(v0_4, v0_5), add_f32(v0_6, v0_7))), add_f32(add_f32(add_f32(v0_8, v0_9), add_f32(v0_10, v0_11)), add_f32(add_f32(v0_12, v0_13), add_f32(v0_14, v0_15)))));
        taken3 = taken3 + 1;
        if (taken3 == 32) {
            taken3 = 0;
            s2a = add_f32(s2a, s1a);
            s1a = number_f32(0x00000000u /* 0.0 */);
        }
    }
    s2a = add_f32(s2a, s1a);
    s1a = s2a;
    let v1 = s1a;
    out0(i0, v1);
}

// sum[]
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
fn in0_vector_index(group: i32) -> i32 {
    return group;
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
    let one = i32(min(groups.y, 1u));
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 1) { return; }
    var s1a: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var row: i32 = 0; row < 64 * one; row += 16) {
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
        let at2 = in0_vector_index((i1_0) >> 3u);
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
    out0(0, v1);
}

