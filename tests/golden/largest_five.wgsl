// sort: keys
@group(0) @binding(0) var<uniform> launch: array<vec4<u32>, 2>;
fn nan_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn ordinal_f32(x: f32) -> i32 {
    let bits = bitcast<i32>(x);
    return select(bits, bitcast<i32>(0x80000000u) - bits, bits < 0);
}
fn rank_argmax_f32(x: f32) -> i32 {
    return select(ordinal_f32(x), 0x7fffffff, nan_f32(x));
}
@group(0) @binding(1) var<storage, read_write> in0_0: array<f32>;
fn in0(at: i32) -> f32 {
    let e = u32(at) + launch[1].x;
    return in0_0[e];
}
@group(0) @binding(2) var<storage, read_write> place_0: array<u32>;
fn place(at: i32, x: u32) {
    let e = u32(at);
    place_0[e] = x;
}
fn old_place(at: i32) -> u32 {
    let e = u32(at);
    return place_0[e];
}
@group(0) @binding(3) var<storage, read_write> key_0: array<u32>;
fn key(at: i32, x: u32) {
    let e = u32(at);
    key_0[e] = x;
}
fn old_key(at: i32) -> u32 {
    let e = u32(at);
    return key_0[e];
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let at = i32((group.y * groups.x + group.x) * 64u + local);
    if (at >= 2048) { return; }
    let line = at / 128;
    let position = at % 128;
    place(at, u32(position));
    if (position >= 100) {
        key(at, 0xffffffffu);
        return;
    }
    let x = in0(line / 1 * 100 + line % 1 + position * 1);
    let bits = ~(bitcast<u32>(rank_argmax_f32(x)) ^ 0x80000000u);
    key(at, bits);
}

// sort: a stage
@group(0) @binding(0) var<uniform> launch: array<vec4<u32>, 2>;
@group(0) @binding(1) var<storage, read_write> place_0: array<u32>;
fn place(at: i32, x: u32) {
    let e = u32(at);
    place_0[e] = x;
}
fn old_place(at: i32) -> u32 {
    let e = u32(at);
    return place_0[e];
}
@group(0) @binding(2) var<storage, read_write> key_0: array<u32>;
fn key(at: i32, x: u32) {
    let e = u32(at);
    key_0[e] = x;
}
fn old_key(at: i32) -> u32 {
    let e = u32(at);
    return key_0[e];
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let at = i32((group.y * groups.x + group.x) * 64u + local);
    if (at >= 1024) { return; }
    // Stage 0 merges runs of 1; then 2 stages merge runs of 2, 3 of 4, ...
    var stage = i32(launch[0].z);
    var run = 0;
    while (stage > run) {
        run += 1;
        stage -= run;
    }
    let distance = 1 << u32(run - stage);
    let low = at / distance * distance * 2 + at % distance;
    let high = low + distance;
    let descends = ((low % 128) & (2 << u32(run))) != 0;
    let key_a = old_key(low);
    let key_b = old_key(high);
    let place_a = old_place(low);
    let place_b = old_place(high);
    if ((key_a > key_b || (key_a == key_b && place_a > place_b)) == descends) { return; }
    key(low, key_b);
    key(high, key_a);
    place(low, place_b);
    place(high, place_a);
}

// sort: permutation
@group(0) @binding(0) var<uniform> launch: array<vec4<u32>, 2>;
@group(0) @binding(1) var<storage, read_write> place_0: array<u32>;
fn place(at: i32, x: u32) {
    let e = u32(at);
    place_0[e] = x;
}
fn old_place(at: i32) -> u32 {
    let e = u32(at);
    return place_0[e];
}
@group(0) @binding(2) var<storage, read_write> out0_0: array<i64>;
fn out0(at: i32, x: i64) {
    let e = u32(at);
    out0_0[e] = x;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let at = i32((group.y * groups.x + group.x) * 64u + local);
    if (at >= 1600) { return; }
    let line = at / 100;
    let position = at % 100;
    out0(line / 1 * 100 + line % 1 + position * 1, i64(old_place(line * 128 + position)));
}

// gather[16, 5]
@group(0) @binding(0) var<uniform> launch: array<vec4<u32>, 2>;
fn report(low: u32, high: u32, extent: u32) {
    let own = launch[0].y * 4u;
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
@group(0) @binding(2) var<storage, read_write> in0_0: array<i64>;
fn in0(at: i32) -> i64 {
    let e = u32(at) + launch[1].x;
    return in0_0[e];
}
@group(0) @binding(3) var<storage, read_write> in1_0: array<f32>;
fn in1(at: i32) -> f32 {
    let e = u32(at) + launch[1].y;
    return in1_0[e];
}
@group(0) @binding(4) var<storage, read_write> out0_0: array<i64>;
fn out0(at: i32, x: i64) {
    let e = u32(at);
    out0_0[e] = x;
}
@group(0) @binding(5) var<storage, read_write> out1_0: array<f32>;
fn out1(at: i32, x: f32) {
    let e = u32(at);
    out1_0[e] = x;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 80) { return; }
    let i0 = i32(u32(point) / 5u);
    let i1 = i32(u32(point) % 5u);
    let v0 = in0(i0 * 100 + i1);
    let at1 = i32(clamp(v0, 0li, 99li));
    if (v0 != i64(at1)) {
        report_i64(v0, 100u);
    }
    let v1 = in1(i0 * 100 + at1 * 1);
    out0(i0 * 5 + i1, v0);
    out1(i0 * 5 + i1, v1);
}

