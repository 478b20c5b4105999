// mul_div_minimum_gather[1, 2, 16, 16]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
fn quotient_i32(x: i32, y: i32) -> i32 {
    let safe = select(y, 1, y == 0 || y == -1);
    return select(select(x / safe, 0 - x, y == -1), 0, y == 0);
}
fn wide_u64(low: u32, high: u32) -> u64 {
    return (u64(high) << 32u) | u64(low);
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
    offset0 = uniforms[1].x;
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 64) { return; }
    let point_first = point * 8;
    let over1 = i32((u32(point_first) / 16u));
    let over2 = i32((u32(over1) / 16u));
    let i0 = over2;
    let i1 = over1 - over2 * 16;
    let i2_0 = point_first - over1 * 16;
    let i2_1 = i2_0 + 1;
    let i2_2 = i2_0 + 2;
    let i2_3 = i2_0 + 3;
    let i2_4 = i2_0 + 4;
    let i2_5 = i2_0 + 5;
    let i2_6 = i2_0 + 6;
    let i2_7 = i2_0 + 7;
    let v0_0 = i2_0;
    let v0_1 = i2_1;
    let v0_2 = i2_2;
    let v0_3 = i2_3;
    let v0_4 = i2_4;
    let v0_5 = i2_5;
    let v0_6 = i2_6;
    let v0_7 = i2_7;
    let v1 = i32(8);
    let v2_0 = (v0_0 * v1);
    let v2_1 = (v0_1 * v1);
    let v2_2 = (v0_2 * v1);
    let v2_3 = (v0_3 * v1);
    let v2_4 = (v0_4 * v1);
    let v2_5 = (v0_5 * v1);
    let v2_6 = (v0_6 * v1);
    let v2_7 = (v0_7 * v1);
    let v3 = i32(16);
    let v4_0 = quotient_i32(v2_0, v3);
    let v4_1 = quotient_i32(v2_1, v3);
    let v4_2 = quotient_i32(v2_2, v3);
    let v4_3 = quotient_i32(v2_3, v3);
    let v4_4 = quotient_i32(v2_4, v3);
    let v4_5 = quotient_i32(v2_5, v3);
    let v4_6 = quotient_i32(v2_6, v3);
    let v4_7 = quotient_i32(v2_7, v3);
    let v5 = i32(7);
    let v6_0 = min(v4_0, v5);
    let v6_1 = min(v4_1, v5);
    let v6_2 = min(v4_2, v5);
    let v6_3 = min(v4_3, v5);
    let v6_4 = min(v4_4, v5);
    let v6_5 = min(v4_5, v5);
    let v6_6 = min(v4_6, v5);
    let v6_7 = min(v4_7, v5);
    let v7 = i1;
    let v8 = (v7 * v1);
    let v9 = quotient_i32(v8, v3);
    let v10 = min(v9, v5);
    let v11_0 = in0(i0 * 64 + v10 * 8 + v6_0 * 1);
    let v11_1 = in0(i0 * 64 + v10 * 8 + v6_1 * 1);
    let v11_2 = in0(i0 * 64 + v10 * 8 + v6_2 * 1);
    let v11_3 = in0(i0 * 64 + v10 * 8 + v6_3 * 1);
    let v11_4 = in0(i0 * 64 + v10 * 8 + v6_4 * 1);
    let v11_5 = in0(i0 * 64 + v10 * 8 + v6_5 * 1);
    let v11_6 = in0(i0 * 64 + v10 * 8 + v6_6 * 1);
    let v11_7 = in0(i0 * 64 + v10 * 8 + v6_7 * 1);
    let at3 = (i0 * 256 + i1 * 16 + i2_0) >> 3u;
    out0(at3, vec4(v11_0, v11_1, v11_2, v11_3), vec4(v11_4, v11_5, v11_6, v11_7));
}

