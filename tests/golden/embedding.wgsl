// gather_mul[4, 16, 32]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
fn number_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits ^ uniforms[0].x);
}
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ uniforms[0].x);
}
fn multiply_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x * y);
}
fn report(low: u32, high: u32, extent: u32) {
    let own = uniforms[0].y * 4u;
    if (atomicOr(&status[own], 1u) == 0u) {
        atomicStore(&status[own + 1u], low);
        atomicStore(&status[own + 2u], high);
        atomicStore(&status[own + 3u], extent);
    }
}
fn wide_u64(low: u32, high: u32) -> u64 {
    return (u64(high) << 32u) | u64(low);
}
fn long_words(x: vec4<u32>) -> vec2<u64> {
    return vec2<u64>(wide_u64(x.x, x.y), wide_u64(x.z, x.w));
}
fn report_i64(index: i64, extent: u32) {
    let bits = bitcast<u64>(index);
    report(u32(bits & 0xfffffffflu), u32(bits >> 32u), extent);
}
@group(0) @binding(1) var<storage, read_write> status: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read_write> in0_0: array<i64>;
var<private> offset0: u32;
fn in0(at: i32) -> i64 {
    let e = u32(at) + offset0;
    return in0_0[e];
}
@group(0) @binding(3) var<storage, read_write> in1_0: array<f32>;
var<private> offset1: u32;
fn in1(at: i32) -> f32 {
    let e = u32(at) + offset1;
    return in1_0[e];
}
@group(0) @binding(4) var<storage, read_write> out0_0: array<vec4<u64>>;
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
    offset1 = uniforms[1].y;
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 256) { return; }
    let point_first = point * 8;
    let over1 = i32((u32(point_first) / 32u));
    let i1 = over1;
    let i2_0 = point_first - over1 * 32;
    let i2_1 = i2_0 + 1;
    let i2_2 = i2_0 + 2;
    let i2_3 = i2_0 + 3;
    let i2_4 = i2_0 + 4;
    let i2_5 = i2_0 + 5;
    let i2_6 = i2_0 + 6;
    let i2_7 = i2_0 + 7;
    let v0 = in0(i1);
    let at2 = i32(clamp(v0, 0li, 99li));
    if (v0 != i64(at2)) {
        report_i64(v0, 100u);
    }
    let v1_0 = in1(i2_0 + at2 * 32);
    let at3 = i32(clamp(v0, 0li, 99li));
    if (v0 != i64(at3)) {
        report_i64(v0, 100u);
    }
    let v1_1 = in1(i2_1 + at3 * 32);
    let at4 = i32(clamp(v0, 0li, 99li));
    if (v0 != i64(at4)) {
        report_i64(v0, 100u);
    }
    let v1_2 = in1(i2_2 + at4 * 32);
    let at5 = i32(clamp(v0, 0li, 99li));
    if (v0 != i64(at5)) {
        report_i64(v0, 100u);
    }
    let v1_3 = in1(i2_3 + at5 * 32);
    let at6 = i32(clamp(v0, 0li, 99li));
    if (v0 != i64(at6)) {
        report_i64(v0, 100u);
    }
    let v1_4 = in1(i2_4 + at6 * 32);
    let at7 = i32(clamp(v0, 0li, 99li));
    if (v0 != i64(at7)) {
        report_i64(v0, 100u);
    }
    let v1_5 = in1(i2_5 + at7 * 32);
    let at8 = i32(clamp(v0, 0li, 99li));
    if (v0 != i64(at8)) {
        report_i64(v0, 100u);
    }
    let v1_6 = in1(i2_6 + at8 * 32);
    let at9 = i32(clamp(v0, 0li, 99li));
    if (v0 != i64(at9)) {
        report_i64(v0, 100u);
    }
    let v1_7 = in1(i2_7 + at9 * 32);
    let v2 = number_f32(0x3f000000u /* 0.5 */);
    let v3_0 = multiply_f32(v1_0, v2);
    let v3_1 = multiply_f32(v1_1, v2);
    let v3_2 = multiply_f32(v1_2, v2);
    let v3_3 = multiply_f32(v1_3, v2);
    let v3_4 = multiply_f32(v1_4, v2);
    let v3_5 = multiply_f32(v1_5, v2);
    let v3_6 = multiply_f32(v1_6, v2);
    let v3_7 = multiply_f32(v1_7, v2);
    let at10 = (i1 * 32 + i2_0) >> 3u;
    out0(at10, vec4(v3_0, v3_1, v3_2, v3_3), vec4(v3_4, v3_5, v3_6, v3_7));
}

