// sum[]
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
@group(0) @binding(2) var<storage, read_write> out0_0: array<f32>;
fn out0(at: i32, x: f32) {
    let e = u32(at);
    out0_0[e] = x;
}
var<workgroup> shared_f32_0: array<f32, 64>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let point = i32(group.y * groups.x + group.x);
    let lane = i32(local);
    if (point >= 1) { return; }
    var s1a: f32 = number_f32(0x00000000u /* 0.0 */);
    let end2 = min(lane * 4096 + 4096, 262144);
    for (var row: i32 = lane * 4096; row < end2; row += 4) {
        let i1_0 = row + 0;
        let i1_1 = row + 1;
        let i1_2 = row + 2;
        let i1_3 = row + 3;
        let four3 = in0((i1_0) / 4);
        let v0_0 = four3.x;
        let v0_1 = four3.y;
        let v0_2 = four3.z;
        let v0_3 = four3.w;
        s1a = add_f32(s1a, v0_0);
        s1a = add_f32(s1a, v0_1);
        s1a = add_f32(s1a, v0_2);
        s1a = add_f32(s1a, v0_3);
    }
    shared_f32_0[lane] = s1a;
    workgroupBarrier();
    if (lane < 32) {
        s1a = add_f32(s1a, shared_f32_0[lane + 32]);
        shared_f32_0[lane] = s1a;
    }
    workgroupBarrier();
    if (lane < 16) {
        s1a = add_f32(s1a, shared_f32_0[lane + 16]);
        shared_f32_0[lane] = s1a;
    }
    workgroupBarrier();
    if (lane < 8) {
        s1a = add_f32(s1a, shared_f32_0[lane + 8]);
        shared_f32_0[lane] = s1a;
    }
    workgroupBarrier();
    if (lane < 4) {
        s1a = add_f32(s1a, shared_f32_0[lane + 4]);
        shared_f32_0[lane] = s1a;
    }
    workgroupBarrier();
    if (lane < 2) {
        s1a = add_f32(s1a, shared_f32_0[lane + 2]);
        shared_f32_0[lane] = s1a;
    }
    workgroupBarrier();
    if (lane < 1) {
        s1a = add_f32(s1a, shared_f32_0[lane + 1]);
        shared_f32_0[lane] = s1a;
    }
    workgroupBarrier();
    s1a = shared_f32_0[0];
    workgroupBarrier();
    let v1 = s1a;
    if (lane == 0) {
        out0(0, v1);
    }
}

