// sum_div_add_sqrt_reciprocal_mul[8, 4, 6, 6]
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
@group(0) @binding(1) var<storage, read_write> in0_0: array<vec2<u64>>;
fn in0(quad: i32) -> vec4<f32> {
    let e = u32(quad);
    return bitcast<vec4<f32>>(words_of(in0_0[e]));
}
var<private> vec4_offset0: i32;
fn in0_vector_index(group: i32) -> i32 {
    return group + vec4_offset0;
}
@group(0) @binding(2) var<storage, read_write> out0_0: array<vec2<u64>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = long_words(bitcast<vec4<u32>>(vec4<f32>(a, b, c, d)));
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
    vec4_offset0 = i32(uniforms[1].x / 4u);
    let point = i32(group.y * groups.x + group.x);
    let lane = i32(own_subgroup * subgroup_size + own_lane);
    if (point >= 4) { return; }
    let i1 = point;
    var cached_v0_0: array<f32, 12>;
    var cached_v0_1: array<f32, 12>;
    var cached_v0_2: array<f32, 12>;
    var cached_v0_3: array<f32, 12>;
    var s1a: f32 = number_f32(0x00000000u /* 0.0 */);
    {
        let row = (lane + 0) * 4;
        let over2 = i32((u32(row) / 36u));
        let i0 = over2;
        let i3_0 = row - over2 * 36;
        let i3_1 = i3_0 + 1;
        let i3_2 = i3_0 + 2;
        let i3_3 = i3_0 + 3;
        {
            let row = (lane + 0) * 4;
            let over3 = i32((u32(row) / 36u));
            let i0 = over3;
            let i3_0 = row - over3 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let at4 = in0_vector_index((i0 * 144 + i1 * 36 + i3_0) >> 2u);
            let vec4_5 = in0(at4);
            let v0_0 = vec4_5.x;
            let v0_1 = vec4_5.y;
            let v0_2 = vec4_5.z;
            let v0_3 = vec4_5.w;
            cached_v0_0[0] = v0_0;
            cached_v0_1[0] = v0_1;
            cached_v0_2[0] = v0_2;
            cached_v0_3[0] = v0_3;
            s1a = add_f32(s1a, add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)));
        }
        {
            let row = (lane + 8) * 4;
            let over6 = i32((u32(row) / 36u));
            let i0 = over6;
            let i3_0 = row - over6 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let at7 = in0_vector_index((i0 * 144 + i1 * 36 + i3_0) >> 2u);
            let vec4_8 = in0(at7);
            let v0_0 = vec4_8.x;
            let v0_1 = vec4_8.y;
            let v0_2 = vec4_8.z;
            let v0_3 = vec4_8.w;
            cached_v0_0[1] = v0_0;
            cached_v0_1[1] = v0_1;
            cached_v0_2[1] = v0_2;
            cached_v0_3[1] = v0_3;
            s1a = add_f32(s1a, add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)));
        }
        {
            let row = (lane + 16) * 4;
            let over9 = i32((u32(row) / 36u));
            let i0 = over9;
            let i3_0 = row - over9 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let at10 = in0_vector_index((i0 * 144 + i1 * 36 + i3_0) >> 2u);
            let vec4_11 = in0(at10);
            let v0_0 = vec4_11.x;
            let v0_1 = vec4_11.y;
            let v0_2 = vec4_11.z;
            let v0_3 = vec4_11.w;
            cached_v0_0[2] = v0_0;
            cached_v0_1[2] = v0_1;
            cached_v0_2[2] = v0_2;
            cached_v0_3[2] = v0_3;
            s1a = add_f32(s1a, add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)));
        }
        {
            let row = (lane + 24) * 4;
            let over12 = i32((u32(row) / 36u));
            let i0 = over12;
            let i3_0 = row - over12 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let at13 = in0_vector_index((i0 * 144 + i1 * 36 + i3_0) >> 2u);
            let vec4_14 = in0(at13);
            let v0_0 = vec4_14.x;
            let v0_1 = vec4_14.y;
            let v0_2 = vec4_14.z;
            let v0_3 = vec4_14.w;
            cached_v0_0[3] = v0_0;
            cached_v0_1[3] = v0_1;
            cached_v0_2[3] = v0_2;
            cached_v0_3[3] = v0_3;
            s1a = add_f32(s1a, add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)));
        }
        {
            let row = (lane + 32) * 4;
            let over15 = i32((u32(row) / 36u));
            let i0 = over15;
            let i3_0 = row - over15 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let at16 = in0_vector_index((i0 * 144 + i1 * 36 + i3_0) >> 2u);
            let vec4_17 = in0(at16);
            let v0_0 = vec4_17.x;
            let v0_1 = vec4_17.y;
            let v0_2 = vec4_17.z;
            let v0_3 = vec4_17.w;
            cached_v0_0[4] = v0_0;
            cached_v0_1[4] = v0_1;
            cached_v0_2[4] = v0_2;
            cached_v0_3[4] = v0_3;
            s1a = add_f32(s1a, add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)));
        }
        {
            let row = (lane + 40) * 4;
            let over18 = i32((u32(row) / 36u));
            let i0 = over18;
            let i3_0 = row - over18 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let at19 = in0_vector_index((i0 * 144 + i1 * 36 + i3_0) >> 2u);
            let vec4_20 = in0(at19);
            let v0_0 = vec4_20.x;
            let v0_1 = vec4_20.y;
            let v0_2 = vec4_20.z;
            let v0_3 = vec4_20.w;
            cached_v0_0[5] = v0_0;
            cached_v0_1[5] = v0_1;
            cached_v0_2[5] = v0_2;
            cached_v0_3[5] = v0_3;
            s1a = add_f32(s1a, add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)));
        }
        {
            let row = (lane + 48) * 4;
            let over21 = i32((u32(row) / 36u));
            let i0 = over21;
            let i3_0 = row - over21 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let at22 = in0_vector_index((i0 * 144 + i1 * 36 + i3_0) >> 2u);
            let vec4_23 = in0(at22);
            let v0_0 = vec4_23.x;
            let v0_1 = vec4_23.y;
            let v0_2 = vec4_23.z;
            let v0_3 = vec4_23.w;
            cached_v0_0[6] = v0_0;
            cached_v0_1[6] = v0_1;
            cached_v0_2[6] = v0_2;
            cached_v0_3[6] = v0_3;
            s1a = add_f32(s1a, add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)));
        }
        {
            let row = (lane + 56) * 4;
            let over24 = i32((u32(row) / 36u));
            let i0 = over24;
            let i3_0 = row - over24 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let at25 = in0_vector_index((i0 * 144 + i1 * 36 + i3_0) >> 2u);
            let vec4_26 = in0(at25);
            let v0_0 = vec4_26.x;
            let v0_1 = vec4_26.y;
            let v0_2 = vec4_26.z;
            let v0_3 = vec4_26.w;
            cached_v0_0[7] = v0_0;
            cached_v0_1[7] = v0_1;
            cached_v0_2[7] = v0_2;
            cached_v0_3[7] = v0_3;
            s1a = add_f32(s1a, add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)));
        }
        {
            let row = (lane + 64) * 4;
            if (row < 288) {
                let over27 = i32((u32(row) / 36u));
                let i0 = over27;
                let i3_0 = row - over27 * 36;
                let i3_1 = i3_0 + 1;
                let i3_2 = i3_0 + 2;
                let i3_3 = i3_0 + 3;
                let at28 = in0_vector_index((i0 * 144 + i1 * 36 + i3_0) >> 2u);
                let vec4_29 = in0(at28);
                let v0_0 = vec4_29.x;
                let v0_1 = vec4_29.y;
                let v0_2 = vec4_29.z;
                let v0_3 = vec4_29.w;
                cached_v0_0[8] = v0_0;
                cached_v0_1[8] = v0_1;
                cached_v0_2[8] = v0_2;
                cached_v0_3[8] = v0_3;
                s1a = add_f32(s1a, add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)));
            }
        }
        {
            let row = (lane + 72) * 4;
            if (row < 288) {
                let over30 = i32((u32(row) / 36u));
                let i0 = over30;
                let i3_0 = row - over30 * 36;
                let i3_1 = i3_0 + 1;
                let i3_2 = i3_0 + 2;
                let i3_3 = i3_0 + 3;
                let at31 = in0_vector_index((i0 * 144 + i1 * 36 + i3_0) >> 2u);
                let vec4_32 = in0(at31);
                let v0_0 = vec4_32.x;
                let v0_1 = vec4_32.y;
                let v0_2 = vec4_32.z;
                let v0_3 = vec4_32.w;
                cached_v0_0[9] = v0_0;
                cached_v0_1[9] = v0_1;
                cached_v0_2[9] = v0_2;
                cached_v0_3[9] = v0_3;
                s1a = add_f32(s1a, add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)));
            }
        }
        {
            let row = (lane + 80) * 4;
            if (row < 288) {
                let over33 = i32((u32(row) / 36u));
                let i0 = over33;
                let i3_0 = row - over33 * 36;
                let i3_1 = i3_0 + 1;
                let i3_2 = i3_0 + 2;
                let i3_3 = i3_0 + 3;
                let at34 = in0_vector_index((i0 * 144 + i1 * 36 + i3_0) >> 2u);
                let vec4_35 = in0(at34);
                let v0_0 = vec4_35.x;
                let v0_1 = vec4_35.y;
                let v0_2 = vec4_35.z;
                let v0_3 = vec4_35.w;
                cached_v0_0[10] = v0_0;
                cached_v0_1[10] = v0_1;
                cached_v0_2[10] = v0_2;
                cached_v0_3[10] = v0_3;
                s1a = add_f32(s1a, add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)));
            }
        }
        {
            let row = (lane + 88) * 4;
            if (row < 288) {
                let over36 = i32((u32(row) / 36u));
                let i0 = over36;
                let i3_0 = row - over36 * 36;
                let i3_1 = i3_0 + 1;
                let i3_2 = i3_0 + 2;
                let i3_3 = i3_0 + 3;
                let at37 = in0_vector_index((i0 * 144 + i1 * 36 + i3_0) >> 2u);
                let vec4_38 = in0(at37);
                let v0_0 = vec4_38.x;
                let v0_1 = vec4_38.y;
                let v0_2 = vec4_38.z;
                let v0_3 = vec4_38.w;
                cached_v0_0[11] = v0_0;
                cached_v0_1[11] = v0_1;
                cached_v0_2[11] = v0_2;
                cached_v0_3[11] = v0_3;
                s1a = add_f32(s1a, add_f32(add_f32(v0_0, v0_1), add_f32(v0_2, v0_3)));
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
    let v2 = number_f32(0x43900000u /* 288.0 */);
    let v3 = divide_f32(v1, v2);
    var s39a: f32 = number_f32(0x00000000u /* 0.0 */);
    {
        let row = (lane + 0) * 4;
        let over40 = i32((u32(row) / 36u));
        let i0 = over40;
        let i3_0 = row - over40 * 36;
        let i3_1 = i3_0 + 1;
        let i3_2 = i3_0 + 2;
        let i3_3 = i3_0 + 3;
        {
            let row = (lane + 0) * 4;
            let over41 = i32((u32(row) / 36u));
            let i0 = over41;
            let i3_0 = row - over41 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[0];
            let v0_1 = cached_v0_1[0];
            let v0_2 = cached_v0_2[0];
            let v0_3 = cached_v0_3[0];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v5_0 = multiply_f32(v4_0, v4_0);
            let v5_1 = multiply_f32(v4_1, v4_1);
            let v5_2 = multiply_f32(v4_2, v4_2);
            let v5_3 = multiply_f32(v4_3, v4_3);
            s39a = add_f32(s39a, add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)));
        }
        {
            let row = (lane + 8) * 4;
            let over42 = i32((u32(row) / 36u));
            let i0 = over42;
            let i3_0 = row - over42 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[1];
            let v0_1 = cached_v0_1[1];
            let v0_2 = cached_v0_2[1];
            let v0_3 = cached_v0_3[1];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v5_0 = multiply_f32(v4_0, v4_0);
            let v5_1 = multiply_f32(v4_1, v4_1);
            let v5_2 = multiply_f32(v4_2, v4_2);
            let v5_3 = multiply_f32(v4_3, v4_3);
            s39a = add_f32(s39a, add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)));
        }
        {
            let row = (lane + 16) * 4;
            let over43 = i32((u32(row) / 36u));
            let i0 = over43;
            let i3_0 = row - over43 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[2];
            let v0_1 = cached_v0_1[2];
            let v0_2 = cached_v0_2[2];
            let v0_3 = cached_v0_3[2];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v5_0 = multiply_f32(v4_0, v4_0);
            let v5_1 = multiply_f32(v4_1, v4_1);
            let v5_2 = multiply_f32(v4_2, v4_2);
            let v5_3 = multiply_f32(v4_3, v4_3);
            s39a = add_f32(s39a, add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)));
        }
        {
            let row = (lane + 24) * 4;
            let over44 = i32((u32(row) / 36u));
            let i0 = over44;
            let i3_0 = row - over44 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[3];
            let v0_1 = cached_v0_1[3];
            let v0_2 = cached_v0_2[3];
            let v0_3 = cached_v0_3[3];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v5_0 = multiply_f32(v4_0, v4_0);
            let v5_1 = multiply_f32(v4_1, v4_1);
            let v5_2 = multiply_f32(v4_2, v4_2);
            let v5_3 = multiply_f32(v4_3, v4_3);
            s39a = add_f32(s39a, add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)));
        }
        {
            let row = (lane + 32) * 4;
            let over45 = i32((u32(row) / 36u));
            let i0 = over45;
            let i3_0 = row - over45 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[4];
            let v0_1 = cached_v0_1[4];
            let v0_2 = cached_v0_2[4];
            let v0_3 = cached_v0_3[4];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v5_0 = multiply_f32(v4_0, v4_0);
            let v5_1 = multiply_f32(v4_1, v4_1);
            let v5_2 = multiply_f32(v4_2, v4_2);
            let v5_3 = multiply_f32(v4_3, v4_3);
            s39a = add_f32(s39a, add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)));
        }
        {
            let row = (lane + 40) * 4;
            let over46 = i32((u32(row) / 36u));
            let i0 = over46;
            let i3_0 = row - over46 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[5];
            let v0_1 = cached_v0_1[5];
            let v0_2 = cached_v0_2[5];
            let v0_3 = cached_v0_3[5];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v5_0 = multiply_f32(v4_0, v4_0);
            let v5_1 = multiply_f32(v4_1, v4_1);
            let v5_2 = multiply_f32(v4_2, v4_2);
            let v5_3 = multiply_f32(v4_3, v4_3);
            s39a = add_f32(s39a, add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)));
        }
        {
            let row = (lane + 48) * 4;
            let over47 = i32((u32(row) / 36u));
            let i0 = over47;
            let i3_0 = row - over47 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[6];
            let v0_1 = cached_v0_1[6];
            let v0_2 = cached_v0_2[6];
            let v0_3 = cached_v0_3[6];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v5_0 = multiply_f32(v4_0, v4_0);
            let v5_1 = multiply_f32(v4_1, v4_1);
            let v5_2 = multiply_f32(v4_2, v4_2);
            let v5_3 = multiply_f32(v4_3, v4_3);
            s39a = add_f32(s39a, add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)));
        }
        {
            let row = (lane + 56) * 4;
            let over48 = i32((u32(row) / 36u));
            let i0 = over48;
            let i3_0 = row - over48 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[7];
            let v0_1 = cached_v0_1[7];
            let v0_2 = cached_v0_2[7];
            let v0_3 = cached_v0_3[7];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v5_0 = multiply_f32(v4_0, v4_0);
            let v5_1 = multiply_f32(v4_1, v4_1);
            let v5_2 = multiply_f32(v4_2, v4_2);
            let v5_3 = multiply_f32(v4_3, v4_3);
            s39a = add_f32(s39a, add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)));
        }
        {
            let row = (lane + 64) * 4;
            if (row < 288) {
                let over49 = i32((u32(row) / 36u));
                let i0 = over49;
                let i3_0 = row - over49 * 36;
                let i3_1 = i3_0 + 1;
                let i3_2 = i3_0 + 2;
                let i3_3 = i3_0 + 3;
                let v0_0 = cached_v0_0[8];
                let v0_1 = cached_v0_1[8];
                let v0_2 = cached_v0_2[8];
                let v0_3 = cached_v0_3[8];
                let v4_0 = subtract_f32(v0_0, v3);
                let v4_1 = subtract_f32(v0_1, v3);
                let v4_2 = subtract_f32(v0_2, v3);
                let v4_3 = subtract_f32(v0_3, v3);
                let v5_0 = multiply_f32(v4_0, v4_0);
                let v5_1 = multiply_f32(v4_1, v4_1);
                let v5_2 = multiply_f32(v4_2, v4_2);
                let v5_3 = multiply_f32(v4_3, v4_3);
                s39a = add_f32(s39a, add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)));
            }
        }
        {
            let row = (lane + 72) * 4;
            if (row < 288) {
                let over50 = i32((u32(row) / 36u));
                let i0 = over50;
                let i3_0 = row - over50 * 36;
                let i3_1 = i3_0 + 1;
                let i3_2 = i3_0 + 2;
                let i3_3 = i3_0 + 3;
                let v0_0 = cached_v0_0[9];
                let v0_1 = cached_v0_1[9];
                let v0_2 = cached_v0_2[9];
                let v0_3 = cached_v0_3[9];
                let v4_0 = subtract_f32(v0_0, v3);
                let v4_1 = subtract_f32(v0_1, v3);
                let v4_2 = subtract_f32(v0_2, v3);
                let v4_3 = subtract_f32(v0_3, v3);
                let v5_0 = multiply_f32(v4_0, v4_0);
                let v5_1 = multiply_f32(v4_1, v4_1);
                let v5_2 = multiply_f32(v4_2, v4_2);
                let v5_3 = multiply_f32(v4_3, v4_3);
                s39a = add_f32(s39a, add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)));
            }
        }
        {
            let row = (lane + 80) * 4;
            if (row < 288) {
                let over51 = i32((u32(row) / 36u));
                let i0 = over51;
                let i3_0 = row - over51 * 36;
                let i3_1 = i3_0 + 1;
                let i3_2 = i3_0 + 2;
                let i3_3 = i3_0 + 3;
                let v0_0 = cached_v0_0[10];
                let v0_1 = cached_v0_1[10];
                let v0_2 = cached_v0_2[10];
                let v0_3 = cached_v0_3[10];
                let v4_0 = subtract_f32(v0_0, v3);
                let v4_1 = subtract_f32(v0_1, v3);
                let v4_2 = subtract_f32(v0_2, v3);
                let v4_3 = subtract_f32(v0_3, v3);
                let v5_0 = multiply_f32(v4_0, v4_0);
                let v5_1 = multiply_f32(v4_1, v4_1);
                let v5_2 = multiply_f32(v4_2, v4_2);
                let v5_3 = multiply_f32(v4_3, v4_3);
                s39a = add_f32(s39a, add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)));
            }
        }
        {
            let row = (lane + 88) * 4;
            if (row < 288) {
                let over52 = i32((u32(row) / 36u));
                let i0 = over52;
                let i3_0 = row - over52 * 36;
                let i3_1 = i3_0 + 1;
                let i3_2 = i3_0 + 2;
                let i3_3 = i3_0 + 3;
                let v0_0 = cached_v0_0[11];
                let v0_1 = cached_v0_1[11];
                let v0_2 = cached_v0_2[11];
                let v0_3 = cached_v0_3[11];
                let v4_0 = subtract_f32(v0_0, v3);
                let v4_1 = subtract_f32(v0_1, v3);
                let v4_2 = subtract_f32(v0_2, v3);
                let v4_3 = subtract_f32(v0_3, v3);
                let v5_0 = multiply_f32(v4_0, v4_0);
                let v5_1 = multiply_f32(v4_1, v4_1);
                let v5_2 = multiply_f32(v4_2, v4_2);
                let v5_3 = multiply_f32(v4_3, v4_3);
                s39a = add_f32(s39a, add_f32(add_f32(v5_0, v5_1), add_f32(v5_2, v5_3)));
            }
        }
    }
    {
        let other_s39a = subgroupShuffleDown(s39a, 4u);
        s39a = add_f32(s39a, other_s39a);
    }
    {
        let other_s39a = subgroupShuffleDown(s39a, 2u);
        s39a = add_f32(s39a, other_s39a);
    }
    {
        let other_s39a = subgroupShuffleDown(s39a, 1u);
        s39a = add_f32(s39a, other_s39a);
    }
    s39a = subgroupBroadcastFirst(s39a);
    let v6 = s39a;
    let v7 = divide_f32(v6, v2);
    let v8 = number_f32(0x3727c5acu /* 1e-5 */);
    let v9 = add_f32(v7, v8);
    let v10 = root_f32(v9);
    let v11 = reciprocal_f32(v10);
    {
        let row = (lane + 0) * 4;
        let over53 = i32((u32(row) / 36u));
        let i0 = over53;
        let i3_0 = row - over53 * 36;
        let i3_1 = i3_0 + 1;
        let i3_2 = i3_0 + 2;
        let i3_3 = i3_0 + 3;
        {
            let row = (lane + 0) * 4;
            let over54 = i32((u32(row) / 36u));
            let i0 = over54;
            let i3_0 = row - over54 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[0];
            let v0_1 = cached_v0_1[0];
            let v0_2 = cached_v0_2[0];
            let v0_3 = cached_v0_3[0];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v12_0 = multiply_f32(v4_0, v11);
            let v12_1 = multiply_f32(v4_1, v11);
            let v12_2 = multiply_f32(v4_2, v11);
            let v12_3 = multiply_f32(v4_3, v11);
            let at55 = (i0 * 144 + i1 * 36 + i3_0) >> 2u;
            out0(at55, v12_0, v12_1, v12_2, v12_3);
        }
        {
            let row = (lane + 8) * 4;
            let over56 = i32((u32(row) / 36u));
            let i0 = over56;
            let i3_0 = row - over56 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[1];
            let v0_1 = cached_v0_1[1];
            let v0_2 = cached_v0_2[1];
            let v0_3 = cached_v0_3[1];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v12_0 = multiply_f32(v4_0, v11);
            let v12_1 = multiply_f32(v4_1, v11);
            let v12_2 = multiply_f32(v4_2, v11);
            let v12_3 = multiply_f32(v4_3, v11);
            let at57 = (i0 * 144 + i1 * 36 + i3_0) >> 2u;
            out0(at57, v12_0, v12_1, v12_2, v12_3);
        }
        {
            let row = (lane + 16) * 4;
            let over58 = i32((u32(row) / 36u));
            let i0 = over58;
            let i3_0 = row - over58 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[2];
            let v0_1 = cached_v0_1[2];
            let v0_2 = cached_v0_2[2];
            let v0_3 = cached_v0_3[2];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v12_0 = multiply_f32(v4_0, v11);
            let v12_1 = multiply_f32(v4_1, v11);
            let v12_2 = multiply_f32(v4_2, v11);
            let v12_3 = multiply_f32(v4_3, v11);
            let at59 = (i0 * 144 + i1 * 36 + i3_0) >> 2u;
            out0(at59, v12_0, v12_1, v12_2, v12_3);
        }
        {
            let row = (lane + 24) * 4;
            let over60 = i32((u32(row) / 36u));
            let i0 = over60;
            let i3_0 = row - over60 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[3];
            let v0_1 = cached_v0_1[3];
            let v0_2 = cached_v0_2[3];
            let v0_3 = cached_v0_3[3];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v12_0 = multiply_f32(v4_0, v11);
            let v12_1 = multiply_f32(v4_1, v11);
            let v12_2 = multiply_f32(v4_2, v11);
            let v12_3 = multiply_f32(v4_3, v11);
            let at61 = (i0 * 144 + i1 * 36 + i3_0) >> 2u;
            out0(at61, v12_0, v12_1, v12_2, v12_3);
        }
        {
            let row = (lane + 32) * 4;
            let over62 = i32((u32(row) / 36u));
            let i0 = over62;
            let i3_0 = row - over62 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[4];
            let v0_1 = cached_v0_1[4];
            let v0_2 = cached_v0_2[4];
            let v0_3 = cached_v0_3[4];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v12_0 = multiply_f32(v4_0, v11);
            let v12_1 = multiply_f32(v4_1, v11);
            let v12_2 = multiply_f32(v4_2, v11);
            let v12_3 = multiply_f32(v4_3, v11);
            let at63 = (i0 * 144 + i1 * 36 + i3_0) >> 2u;
            out0(at63, v12_0, v12_1, v12_2, v12_3);
        }
        {
            let row = (lane + 40) * 4;
            let over64 = i32((u32(row) / 36u));
            let i0 = over64;
            let i3_0 = row - over64 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[5];
            let v0_1 = cached_v0_1[5];
            let v0_2 = cached_v0_2[5];
            let v0_3 = cached_v0_3[5];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v12_0 = multiply_f32(v4_0, v11);
            let v12_1 = multiply_f32(v4_1, v11);
            let v12_2 = multiply_f32(v4_2, v11);
            let v12_3 = multiply_f32(v4_3, v11);
            let at65 = (i0 * 144 + i1 * 36 + i3_0) >> 2u;
            out0(at65, v12_0, v12_1, v12_2, v12_3);
        }
        {
            let row = (lane + 48) * 4;
            let over66 = i32((u32(row) / 36u));
            let i0 = over66;
            let i3_0 = row - over66 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[6];
            let v0_1 = cached_v0_1[6];
            let v0_2 = cached_v0_2[6];
            let v0_3 = cached_v0_3[6];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v12_0 = multiply_f32(v4_0, v11);
            let v12_1 = multiply_f32(v4_1, v11);
            let v12_2 = multiply_f32(v4_2, v11);
            let v12_3 = multiply_f32(v4_3, v11);
            let at67 = (i0 * 144 + i1 * 36 + i3_0) >> 2u;
            out0(at67, v12_0, v12_1, v12_2, v12_3);
        }
        {
            let row = (lane + 56) * 4;
            let over68 = i32((u32(row) / 36u));
            let i0 = over68;
            let i3_0 = row - over68 * 36;
            let i3_1 = i3_0 + 1;
            let i3_2 = i3_0 + 2;
            let i3_3 = i3_0 + 3;
            let v0_0 = cached_v0_0[7];
            let v0_1 = cached_v0_1[7];
            let v0_2 = cached_v0_2[7];
            let v0_3 = cached_v0_3[7];
            let v4_0 = subtract_f32(v0_0, v3);
            let v4_1 = subtract_f32(v0_1, v3);
            let v4_2 = subtract_f32(v0_2, v3);
            let v4_3 = subtract_f32(v0_3, v3);
            let v12_0 = multiply_f32(v4_0, v11);
            let v12_1 = multiply_f32(v4_1, v11);
            let v12_2 = multiply_f32(v4_2, v11);
            let v12_3 = multiply_f32(v4_3, v11);
            let at69 = (i0 * 144 + i1 * 36 + i3_0) >> 2u;
            out0(at69, v12_0, v12_1, v12_2, v12_3);
        }
        {
            let row = (lane + 64) * 4;
            if (row < 288) {
                let over70 = i32((u32(row) / 36u));
                let i0 = over70;
                let i3_0 = row - over70 * 36;
                let i3_1 = i3_0 + 1;
                let i3_2 = i3_0 + 2;
                let i3_3 = i3_0 + 3;
                let v0_0 = cached_v0_0[8];
                let v0_1 = cached_v0_1[8];
                let v0_2 = cached_v0_2[8];
                let v0_3 = cached_v0_3[8];
                let v4_0 = subtract_f32(v0_0, v3);
                let v4_1 = subtract_f32(v0_1, v3);
                let v4_2 = subtract_f32(v0_2, v3);
                let v4_3 = subtract_f32(v0_3, v3);
                let v12_0 = multiply_f32(v4_0, v11);
                let v12_1 = multiply_f32(v4_1, v11);
                let v12_2 = multiply_f32(v4_2, v11);
                let v12_3 = multiply_f32(v4_3, v11);
                let at71 = (i0 * 144 + i1 * 36 + i3_0) >> 2u;
                out0(at71, v12_0, v12_1, v12_2, v12_3);
            }
        }
        {
            let row = (lane + 72) * 4;
            if (row < 288) {
                let over72 = i32((u32(row) / 36u));
                let i0 = over72;
                let i3_0 = row - over72 * 36;
                let i3_1 = i3_0 + 1;
                let i3_2 = i3_0 + 2;
                let i3_3 = i3_0 + 3;
                let v0_0 = cached_v0_0[9];
                let v0_1 = cached_v0_1[9];
                let v0_2 = cached_v0_2[9];
                let v0_3 = cached_v0_3[9];
                let v4_0 = subtract_f32(v0_0, v3);
                let v4_1 = subtract_f32(v0_1, v3);
                let v4_2 = subtract_f32(v0_2, v3);
                let v4_3 = subtract_f32(v0_3, v3);
                let v12_0 = multiply_f32(v4_0, v11);
                let v12_1 = multiply_f32(v4_1, v11);
                let v12_2 = multiply_f32(v4_2, v11);
                let v12_3 = multiply_f32(v4_3, v11);
                let at73 = (i0 * 144 + i1 * 36 + i3_0) >> 2u;
                out0(at73, v12_0, v12_1, v12_2, v12_3);
            }
        }
        {
            let row = (lane + 80) * 4;
            if (row < 288) {
                let over74 = i32((u32(row) / 36u));
                let i0 = over74;
                let i3_0 = row - over74 * 36;
                let i3_1 = i3_0 + 1;
                let i3_2 = i3_0 + 2;
                let i3_3 = i3_0 + 3;
                let v0_0 = cached_v0_0[10];
                let v0_1 = cached_v0_1[10];
                let v0_2 = cached_v0_2[10];
                let v0_3 = cached_v0_3[10];
                let v4_0 = subtract_f32(v0_0, v3);
                let v4_1 = subtract_f32(v0_1, v3);
                let v4_2 = subtract_f32(v0_2, v3);
                let v4_3 = subtract_f32(v0_3, v3);
                let v12_0 = multiply_f32(v4_0, v11);
                let v12_1 = multiply_f32(v4_1, v11);
                let v12_2 = multiply_f32(v4_2, v11);
                let v12_3 = multiply_f32(v4_3, v11);
                let at75 = (i0 * 144 + i1 * 36 + i3_0) >> 2u;
                out0(at75, v12_0, v12_1, v12_2, v12_3);
            }
        }
        {
            let row = (lane + 88) * 4;
            if (row < 288) {
                let over76 = i32((u32(row) / 36u));
                let i0 = over76;
                let i3_0 = row - over76 * 36;
                let i3_1 = i3_0 + 1;
                let i3_2 = i3_0 + 2;
                let i3_3 = i3_0 + 3;
                let v0_0 = cached_v0_0[11];
                let v0_1 = cached_v0_1[11];
                let v0_2 = cached_v0_2[11];
                let v0_3 = cached_v0_3[11];
                let v4_0 = subtract_f32(v0_0, v3);
                let v4_1 = subtract_f32(v0_1, v3);
                let v4_2 = subtract_f32(v0_2, v3);
                let v4_3 = subtract_f32(v0_3, v3);
                let v12_0 = multiply_f32(v4_0, v11);
                let v12_1 = multiply_f32(v4_1, v11);
                let v12_2 = multiply_f32(v4_2, v11);
                let v12_3 = multiply_f32(v4_3, v11);
                let at77 = (i0 * 144 + i1 * 36 + i3_0) >> 2u;
                out0(at77, v12_0, v12_1, v12_2, v12_3);
            }
        }
    }
}

