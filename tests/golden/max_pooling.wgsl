// max[2, 4, 8, 8]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
fn nan_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn rank_max_f32(x: f32) -> i32 {
    let bits = select(bitcast<i32>(x), 0x7fc00000, nan_f32(x));
    return bits ^ ((bits >> 31u) & 0x7fffffff);
}
fn unrank_f32(rank: i32) -> f32 {
    return bitcast<f32>(rank ^ ((rank >> 31u) & 0x7fffffff));
}
fn wide_u64(low: u32, high: u32) -> u64 {
    return (u64(high) << 32u) | u64(low);
}
fn long_words(x: vec4<u32>) -> vec2<u64> {
    return vec2<u64>(wide_u64(x.x, x.y), wide_u64(x.z, x.w));
}
@group(0) @binding(1) var<storage, read_write> in0_0: array<f32>;
var<private> offset0: u32;
fn in0(at: i32) -> f32 {
    let e = u32(at) + offset0;
    return in0_0[e];
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
    offset0 = uniforms[1].x;
    let one = i32(min(groups.y, 1u));
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 64) { return; }
    let point_first = point * 8;
    let over1 = i32((u32(point_first) / 8u));
    let i2 = over1;
    let i3_0 = point_first - over1 * 8;
    let i3_1 = i3_0 + 1;
    let i3_2 = i3_0 + 2;
    let i3_3 = i3_0 + 3;
    let i3_4 = i3_0 + 4;
    let i3_5 = i3_0 + 5;
    let i3_6 = i3_0 + 6;
    let i3_7 = i3_0 + 7;
    var s2a_0: i32 = i32(-2139095041);
    var s2a_1: i32 = i32(-2139095041);
    var s2a_2: i32 = i32(-2139095041);
    var s2a_3: i32 = i32(-2139095041);
    var s2a_4: i32 = i32(-2139095041);
    var s2a_5: i32 = i32(-2139095041);
    var s2a_6: i32 = i32(-2139095041);
    var s2a_7: i32 = i32(-2139095041);
    for (var i4: i32 = 0; i4 < 2 * one; i4 += 1) {
        for (var i5: i32 = 0; i5 < 2 * one; i5 += 1) {
            let v0_0 = in0(i2 * 32 + i3_0 * 2 + i4 * 16 + i5);
            let v0_1 = in0(i2 * 32 + i3_1 * 2 + i4 * 16 + i5);
            let v0_2 = in0(i2 * 32 + i3_2 * 2 + i4 * 16 + i5);
            let v0_3 = in0(i2 * 32 + i3_3 * 2 + i4 * 16 + i5);
            let v0_4 = in0(i2 * 32 + i3_4 * 2 + i4 * 16 + i5);
            let v0_5 = in0(i2 * 32 + i3_5 * 2 + i4 * 16 + i5);
            let v0_6 = in0(i2 * 32 + i3_6 * 2 + i4 * 16 + i5);
            let v0_7 = in0(i2 * 32 + i3_7 * 2 + i4 * 16 + i5);
            s2a_0 = max(s2a_0, rank_max_f32(v0_0));
            s2a_1 = max(s2a_1, rank_max_f32(v0_1));
            s2a_2 = max(s2a_2, rank_max_f32(v0_2));
            s2a_3 = max(s2a_3, rank_max_f32(v0_3));
            s2a_4 = max(s2a_4, rank_max_f32(v0_4));
            s2a_5 = max(s2a_5, rank_max_f32(v0_5));
            s2a_6 = max(s2a_6, rank_max_f32(v0_6));
            s2a_7 = max(s2a_7, rank_max_f32(v0_7));
        }
    }
    let v1_0 = unrank_f32(s2a_0);
    let v1_1 = unrank_f32(s2a_1);
    let v1_2 = unrank_f32(s2a_2);
    let v1_3 = unrank_f32(s2a_3);
    let v1_4 = unrank_f32(s2a_4);
    let v1_5 = unrank_f32(s2a_5);
    let v1_6 = unrank_f32(s2a_6);
    let v1_7 = unrank_f32(s2a_7);
    let at3 = (i2 * 8 + i3_0) >> 3u;
    out0(at3, vec4(v1_0, v1_1, v1_2, v1_3), vec4(v1_4, v1_5, v1_6, v1_7));
}

