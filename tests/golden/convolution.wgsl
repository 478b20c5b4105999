// contract_add_maximum[2, 8, 16, 16]
@group(0) @binding(0) var<uniform> launch: array<vec4<u32>, 2>;
fn number_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits ^ launch[0].x);
}
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ launch[0].x);
}
fn nan_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn add_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x + y);
}
fn rank_max_f32(x: f32) -> i32 {
    let bits = select(bitcast<i32>(x), 0x7fc00000, nan_f32(x));
    return bits ^ ((bits >> 31u) & 0x7fffffff);
}
fn unrank_f32(rank: i32) -> f32 {
    return bitcast<f32>(rank ^ ((rank >> 31u) & 0x7fffffff));
}
fn maximum_f32(x: f32, y: f32) -> f32 {
    return unrank_f32(max(rank_max_f32(x), rank_max_f32(y)));
}
@group(0) @binding(1) var<storage, read_write> in0_0: array<f32>;
fn in0(at: i32) -> f32 {
    let e = u32(at) + launch[1].x;
    return in0_0[e];
}
@group(0) @binding(2) var<storage, read_write> in1_0: array<f32>;
fn in1(at: i32) -> f32 {
    let e = u32(at) + launch[1].y;
    return in1_0[e];
}
@group(0) @binding(3) var<storage, read_write> in2_0: array<vec4<f32>>;
fn in2(quad: i32) -> vec4<f32> {
    let e = u32(quad) + launch[1].z / 4u;
    return in2_0[e];
}
@group(0) @binding(4) var<storage, read_write> out0_0: array<vec4<f32>>;
fn out0(quad: i32, a: f32, b: f32, c: f32, d: f32) {
    let e = u32(quad);
    out0_0[e] = vec4<f32>(a, b, c, d);
}

@compute @workgroup_size(32)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = i32((group.y * groups.x + group.x) * 32u + local);
    if (tile >= 256) { return; }
    let column = i32(u32(tile) % 128u);
    let rest = i32(u32(tile) / 128u);
    let row = i32(u32(rest) % 2u);
    let batch = i32(u32(rest) / 2u);
    let row_first = row * 4;
    let i1_0 = row_first + 0;
    let i1_1 = row_first + 1;
    let i1_2 = row_first + 2;
    let i1_3 = row_first + 3;
    let column_first = column * 4;
    let i0 = i32(u32(column_first) / 256u);
    let i2 = i32(u32(i32(u32(column_first) / 16u)) % 16u);
    let i3_0 = i32(u32(column_first) % 16u) + 0;
    let i3_1 = i32(u32(column_first) % 16u) + 1;
    let i3_2 = i32(u32(column_first) % 16u) + 2;
    let i3_3 = i32(u32(column_first) % 16u) + 3;
    var sum_0_0: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_0_1: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_0_2: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_0_3: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_1_0: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_1_1: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_1_2: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_1_3: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_2_0: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_2_1: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_2_2: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_2_3: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_3_0: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_3_1: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_3_2: f32 = number_f32(0x00000000u /* 0.0 */);
    var sum_3_3: f32 = number_f32(0x00000000u /* 0.0 */);
    for (var step: i32 = 0; step < 27; step += 1) {
        let i4 = i32(u32(step) / 9u);
        let i5 = i32(u32(i32(u32(step) / 3u)) % 3u);
        let i6 = i32(u32(step) % 3u);
        let v0_0 = in0(i1_0 * 27 + i4 * 9 + i5 * 3 + i6);
        let v0_1 = in0(i1_1 * 27 + i4 * 9 + i5 * 3 + i6);
        let v0_2 = in0(i1_2 * 27 + i4 * 9 + i5 * 3 + i6);
        let v0_3 = in0(i1_3 * 27 + i4 * 9 + i5 * 3 + i6);
        let open1 = (i2 + i5 + (-1) >= 0 && i2 + i5 + (-1) < 16) && (i3_0 + i6 + (-1) >= 0 && i3_0 + i6 + (-1) < 16);
        let v5_0 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_0 + i4 * 256 + i5 * 16 + i6 + (-17), open1)), open1);
        let open2 = (i2 + i5 + (-1) >= 0 && i2 + i5 + (-1) < 16) && (i3_1 + i6 + (-1) >= 0 && i3_1 + i6 + (-1) < 16);
        let v5_1 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_1 + i4 * 256 + i5 * 16 + i6 + (-17), open2)), open2);
        let open3 = (i2 + i5 + (-1) >= 0 && i2 + i5 + (-1) < 16) && (i3_2 + i6 + (-1) >= 0 && i3_2 + i6 + (-1) < 16);
        let v5_2 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_2 + i4 * 256 + i5 * 16 + i6 + (-17), open3)), open3);
        let open4 = (i2 + i5 + (-1) >= 0 && i2 + i5 + (-1) < 16) && (i3_3 + i6 + (-1) >= 0 && i3_3 + i6 + (-1) < 16);
        let v5_3 = select(number_f32(0x00000000u /* 0.0 */), in1(select(0, i0 * 768 + i2 * 16 + i3_3 + i4 * 256 + i5 * 16 + i6 + (-17), open4)), open4);
        sum_0_0 = sum_0_0 + v0_0 * v5_0;
        sum_0_1 = sum_0_1 + v0_0 * v5_1;
        sum_0_2 = sum_0_2 + v0_0 * v5_2;
        sum_0_3 = sum_0_3 + v0_0 * v5_3;
        sum_1_0 = sum_1_0 + v0_1 * v5_0;
        sum_1_1 = sum_1_1 + v0_1 * v5_1;
        sum_1_2 = sum_1_2 + v0_1 * v5_2;
        sum_1_3 = sum_1_3 + v0_1 * v5_3;
        sum_2_0 = sum_2_0 + v0_2 * v5_0;
        sum_2_1 = sum_2_1 + v0_2 * v5_1;
        sum_2_2 = sum_2_2 + v0_2 * v5_2;
        sum_2_3 = sum_2_3 + v0_2 * v5_3;
        sum_3_0 = sum_3_0 + v0_3 * v5_0;
        sum_3_1 = sum_3_1 + v0_3 * v5_1;
        sum_3_2 = sum_3_2 + v0_3 * v5_2;
        sum_3_3 = sum_3_3 + v0_3 * v5_3;
    }
    let v6_0_0 = sum_0_0;
    let v6_0_1 = sum_0_1;
    let v6_0_2 = sum_0_2;
    let v6_0_3 = sum_0_3;
    let v6_1_0 = sum_1_0;
    let v6_1_1 = sum_1_1;
    let v6_1_2 = sum_1_2;
    let v6_1_3 = sum_1_3;
    let v6_2_0 = sum_2_0;
    let v6_2_1 = sum_2_1;
    let v6_2_2 = sum_2_2;
    let v6_2_3 = sum_2_3;
    let v6_3_0 = sum_3_0;
    let v6_3_1 = sum_3_1;
    let v6_3_2 = sum_3_2;
    let v6_3_3 = sum_3_3;
    let v3 = number_f32(0x00000000u /* 0.0 */);
    let four5 = in2((i1_0) / 4);
    let v7_0 = four5.x;
    let v7_1 = four5.y;
    let v7_2 = four5.z;
    let v7_3 = four5.w;
    let v8_0_0 = add_f32(v6_0_0, v7_0);
    let v8_0_1 = add_f32(v6_0_1, v7_0);
    let v8_0_2 = add_f32(v6_0_2, v7_0);
    let v8_0_3 = add_f32(v6_0_3, v7_0);
    let v8_1_0 = add_f32(v6_1_0, v7_1);
    let v8_1_1 = add_f32(v6_1_1, v7_1);
    let v8_1_2 = add_f32(v6_1_2, v7_1);
    let v8_1_3 = add_f32(v6_1_3, v7_1);
    let v8_2_0 = add_f32(v6_2_0, v7_2);
    let v8_2_1 = add_f32(v6_2_1, v7_2);
    let v8_2_2 = add_f32(v6_2_2, v7_2);
    let v8_2_3 = add_f32(v6_2_3, v7_2);
    let v8_3_0 = add_f32(v6_3_0, v7_3);
    let v8_3_1 = add_f32(v6_3_1, v7_3);
    let v8_3_2 = add_f32(v6_3_2, v7_3);
    let v8_3_3 = add_f32(v6_3_3, v7_3);
    let v9_0_0 = maximum_f32(v8_0_0, v3);
    let v9_0_1 = maximum_f32(v8_0_1, v3);
    let v9_0_2 = maximum_f32(v8_0_2, v3);
    let v9_0_3 = maximum_f32(v8_0_3, v3);
    let v9_1_0 = maximum_f32(v8_1_0, v3);
    let v9_1_1 = maximum_f32(v8_1_1, v3);
    let v9_1_2 = maximum_f32(v8_1_2, v3);
    let v9_1_3 = maximum_f32(v8_1_3, v3);
    let v9_2_0 = maximum_f32(v8_2_0, v3);
    let v9_2_1 = maximum_f32(v8_2_1, v3);
    let v9_2_2 = maximum_f32(v8_2_2, v3);
    let v9_2_3 = maximum_f32(v8_2_3, v3);
    let v9_3_0 = maximum_f32(v8_3_0, v3);
    let v9_3_1 = maximum_f32(v8_3_1, v3);
    let v9_3_2 = maximum_f32(v8_3_2, v3);
    let v9_3_3 = maximum_f32(v8_3_3, v3);
    out0((i0 * 2048 + i1_0 * 256 + i2 * 16 + i3_0) / 4, v9_0_0, v9_0_1, v9_0_2, v9_0_3);
    out0((i0 * 2048 + i1_1 * 256 + i2 * 16 + i3_0) / 4, v9_1_0, v9_1_1, v9_1_2, v9_1_3);
    out0((i0 * 2048 + i1_2 * 256 + i2 * 16 + i3_0) / 4, v9_2_0, v9_2_1, v9_2_2, v9_2_3);
    out0((i0 * 2048 + i1_3 * 256 + i2 * 16 + i3_0) / 4, v9_3_0, v9_3_1, v9_3_2, v9_3_3);
}

