// exp[8, 8]
@group(0) @binding(0) var<uniform> launch: array<vec4<u32>, 2>;
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ launch[0].x);
}
fn nan_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn scale_f32(x: f32, n: i32) -> f32 {
    let half = n >> 1u;
    let other = n - half;
    return x * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(other + 127) << 23u);
}
fn exp_f32(x: f32) -> f32 {
    let c = min(max(x, -104.0), 89.0);
    let n = round(c * 1.4426950);
    let r = opaque_f32(c - n * 0.693359375) - n * -2.12194440e-4;
    let p = (((0.001381454 * r + 0.008368745) * r + 0.04166839) * r + 0.16666521) * r + 0.49999994;
    let y = 1.0 + (p * (r * r) + r);
    let value = opaque_f32(select(scale_f32(y, i32(n)), 0.0, c < -103.98));
    return select(value, x, nan_f32(x));
}
@group(0) @binding(1) var<storage, read_write> in0_0: array<vec4<f32>>;
fn in0(quad: i32) -> vec4<f32> {
    let e = u32(quad) + launch[1].x / 4u;
    return in0_0[e];
}
@group(0) @binding(2) var<storage, read_write> out0_0: array<vec4<f32>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = vec4<f32>(a, b, c, d);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 16) { return; }
    let point_first = point * 4;
    let i1_0 = point_first + 0;
    let i1_1 = point_first + 1;
    let i1_2 = point_first + 2;
    let i1_3 = point_first + 3;
    let four1 = in0((i1_0) / 4);
    let v0_0 = four1.x;
    let v0_1 = four1.y;
    let v0_2 = four1.z;
    let v0_3 = four1.w;
    let v1_0 = exp_f32(v0_0);
    let v1_1 = exp_f32(v0_1);
    let v1_2 = exp_f32(v0_2);
    let v1_3 = exp_f32(v0_3);
    out0((i1_0) / 4, v1_0, v1_1, v1_2, v1_3);
}

// add[8, 8]
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
@group(0) @binding(1) var<storage, read_write> in0_0: array<vec4<f32>>;
fn in0(quad: i32) -> vec4<f32> {
    let e = u32(quad) + launch[1].x / 4u;
    return in0_0[e];
}
@group(0) @binding(2) var<storage, read_write> out0_0: array<vec4<f32>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = vec4<f32>(a, b, c, d);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 16) { return; }
    let point_first = point * 4;
    let i1_0 = point_first + 0;
    let i1_1 = point_first + 1;
    let i1_2 = point_first + 2;
    let i1_3 = point_first + 3;
    let four1 = in0((i1_0) / 4);
    let v0_0 = four1.x;
    let v0_1 = four1.y;
    let v0_2 = four1.z;
    let v0_3 = four1.w;
    let v1 = number_f32(0x3f800000u /* 1.0 */);
    let v2_0 = add_f32(v0_0, v1);
    let v2_1 = add_f32(v0_1, v1);
    let v2_2 = add_f32(v0_2, v1);
    let v2_3 = add_f32(v0_3, v1);
    out0((i1_0) / 4, v2_0, v2_1, v2_2, v2_3);
}

// sum[8]
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
@group(0) @binding(1) var<storage, read_write> in0_0: array<vec4<f32>>;
fn in0(quad: i32) -> vec4<f32> {
    let e = u32(quad) + launch[1].x / 4u;
    return in0_0[e];
}
@group(0) @binding(2) var<storage, read_write> out0_0: array<vec4<f32>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = vec4<f32>(a, b, c, d);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 2) { return; }
    let point_first = point * 4;
    let i0_0 = point_first + 0;
    let i0_1 = point_first + 1;
    let i0_2 = point_first + 2;
    let i0_3 = point_first + 3;
    var s1a_0: f32 = number_f32(0x00000000u /* 0.0 */);
    var s1a_1: f32 = number_f32(0x00000000u /* 0.0 */);
    var s1a_2: f32 = number_f32(0x00000000u /* 0.0 */);
    var s1a_3: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var i1: i32 = 0; i1 < 8; i1 += 1) {
        let four2 = in0((i0_0 + i1 * 8) / 4);
        let v0_0 = four2.x;
        let v0_1 = four2.y;
        let v0_2 = four2.z;
        let v0_3 = four2.w;
        s1a_0 = add_f32(s1a_0, v0_0);
        s1a_1 = add_f32(s1a_1, v0_1);
        s1a_2 = add_f32(s1a_2, v0_2);
        s1a_3 = add_f32(s1a_3, v0_3);
    }
    let v1_0 = s1a_0;
    let v1_1 = s1a_1;
    let v1_2 = s1a_2;
    let v1_3 = s1a_3;
    out0((i0_0) / 4, v1_0, v1_1, v1_2, v1_3);
}

