// Copies bytes: each invocation writes one word of the target.
// launch[0]: first byte read, first byte written, number of bytes.
@group(0) @binding(0) var<uniform> launch: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read_write> source: array<u32>;
@group(0) @binding(2) var<storage, read_write> written: array<u32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let word = (group.y * groups.x + group.x) * 64u + local + launch[0].y / 4u;
    let end = launch[0].y + launch[0].z;
    if (word * 4u >= end) { return; }
    var value = written[word];
    for (var k = 0u; k < 4u; k += 1u) {
        let at = word * 4u + k;
        if (at >= launch[0].y && at < end) {
            let place = at - launch[0].y + launch[0].x;
            let byte = (source[place / 4u] >> ((place & 3u) * 8u)) & 0xffu;
            value = (value & ~(0xffu << (k * 8u))) | (byte << (k * 8u));
        }
    }
    written[word] = value;
}
