// m2_sum_div_mul[64]
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
fn words_of(x: vec2<u64>) -> vec4<u32> {
    return vec4<u32>(u32(x.x), u32(x.x >> 32u), u32(x.y), u32(x.y >> 32u));
}
@group(0) @binding(1) var<storage, read_write> in0_0: array<vec2<u64>>;
var<private> fours0: u32;
fn in0(quad: i32) -> vec4<f32> {
    let e = u32(quad) + fours0;
    return bitcast<vec4<f32>>(words_of(in0_0[e]));
}
@group(0) @binding(2) var<storage, read_write> out0_0: array<f32>;
fn out0(at: i32, x: f32) {
    let e = u32(at);
    out0_0[e] = x;
}
@group(0) @binding(3) var<storage, read_write> out1_0: array<f32>;
fn out1(at: i32, x: f32) {
    let e = u32(at);
    out1_0[e] = x;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    fours0 = launch[1].x / 4u;
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 64) { return; }
    let i0 = point;
    var s1a: f32 = number_f32(0x00000000u /* 0.0 */);
    var s1b: f32 = number_f32(0x00000000u /* 0.0 */);
    var s1c: f32 = number_f32(0x00000000u /* 0.0 */);
    var s2a: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var row: i32 = 0; row < 128; row += 8) {
        let i1_0 = row;
        let i1_1 = i1_0 + 1;
        let i1_2 = i1_0 + 2;
        let i1_3 = i1_0 + 3;
        let i1_4 = i1_0 + 4;
        let i1_5 = i1_0 + 5;
        let i1_6 = i1_0 + 6;
        let i1_7 = i1_0 + 7;
        let four3 = in0((i0 * 128 + i1_0) >> 2u);
        let v0_0 = four3.x;
        let v0_1 = four3.y;
        let v0_2 = four3.z;
        let v0_3 = four3.w;
        let four4 = in0((i0 * 128 + i1_4) >> 2u);
        let v0_4 = four4.x;
        let v0_5 = four4.y;
        let v0_6 = four4.z;
        let v0_7 = four4.w;
        s1a = add_f32(s1a, number_f32(0x3f800000u /* 1.0 */));
        s1c = add_f32(s1c, multiply_f32(subtract_f32(v0_0, s1b), subtract_f32(subtract_f32(v0_0, s1b), divide_f32(subtract_f32(v0_0, s1b), s1a))));
        s1b = add_f32(s1b, divide_f32(subtract_f32(v0_0, s1b), s1a));
        s1a = add_f32(s1a, number_f32(0x3f800000u /* 1.0 */));
        s1c = add_f32(s1c, multiply_f32(subtract_f32(v0_1, s1b), subtract_f32(subtract_f32(v0_1, s1b), divide_f32(subtract_f32(v0_1, s1b), s1a))));
        s1b = add_f32(s1b, divide_f32(subtract_f32(v0_1, s1b), s1a));
        s1a = add_f32(s1a, number_f32(0x3f800000u /* 1.0 */));
        s1c = add_f32(s1c, multiply_f32(subtract_f32(v0_2, s1b), subtract_f32(subtract_f32(v0_2, s1b), divide_f32(subtract_f32(v0_2, s1b), s1a))));
        s1b = add_f32(s1b, divide_f32(subtract_f32(v0_2, s1b), s1a));
        s1a = add_f32(s1a, number_f32(0x3f800000u /* 1.0 */));
        s1c = add_f32(s1c, multiply_f32(subtract_f32(v0_3, s1b), subtract_f32(subtract_f32(v0_3, s1b), divide_f32(subtract_f32(v0_3, s1b), s1a))));
        s1b = add_f32(s1b, divide_f32(subtract_f32(v0_3, s1b), s1a));
        s1a = add_f32(s1a, number_f32(0x3f800000u /* 1.0 */));
        s1c = add_f32(s1c, multiply_f32(subtract_f32(v0_4, s1b), subtract_f32(subtract_f32(v0_4, s1b), divide_f32(subtract_f32(v0_4, s1b), s1a))));
        s1b = add_f32(s1b, divide_f32(subtract_f32(v0_4, s1b), s1a));
        s1a = add_f32(s1a, number_f32(0x3f800000u /* 1.0 */));
        s1c = add_f32(s1c, multiply_f32(subtract_f32(v0_5, s1b), subtract_f32(subtract_f32(v0_5, s1b), divide_f32(subtract_f32(v0_5, s1b), s1a))));
        s1b = add_f32(s1b, divide_f32(subtract_f32(v0_5, s1b), s1a));
        s1a = add_f32(s1a, number_f32(0x3f800000u /* 1.0 */));
        s1c = add_f32(s1c, multiply_f32(subtract_f32(v0_6, s1b), subtract_f32(subtract_f32(v0_6, s1b), divide_f32(subtract_f32(v0_6, s1b), s1a))));
        s1b = add_f32(s1b, divide_f32(subtract_f32(v0_6, s1b), s1a));
        s1a = add_f32(s1a, number_f32(0x3f800000u /* 1.0 */));
        s1c = add_f32(s1c, multiply_f32(subtract_f32(v0_7, s1b), subtract_f32(subtract_f32(v0_7, s1b), divide_f32(subtract_f32(v0_7, s1b), s1a))));
        s1b = add_f32(s1b, divide_f32(subtract_f32(v0_7, s1b), s1a));
        s2a = add_f32(s2a, v0_0);
        s2a = add_f32(s2a, v0_1);
        s2a = add_f32(s2a, v0_2);
        s2a = add_f32(s2a, v0_3);
        s2a = add_f32(s2a, v0_4);
        s2a = add_f32(s2a, v0_5);
        s2a = add_f32(s2a, v0_6);
        s2a = add_f32(s2a, v0_7);
    }
    let v1 = s1c;
    let v4 = s2a;
    let v2 = number_f32(0x42fe0000u /* 127.0 */);
    let v3 = divide_f32(v1, v2);
    let v5 = number_f32(0x3c000000u /* 0.0078125 */);
    let v6 = multiply_f32(v4, v5);
    out0(i0, v3);
    out1(i0, v6);
}

