// exp[8, 8]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ uniforms[0].x);
}
fn nan_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
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
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 8) { return; }
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
    let v1_0 = exp_f32(v0_0);
    let v1_1 = exp_f32(v0_1);
    let v1_2 = exp_f32(v0_2);
    let v1_3 = exp_f32(v0_3);
    let v1_4 = exp_f32(v0_4);
    let v1_5 = exp_f32(v0_5);
    let v1_6 = exp_f32(v0_6);
    let v1_7 = exp_f32(v0_7);
    let at3 = (i1_0) >> 3u;
    out0(at3, vec4(v1_0, v1_1, v1_2, v1_3), vec4(v1_4, v1_5, v1_6, v1_7));
}

// add[8, 8]
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
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 8) { return; }
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
    let v1 = number_f32(0x3f800000u /* 1.0 */);
    let v2_0 = add_f32(v0_0, v1);
    let v2_1 = add_f32(v0_1, v1);
    let v2_2 = add_f32(v0_2, v1);
    let v2_3 = add_f32(v0_3, v1);
    let v2_4 = add_f32(v0_4, v1);
    let v2_5 = add_f32(v0_5, v1);
    let v2_6 = add_f32(v0_6, v1);
    let v2_7 = add_f32(v0_7, v1);
    let at3 = (i1_0) >> 3u;
    out0(at3, vec4(v2_0, v2_1, v2_2, v2_3), vec4(v2_4, v2_5, v2_6, v2_7));
}

// sum[8]
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
    if (point >= 1) { return; }
    let point_first = point * 8;
    let i0_0 = point_first;
    let i0_1 = i0_0 + 1;
    let i0_2 = i0_0 + 2;
    let i0_3 = i0_0 + 3;
    let i0_4 = i0_0 + 4;
    let i0_5 = i0_0 + 5;
    let i0_6 = i0_0 + 6;
    let i0_7 = i0_0 + 7;
    var s1a_0: f32 = number_f32(0x00000000u /* 0.0 */);
    var s1a_1: f32 = number_f32(0x00000000u /* 0.0 */);
    var s1a_2: f32 = number_f32(0x00000000u /* 0.0 */);
    var s1a_3: f32 = number_f32(0x00000000u /* 0.0 */);
    var s1a_4: f32 = number_f32(0x00000000u /* 0.0 */);
    var s1a_5: f32 = number_f32(0x00000000u /* 0.0 */);
    var s1a_6: f32 = number_f32(0x00000000u /* 0.0 */);
    var s1a_7: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var i1: i32 = 0; i1 < 8 * one; i1 += 1) {
        let at2 = in0_vector_index((i0_0 + i1 * 8) >> 3u);
        let vec8_3 = in0(at2);
        let v0_0 = vec8_3.low.x;
        let v0_1 = vec8_3.low.y;
        let v0_2 = vec8_3.low.z;
        let v0_3 = vec8_3.low.w;
        let v0_4 = vec8_3.high.x;
        let v0_5 = vec8_3.high.y;
        let v0_6 = vec8_3.high.z;
        let v0_7 = vec8_3.high.w;
        s1a_0 = add_f32(s1a_0, v0_0);
        s1a_1 = add_f32(s1a_1, v0_1);
        s1a_2 = add_f32(s1a_2, v0_2);
        s1a_3 = add_f32(s1a_3, v0_3);
        s1a_4 = add_f32(s1a_4, v0_4);
        s1a_5 = add_f32(s1a_5, v0_5);
        s1a_6 = add_f32(s1a_6, v0_6);
        s1a_7 = add_f32(s1a_7, v0_7);
    }
    let v1_0 = s1a_0;
    let v1_1 = s1a_1;
    let v1_2 = s1a_2;
    let v1_3 = s1a_3;
    let v1_4 = s1a_4;
    let v1_5 = s1a_5;
    let v1_6 = s1a_6;
    let v1_7 = s1a_7;
    let at4 = (i0_0) >> 3u;
    out0(at4, vec4(v1_0, v1_1, v1_2, v1_3), vec4(v1_4, v1_5, v1_6, v1_7));
}

