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

@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    @builtin(subgroup_id) own_subgroup: u32,
    @builtin(subgroup_size) subgroup_size: u32,
    @builtin(subgroup_invocation_id) own_lane: u32,
) {
    vec8_offset0 = i32(uniforms[1].x / 8u);
    let point = i32(group.y * groups.x + group.x);
    let lane = i32(own_subgroup * subgroup_size + own_lane);
    if (point >= 64) { return; }
    let i0 = point;
    var cached_v0_0: array<f32, 2>;
    var cached_v0_1: array<f32, 2>;
    var cached_v0_2: array<f32, 2>;
    var cached_v0_3: array<f32, 2>;
    var cached_v0_4: array<f32, 2>;
    var cached_v0_5: array<f32, 2>;
    var cached_v0_6: array<f32, 2>;
    var cached_v0_7: array<f32, 2>;
    var cached_v3_0: array<f32, 2>;
    var cached_v3_1: array<f32, 2>;
    var cached_v3_2: array<f32, 2>;
    var cached_v3_3: array<f32, 2>;
    var cached_v3_4: array<f32, 2>;
    var cached_v3_5: array<f32, 2>;
    var cached_v3_6: array<f32, 2>;
    var cached_v3_7: array<f32, 2>;
    var s1a: i32 = i32(-2139095041);
    {
        let row = (lane + 0) * 8;
        let i1_0 = row;
        let i1_1 = i1_0 + 1;
        let i1_2 = i1_0 + 2;
        let i1_3 = i1_0 + 3;
        let i1_4 = i1_0 + 4;
        let i1_5 = i1_0 + 5;
        let i1_6 = i1_0 + 6;
        let i1_7 = i1_0 + 7;
        let at2 = in0_vector_index((i0 * 128 + i1_0) >> 3u);
        {
            let row = (lane + 0) * 8;
            let i1_0 = row;
            let i1_1 = i1_0 + 1;
            let i1_2 = i1_0 + 2;
            let i1_3 = i1_0 + 3;
            let i1_4 = i1_0 + 4;
            let i1_5 = i1_0 + 5;
            let i1_6 = i1_0 + 6;
            let i1_7 = i1_0 + 7;
            let vec8_3 = in0(at2);
            let v0_0 = vec8_3.low.x;
            let v0_1 = vec8_3.low.y;
            let v0_2 = vec8_3.low.z;
            let v0_3 = vec8_3.low.w;
            let v0_4 = vec8_3.high.x;
            let v0_5 = vec8_3.high.y;
            let v0_6 = vec8_3.high.z;
            let v0_7 = vec8_3.high.w;
            cached_v0_0[0] = v0_0;
            cached_v0_1[0] = v0_1;
            cached_v0_2[0] = v0_2;
            cached_v0_3[0] = v0_3;
            cached_v0_4[0] = v0_4;
            cached_v0_5[0] = v0_5;
            cached_v0_6[0] = v0_6;
            cached_v0_7[0] = v0_7;
            s1a = max(s1a, rank_max_f32(v0_0));
            s1a = max(s1a, rank_max_f32(v0_1));
            s1a = max(s1a, rank_max_f32(v0_2));
            s1a = max(s1a, rank_max_f32(v0_3));
            s1a = max(s1a, rank_max_f32(v0_4));
            s1a = max(s1a, rank_max_f32(v0_5));
            s1a = max(s1a, rank_max_f32(v0_6));
            s1a = max(s1a, rank_max_f32(v0_7));
        }
        {
            let row = (lane + 8) * 8;
            let i1_0 = row;
            let i1_1 = i1_0 + 1;
            let i1_2 = i1_0 + 2;
            let i1_3 = i1_0 + 3;
            let i1_4 = i1_0 + 4;
            let i1_5 = i1_0 + 5;
            let i1_6 = i1_0 + 6;
            let i1_7 = i1_0 + 7;
            let vec8_4 = in0(at2 + 8);
            let v0_0 = vec8_4.low.x;
            let v0_1 = vec8_4.low.y;
            let v0_2 = vec8_4.low.z;
            let v0_3 = vec8_4.low.w;
            let v0_4 = vec8_4.high.x;
            let v0_5 = vec8_4.high.y;
            let v0_6 = vec8_4.high.z;
            let v0_7 = vec8_4.high.w;
            cached_v0_0[1] = v0_0;
            cached_v0_1[1] = v0_1;
            cached_v0_2[1] = v0_2;
            cached_v0_3[1] = v0_3;
            cached_v0_4[1] = v0_4;
            cached_v0_5[1] = v0_5;
            cached_v0_6[1] = v0_6;
            cached_v0_7[1] = v0_7;
            s1a = max(s1a, rank_max_f32(v0_0));
            s1a = max(s1a, rank_max_f32(v0_1));
            s1a = max(s1a, rank_max_f32(v0_2));
            s1a = max(s1a, rank_max_f32(v0_3));
            s1a = max(s1a, rank_max_f32(v0_4));
            s1a = max(s1a, rank_max_f32(v0_5));
            s1a = max(s1a, rank_max_f32(v0_6));
            s1a = max(s1a, rank_max_f32(v0_7));
        }
    }
    {
        let other_s1a = subgroupShuffleDown(s1a, 4u);
        s1a = max(s1a, other_s1a);
    }
    {
        let other_s1a = subgroupShuffleDown(s1a, 2u);
        s1a = max(s1a, other_s1a);
    }
    {
        let other_s1a = subgroupShuffleDown(s1a, 1u);
        s1a = max(s1a, other_s1a);
    }
    s1a = subgroupBroadcastFirst(s1a);
    let v1 = unrank_f32(s1a);
    var s5a: f32 = number_f32(0x00000000u /* 0.0 */);
    {
        let row = (lane + 0) * 8;
        let i1_0 = row;
        let i1_1 = i1_0 + 1;
        let i1_2 = i1_0 + 2;
        let i1_3 = i1_0 + 3;
        let i1_4 = i1_0 + 4;
        let i1_5 = i1_0 + 5;
        let i1_6 = i1_0 + 6;
        let i1_7 = i1_0 + 7;
        {
            let row = (lane + 0) * 8;
            let i1_0 = row;
            let i1_1 = i1_0 + 1;
            let i1_2 = i1_0 + 2;
            let i1_3 = i1_0 + 3;
            let i1_4 = i1_0 + 4;
            let i1_5 = i1_0 + 5;
            let i1_6 = i1_0 + 6;
            let i1_7 = i1_0 + 7;
            let v0_0 = cached_v0_0[0];
            let v0_1 = cached_v0_1[0];
            let v0_2 = cached_v0_2[0];
            let v0_3 = cached_v0_3[0];
            let v0_4 = cached_v0_4[0];
            let v0_5 = cached_v0_5[0];
            let v0_6 = cached_v0_6[0];
            let v0_7 = cached_v0_7[0];
            let v2_0 = subtract_f32(v0_0, v1);
            let v2_1 = subtract_f32(v0_1, v1);
            let v2_2 = subtract_f32(v0_2, v1);
            let v2_3 = subtract_f32(v0_3, v1);
            let v2_4 = subtract_f32(v0_4, v1);
            let v2_5 = subtract_f32(v0_5, v1);
            let v2_6 = subtract_f32(v0_6, v1);
            let v2_7 = subtract_f32(v0_7, v1);
            let v3_0 = exp_f32(v2_0);
            let v3_1 = exp_f32(v2_1);
            let v3_2 = exp_f32(v2_2);
            let v3_3 = exp_f32(v2_3);
            let v3_4 = exp_f32(v2_4);
            let v3_5 = exp_f32(v2_5);
            let v3_6 = exp_f32(v2_6);
            let v3_7 = exp_f32(v2_7);
            cached_v3_0[0] = v3_0;
            cached_v3_1[0] = v3_1;
            cached_v3_2[0] = v3_2;
            cached_v3_3[0] = v3_3;
            cached_v3_4[0] = v3_4;
            cached_v3_5[0] = v3_5;
            cached_v3_6[0] = v3_6;
            cached_v3_7[0] = v3_7;
            s5a = add_f32(s5a, add_f32(add_f32(add_f32(v3_0, v3_1), add_f32(v3_2, v3_3)), add_f32(add_f32(v3_4, v3_5), add_f32(v3_6, v3_7))));
        }
        {
            let row = (lane + 8) * 8;
            let i1_0 = row;
            let i1_1 = i1_0 + 1;
            let i1_2 = i1_0 + 2;
            let i1_3 = i1_0 + 3;
            let i1_4 = i1_0 + 4;
            let i1_5 = i1_0 + 5;
            let i1_6 = i1_0 + 6;
            let i1_7 = i1_0 + 7;
            let v0_0 = cached_v0_0[1];
            let v0_1 = cached_v0_1[1];
            let v0_2 = cached_v0_2[1];
            let v0_3 = cached_v0_3[1];
            let v0_4 = cached_v0_4[1];
            let v0_5 = cached_v0_5[1];
            let v0_6 = cached_v0_6[1];
            let v0_7 = cached_v0_7[1];
            let v2_0 = subtract_f32(v0_0, v1);
            let v2_1 = subtract_f32(v0_1, v1);
            let v2_2 = subtract_f32(v0_2, v1);
            let v2_3 = subtract_f32(v0_3, v1);
            let v2_4 = subtract_f32(v0_4, v1);
            let v2_5 = subtract_f32(v0_5, v1);
            let v2_6 = subtract_f32(v0_6, v1);
            let v2_7 = subtract_f32(v0_7, v1);
            let v3_0 = exp_f32(v2_0);
            let v3_1 = exp_f32(v2_1);
            let v3_2 = exp_f32(v2_2);
            let v3_3 = exp_f32(v2_3);
            let v3_4 = exp_f32(v2_4);
            let v3_5 = exp_f32(v2_5);
            let v3_6 = exp_f32(v2_6);
            let v3_7 = exp_f32(v2_7);
            cached_v3_0[1] = v3_0;
            cached_v3_1[1] = v3_1;
            cached_v3_2[1] = v3_2;
            cached_v3_3[1] = v3_3;
            cached_v3_4[1] = v3_4;
            cached_v3_5[1] = v3_5;
            cached_v3_6[1] = v3_6;
            cached_v3_7[1] = v3_7;
            s5a = add_f32(s5a, add_f32(add_f32(add_f32(v3_0, v3_1), add_f32(v3_2, v3_3)), add_f32(add_f32(v3_4, v3_5), add_f32(v3_6, v3_7))));
        }
    }
    {
        let other_s5a = subgroupShuffleDown(s5a, 4u);
        s5a = add_f32(s5a, other_s5a);
    }
    {
        let other_s5a = subgroupShuffleDown(s5a, 2u);
        s5a = add_f32(s5a, other_s5a);
    }
    {
        let other_s5a = subgroupShuffleDown(s5a, 1u);
        s5a = add_f32(s5a, other_s5a);
    }
    s5a = subgroupBroadcastFirst(s5a);
    let v4 = s5a;
    let v5 = reciprocal_f32(v4);
    {
        let row = (lane + 0) * 8;
        let i1_0 = row;
        let i1_1 = i1_0 + 1;
        let i1_2 = i1_0 + 2;
        let i1_3 = i1_0 + 3;
        let i1_4 = i1_0 + 4;
        let i1_5 = i1_0 + 5;
        let i1_6 = i1_0 + 6;
        let i1_7 = i1_0 + 7;
        let at6 = (i0 * 128 + i1_0) >> 3u;
        {
            let row = (lane + 0) * 8;
            let i1_0 = row;
            let i1_1 = i1_0 + 1;
            let i1_2 = i1_0 + 2;
            let i1_3 = i1_0 + 3;
            let i1_4 = i1_0 + 4;
            let i1_5 = i1_0 + 5;
            let i1_6 = i1_0 + 6;
            let i1_7 = i1_0 + 7;
            let v3_0 = cached_v3_0[0];
            let v3_1 = cached_v3_1[0];
            let v3_2 = cached_v3_2[0];
            let v3_3 = cached_v3_3[0];
            let v3_4 = cached_v3_4[0];
            let v3_5 = cached_v3_5[0];
            let v3_6 = cached_v3_6[0];
            let v3_7 = cached_v3_7[0];
            let v6_0 = multiply_f32(v3_0, v5);
            let v6_1 = multiply_f32(v3_1, v5);
            let v6_2 = multiply_f32(v3_2, v5);
            let v6_3 = multiply_f32(v3_3, v5);
            let v6_4 = multiply_f32(v3_4, v5);
            let v6_5 = multiply_f32(v3_5, v5);
            let v6_6 = multiply_f32(v3_6, v5);
            let v6_7 = multiply_f32(v3_7, v5);
            out0(at6, vec4(v6_0, v6_1, v6_2, v6_3), vec4(v6_4, v6_5, v6_6, v6_7));
        }
        {
            let row = (lane + 8) * 8;
            let i1_0 = row;
            let i1_1 = i1_0 + 1;
            let i1_2 = i1_0 + 2;
            let i1_3 = i1_0 + 3;
            let i1_4 = i1_0 + 4;
            let i1_5 = i1_0 + 5;
            let i1_6 = i1_0 + 6;
            let i1_7 = i1_0 + 7;
            let v3_0 = cached_v3_0[1];
            let v3_1 = cached_v3_1[1];
            let v3_2 = cached_v3_2[1];
            let v3_3 = cached_v3_3[1];
            let v3_4 = cached_v3_4[1];
            let v3_5 = cached_v3_5[1];
            let v3_6 = cached_v3_6[1];
            let v3_7 = cached_v3_7[1];
            let v6_0 = multiply_f32(v3_0, v5);
            let v6_1 = multiply_f32(v3_1, v5);
            let v6_2 = multiply_f32(v3_2, v5);
            let v6_3 = multiply_f32(v3_3, v5);
            let v6_4 = multiply_f32(v3_4, v5);
            let v6_5 = multiply_f32(v3_5, v5);
            let v6_6 = multiply_f32(v3_6, v5);
            let v6_7 = multiply_f32(v3_7, v5);
            out0(at6 + 8, vec4(v6_0, v6_1, v6_2, v6_3), vec4(v6_4, v6_5, v6_6, v6_7));
        }
    }
}

