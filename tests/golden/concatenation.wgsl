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
    let v1 = (i0);
    let v2 = i32(4);
    let v3 = (v1 < v2);
    let v4 = (i0 < 4);
    let v5 = number_f32(0x00000000u /* 0.0 */);
    let four1 = in0((select(0, i0 * 8 + i1_0, (i0 < 4))) / 4);
    let v6_0 = select(number_f32(0x00000000u /* 0.0 */), four1.x, (i0 < 4));
    let v6_1 = select(number_f32(0x00000000u /* 0.0 */), four1.y, (i0 < 4));
    let v6_2 = select(number_f32(0x00000000u /* 0.0 */), four1.z, (i0 < 4));
    let v6_3 = select(number_f32(0x00000000u /* 0.0 */), four1.w, (i0 < 4));
    let v7 = number_f32(0x3f800000u /* 1.0 */);
    let v8_0 = add_f32(v6_0, v7);
    let v8_1 = add_f32(v6_1, v7);
    let v8_2 = add_f32(v6_2, v7);
    let v8_3 = add_f32(v6_3, v7);
    let v9_0 = select(v5, v8_0, v4);
    let v9_1 = select(v5, v8_1, v4);
    let v9_2 = select(v5, v8_2, v4);
    let v9_3 = select(v5, v8_3, v4);
    let four2 = in1((select(0, i0 * 8 + i1_0 + (-32), (i0 + (-4) >= 0))) / 4);
    let v11_0 = select(number_f32(0x00000000u /* 0.0 */), four2.x, (i0 + (-4) >= 0));
    let v11_1 = select(number_f32(0x00000000u /* 0.0 */), four2.y, (i0 + (-4) >= 0));
    let v11_2 = select(number_f32(0x00000000u /* 0.0 */), four2.z, (i0 + (-4) >= 0));
    let v11_3 = select(number_f32(0x00000000u /* 0.0 */), four2.w, (i0 + (-4) >= 0));
    let v12_0 = select(v11_0, v9_0, v3);
    let v12_1 = select(v11_1, v9_1, v3);
    let v12_2 = select(v11_2, v9_2, v3);
    let v12_3 = select(v11_3, v9_3, v3);
    let v13 = number_f32(0x40000000u /* 2.0 */);
    let v14_0 = multiply_f32(v12_0, v13);
    let v14_1 = multiply_f32(v12_1, v13);
    let v14_2 = multiply_f32(v12_2, v13);
    let v14_3 = multiply_f32(v12_3, v13);
    out0((i0 * 8 + i1_0) / 4, v14_0, v14_1, v14_2, v14_3);
}

