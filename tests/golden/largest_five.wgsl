// sort
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
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
var<private> offset0: u32;
fn in0(at: i32) -> f32 {
    let e = u32(at) + offset0;
    return in0_0[e];
}
@group(0) @binding(2) var<storage, read_write> network_0: array<u32>;
fn network(at: i32, x: u32) {
    let e = u32(at);
    network_0[e] = x;
}
fn old_network(at: i32) -> u32 {
    let e = u32(at);
    return network_0[e];
}
@group(0) @binding(3) var<storage, read_write> out0_0: array<i64>;
fn out0(at: i32, x: i64) {
    let e = u32(at);
    out0_0[e] = x;
}
const BLOCK = 1024;
const BLOCK_RUNS = 10;
alias Entry = vec2<u32>;
const PLACE = 1;
fn lines() -> i32 {
    return 16;
}
fn length() -> i32 {
    return 100;
}
fn padded() -> i32 {
    return 128;
}
fn count() -> i32 {
    return 5;
}
fn launch_number() -> i32 {
    return i32(uniforms[0].z);
}
fn element(line: i32, position: i32, extent: i32) -> i32 {
    return (line / 1 * extent + position) * 1 + line % 1;
}
fn entry_at(line: i32, position: i32) -> Entry {
    let x = in0(element(line, position, length()));
    let key = ~(bitcast<u32>(rank_argmax_f32(x)) ^ 0x80000000u);
    return Entry(key, u32(position));
}
fn follows(a: Entry, b: Entry) -> bool {
    return a.x > b.x || (a.x == b.x && (a.y > b.y));
}
fn take(at: i32) -> Entry {
    return Entry(old_network(at * 2), old_network(at * 2 + 1));
}
fn put(at: i32, x: Entry) {
    network(at * 2, x.x);
    network(at * 2 + 1, x.y);
}
fn store_place(line: i32, position: i32, place: u32) {
    out0(element(line, position, count()), i64(i32(place)));
}
fn read_offsets() {
    offset0 = uniforms[1].x;
}

const THREADS = BLOCK / 2;

var<workgroup> block: array<Entry, BLOCK>;

// What a line starts with; above all beyond its end.
fn start(at: i32) -> Entry {
    let line = at / padded();
    let position = at % padded();
    if (line < lines() && position < length()) { return entry_at(line, position); }
    var above = Entry(0xffffffffu);
    above[PLACE] = u32(position);
    return above;
}

fn finish(at: i32, x: Entry) {
    let line = at / padded();
    let position = at % padded();
    if (line < lines() && position < count()) { store_place(line, position, x[PLACE]); }
}

// The lower of the pair `number` of entries `distance` apart, a power of two.
fn lower(number: i32, distance: i32) -> i32 {
    return number + (number & ~(distance - 1));
}

// Whether run `run`, which merges runs of `1 << run`, sorts downwards at a place.
fn descends(at: i32, run: i32) -> bool {
    return (at & (padded() - 1) & (2 << u32(run))) != 0;
}

// A stage between entries of the block.
fn exchange(number: i32, distance: i32, run: i32, first: i32) {
    let low = lower(number, distance);
    let a = block[low];
    let b = block[low + distance];
    if (follows(a, b) != descends(first + low, run)) {
        block[low] = b;
        block[low + distance] = a;
    }
}

// A stage between entries further apart.
fn exchange_far(number: i32, distance: i32, run: i32) {
    let low = lower(number, distance);
    let a = take(low);
    let b = take(low + distance);
    if (follows(a, b) != descends(low, run)) {
        put(low, b);
        put(low + distance, a);
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    read_offsets();
    let tile = i32(group.y * groups.x + group.x);
    let first = tile * BLOCK;
    if (tile >= (lines() * padded() + BLOCK - 1) / BLOCK) { return; }
    let own = i32(local);
    let runs = i32(firstTrailingBit(u32(padded())));
    // Launch 0 has all runs of a block. Of a longer run, each stage between
    // blocks is a launch, and all those within blocks are one.
    var stage = launch_number() - 1;
    let starts = stage < 0;
    var run = BLOCK_RUNS;
    while (stage > run - BLOCK_RUNS + 1) {
        stage -= run - BLOCK_RUNS + 2;
        run += 1;
    }
    if (!starts && stage <= run - BLOCK_RUNS) {
        exchange_far(tile * THREADS + own, 1 << u32(run - stage), run);
        return;
    }
    for (var at = own; at < BLOCK; at += THREADS) {
        if (starts) { block[at] = start(first + at); } else { block[at] = take(first + at); }
    }
    let last = select(run, min(BLOCK_RUNS, runs) - 1, starts);
    for (run = select(run, 0, starts); run <= last; run += 1) {
        for (var distance = min(1 << u32(run), THREADS); distance > 0; distance = distance >> 1u) {
            workgroupBarrier();
            exchange(own, distance, run, first);
        }
    }
    workgroupBarrier();
    for (var at = own; at < BLOCK; at += THREADS) {
        if (last == runs - 1) { finish(first + at, block[at]); } else { put(first + at, block[at]); }
    }
}

// gather[16, 5]
@group(0) @binding(0) var<uniform> uniforms: array<vec4<u32>, 2>;
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
    offset0 = uniforms[1].x;
    offset1 = uniforms[1].y;
    let point = i32((group.y * groups.x + group.x) * 64u + local);
    if (point >= 80) { return; }
    let over1 = i32((u32(point) / 5u));
    let i0 = over1;
    let i1 = point - over1 * 5;
    let v0 = in0(i0 * 5 + i1);
    let at2 = i32(clamp(v0, 0li, 99li));
    if (v0 != i64(at2)) {
        report_i64(v0, 100u);
    }
    let v1 = in1(i0 * 100 + at2 * 1);
    out0(i0 * 5 + i1, v1);
}

