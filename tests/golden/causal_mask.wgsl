// max_sum_sub_exp_reciprocal_mul[16, 16]
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
fn negate_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ (0x80000000u ^ uniforms[0].x));
}
fn subtract_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x + negate_f32(y));
}
fn multiply_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x * y);
}
fn reciprocal_f32(x: f32) -> f32 {
    return opaque_f32(number_f32(0x3f800000u) / x);
}
fn rank_max_f32(x: f32) -> i32 {
    let bits = select(bitcast<i32>(x), 0x7fc00000, nan_f32(x));
    return bits ^ ((bits >> 31u) & 0x7fffffff);
}
fn unrank_f32(rank: i32) -> f32 {
    return bitcast<f32>(rank ^ ((rank >> 31u) & 0x7fffffff));
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
fn wide_u64(low: u32, high: u32) -> u64 {
    return (u64(high) << 32u) | u64(low);
}
fn words_of(x: vec2<u64>) -> vec4<u32> {
    return vec4<u32>(u32(x.x), u32(x.x >> 32u), u32(x.y), u32(x.y >> 32u));
}
fn long_words(x: vec4<u32>) -> vec2<u64> {
    return vec2<u64>(wide_u64(x.x, x.y), wide_u64(x.z, x.w));
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
    vec8_offset0 = i32(uniforms[1].x / 8u);
    let one = i32(min(groups.y, 1u));
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 16) { return; }
    let i0 = point;
    let v1 = i0;
    let v2 = i32(1);
    let v3 = (v1 + v2);
    let v6 = number_f32(0x00000000u /* 0.0 */);
    var s1a: i32 = i32(-2139095041);
    for (var row: i32 = 0; row < 16 * one; row += 8) {
        let i1_0 = row;
        let i1_1 = i1_0 + 1;
        let i1_2 = i1_0 + 2;
        let i1_3 = i1_0 + 3;
        let i1_4 = i1_0 + 4;
        let i1_5 = i1_0 + 5;
        let i1_6 = i1_0 + 6;
        let i1_7 = i1_0 + 7;
        let v0_0 = i1_0;
        let v0_1 = i1_1;
        let v0_2 = i1_2;
        let v0_3 = i1_3;
        let v0_4 = i1_4;
        let v0_5 = i1_5;
        let v0_6 = i1_6;
        let v0_7 = i1_7;
        let v4_0 = (v0_0 < v3);
        let v4_1 = (v0_1 < v3);
        let v4_2 = (v0_2 < v3);
        let v4_3 = (v0_3 < v3);
        let v4_4 = (v0_4 < v3);
        let v4_5 = (v0_5 < v3);
        let v4_6 = (v0_6 < v3);
        let v4_7 = (v0_7 < v3);
        let at2 = in0_vector_index((i0 * 16 + i1_0) >> 3u);
        let vec8_3 = in0(at2);
        let v5_0 = vec8_3.low.x;
        let v5_1 = vec8_3.low.y;
        let v5_2 = vec8_3.low.z;
        let v5_3 = vec8_3.low.w;
        let v5_4 = vec8_3.high.x;
        let v5_5 = vec8_3.high.y;
        let v5_6 = vec8_3.high.z;
        let v5_7 = vec8_3.high.w;
        let v7_0 = select(v6, v5_0, v4_0);
        let v7_1 = select(v6, v5_1, v4_1);
        let v7_2 = select(v6, v5_2, v4_2);
        let v7_3 = select(v6, v5_3, v4_3);
        let v7_4 = select(v6, v5_4, v4_4);
        let v7_5 = select(v6, v5_5, v4_5);
        let v7_6 = select(v6, v5_6, v4_6);
        let v7_7 = select(v6, v5_7, v4_7);
        s1a = max(s1a, rank_max_f32(v7_0));
        s1a = max(s1a, rank_max_f32(v7_1));
        s1a = max(s1a, rank_max_f32(v7_2));
        s1a = max(s1a, rank_max_f32(v7_3));
        s1a = max(s1a, rank_max_f32(v7_4));
        s1a = max(s1a, rank_max_f32(v7_5));
        s1a = max(s1a, rank_max_f32(v7_6));
        s1a = max(s1a, rank_max_f32(v7_7));
    }
    let v8 = unrank_f32(s1a);
    var s4a: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var row: i32 = 0; row < 16 * one; row += 8) {
        let i1_0 = row;
        let i1_1 = i1_0 + 1;
        let i1_2 = i1_0 + 2;
        let i1_3 = i1_0 + 3;
        let i1_4 = i1_0 + 4;
        let i1_5 = i1_0 + 5;
        let i1_6 = i1_0 + 6;
        let i1_7 = i1_0 + 7;
        let v0_0 = i1_0;
        let v0_1 = i1_1;
        let v0_2 = i1_2;
        let v0_3 = i1_3;
        let v0_4 = i1_4;
        let v0_5 = i1_5;
        let v0_6 = i1_6;
        let v0_7 = i1_7;
        let v4_0 = (v0_0 < v3);
        let v4_1 = (v0_1 < v3);
        let v4_2 = (v0_2 < v3);
        let v4_3 = (v0_3 < v3);
        let v4_4 = (v0_4 < v3);
        let v4_5 = (v0_5 < v3);
        let v4_6 = (v0_6 < v3);
        let v4_7 = (v0_7 < v3);
        let at5 = in0_vector_index((i0 * 16 + i1_0) >> 3u);
        let vec8_6 = in0(at5);
        let v5_0 = vec8_6.low.x;
        let v5_1 = vec8_6.low.y;
        let v5_2 = vec8_6.low.z;
        let v5_3 = vec8_6.low.w;
        let v5_4 = vec8_6.high.x;
        let v5_5 = vec8_6.high.y;
        let v5_6 = vec8_6.high.z;
        let v5_7 = vec8_6.high.w;
        let v7_0 = select(v6, v5_0, v4_0);
        let v7_1 = select(v6, v5_1, v4_1);
        let v7_2 = select(v6, v5_2, v4_2);
        let v7_3 = select(v6, v5_3, v4_3);
        let v7_4 = select(v6, v5_4, v4_4);
        let v7_5 = select(v6, v5_5, v4_5);
        let v7_6 = select(v6, v5_6, v4_6);
        let v7_7 = select(v6, v5_7, v4_7);
        let v9_0 = subtract_f32(v7_0, v8);
        let v9_1 = subtract_f32(v7_1, v8);
        let v9_2 = subtract_f32(v7_2, v8);
        let v9_3 = subtract_f32(v7_3, v8);
        let v9_4 = subtract_f32(v7_4, v8);
        let v9_5 = subtract_f32(v7_5, v8);
        let v9_6 = subtract_f32(v7_6, v8);
        let v9_7 = subtract_f32(v7_7, v8);
        let v10_0 = exp_f32(v9_0);
        let v10_1 = exp_f32(v9_1);
        let v10_2 = exp_f32(v9_2);
        let v10_3 = exp_f32(v9_3);
        let v10_4 = exp_f32(v9_4);
        let v10_5 = exp_f32(v9_5);
        let v10_6 = exp_f32(v9_6);
        let v10_7 = exp_f32(v9_7);
        s4a = add_f32(s4a, add_f32(add_f32(add_f32(v10_0, v10_1), add_f32(v10_2, v10_3)), add_f32(add_f32(v10_4, v10_5), add_f32(v10_6, v10_7))));
    }
    let v11 = s4a;
    let v12 = reciprocal_f32(v11);
    for (var row: i32 = 0; row < 16 * one; row += 8) {
        let i1_0 = row;
        let i1_1 = i1_0 + 1;
        let i1_2 = i1_0 + 2;
        let i1_3 = i1_0 + 3;
        let i1_4 = i1_0 + 4;
        let i1_5 = i1_0 + 5;
        let i1_6 = i1_0 + 6;
        let i1_7 = i1_0 + 7;
        let v0_0 = i1_0;
        let v0_1 = i1_1;
        let v0_2 = i1_2;
        let v0_3 = i1_3;
        let v0_4 = i1_4;
        let v0_5 = i1_5;
        let v0_6 = i1_6;
        let v0_7 = i1_7;
        let v4_0 = (v0_0 < v3);
        let v4_1 = (v0_1 < v3);
        let v4_2 = (v0_2 < v3);
        let v4_3 = (v0_3 < v3);
        let v4_4 = (v0_4 < v3);
        let v4_5 = (v0_5 < v3);
        let v4_6 = (v0_6 < v3);
        let v4_7 = (v0_7 < v3);
        let at7 = in0_vector_index((i0 * 16 + i1_0) >> 3u);
        let vec8_8 = in0(at7);
        let v5_0 = vec8_8.low.x;
        let v5_1 = vec8_8.low.y;
        let v5_2 = vec8_8.low.z;
        let v5_3 = vec8_8.low.w;
        let v5_4 = vec8_8.high.x;
        let v5_5 = vec8_8.high.y;
        let v5_6 = vec8_8.high.z;
        let v5_7 = vec8_8.high.w;
        let v7_0 = select(v6, v5_0, v4_0);
        let v7_1 = select(v6, v5_1, v4_1);
        let v7_2 = select(v6, v5_2, v4_2);
        let v7_3 = select(v6, v5_3, v4_3);
        let v7_4 = select(v6, v5_4, v4_4);
        let v7_5 = select(v6, v5_5, v4_5);
        let v7_6 = select(v6, v5_6, v4_6);
        let v7_7 = select(v6, v5_7, v4_7);
        let v9_0 = subtract_f32(v7_0, v8);
        let v9_1 = subtract_f32(v7_1, v8);
        let v9_2 = subtract_f32(v7_2, v8);
        let v9_3 = subtract_f32(v7_3, v8);
        let v9_4 = subtract_f32(v7_4, v8);
        let v9_5 = subtract_f32(v7_5, v8);
        let v9_6 = subtract_f32(v7_6, v8);
        let v9_7 = subtract_f32(v7_7, v8);
        let v10_0 = exp_f32(v9_0);
        let v10_1 = exp_f32(v9_1);
        let v10_2 = exp_f32(v9_2);
        let v10_3 = exp_f32(v9_3);
        let v10_4 = exp_f32(v9_4);
        let v10_5 = exp_f32(v9_5);
        let v10_6 = exp_f32(v9_6);
        let v10_7 = exp_f32(v9_7);
        let v13_0 = multiply_f32(v10_0, v12);
        let v13_1 = multiply_f32(v10_1, v12);
        let v13_2 = multiply_f32(v10_2, v12);
        let v13_3 = multiply_f32(v10_3, v12);
        let v13_4 = multiply_f32(v10_4, v12);
        let v13_5 = multiply_f32(v10_5, v12);
        let v13_6 = multiply_f32(v10_6, v12);
        let v13_7 = multiply_f32(v10_7, v12);
        let at9 = (i0 * 16 + i1_0) >> 3u;
        out0(at9, vec4(v13_0, v13_1, v13_2, v13_3), vec4(v13_4, v13_5, v13_6, v13_7));
    }
}

