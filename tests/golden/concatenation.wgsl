// lt_where_mul[10, 8]
@group(0) @binding(0) var<uniform> launch: array<vec4<u32>, 2>;
fn number_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits ^ launch[0].x);
}
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ launch[0].x);
}
fn add_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x + y);
}
fn multiply_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x * y);
}
@group(0) @binding(1) var<storage, read_write> in0_0: array<vec4<f32>>;
fn in0(quad: i32) -> vec4<f32> {
    let e = u32(quad) + launch[1].x / 4u;
    return in0_0[e];
}
@group(0) @binding(2) var<storage, read_write> in1_0: array<vec4<f32>>;
fn in1(quad: i32) -> vec4<f32> {
    let e = u32(quad) + launch[1].y / 4u;
    return in1_0[e];
}
@group(0) @binding(3) var<storage, read_write> out0_0: array<vec4<f32>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = vec4<f32>(a, b, c, d);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 20) { return; }
    let point_first = point * 4;
    let i0 = i32(u32(point_first) / 8u);
    let i1_0 = i32(u32(point_first) % 8u) + 0;
    let i1_1 = i32(u32(point_first) % 8u) + 1;
    let i1_2 = i32(u32(point_first) % 8u) + 2;
    let i1_3 = i32(u32(point_first) % 8u) + 3;
    let v0 = i0;
    let v1 = i32(4);
    let v2 = (v0 < v1);
    let v3 = (i0 < 4);
    let v4 = number_f32(0x00000000u /* 0.0 */);
    let four1 = in0((select(0, i0 * 8 + i1_0, (i0 < 4))) / 4);
    let v5_0 = select(number_f32(0x00000000u /* 0.0 */), four1.x, (i0 < 4));
    let v5_1 = select(number_f32(0x00000000u /* 0.0 */), four1.y, (i0 < 4));
    let v5_2 = select(number_f32(0x00000000u /* 0.0 */), four1.z, (i0 < 4));
    let v5_3 = select(number_f32(0x00000000u /* 0.0 */), four1.w, (i0 < 4));
    let v6 = number_f32(0x3f800000u /* 1.0 */);
    let v7_0 = add_f32(v5_0, v6);
    let v7_1 = add_f32(v5_1, v6);
    let v7_2 = add_f32(v5_2, v6);
    let v7_3 = add_f32(v5_3, v6);
    let v8_0 = select(v4, v7_0, v3);
    let v8_1 = select(v4, v7_1, v3);
    let v8_2 = select(v4, v7_2, v3);
    let v8_3 = select(v4, v7_3, v3);
    let four2 = in1((select(0, i0 * 8 + i1_0 + (-32), (i0 + (-4) >= 0))) / 4);
    let v10_0 = select(number_f32(0x00000000u /* 0.0 */), four2.x, (i0 + (-4) >= 0));
    let v10_1 = select(number_f32(0x00000000u /* 0.0 */), four2.y, (i0 + (-4) >= 0));
    let v10_2 = select(number_f32(0x00000000u /* 0.0 */), four2.z, (i0 + (-4) >= 0));
    let v10_3 = select(number_f32(0x00000000u /* 0.0 */), four2.w, (i0 + (-4) >= 0));
    let v11_0 = select(v10_0, v8_0, v2);
    let v11_1 = select(v10_1, v8_1, v2);
    let v11_2 = select(v10_2, v8_2, v2);
    let v11_3 = select(v10_3, v8_3, v2);
    let v12 = number_f32(0x40000000u /* 2.0 */);
    let v13_0 = multiply_f32(v11_0, v12);
    let v13_1 = multiply_f32(v11_1, v12);
    let v13_2 = multiply_f32(v11_2, v12);
    let v13_3 = multiply_f32(v11_3, v12);
    out0((i0 * 8 + i1_0) / 4, v13_0, v13_1, v13_2, v13_3);
}

