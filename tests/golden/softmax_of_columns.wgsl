// max_sum_sub_exp_reciprocal_mul[64, 128]
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
    let point_first = point * 8;
    let i1_0 = point_first;
    let i1_1 = i1_0 + 1;
    let i1_2 = i1_0 + 2;
    let i1_3 = i1_0 + 3;
    let i1_4 = i1_0 + 4;
    let i1_5 = i1_0 + 5;
    let i1_6 = i1_0 + 6;
    let i1_7 = i1_0 + 7;
    var s1a_0: i32 = i32(-2139095041);
    var s1a_1: i32 = i32(-2139095041);
    var s1a_2: i32 = i32(-2139095041);
    var s1a_3: i32 = i32(-2139095041);
    var s1a_4: i32 = i32(-2139095041);
    var s1a_5: i32 = i32(-2139095041);
    var s1a_6: i32 = i32(-2139095041);
    var s1a_7: i32 = i32(-2139095041);
    for (var i0: i32 = 0; i0 < 64 * one; i0 += 1) {
        let at2 = in0_vector_index((i0 * 128 + i1_0) >> 3u);
        let vec8_3 = in0(at2);
        let v0_0 = vec8_3.low.x;
        let v0_1 = vec8_3.low.y;
        let v0_2 = vec8_3.low.z;
        let v0_3 = vec8_3.low.w;
        let v0_4 = vec8_3.high.x;
        let v0_5 = vec8_3.high.y;
        let v0_6 = vec8_3.high.z;
        let v0_7 = vec8_3.high.w;
        s1a_0 = max(s1a_0, rank_max_f32(v0_0));
        s1a_1 = max(s1a_1, rank_max_f32(v0_1));
        s1a_2 = max(s1a_2, rank_max_f32(v0_2));
        s1a_3 = max(s1a_3, rank_max_f32(v0_3));
        s1a_4 = max(s1a_4, rank_max_f32(v0_4));
        s1a_5 = max(s1a_5, rank_max_f32(v0_5));
        s1a_6 = max(s1a_6, rank_max_f32(v0_6));
        s1a_7 = max(s1a_7, rank_max_f32(v0_7));
    }
    let v1_0 = unrank_f32(s1a_0);
    let v1_1 = unrank_f32(s1a_1);
    let v1_2 = unrank_f32(s1a_2);
    let v1_3 = unrank_f32(s1a_3);
    let v1_4 = unrank_f32(s1a_4);
    let v1_5 = unrank_f32(s1a_5);
    let v1_6 = unrank_f32(s1a_6);
    let v1_7 = unrank_f32(s1a_7);
    var s4a_0: f32 = number_f32(0x00000000u /* 0.0 */);
    var s4a_1: f32 = number_f32(0x00000000u /* 0.0 */);
    var s4a_2: f32 = number_f32(0x00000000u /* 0.0 */);
    var s4a_3: f32 = number_f32(0x00000000u /* 0.0 */);
    var s4a_4: f32 = number_f32(0x00000000u /* 0.0 */);
    var s4a_5: f32 = number_f32(0x00000000u /* 0.0 */);
    var s4a_6: f32 = number_f32(0x00000000u /* 0.0 */);
    var s4a_7: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var i0: i32 = 0; i0 < 64 * one; i0 += 1) {
        let at5 = in0_vector_index((i0 * 128 + i1_0) >> 3u);
        let vec8_6 = in0(at5);
        let v0_0 = vec8_6.low.x;
        let v0_1 = vec8_6.low.y;
        let v0_2 = vec8_6.low.z;
        let v0_3 = vec8_6.low.w;
        let v0_4 = vec8_6.high.x;
        let v0_5 = vec8_6.high.y;
        let v0_6 = vec8_6.high.z;
        let v0_7 = vec8_6.high.w;
        let v2_0 = subtract_f32(v0_0, v1_0);
        let v2_1 = subtract_f32(v0_1, v1_1);
        let v2_2 = subtract_f32(v0_2, v1_2);
        let v2_3 = subtract_f32(v0_3, v1_3);
        let v2_4 = subtract_f32(v0_4, v1_4);
        let v2_5 = subtract_f32(v0_5, v1_5);
        let v2_6 = subtract_f32(v0_6, v1_6);
        let v2_7 = subtract_f32(v0_7, v1_7);
        let v3_0 = exp_f32(v2_0);
        let v3_1 = exp_f32(v2_1);
        let v3_2 = exp_f32(v2_2);
        let v3_3 = exp_f32(v2_3);
        let v3_4 = exp_f32(v2_4);
        let v3_5 = exp_f32(v2_5);
        let v3_6 = exp_f32(v2_6);
        let v3_7 = exp_f32(v2_7);
        s4a_0 = add_f32(s4a_0, v3_0);
        s4a_1 = add_f32(s4a_1, v3_1);
        s4a_2 = add_f32(s4a_2, v3_2);
        s4a_3 = add_f32(s4a_3, v3_3);
        s4a_4 = add_f32(s4a_4, v3_4);
        s4a_5 = add_f32(s4a_5, v3_5);
        s4a_6 = add_f32(s4a_6, v3_6);
        s4a_7 = add_f32(s4a_7, v3_7);
    }
    let v4_0 = s4a_0;
    let v4_1 = s4a_1;
    let v4_2 = s4a_2;
    let v4_3 = s4a_3;
    let v4_4 = s4a_4;
    let v4_5 = s4a_5;
    let v4_6 = s4a_6;
    let v4_7 = s4a_7;
    let v5_0 = reciprocal_f32(v4_0);
    let v5_1 = reciprocal_f32(v4_1);
    let v5_2 = reciprocal_f32(v4_2);
    let v5_3 = reciprocal_f32(v4_3);
    let v5_4 = reciprocal_f32(v4_4);
    let v5_5 = reciprocal_f32(v4_5);
    let v5_6 = reciprocal_f32(v4_6);
    let v5_7 = reciprocal_f32(v4_7);
    for (var i0: i32 = 0; i0 < 64 * one; i0 += 1) {
        let at7 = in0_vector_index((i0 * 128 + i1_0) >> 3u);
        let vec8_8 = in0(at7);
        let v0_0 = vec8_8.low.x;
        let v0_1 = vec8_8.low.y;
        let v0_2 = vec8_8.low.z;
        let v0_3 = vec8_8.low.w;
        let v0_4 = vec8_8.high.x;
        let v0_5 = vec8_8.high.y;
        let v0_6 = vec8_8.high.z;
        let v0_7 = vec8_8.high.w;
        let v2_0 = subtract_f32(v0_0, v1_0);
        let v2_1 = subtract_f32(v0_1, v1_1);
        let v2_2 = subtract_f32(v0_2, v1_2);
        let v2_3 = subtract_f32(v0_3, v1_3);
        let v2_4 = subtract_f32(v0_4, v1_4);
        let v2_5 = subtract_f32(v0_5, v1_5);
        let v2_6 = subtract_f32(v0_6, v1_6);
        let v2_7 = subtract_f32(v0_7, v1_7);
        let v3_0 = exp_f32(v2_0);
        let v3_1 = exp_f32(v2_1);
        let v3_2 = exp_f32(v2_2);
        let v3_3 = exp_f32(v2_3);
        let v3_4 = exp_f32(v2_4);
        let v3_5 = exp_f32(v2_5);
        let v3_6 = exp_f32(v2_6);
        let v3_7 = exp_f32(v2_7);
        let v6_0 = multiply_f32(v3_0, v5_0);
        let v6_1 = multiply_f32(v3_1, v5_1);
        let v6_2 = multiply_f32(v3_2, v5_2);
        let v6_3 = multiply_f32(v3_3, v5_3);
        let v6_4 = multiply_f32(v3_4, v5_4);
        let v6_5 = multiply_f32(v3_5, v5_5);
        let v6_6 = multiply_f32(v3_6, v5_6);
        let v6_7 = multiply_f32(v3_7, v5_7);
        let at9 = (i0 * 128 + i1_0) >> 3u;
        out0(at9, vec4(v6_0, v6_1, v6_2, v6_3), vec4(v6_4, v6_5, v6_6, v6_7));
    }
}

