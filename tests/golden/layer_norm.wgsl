// sum_div_sub_mul_add_sqrt[64, 96]
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
fn negate_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ (0x80000000u ^ launch[0].x));
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
fn reciprocal_f32(x: f32) -> f32 {
    return opaque_f32(number_f32(0x3f800000u) / x);
}
fn root_f32(x: f32) -> f32 {
    return opaque_f32(sqrt(x));
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
@group(0) @binding(3) var<storage, read_write> in2_0: array<vec4<f32>>;
fn in2(quad: i32) -> vec4<f32> {
    let e = u32(quad) + launch[1].z / 4u;
    return in2_0[e];
}
@group(0) @binding(4) var<storage, read_write> out0_0: array<vec4<f32>>;
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
    if (point >= 64) { return; }
    let i0 = point;
    var s1a: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var row: i32 = 0; row < 96; row += 4) {
        let i1_0 = row + 0;
        let i1_1 = row + 1;
        let i1_2 = row + 2;
        let i1_3 = row + 3;
        let four2 = in0((i0 * 96 + i1_0) / 4);
        let v0_0 = four2.x;
        let v0_1 = four2.y;
        let v0_2 = four2.z;
        let v0_3 = four2.w;
        s1a = add_f32(s1a, v0_0);
        s1a = add_f32(s1a, v0_1);
        s1a = add_f32(s1a, v0_2);
        s1a = add_f32(s1a, v0_3);
    }
    let v1 = s1a;
    let v2 = number_f32(0x42c00000u /* 96.0 */);
    let v3 = divide_f32(v1, v2);
    var s3a: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var row: i32 = 0; row < 96; row += 4) {
        let i1_0 = row + 0;
        let i1_1 = row + 1;
        let i1_2 = row + 2;
        let i1_3 = row + 3;
        let four4 = in0((i0 * 96 + i1_0) / 4);
        let v0_0 = four4.x;
        let v0_1 = four4.y;
        let v0_2 = four4.z;
        let v0_3 = four4.w;
        let v4_0 = subtract_f32(v0_0, v3);
        let v4_1 = subtract_f32(v0_1, v3);
        let v4_2 = subtract_f32(v0_2, v3);
        let v4_3 = subtract_f32(v0_3, v3);
        let v5_0 = multiply_f32(v4_0, v4_0);
        let v5_1 = multiply_f32(v4_1, v4_1);
        let v5_2 = multiply_f32(v4_2, v4_2);
        let v5_3 = multiply_f32(v4_3, v4_3);
        s3a = add_f32(s3a, v5_0);
        s3a = add_f32(s3a, v5_1);
        s3a = add_f32(s3a, v5_2);
        s3a = add_f32(s3a, v5_3);
    }
    let v6 = s3a;
    let v7 = divide_f32(v6, v2);
    let v8 = number_f32(0x3727c5acu /* 1e-5 */);
    let v9 = add_f32(v7, v8);
    let v10 = root_f32(v9);
    let v11 = reciprocal_f32(v10);
    for (var row: i32 = 0; row < 96; row += 4) {
        let i1_0 = row + 0;
        let i1_1 = row + 1;
        let i1_2 = row + 2;
        let i1_3 = row + 3;
        let four5 = in0((i0 * 96 + i1_0) / 4);
        let v0_0 = four5.x;
        let v0_1 = four5.y;
        let v0_2 = four5.z;
        let v0_3 = four5.w;
        let v4_0 = subtract_f32(v0_0, v3);
        let v4_1 = subtract_f32(v0_1, v3);
        let v4_2 = subtract_f32(v0_2, v3);
        let v4_3 = subtract_f32(v0_3, v3);
        let v12_0 = multiply_f32(v4_0, v11);
        let v12_1 = multiply_f32(v4_1, v11);
        let v12_2 = multiply_f32(v4_2, v11);
        let v12_3 = multiply_f32(v4_3, v11);
        let four6 = in1((i1_0) / 4);
        let v13_0 = four6.x;
        let v13_1 = four6.y;
        let v13_2 = four6.z;
        let v13_3 = four6.w;
        let v14_0 = multiply_f32(v12_0, v13_0);
        let v14_1 = multiply_f32(v12_1, v13_1);
        let v14_2 = multiply_f32(v12_2, v13_2);
        let v14_3 = multiply_f32(v12_3, v13_3);
        let four7 = in2((i1_0) / 4);
        let v15_0 = four7.x;
        let v15_1 = four7.y;
        let v15_2 = four7.z;
        let v15_3 = four7.w;
        let v16_0 = add_f32(v14_0, v15_0);
        let v16_1 = add_f32(v14_1, v15_1);
        let v16_2 = add_f32(v14_2, v15_2);
        let v16_3 = add_f32(v14_3, v15_3);
        out0((i0 * 96 + i1_0) / 4, v16_0, v16_1, v16_2, v16_3);
    }
}

