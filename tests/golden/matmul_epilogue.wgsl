// contract_add_mul_erf[64, 48]
@group(0) @binding(0) var<uniform> launch: array<vec4<u32>, 2>;
fn number_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits ^ launch[0].x);
}
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ launch[0].x);
}
fn nan_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn add_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x + y);
}
fn multiply_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x * y);
}
fn magnitude_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu);
}
fn scale_f32(x: f32, n: i32) -> f32 {
    let half = n >> 1u;
    let other = n - half;
    return x * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(other + 127) << 23u);
}
fn exp_f32(x: f32) -> f32 {
    let c = min(max(x, -104.0), 89.0);
    let n = round(c * 1.4426950);
    let r = opaque_f32(c - n * 0.693359375) - n * -2.12194440e-4;
    let p = (((0.001381454 * r + 0.008368745) * r + 0.04166839) * r + 0.16666521) * r + 0.49999994;
    let y = 1.0 + (p * (r * r) + r);
    let value = opaque_f32(select(scale_f32(y, i32(n)), 0.0, c < -103.98));
    return select(value, x, nan_f32(x));
}
fn with_sign_f32(x: f32, sign: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(sign) & 0x80000000u));
}
fn erf_f32(x: f32) -> f32 {
    let a = magnitude_f32(x);
    let z = a * a;
    let p = ((((-5.976588e-4 * z + 0.0049904124) * z - 0.026764754) * z + 0.11281766) * z - 0.3761249) * z + 0.12837915;
    let near = p * a + a;
    let b = min(a, 3.95);
    let q = (((((1.9593717e-4 * b - 0.003043217) * b + 0.022226919) * b - 0.10393159) * b - 0.63718224) * b - 1.1276757) * b - 1.9567568e-4;
    let value = with_sign_f32(select(1.0 - exp_f32(q), near, a < 0.92), x);
    return select(value, x, nan_f32(x));
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
@group(0) @binding(4) var<storage, read_write> in3_0: array<vec4<f32>>;
fn in3(quad: i32) -> vec4<f32> {
    let e = u32(quad) + launch[1].w / 4u;
    return in3_0[e];
}
@group(0) @binding(5) var<storage, read_write> out0_0: array<vec4<f32>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = vec4<f32>(a, b, c, d);
}

@compute @workgroup_size(32)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = i32((group.y * groups.x + group.x) * 32u + local);
    if (tile >= 192) { return; }
    let column = i32(u32(tile) % 12u);
    let rest = i32(u32(tile) / 12u);
    let row = i32(u32(rest) % 16u);
    let batch = i32(u32(rest) / 16u);
    let row_first = row * 4;
    let i0_0 = row_first + 0;
    let i0_1 = row_first + 1;
    let i0_2 = row_first + 2;
    let i0_3 = row_first + 3;
    let column_first = column * 4;
    let i1_0 = column_first + 0;
    let i1_1 = column_first + 1;
    let i1_2 = column_first + 2;
    let i1_3 = column_first + 3;
    var sum_0_0: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_0_1: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_0_2: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_0_3: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_1_0: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_1_1: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_1_2: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_1_3: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_2_0: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_2_1: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_2_2: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_2_3: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_3_0: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_3_1: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_3_2: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_3_3: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var step: i32 = 0; step < 32; step += 4) {
        let i2_0 = step + 0;
        let i2_1 = step + 1;
        let i2_2 = step + 2;
        let i2_3 = step + 3;
        let four1 = in0((i0_0 * 32 + i2_0) / 4);
        let v0_0_0 = four1.x;
        let v0_0_1 = four1.y;
        let v0_0_2 = four1.z;
        let v0_0_3 = four1.w;
        let four2 = in0((i0_1 * 32 + i2_0) / 4);
        let v0_1_0 = four2.x;
        let v0_1_1 = four2.y;
        let v0_1_2 = four2.z;
        let v0_1_3 = four2.w;
        let four3 = in0((i0_2 * 32 + i2_0) / 4);
        let v0_2_0 = four3.x;
        let v0_2_1 = four3.y;
        let v0_2_2 = four3.z;
        let v0_2_3 = four3.w;
        let four4 = in0((i0_3 * 32 + i2_0) / 4);
        let v0_3_0 = four4.x;
        let v0_3_1 = four4.y;
        let v0_3_2 = four4.z;
        let v0_3_3 = four4.w;
        let four5 = in1((i1_0 + i2_0 * 48) / 4);
        let v1_0_0 = four5.x;
        let v1_1_0 = four5.y;
        let v1_2_0 = four5.z;
        let v1_3_0 = four5.w;
        let four6 = in1((i1_0 + i2_1 * 48) / 4);
        let v1_0_1 = four6.x;
        let v1_1_1 = four6.y;
        let v1_2_1 = four6.z;
        let v1_3_1 = four6.w;
        let four7 = in1((i1_0 + i2_2 * 48) / 4);
        let v1_0_2 = four7.x;
        let v1_1_2 = four7.y;
        let v1_2_2 = four7.z;
        let v1_3_2 = four7.w;
        let four8 = in1((i1_0 + i2_3 * 48) / 4);
        let v1_0_3 = four8.x;
        let v1_1_3 = four8.y;
        let v1_2_3 = four8.z;
        let v1_3_3 = four8.w;
        sum_0_0 = sum_0_0 + v0_0_0 * v1_0_0;
        sum_0_1 = sum_0_1 + v0_0_0 * v1_1_0;
        sum_0_2 = sum_0_2 + v0_0_0 * v1_2_0;
        sum_0_3 = sum_0_3 + v0_0_0 * v1_3_0;
        sum_1_0 = sum_1_0 + v0_1_0 * v1_0_0;
        sum_1_1 = sum_1_1 + v0_1_0 * v1_1_0;
        sum_1_2 = sum_1_2 + v0_1_0 * v1_2_0;
        sum_1_3 = sum_1_3 + v0_1_0 * v1_3_0;
        sum_2_0 = sum_2_0 + v0_2_0 * v1_0_0;
        sum_2_1 = sum_2_1 + v0_2_0 * v1_1_0;
        sum_2_2 = sum_2_2 + v0_2_0 * v1_2_0;
        sum_2_3 = sum_2_3 + v0_2_0 * v1_3_0;
        sum_3_0 = sum_3_0 + v0_3_0 * v1_0_0;
        sum_3_1 = sum_3_1 + v0_3_0 * v1_1_0;
        sum_3_2 = sum_3_2 + v0_3_0 * v1_2_0;
        sum_3_3 = sum_3_3 + v0_3_0 * v1_3_0;
        sum_0_0 = sum_0_0 + v0_0_1 * v1_0_1;
        sum_0_1 = sum_0_1 + v0_0_1 * v1_1_1;
        sum_0_2 = sum_0_2 + v0_0_1 * v1_2_1;
        sum_0_3 = sum_0_3 + v0_0_1 * v1_3_1;
        sum_1_0 = sum_1_0 + v0_1_1 * v1_0_1;
        sum_1_1 = sum_1_1 + v0_1_1 * v1_1_1;
        sum_1_2 = sum_1_2 + v0_1_1 * v1_2_1;
        sum_1_3 = sum_1_3 + v0_1_1 * v1_3_1;
        sum_2_0 = sum_2_0 + v0_2_1 * v1_0_1;
        sum_2_1 = sum_2_1 + v0_2_1 * v1_1_1;
        sum_2_2 = sum_2_2 + v0_2_1 * v1_2_1;
        sum_2_3 = sum_2_3 + v0_2_1 * v1_3_1;
        sum_3_0 = sum_3_0 + v0_3_1 * v1_0_1;
        sum_3_1 = sum_3_1 + v0_3_1 * v1_1_1;
        sum_3_2 = sum_3_2 + v0_3_1 * v1_2_1;
        sum_3_3 = sum_3_3 + v0_3_1 * v1_3_1;
        sum_0_0 = sum_0_0 + v0_0_2 * v1_0_2;
        sum_0_1 = sum_0_1 + v0_0_2 * v1_1_2;
        sum_0_2 = sum_0_2 + v0_0_2 * v1_2_2;
        sum_0_3 = sum_0_3 + v0_0_2 * v1_3_2;
        sum_1_0 = sum_1_0 + v0_1_2 * v1_0_2;
        sum_1_1 = sum_1_1 + v0_1_2 * v1_1_2;
        sum_1_2 = sum_1_2 + v0_1_2 * v1_2_2;
        sum_1_3 = sum_1_3 + v0_1_2 * v1_3_2;
        sum_2_0 = sum_2_0 + v0_2_2 * v1_0_2;
        sum_2_1 = sum_2_1 + v0_2_2 * v1_1_2;
        sum_2_2 = sum_2_2 + v0_2_2 * v1_2_2;
        sum_2_3 = sum_2_3 + v0_2_2 * v1_3_2;
        sum_3_0 = sum_3_0 + v0_3_2 * v1_0_2;
        sum_3_1 = sum_3_1 + v0_3_2 * v1_1_2;
        sum_3_2 = sum_3_2 + v0_3_2 * v1_2_2;
        sum_3_3 = sum_3_3 + v0_3_2 * v1_3_2;
        sum_0_0 = sum_0_0 + v0_0_3 * v1_0_3;
        sum_0_1 = sum_0_1 + v0_0_3 * v1_1_3;
        sum_0_2 = sum_0_2 + v0_0_3 * v1_2_3;
        sum_0_3 = sum_0_3 + v0_0_3 * v1_3_3;
        sum_1_0 = sum_1_0 + v0_1_3 * v1_0_3;
        sum_1_1 = sum_1_1 + v0_1_3 * v1_1_3;
        sum_1_2 = sum_1_2 + v0_1_3 * v1_2_3;
        sum_1_3 = sum_1_3 + v0_1_3 * v1_3_3;
        sum_2_0 = sum_2_0 + v0_2_3 * v1_0_3;
        sum_2_1 = sum_2_1 + v0_2_3 * v1_1_3;
        sum_2_2 = sum_2_2 + v0_2_3 * v1_2_3;
        sum_2_3 = sum_2_3 + v0_2_3 * v1_3_3;
        sum_3_0 = sum_3_0 + v0_3_3 * v1_0_3;
        sum_3_1 = sum_3_1 + v0_3_3 * v1_1_3;
        sum_3_2 = sum_3_2 + v0_3_3 * v1_2_3;
        sum_3_3 = sum_3_3 + v0_3_3 * v1_3_3;
    }
    let v2_0_0 = sum_0_0;
    let v2_0_1 = sum_0_1;
    let v2_0_2 = sum_0_2;
    let v2_0_3 = sum_0_3;
    let v2_1_0 = sum_1_0;
    let v2_1_1 = sum_1_1;
    let v2_1_2 = sum_1_2;
    let v2_1_3 = sum_1_3;
    let v2_2_0 = sum_2_0;
    let v2_2_1 = sum_2_1;
    let v2_2_2 = sum_2_2;
    let v2_2_3 = sum_2_3;
    let v2_3_0 = sum_3_0;
    let v2_3_1 = sum_3_1;
    let v2_3_2 = sum_3_2;
    let v2_3_3 = sum_3_3;
    let four9 = in2((i1_0) / 4);
    let v3_0 = four9.x;
    let v3_1 = four9.y;
    let v3_2 = four9.z;
    let v3_3 = four9.w;
    let v4_0_0 = add_f32(v2_0_0, v3_0);
    let v4_0_1 = add_f32(v2_0_1, v3_1);
    let v4_0_2 = add_f32(v2_0_2, v3_2);
    let v4_0_3 = add_f32(v2_0_3, v3_3);
    let v4_1_0 = add_f32(v2_1_0, v3_0);
    let v4_1_1 = add_f32(v2_1_1, v3_1);
    let v4_1_2 = add_f32(v2_1_2, v3_2);
    let v4_1_3 = add_f32(v2_1_3, v3_3);
    let v4_2_0 = add_f32(v2_2_0, v3_0);
    let v4_2_1 = add_f32(v2_2_1, v3_1);
    let v4_2_2 = add_f32(v2_2_2, v3_2);
    let v4_2_3 = add_f32(v2_2_3, v3_3);
    let v4_3_0 = add_f32(v2_3_0, v3_0);
    let v4_3_1 = add_f32(v2_3_1, v3_1);
    let v4_3_2 = add_f32(v2_3_2, v3_2);
    let v4_3_3 = add_f32(v2_3_3, v3_3);
    let v5 = number_f32(0x3f000000u /* 0.5 */);
    let v6_0_0 = multiply_f32(v4_0_0, v5);
    let v6_0_1 = multiply_f32(v4_0_1, v5);
    let v6_0_2 = multiply_f32(v4_0_2, v5);
    let v6_0_3 = multiply_f32(v4_0_3, v5);
    let v6_1_0 = multiply_f32(v4_1_0, v5);
    let v6_1_1 = multiply_f32(v4_1_1, v5);
    let v6_1_2 = multiply_f32(v4_1_2, v5);
    let v6_1_3 = multiply_f32(v4_1_3, v5);
    let v6_2_0 = multiply_f32(v4_2_0, v5);
    let v6_2_1 = multiply_f32(v4_2_1, v5);
    let v6_2_2 = multiply_f32(v4_2_2, v5);
    let v6_2_3 = multiply_f32(v4_2_3, v5);
    let v6_3_0 = multiply_f32(v4_3_0, v5);
    let v6_3_1 = multiply_f32(v4_3_1, v5);
    let v6_3_2 = multiply_f32(v4_3_2, v5);
    let v6_3_3 = multiply_f32(v4_3_3, v5);
    let v7 = number_f32(0x3f3504f3u /* 0.70710677 */);
    let v8_0_0 = multiply_f32(v4_0_0, v7);
    let v8_0_1 = multiply_f32(v4_0_1, v7);
    let v8_0_2 = multiply_f32(v4_0_2, v7);
    let v8_0_3 = multiply_f32(v4_0_3, v7);
    let v8_1_0 = multiply_f32(v4_1_0, v7);
    let v8_1_1 = multiply_f32(v4_1_1, v7);
    let v8_1_2 = multiply_f32(v4_1_2, v7);
    let v8_1_3 = multiply_f32(v4_1_3, v7);
    let v8_2_0 = multiply_f32(v4_2_0, v7);
    let v8_2_1 = multiply_f32(v4_2_1, v7);
    let v8_2_2 = multiply_f32(v4_2_2, v7);
    let v8_2_3 = multiply_f32(v4_2_3, v7);
    let v8_3_0 = multiply_f32(v4_3_0, v7);
    let v8_3_1 = multiply_f32(v4_3_1, v7);
    let v8_3_2 = multiply_f32(v4_3_2, v7);
    let v8_3_3 = multiply_f32(v4_3_3, v7);
    let v9_0_0 = erf_f32(v8_0_0);
    let v9_0_1 = erf_f32(v8_0_1);
    let v9_0_2 = erf_f32(v8_0_2);
    let v9_0_3 = erf_f32(v8_0_3);
    let v9_1_0 = erf_f32(v8_1_0);
    let v9_1_1 = erf_f32(v8_1_1);
    let v9_1_2 = erf_f32(v8_1_2);
    let v9_1_3 = erf_f32(v8_1_3);
    let v9_2_0 = erf_f32(v8_2_0);
    let v9_2_1 = erf_f32(v8_2_1);
    let v9_2_2 = erf_f32(v8_2_2);
    let v9_2_3 = erf_f32(v8_2_3);
    let v9_3_0 = erf_f32(v8_3_0);
    let v9_3_1 = erf_f32(v8_3_1);
    let v9_3_2 = erf_f32(v8_3_2);
    let v9_3_3 = erf_f32(v8_3_3);
    let v10 = number_f32(0x3f800000u /* 1.0 */);
    let v11_0_0 = add_f32(v9_0_0, v10);
    let v11_0_1 = add_f32(v9_0_1, v10);
    let v11_0_2 = add_f32(v9_0_2, v10);
    let v11_0_3 = add_f32(v9_0_3, v10);
    let v11_1_0 = add_f32(v9_1_0, v10);
    let v11_1_1 = add_f32(v9_1_1, v10);
    let v11_1_2 = add_f32(v9_1_2, v10);
    let v11_1_3 = add_f32(v9_1_3, v10);
    let v11_2_0 = add_f32(v9_2_0, v10);
    let v11_2_1 = add_f32(v9_2_1, v10);
    let v11_2_2 = add_f32(v9_2_2, v10);
    let v11_2_3 = add_f32(v9_2_3, v10);
    let v11_3_0 = add_f32(v9_3_0, v10);
    let v11_3_1 = add_f32(v9_3_1, v10);
    let v11_3_2 = add_f32(v9_3_2, v10);
    let v11_3_3 = add_f32(v9_3_3, v10);
    let v12_0_0 = multiply_f32(v6_0_0, v11_0_0);
    let v12_0_1 = multiply_f32(v6_0_1, v11_0_1);
    let v12_0_2 = multiply_f32(v6_0_2, v11_0_2);
    let v12_0_3 = multiply_f32(v6_0_3, v11_0_3);
    let v12_1_0 = multiply_f32(v6_1_0, v11_1_0);
    let v12_1_1 = multiply_f32(v6_1_1, v11_1_1);
    let v12_1_2 = multiply_f32(v6_1_2, v11_1_2);
    let v12_1_3 = multiply_f32(v6_1_3, v11_1_3);
    let v12_2_0 = multiply_f32(v6_2_0, v11_2_0);
    let v12_2_1 = multiply_f32(v6_2_1, v11_2_1);
    let v12_2_2 = multiply_f32(v6_2_2, v11_2_2);
    let v12_2_3 = multiply_f32(v6_2_3, v11_2_3);
    let v12_3_0 = multiply_f32(v6_3_0, v11_3_0);
    let v12_3_1 = multiply_f32(v6_3_1, v11_3_1);
    let v12_3_2 = multiply_f32(v6_3_2, v11_3_2);
    let v12_3_3 = multiply_f32(v6_3_3, v11_3_3);
    let four10 = in3((i0_0 * 48 + i1_0) / 4);
    let v13_0_0 = four10.x;
    let v13_0_1 = four10.y;
    let v13_0_2 = four10.z;
    let v13_0_3 = four10.w;
    let four11 = in3((i0_1 * 48 + i1_0) / 4);
    let v13_1_0 = four11.x;
    let v13_1_1 = four11.y;
    let v13_1_2 = four11.z;
    let v13_1_3 = four11.w;
    let four12 = in3((i0_2 * 48 + i1_0) / 4);
    let v13_2_0 = four12.x;
    let v13_2_1 = four12.y;
    let v13_2_2 = four12.z;
    let v13_2_3 = four12.w;
    let four13 = in3((i0_3 * 48 + i1_0) / 4);
    let v13_3_0 = four13.x;
    let v13_3_1 = four13.y;
    let v13_3_2 = four13.z;
    let v13_3_3 = four13.w;
    let v14_0_0 = add_f32(v12_0_0, v13_0_0);
    let v14_0_1 = add_f32(v12_0_1, v13_0_1);
    let v14_0_2 = add_f32(v12_0_2, v13_0_2);
    let v14_0_3 = add_f32(v12_0_3, v13_0_3);
    let v14_1_0 = add_f32(v12_1_0, v13_1_0);
    let v14_1_1 = add_f32(v12_1_1, v13_1_1);
    let v14_1_2 = add_f32(v12_1_2, v13_1_2);
    let v14_1_3 = add_f32(v12_1_3, v13_1_3);
    let v14_2_0 = add_f32(v12_2_0, v13_2_0);
    let v14_2_1 = add_f32(v12_2_1, v13_2_1);
    let v14_2_2 = add_f32(v12_2_2, v13_2_2);
    let v14_2_3 = add_f32(v12_2_3, v13_2_3);
    let v14_3_0 = add_f32(v12_3_0, v13_3_0);
    let v14_3_1 = add_f32(v12_3_1, v13_3_1);
    let v14_3_2 = add_f32(v12_3_2, v13_3_2);
    let v14_3_3 = add_f32(v12_3_3, v13_3_3);
    out0((i0_0 * 48 + i1_0) / 4, v14_0_0, v14_0_1, v14_0_2, v14_0_3);
    out0((i0_1 * 48 + i1_0) / 4, v14_1_0, v14_1_1, v14_1_2, v14_1_3);
    out0((i0_2 * 48 + i1_0) / 4, v14_2_0, v14_2_1, v14_2_2, v14_2_3);
    out0((i0_3 * 48 + i1_0) / 4, v14_3_0, v14_3_1, v14_3_2, v14_3_3);
}

