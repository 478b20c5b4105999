// max_sum_mul_neg_where_div[]
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
fn truth_f32(x: bool) -> f32 {
    return bitcast<f32>(select(0u, 0x3f800000u, x) ^ uniforms[0].x);
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
fn log_parts_f32(x: f32) -> vec3<f32> {
    let tiny = bitcast<u32>(x) < 0x800000u;
    let bits = bitcast<i32>(select(x, x * 33554432.0, tiny));
    let exponent = (bits - 0x3f3504f3) >> 23u;
    let f = bitcast<f32>(bits - (exponent << 23u)) - 1.0;
    let p = (((((((0.06746647 * f - 0.11675654) * f + 0.118881606) * f - 0.124055885) * f + 0.14219552) * f - 0.16667996) * f + 0.20002119) * f - 0.2500001) * f + 0.33333313;
    let z = f * f;
    return vec3<f32>(f32(exponent) - select(0.0, 25.0, tiny), f, (p * f) * z - 0.5 * z);
}
fn log_edges_f32(x: f32, y: f32) -> f32 {
    let bits = bitcast<i32>(x);
    var value = bitcast<u32>(y);
    if (bits >= 0x7f800000) {
        value = u32(bits);
    }
    if (bits < 0) {
        value = 0x7fc00000u;
    }
    if ((bits & 0x7fffffff) == 0) {
        value = 0xff800000u;
    }
    return bitcast<f32>(value ^ uniforms[0].x);
}
fn log_f32(x: f32) -> f32 {
    let parts = log_parts_f32(x);
    let low = opaque_f32(parts.x * -2.12194440e-4 + parts.z) + parts.y;
    return log_edges_f32(x, parts.x * 0.693359375 + opaque_f32(low));
}
fn report(low: u32, high: u32, extent: u32) {
    let own = uniforms[0].y * 4u;
    if (atomicOr(&status[own], 1u) == 0u) {
        atomicStore(&status[own + 1u], low);
        atomicStore(&status[own + 2u], high);
        atomicStore(&status[own + 3u], extent);
    }
}
fn report_i64(index: i64, extent: u32) {
    let bits = bitcast<u64>(index);
    report(u32(bits & 0xfffffffflu), u32(bits >> 32u), extent);
}
@group(0) @binding(1) var<storage, read_write> status: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read_write> in0_0: array<vec2<i64>>;
fn in0(quad: i32) -> vec4<i64> {
    let e = u32(quad);
    return vec4<i64>(in0_0[e * 2u - 0u], in0_0[e * 2u + 1u - 0u]);
}
var<private> vec4_offset0: i32;
fn in0_vector_index(group: i32) -> i32 {
    return group + vec4_offset0;
}
@group(0) @binding(3) var<storage, read_write> in1_0: array<f32>;
var<private> offset1: u32;
fn in1(at: i32) -> f32 {
    let e = u32(at) + offset1;
    return in1_0[e];
}
@group(0) @binding(4) var<storage, read_write> out0_0: array<f32>;
fn out0(at: i32, x: f32) {
    let e = u32(at);
    out0_0[e] = x;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    vec4_offset0 = i32(uniforms[1].x / 4u);
    offset1 = uniforms[1].y;
    let one = i32(min(groups.y, 1u));
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 1) { return; }
    let v1 = i32(-100);
    let v2 = i64(v1);
    let v4 = number_f32(0x00000000u /* 0.0 */);
    let v5 = i32(0);
    let v6 = i64(v5);
    var s1a: f32 = number_f32(0x00000000u /* 0.0 */);
    var s2a: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var row: i32 = 0; row < 64 * one; row += 4) {
        let i0_0 = row;
        let i0_1 = i0_0 + 1;
        let i0_2 = i0_0 + 2;
        let i0_3 = i0_0 + 3;
        var s3a_0: i32 = i32(-2139095041);
        var s3a_1: i32 = i32(-2139095041);
        var s3a_2: i32 = i32(-2139095041);
        var s3a_3: i32 = i32(-2139095041);
        for (var i1: i32 = 0; i1 < 10 * one; i1 += 1) {
            let v9_0 = in1(i0_0 * 10 + i1);
            let v9_1 = in1(i0_1 * 10 + i1);
            let v9_2 = in1(i0_2 * 10 + i1);
            let v9_3 = in1(i0_3 * 10 + i1);
            s3a_0 = max(s3a_0, rank_max_f32(v9_0));
            s3a_1 = max(s3a_1, rank_max_f32(v9_1));
            s3a_2 = max(s3a_2, rank_max_f32(v9_2));
            s3a_3 = max(s3a_3, rank_max_f32(v9_3));
        }
        let v10_0 = unrank_f32(s3a_0);
        let v10_1 = unrank_f32(s3a_1);
        let v10_2 = unrank_f32(s3a_2);
        let v10_3 = unrank_f32(s3a_3);
        var s4a_0: f32 = number_f32(0x00000000u /* 0.0 */);
        var s4a_1: f32 = number_f32(0x00000000u /* 0.0 */);
        var s4a_2: f32 = number_f32(0x00000000u /* 0.0 */);
        var s4a_3: f32 = number_f32(0x00000000u /* 0.0 */);
        for (var i1: i32 = 0; i1 < 10 * one; i1 += 1) {
            let v9_0 = in1(i0_0 * 10 + i1);
            let v9_1 = in1(i0_1 * 10 + i1);
            let v9_2 = in1(i0_2 * 10 + i1);
            let v9_3 = in1(i0_3 * 10 + i1);
            let v12_0 = subtract_f32(v9_0, v10_0);
            let v12_1 = subtract_f32(v9_1, v10_1);
            let v12_2 = subtract_f32(v9_2, v10_2);
            let v12_3 = subtract_f32(v9_3, v10_3);
            let v13_0 = exp_f32(v12_0);
            let v13_1 = exp_f32(v12_1);
            let v13_2 = exp_f32(v12_2);
            let v13_3 = exp_f32(v12_3);
            s4a_0 = add_f32(s4a_0, v13_0);
            s4a_1 = add_f32(s4a_1, v13_1);
            s4a_2 = add_f32(s4a_2, v13_2);
            s4a_3 = add_f32(s4a_3, v13_3);
        }
        let v14_0 = s4a_0;
        let v14_1 = s4a_1;
        let v14_2 = s4a_2;
        let v14_3 = s4a_3;
        let at5 = in0_vector_index((i0_0) >> 2u);
        let vec4_6 = in0(at5);
        let v0_0 = vec4_6.x;
        let v0_1 = vec4_6.y;
        let v0_2 = vec4_6.z;
        let v0_3 = vec4_6.w;
        let v3_0 = (v0_0 == v2);
        let v3_1 = (v0_1 == v2);
        let v3_2 = (v0_2 == v2);
        let v3_3 = (v0_3 == v2);
        let v7_0 = select(v0_0, v6, v3_0);
        let v7_1 = select(v0_1, v6, v3_1);
        let v7_2 = select(v0_2, v6, v3_2);
        let v7_3 = select(v0_3, v6, v3_3);
        let at7 = i32(clamp(v7_0, 0li, 9li));
        if (v7_0 != i64(at7)) {
            report_i64(v7_0, 10u);
        }
        let v8_0 = in1(i0_0 * 10 + at7 * 1);
        let at8 = i32(clamp(v7_1, 0li, 9li));
        if (v7_1 != i64(at8)) {
            report_i64(v7_1, 10u);
        }
        let v8_1 = in1(i0_1 * 10 + at8 * 1);
        let at9 = i32(clamp(v7_2, 0li, 9li));
        if (v7_2 != i64(at9)) {
            report_i64(v7_2, 10u);
        }
        let v8_2 = in1(i0_2 * 10 + at9 * 1);
        let at10 = i32(clamp(v7_3, 0li, 9li));
        if (v7_3 != i64(at10)) {
            report_i64(v7_3, 10u);
        }
        let v8_3 = in1(i0_3 * 10 + at10 * 1);
        let v11_0 = subtract_f32(v8_0, v10_0);
        let v11_1 = subtract_f32(v8_1, v10_1);
        let v11_2 = subtract_f32(v8_2, v10_2);
        let v11_3 = subtract_f32(v8_3, v10_3);
        let v15_0 = log_f32(v14_0);
        let v15_1 = log_f32(v14_1);
        let v15_2 = log_f32(v14_2);
        let v15_3 = log_f32(v14_3);
        let v16_0 = subtract_f32(v11_0, v15_0);
        let v16_1 = subtract_f32(v11_1, v15_1);
        let v16_2 = subtract_f32(v11_2, v15_2);
        let v16_3 = subtract_f32(v11_3, v15_3);
        let v17_0 = (!v3_0);
        let v17_1 = (!v3_1);
        let v17_2 = (!v3_2);
        let v17_3 = (!v3_3);
        let v18_0 = truth_f32(v17_0);
        let v18_1 = truth_f32(v17_1);
        let v18_2 = truth_f32(v17_2);
        let v18_3 = truth_f32(v17_3);
        let v19_0 = multiply_f32(v16_0, v18_0);
        let v19_1 = multiply_f32(v16_1, v18_1);
        let v19_2 = multiply_f32(v16_2, v18_2);
        let v19_3 = multiply_f32(v16_3, v18_3);
        let v20_0 = negate_f32(v19_0);
        let v20_1 = negate_f32(v19_1);
        let v20_2 = negate_f32(v19_2);
        let v20_3 = negate_f32(v19_3);
        let v21_0 = select(v20_0, v4, v3_0);
        let v21_1 = select(v20_1, v4, v3_1);
        let v21_2 = select(v20_2, v4, v3_2);
        let v21_3 = select(v20_3, v4, v3_3);
        s1a = add_f32(s1a, add_f32(add_f32(v21_0, v21_1), add_f32(v21_2, v21_3)));
        s2a = add_f32(s2a, add_f32(add_f32(v18_0, v18_1), add_f32(v18_2, v18_3)));
    }
    let v22 = s1a;
    let v23 = s2a;
    let v24 = divide_f32(v22, v23);
    out0(0, v24);
}

