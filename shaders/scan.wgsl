// Running results along rows, such as sums: a workgroup has a point, and goes
// along its row block by block. An invocation scans four neighbours by itself;
// the states of all meet in memory that they share, in steps of doubled reach
// (Hillis and Steele 1986), and go on to the next block.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
const THREADS = 64;
// What is scanned, and what comes of it.
alias Element = f32;
alias Result = f32;
// What is known of neighbours.
struct State {
    a: f32,
}
var<private> elements: array<Element, 3 * 1001>;
var<private> results: array<Result, 3 * 1001>;

fn points() -> i32 {
    return 3;
}
fn rows() -> i32 {
    return 1001;
}
fn nothing() -> State {
    return State(0.0);
}
fn with_element(before: State, x: Element) -> State {
    return State(before.a + x);
}
fn merged(before: State, after: State) -> State {
    return State(before.a + after.a);
}
fn result(x: State) -> Result {
    return x.a;
}
// Four neighbours; anything beyond the last.
fn load_x(batch: i32, row: i32) -> array<Element, 4> {
    var x: array<Element, 4>;
    for (var i = 0; i < 4; i++) { x[i] = elements[batch * 1001 + min(row + i, 1000)]; }
    return x;
}
// What becomes of four neighbours' results; those beyond the last are dropped.
fn store_y(batch: i32, row: i32, x: array<Result, 4>) {
    var y = x;
    for (var i = 0; i < min(4, 1001 - row); i++) { results[batch * 1001 + row + i] = y[i]; }
}
// Reads where inputs start.
fn read_offsets() {
}
// TEMPLATE

const BLOCK = 4 * THREADS;

var<workgroup> states: array<State, THREADS>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    read_offsets();
    let point = i32(group.y * groups.x + group.x);
    if (point >= points()) { return; }
    let own = i32(local);
    // What is known of all blocks before.
    var before = nothing();
    for (var block = 0; block < rows(); block += BLOCK) {
        let row = block + own * 4;
        var running: array<State, 4>;
        var state = nothing();
        if (row < rows()) {
            var x = load_x(point, row);
            for (var i = 0; i < 4; i++) {
                state = with_element(state, x[i]);
                running[i] = state;
            }
        }
        states[own] = state;
        workgroupBarrier();
        for (var reach = 1; reach < THREADS; reach *= 2) {
            if (own >= reach) { state = merged(states[own - reach], state); }
            workgroupBarrier();
            states[own] = state;
            workgroupBarrier();
        }
        if (row < rows()) {
            var first = before;
            if (own > 0) { first = merged(before, states[own - 1]); }
            var y: array<Result, 4>;
            for (var i = 0; i < 4; i++) { y[i] = result(merged(first, running[i])); }
            store_y(point, row, y);
        }
        before = merged(before, states[THREADS - 1]);
        workgroupBarrier();
    }
}
