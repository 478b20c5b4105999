// sum_div_sqrt_reciprocal_mul_add[64, 96]
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
fn wide_u64(low: u32, high: u32) -> u64 {
    return (u64(high) << 32u) | u64(low);
}
fn words_of(x: vec2<u64>) -> vec4<u32> {
    return vec4<u32>(u32(x.x), u32(x.x >> 32u), u32(x.y), u32(x.y >> 32u));
}
fn long_words(x: vec4<u32>) -> vec2<u64> {
    return vec2<u64>(wide_u64(x.x, x.y), wide_u64(x.z, x.w));
}
@group(0) @binding(1) var<storage, read_write> in0_0: array<vec2<u64>>;
var<private> fours0: u32;
fn in0(quad: i32) -> vec4<f32> {
    let e = u32(quad) + fours0;
    return bitcast<vec4<f32>>(words_of(in0_0[e]));
}
@group(0) @binding(2) var<storage, read_write> in1_0: array<vec2<u64>>;
var<private> fours1: u32;
fn in1(quad: i32) -> vec4<f32> {
    let e = u32(quad) + fours1;
    return bitcast<vec4<f32>>(words_of(in1_0[e]));
}
@group(0) @binding(3) var<storage, read_write> in2_0: array<vec2<u64>>;
var<private> fours2: u32;
fn in2(quad: i32) -> vec4<f32> {
    let e = u32(quad) + fours2;
    return bitcast<vec4<f32>>(words_of(in2_0[e]));
}
@group(0) @binding(4) var<storage, read_write> out0_0: array<vec2<u64>>;
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
    fours0 = launch[1].x / 4u;
    fours1 = launch[1].y / 4u;
    fours2 = launch[1].z / 4u;
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 64) { return; }
    let i0 = point;
    var s1a: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var row: i32 = 0; row < 96; row += 8) {
        let i1_0 = row;
        let i1_1 = i1_0 + 1;
        let i1_2 = i1_0 + 2;
        let i1_3 = i1_0 + 3;
        let i1_4 = i1_0 + 4;
        let i1_5 = i1_0 + 5;
        let i1_6 = i1_0 + 6;
        let i1_7 = i1_0 + 7;
        let four2 = in0((i0 * 96 + i1_0) >> 2u);
        let v0_0 = four2.x;
        let v0_1 = four2.y;
        let v0_2 = four2.z;
        let v0_3 = four2.w;
        let four3 = in0((i0 * 96 + i1_4) >> 2u);
        let v0_4 = four3.x;
        let v0_5 = four3.y;
        let v0_6 = four3.z;
        let v0_7 = four3.w;
        s1a = add_f32(s1a, v0_0);
        s1a = add_f32(s1a, v0_1);
        s1a = add_f32(s1a, v0_2);
        s1a = add_f32(s1a, v0_3);
        s1a = add_f32(s1a, v0_4);
        s1a = add_f32(s1a, v0_5);
        s1a = add_f32(s1a, v0_6);
        s1a = add_f32(s1a, v0_7);
    }
    let v1 = s1a;
    let v2 = number_f32(0x42c00000u /* 96.0 */);
    let v3 = divide_f32(v1, v2);
    var s4a: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var row: i32 = 0; row < 96; row += 8) {
        let i1_0 = row;
        let i1_1 = i1_0 + 1;
        let i1_2 = i1_0 + 2;
        let i1_3 = i1_0 + 3;
        let i1_4 = i1_0 + 4;
        let i1_5 = i1_0 + 5;
        let i1_6 = i1_0 + 6;
        let i1_7 = i1_0 + 7;
        let four5 = in0((i0 * 96 + i1_0) >> 2u);
        let v0_0 = four5.x;
        let v0_1 = four5.y;
        let v0_2 = four5.z;
        let v0_3 = four5.w;
        let four6 = in0((i0 * 96 + i1_4) >> 2u);
        let v0_4 = four6.x;
        let v0_5 = four6.y;
        let v0_6 = four6.z;
        let v0_7 = four6.w;
        let v4_0 = subtract_f32(v0_0, v3);
        let v4_1 = subtract_f32(v0_1, v3);
        let v4_2 = subtract_f32(v0_2, v3);
        let v4_3 = subtract_f32(v0_3, v3);
        let v4_4 = subtract_f32(v0_4, v3);
        let v4_5 = subtract_f32(v0_5, v3);
        let v4_6 = subtract_f32(v0_6, v3);
        let v4_7 = subtract_f32(v0_7, v3);
        let v5_0 = multiply_f32(v4_0, v4_0);
        let v5_1 = multiply_f32(v4_1, v4_1);
        let v5_2 = multiply_f32(v4_2, v4_2);
        let v5_3 = multiply_f32(v4_3, v4_3);
        let v5_4 = multiply_f32(v4_4, v4_4);
        let v5_5 = multiply_f32(v4_5, v4_5);
        let v5_6 = multiply_f32(v4_6, v4_6);
        let v5_7 = multiply_f32(v4_7, v4_7);
        s4a = add_f32(s4a, v5_0);
        s4a = add_f32(s4a, v5_1);
        s4a = add_f32(s4a, v5_2);
        s4a = add_f32(s4a, v5_3);
        s4a = add_f32(s4a, v5_4);
        s4a = add_f32(s4a, v5_5);
        s4a = add_f32(s4a, v5_6);
        s4a = add_f32(s4a, v5_7);
    }
    let v6 = s4a;
    let v7 = divide_f32(v6, v2);
    let v8 = number_f32(0x3727c5acu /* 1e-5 */);
    let v9 = add_f32(v7, v8);
    let v10 = root_f32(v9);
    let v11 = reciprocal_f32(v10);
    for (var row: i32 = 0; row < 96; row += 8) {
        let i1_0 = row;
        let i1_1 = i1_0 + 1;
        let i1_2 = i1_0 + 2;
        let i1_3 = i1_0 + 3;
        let i1_4 = i1_0 + 4;
        let i1_5 = i1_0 + 5;
        let i1_6 = i1_0 + 6;
        let i1_7 = i1_0 + 7;
        let four7 = in0((i0 * 96 + i1_0) >> 2u);
        let v0_0 = four7.x;
        let v0_1 = four7.y;
        let v0_2 = four7.z;
        let v0_3 = four7.w;
        let four8 = in0((i0 * 96 + i1_4) >> 2u);
        let v0_4 = four8.x;
        let v0_5 = four8.y;
        let v0_6 = four8.z;
        let v0_7 = four8.w;
        let v4_0 = subtract_f32(v0_0, v3);
        let v4_1 = subtract_f32(v0_1, v3);
        let v4_2 = subtract_f32(v0_2, v3);
        let v4_3 = subtract_f32(v0_3, v3);
        let v4_4 = subtract_f32(v0_4, v3);
        let v4_5 = subtract_f32(v0_5, v3);
        let v4_6 = subtract_f32(v0_6, v3);
        let v4_7 = subtract_f32(v0_7, v3);
        let v12_0 = multiply_f32(v4_0, v11);
        let v12_1 = multiply_f32(v4_1, v11);
        let v12_2 = multiply_f32(v4_2, v11);
        let v12_3 = multiply_f32(v4_3, v11);
        let v12_4 = multiply_f32(v4_4, v11);
        let v12_5 = multiply_f32(v4_5, v11);
        let v12_6 = multiply_f32(v4_6, v11);
        let v12_7 = multiply_f32(v4_7, v11);
        let four9 = in1((i1_0) >> 2u);
        let v13_0 = four9.x;
        let v13_1 = four9.y;
        let v13_2 = four9.z;
        let v13_3 = four9.w;
        let four10 = in1((i1_4) >> 2u);
        let v13_4 = four10.x;
        let v13_5 = four10.y;
        let v13_6 = four10.z;
        let v13_7 = four10.w;
        let v14_0 = multiply_f32(v12_0, v13_0);
        let v14_1 = multiply_f32(v12_1, v13_1);
        let v14_2 = multiply_f32(v12_2, v13_2);
        let v14_3 = multiply_f32(v12_3, v13_3);
        let v14_4 = multiply_f32(v12_4, v13_4);
        let v14_5 = multiply_f32(v12_5, v13_5);
        let v14_6 = multiply_f32(v12_6, v13_6);
        let v14_7 = multiply_f32(v12_7, v13_7);
        let four11 = in2((i1_0) >> 2u);
        let v15_0 = four11.x;
        let v15_1 = four11.y;
        let v15_2 = four11.z;
        let v15_3 = four11.w;
        let four12 = in2((i1_4) >> 2u);
        let v15_4 = four12.x;
        let v15_5 = four12.y;
        let v15_6 = four12.z;
        let v15_7 = four12.w;
        let v16_0 = add_f32(v14_0, v15_0);
        let v16_1 = add_f32(v14_1, v15_1);
        let v16_2 = add_f32(v14_2, v15_2);
        let v16_3 = add_f32(v14_3, v15_3);
        let v16_4 = add_f32(v14_4, v15_4);
        let v16_5 = add_f32(v14_5, v15_5);
        let v16_6 = add_f32(v14_6, v15_6);
        let v16_7 = add_f32(v14_7, v15_7);
        out0((i0 * 96 + i1_0) >> 2u, v16_0, v16_1, v16_2, v16_3);
        out0((i0 * 96 + i1_4) >> 2u, v16_4, v16_5, v16_6, v16_7);
    }
}

