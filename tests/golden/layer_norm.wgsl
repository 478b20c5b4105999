// sum_div_sqrt_reciprocal_mul_add[64, 96]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
fn number_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits ^ uniforms[0].x);
}
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ uniforms[0].x);
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
@group(0) @binding(2) var<storage, read_write> in1_0: array<vec4<u64>>;
fn in1(eighth: i32) -> Vec8_f32 {
    let e = u32(eighth);
    var x: vec4<u64>;
    x = in1_0[e];
    return Vec8_f32(bitcast<vec4<f32>>(words_of(x.xy)), bitcast<vec4<f32>>(words_of(x.zw)));
}
var<private> vec8_offset1: i32;
fn in1_vector_index(group: i32) -> i32 {
    return group + vec8_offset1;
}
@group(0) @binding(3) var<storage, read_write> in2_0: array<vec4<u64>>;
fn in2(eighth: i32) -> Vec8_f32 {
    let e = u32(eighth);
    var x: vec4<u64>;
    x = in2_0[e];
    return Vec8_f32(bitcast<vec4<f32>>(words_of(x.xy)), bitcast<vec4<f32>>(words_of(x.zw)));
}
var<private> vec8_offset2: i32;
fn in2_vector_index(group: i32) -> i32 {
    return group + vec8_offset2;
}
@group(0) @binding(4) var<storage, read_write> out0_0: array<vec4<u64>>;
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
    vec8_offset1 = i32(uniforms[1].y / 8u);
    vec8_offset2 = i32(uniforms[1].z / 8u);
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
    var s1a: f32 = number_f32(0x00000000u /* 0.0 */);
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
        let at2 = in0_vector_index((i0 * 96 + i1_0) >> 3u);
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
            s1a = add_f32(s1a, add_f32(add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)), add_f32(add_f32(v0_4, v0_5), add_f32(v0_6, v0_7))));
        }
        {
            let row = (lane + 8) * 8;
            if (row < 96) {
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
                s1a = add_f32(s1a, add_f32(add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)), add_f32(add_f32(v0_4, v0_5), add_f32(v0_6, v0_7))));
            }
        }
    }
    {
        let other_s1a = subgroupShuffleDown(s1a, 4u);
        s1a = add_f32(s1a, other_s1a);
    }
    {
        let other_s1a = subgroupShuffleDown(s1a, 2u);
        s1a = add_f32(s1a, other_s1a);
    }
    {
        let other_s1a = subgroupShuffleDown(s1a, 1u);
        s1a = add_f32(s1a, other_s1a);
    }
    s1a = subgroupBroadcastFirst(s1a);
    let v1 = s1a;
    let v2 = number_f32(0x42c00000u /* 96.0 */);
    let v3 = divide_f32(v1, v2);
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
            s5a = add_f32(s5a, add_f32(add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)), add_f32(add_f32(v5_4, v5_5), add_f32(v5_6, v5_7))));
        }
        {
            let row = (lane + 8) * 8;
            if (row < 96) {
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
                s5a = add_f32(s5a, add_f32(add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)), add_f32(add_f32(v5_4, v5_5), add_f32(v5_6, v5_7))));
            }
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
    let v6 = s5a;
    let v7 = divide_f32(v6, v2);
    let v8 = number_f32(0x3727c5acu /* 1e-5 */);
    let v9 = add_f32(v7, v8);
    let v10 = root_f32(v9);
    let v11 = reciprocal_f32(v10);
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
        let at6 = in1_vector_index((i1_0) >> 3u);
        let at8 = in2_vector_index((i1_0) >> 3u);
        let at10 = (i0 * 96 + i1_0) >> 3u;
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
            let vec8_7 = in1(at6);
            let v13_0 = vec8_7.low.x;
            let v13_1 = vec8_7.low.y;
            let v13_2 = vec8_7.low.z;
            let v13_3 = vec8_7.low.w;
            let v13_4 = vec8_7.high.x;
            let v13_5 = vec8_7.high.y;
            let v13_6 = vec8_7.high.z;
            let v13_7 = vec8_7.high.w;
            let v14_0 = multiply_f32(v12_0, v13_0);
            let v14_1 = multiply_f32(v12_1, v13_1);
            let v14_2 = multiply_f32(v12_2, v13_2);
            let v14_3 = multiply_f32(v12_3, v13_3);
            let v14_4 = multiply_f32(v12_4, v13_4);
            let v14_5 = multiply_f32(v12_5, v13_5);
            let v14_6 = multiply_f32(v12_6, v13_6);
            let v14_7 = multiply_f32(v12_7, v13_7);
            let vec8_9 = in2(at8);
            let v15_0 = vec8_9.low.x;
            let v15_1 = vec8_9.low.y;
            let v15_2 = vec8_9.low.z;
            let v15_3 = vec8_9.low.w;
            let v15_4 = vec8_9.high.x;
            let v15_5 = vec8_9.high.y;
            let v15_6 = vec8_9.high.z;
            let v15_7 = vec8_9.high.w;
            let v16_0 = add_f32(v14_0, v15_0);
            let v16_1 = add_f32(v14_1, v15_1);
            let v16_2 = add_f32(v14_2, v15_2);
            let v16_3 = add_f32(v14_3, v15_3);
            let v16_4 = add_f32(v14_4, v15_4);
            let v16_5 = add_f32(v14_5, v15_5);
            let v16_6 = add_f32(v14_6, v15_6);
            let v16_7 = add_f32(v14_7, v15_7);
            out0(at10, vec4(v16_0, v16_1, v16_2, v16_3), vec4(v16_4, v16_5, v16_6, v16_7));
        }
        {
            let row = (lane + 8) * 8;
            if (row < 96) {
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
                let vec8_11 = in1(at6 + 8);
                let v13_0 = vec8_11.low.x;
                let v13_1 = vec8_11.low.y;
                let v13_2 = vec8_11.low.z;
                let v13_3 = vec8_11.low.w;
                let v13_4 = vec8_11.high.x;
                let v13_5 = vec8_11.high.y;
                let v13_6 = vec8_11.high.z;
                let v13_7 = vec8_11.high.w;
                let v14_0 = multiply_f32(v12_0, v13_0);
                let v14_1 = multiply_f32(v12_1, v13_1);
                let v14_2 = multiply_f32(v12_2, v13_2);
                let v14_3 = multiply_f32(v12_3, v13_3);
                let v14_4 = multiply_f32(v12_4, v13_4);
                let v14_5 = multiply_f32(v12_5, v13_5);
                let v14_6 = multiply_f32(v12_6, v13_6);
                let v14_7 = multiply_f32(v12_7, v13_7);
                let vec8_12 = in2(at8 + 8);
                let v15_0 = vec8_12.low.x;
                let v15_1 = vec8_12.low.y;
                let v15_2 = vec8_12.low.z;
                let v15_3 = vec8_12.low.w;
                let v15_4 = vec8_12.high.x;
                let v15_5 = vec8_12.high.y;
                let v15_6 = vec8_12.high.z;
                let v15_7 = vec8_12.high.w;
                let v16_0 = add_f32(v14_0, v15_0);
                let v16_1 = add_f32(v14_1, v15_1);
                let v16_2 = add_f32(v14_2, v15_2);
                let v16_3 = add_f32(v14_3, v15_3);
                let v16_4 = add_f32(v14_4, v15_4);
                let v16_5 = add_f32(v14_5, v15_5);
                let v16_6 = add_f32(v14_6, v15_6);
                let v16_7 = add_f32(v14_7, v15_7);
                out0(at10 + 8, vec4(v16_0, v16_1, v16_2, v16_3), vec4(v16_4, v16_5, v16_6, v16_7));
            }
        }
    }
}

