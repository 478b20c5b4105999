// sum_div_add_sqrt_reciprocal_mul[8, 4, 6, 6]
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
@group(0) @binding(2) var<storage, read_write> out0_0: array<vec2<u64>>;
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
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 4) { return; }
    let i1 = point;
    var s1a: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var row: i32 = 0; row < 288; row += 4) {
        let over2 = i32((u32(row) / 36u));
        let i0 = over2;
        let i3_0 = row - over2 * 36;
        let i3_1 = i3_0 + 1;
        let i3_2 = i3_0 + 2;
        let i3_3 = i3_0 + 3;
        let four3 = in0((i0 * 144 + i1 * 36 + i3_0) >> 2u);
        let v0_0 = four3.x;
        let v0_1 = four3.y;
        let v0_2 = four3.z;
        let v0_3 = four3.w;
        s1a = add_f32(s1a, v0_0);
        s1a = add_f32(s1a, v0_1);
        s1a = add_f32(s1a, v0_2);
        s1a = add_f32(s1a, v0_3);
    }
    let v1 = s1a;
    let v2 = number_f32(0x43900000u /* 288.0 */);
    let v3 = divide_f32(v1, v2);
    var s4a: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var row: i32 = 0; row < 288; row += 4) {
        let over5 = i32((u32(row) / 36u));
        let i0 = over5;
        let i3_0 = row - over5 * 36;
        let i3_1 = i3_0 + 1;
        let i3_2 = i3_0 + 2;
        let i3_3 = i3_0 + 3;
        let four6 = in0((i0 * 144 + i1 * 36 + i3_0) >> 2u);
        let v0_0 = four6.x;
        let v0_1 = four6.y;
        let v0_2 = four6.z;
        let v0_3 = four6.w;
        let v4_0 = subtract_f32(v0_0, v3);
        let v4_1 = subtract_f32(v0_1, v3);
        let v4_2 = subtract_f32(v0_2, v3);
        let v4_3 = subtract_f32(v0_3, v3);
        let v5_0 = multiply_f32(v4_0, v4_0);
        let v5_1 = multiply_f32(v4_1, v4_1);
        let v5_2 = multiply_f32(v4_2, v4_2);
        let v5_3 = multiply_f32(v4_3, v4_3);
        s4a = add_f32(s4a, v5_0);
        s4a = add_f32(s4a, v5_1);
        s4a = add_f32(s4a, v5_2);
        s4a = add_f32(s4a, v5_3);
    }
    let v6 = s4a;
    let v7 = divide_f32(v6, v2);
    let v8 = number_f32(0x3727c5acu /* 1e-5 */);
    let v9 = add_f32(v7, v8);
    let v10 = root_f32(v9);
    let v11 = reciprocal_f32(v10);
    for (var row: i32 = 0; row < 288; row += 4) {
        let over7 = i32((u32(row) / 36u));
        let i0 = over7;
        let i3_0 = row - over7 * 36;
        let i3_1 = i3_0 + 1;
        let i3_2 = i3_0 + 2;
        let i3_3 = i3_0 + 3;
        let four8 = in0((i0 * 144 + i1 * 36 + i3_0) >> 2u);
        let v0_0 = four8.x;
        let v0_1 = four8.y;
        let v0_2 = four8.z;
        let v0_3 = four8.w;
        let v4_0 = subtract_f32(v0_0, v3);
        let v4_1 = subtract_f32(v0_1, v3);
        let v4_2 = subtract_f32(v0_2, v3);
        let v4_3 = subtract_f32(v0_3, v3);
        let v12_0 = multiply_f32(v4_0, v11);
        let v12_1 = multiply_f32(v4_1, v11);
        let v12_2 = multiply_f32(v4_2, v11);
        let v12_3 = multiply_f32(v4_3, v11);
        out0((i0 * 144 + i1 * 36 + i3_0) >> 2u, v12_0, v12_1, v12_2, v12_3);
    }
}

