// Fills memory with ones: NaN as every floating-point type.
@group(0) @binding(0) var<uniform> launch: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read_write> written: array<vec4<u32>>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let at = (group.y * groups.x + group.x) * 64u + local;
    if (at < arrayLength(&written)) {
        written[at] = vec4<u32>(0xffffffffu ^ launch[0].x);
    }
}
