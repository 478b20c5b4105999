// cast_add_exp_mul[64, 64]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
fn number_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits ^ uniforms[0].x);
}
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ uniforms[0].x);
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
fn scale_f32(x: f32, n: i32) -> f32 {
    let half = n >> 1u;
    let other = n - half;
    return x * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(other + 127) << 23u);
}
fn rest_expm1_f32(c: f32, n: f32) -> f32 {
    let r = opaque_f32(c - n * 0.693359375) - n * -2.12194440e-4;
    let p = (((0.0013898227 * r + 0.008366046) * r + 0.041666854) * r + 0.16666548) * r + 0.5;
    return p * (r * r) + r;
}
fn exp_f32(x: f32) -> f32 {
    let c = min(max(x, -104.0), 89.0);
    let n = round(c * 1.4426950);
    let y = 1.0 + rest_expm1_f32(c, n);
    let value = opaque_f32(select(scale_f32(y, i32(n)), 0.0, c < -103.98));
    return select(value, x, nan_f32(x));
}
fn widen_f16(half: u32) -> f32 {
    let magnitude = half & 0x7fffu;
    let normal = (magnitude << 13u) + select(0x38000000u, 0x70000000u, magnitude >= 0x7c00u);
    let small = bitcast<u32>(f32(magnitude) * 5.9604645e-8);
    let bits = select(normal, small, magnitude < 0x400u);
    return bitcast<f32>(bits | ((half & 0x8000u) << 16u));
}
fn narrow_f16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    let normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13u) & 1u)) >> 13u;
    let shift = clamp(126u - (magnitude >> 23u), 1u, 31u);
    let significand = (magnitude & 0x7fffffu) | 0x800000u;
    let nearest = (significand + (1u << (shift - 1u)) - 1u + ((significand >> shift) & 1u)) >> shift;
    let small = select(nearest, 0u, magnitude < 0x33000000u);
    var half = select(normal, small, magnitude < 0x38800000u);
    half = select(half, 0x7c00u, magnitude >= 0x47800000u);
    half = select(half, 0x7e00u, magnitude > 0x7f800000u);
    return half | ((bits >> 16u) & 0x8000u);
}
fn round_f16(x: f32) -> f32 {
    return widen_f16(narrow_f16(x));
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
@group(0) @binding(2) var<storage, read_write> out0_0: array<vec2<u32>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = vec2<u32>(narrow_f16(a) | (narrow_f16(b) << 16u), narrow_f16(c) | (narrow_f16(d) << 16u));
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    vec8_offset0 = i32(uniforms[1].x / 8u);
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 512) { return; }
    let point_first = point * 8;
    let i1_0 = point_first;
    let i1_1 = i1_0 + 1;
    let i1_2 = i1_0 + 2;
    let i1_3 = i1_0 + 3;
    let i1_4 = i1_0 + 4;
    let i1_5 = i1_0 + 5;
    let i1_6 = i1_0 + 6;
    let i1_7 = i1_0 + 7;
    let at1 = in0_vector_index((i1_0) >> 3u);
    let vec8_2 = in0(at1);
    let v0_0 = vec8_2.low.x;
    let v0_1 = vec8_2.low.y;
    let v0_2 = vec8_2.low.z;
    let v0_3 = vec8_2.low.w;
    let v0_4 = vec8_2.high.x;
    let v0_5 = vec8_2.high.y;
    let v0_6 = vec8_2.high.z;
    let v0_7 = vec8_2.high.w;
    let v1_0 = round_f16(v0_0);
    let v1_1 = round_f16(v0_1);
    let v1_2 = round_f16(v0_2);
    let v1_3 = round_f16(v0_3);
    let v1_4 = round_f16(v0_4);
    let v1_5 = round_f16(v0_5);
    let v1_6 = round_f16(v0_6);
    let v1_7 = round_f16(v0_7);
    let v2 = number_f32(0x40400000u /* 3.0 */);
    let v3_0 = multiply_f32(v1_0, v2);
    let v3_1 = multiply_f32(v1_1, v2);
    let v3_2 = multiply_f32(v1_2, v2);
    let v3_3 = multiply_f32(v1_3, v2);
    let v3_4 = multiply_f32(v1_4, v2);
    let v3_5 = multiply_f32(v1_5, v2);
    let v3_6 = multiply_f32(v1_6, v2);
    let v3_7 = multiply_f32(v1_7, v2);
    let v4 = number_f32(0x3f800000u /* 1.0 */);
    let v5_0 = add_f32(v3_0, v4);
    let v5_1 = add_f32(v3_1, v4);
    let v5_2 = add_f32(v3_2, v4);
    let v5_3 = add_f32(v3_3, v4);
    let v5_4 = add_f32(v3_4, v4);
    let v5_5 = add_f32(v3_5, v4);
    let v5_6 = add_f32(v3_6, v4);
    let v5_7 = add_f32(v3_7, v4);
    let v6_0 = exp_f32(v5_0);
    let v6_1 = exp_f32(v5_1);
    let v6_2 = exp_f32(v5_2);
    let v6_3 = exp_f32(v5_3);
    let v6_4 = exp_f32(v5_4);
    let v6_5 = exp_f32(v5_5);
    let v6_6 = exp_f32(v5_6);
    let v6_7 = exp_f32(v5_7);
    let v7_0 = multiply_f32(v6_0, v1_0);
    let v7_1 = multiply_f32(v6_1, v1_1);
    let v7_2 = multiply_f32(v6_2, v1_2);
    let v7_3 = multiply_f32(v6_3, v1_3);
    let v7_4 = multiply_f32(v6_4, v1_4);
    let v7_5 = multiply_f32(v6_5, v1_5);
    let v7_6 = multiply_f32(v6_6, v1_6);
    let v7_7 = multiply_f32(v6_7, v1_7);
    let at3 = (i1_0) >> 2u;
    out0(at3, v7_0, v7_1, v7_2, v7_3);
    out0(at3 + 1, v7_4, v7_5, v7_6, v7_7);
}

