// The first places of the permutation that sorts lines of elements, by a bitonic network
// (Batcher 1968). Keys are unsigned words that sort as the elements do; the place
// decides ties, which makes the network stable. A line is padded to a power of two with
// keys above all. A workgroup sorts or merges a block of neighbours in memory that it
// shares; what lies further apart meets in a buffer, a launch a stage.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
// Elements of a block, and what power of two they are.
const BLOCK = 16;
const BLOCK_RUNS = 4;
// The words of a key, then the place, which is component `PLACE`.
alias Entry = vec2<u32>;
const PLACE = 1;
var<private> elements: array<u32, 3 * 37>;
var<private> permutation: array<u32, 3 * 37>;
var<private> network: array<Entry, 3 * 64>;

fn lines() -> i32 {
    return 3;
}
fn length() -> i32 {
    return 37;
}
// The power of two that is no less.
fn padded() -> i32 {
    return 64;
}
// How many of the sorted elements are wanted.
fn count() -> i32 {
    return 37;
}
// Which launch this is.
fn launch_number() -> i32 {
    return 0;
}
// The key and place of an element of a line.
fn entry_at(line: i32, position: i32) -> Entry {
    return Entry(elements[line * 37 + position], u32(position));
}
// The order of keys, and of places where they are equal.
fn follows(a: Entry, b: Entry) -> bool {
    return a.x > b.x || (a.x == b.x && a.y > b.y);
}
// Entries between launches.
fn take(at: i32) -> Entry {
    return network[at];
}
fn put(at: i32, x: Entry) {
    network[at] = x;
}
// What becomes of the place that an element of the sorted line comes from.
fn store_place(line: i32, position: i32, place: u32) {
    permutation[line * 37 + position] = place;
}
// Reads where inputs start.
fn read_offsets() {
}
// TEMPLATE

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
