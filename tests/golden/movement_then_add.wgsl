// add[16, 24]
@group(0) @binding(0) var<uniform> launch: array<vec4<u32>, 2>;
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ launch[0].x);
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
var<private> start0: u32;
fn in0(at: i32) -> f32 {
    let e = u32(at) + start0;
    return in0_0[e];
}
@group(0) @binding(2) var<storage, read_write> in1_0: array<vec2<u64>>;
var<private> fours1: u32;
fn in1(quad: i32) -> vec4<f32> {
    let e = u32(quad) + fours1;
    return bitcast<vec4<f32>>(words_of(in1_0[e]));
}
@group(0) @binding(3) var<storage, read_write> out0_0: array<vec2<u64>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = long_words(bitcast<vec4<u32>>(vec4<f32>(a, b, c, d)));
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    start0 = launch[1].x;
    fours1 = launch[1].y / 4u;
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
    let four2 = in1((i0 * 24 + i2_0) >> 2u);
    let v1_0 = four2.x;
    let v1_1 = four2.y;
    let v1_2 = four2.z;
    let v1_3 = four2.w;
    let four3 = in1((i0 * 24 + i2_4) >> 2u);
    let v1_4 = four3.x;
    let v1_5 = four3.y;
    let v1_6 = four3.z;
    let v1_7 = four3.w;
    let v2_0 = add_f32(v0_0, v1_0);
    let v2_1 = add_f32(v0_1, v1_1);
    let v2_2 = add_f32(v0_2, v1_2);
    let v2_3 = add_f32(v0_3, v1_3);
    let v2_4 = add_f32(v0_4, v1_4);
    let v2_5 = add_f32(v0_5, v1_5);
    let v2_6 = add_f32(v0_6, v1_6);
    let v2_7 = add_f32(v0_7, v1_7);
    out0((i0 * 24 + i2_0) >> 2u, v2_0, v2_1, v2_2, v2_3);
    out0((i0 * 24 + i2_4) >> 2u, v2_4, v2_5, v2_6, v2_7);
}

