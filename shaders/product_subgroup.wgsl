// The product of matrices in registers, without operands in memory that a
// workgroup shares: for adapters that run on the host's processor, where every read of a
// buffer and every barrier is dear. A workgroup is one subgroup; each of its
// invocations holds part of the first operand, which all get by broadcast, and
// computes the same rows in columns of its own.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
alias Element = f32;
const BATCHES = 3;
const M = 37;
const N = 45;
const K = 29;
const LANES = 8;
const ROWS = 16;
const FOURS = 2;
var<private> a_matrix: array<Element, BATCHES * M * K>;
var<private> b_matrix: array<Element, BATCHES * K * N>;
var<private> c_matrix: array<Element, BATCHES * M * N>;

fn a_at(batch: i32, row: i32, depth: i32) -> Element {
    return select(0, a_matrix[(batch * M + min(row, M - 1)) * K + min(depth, K - 1)], depth < K);
}
fn b_at(batch: i32, depth: i32, column: i32) -> Element {
    return select(0, b_matrix[(batch * K + min(depth, K - 1)) * N + min(column, N - 1)], depth < K);
}
// Four depths of each of four rows; zero beyond the last depth, anything beyond the last row.
fn load_a(batch: i32, row: i32, depth: i32) -> array<vec4<Element>, 4> {
    var x: array<vec4<Element>, 4>;
    for (var i = 0; i < 16; i++) { x[i / 4][i % 4] = a_at(batch, row + i / 4, depth + i % 4); }
    return x;
}
// Four columns at each of four depths; zero beyond the last depth, anything beyond the last column.
fn load_b(batch: i32, depth: i32, column: i32) -> array<vec4<Element>, 4> {
    var x: array<vec4<Element>, 4>;
    for (var i = 0; i < 16; i++) { x[i / 4][i % 4] = b_at(batch, depth + i / 4, column + i % 4); }
    return x;
}
// Four columns of a row of the result; those beyond the last are dropped.
fn store_c(batch: i32, row: i32, column: i32, x: vec4<Element>) {
    for (var i = 0; i < min(4, N - column); i++) { c_matrix[(batch * M + row) * N + column + i] = x[i]; }
}
// Zero. It is hidden from compilers, which would take `0 + a * c + b * c` for `(a + b) * c`.
fn zero() -> vec4<Element> {
    return vec4<Element>();
}
// TEMPLATE

// Fours of rows in a workgroup's tile.
const BLOCKS = ROWS / 4;
// Depths of a step: the lanes hold a block of four rows and four depths each.
const STEP = 4 * LANES / BLOCKS;
const COLUMNS = 4 * LANES * FOURS;
const ROW_TILES = (M + ROWS - 1) / ROWS;
const COLUMN_TILES = (N + COLUMNS - 1) / COLUMNS;
const TILES = BATCHES * ROW_TILES * COLUMN_TILES;

// Where sums wait for a loop over them: drivers would write out what becomes
// of each. An invocation sees only its own.
var<workgroup> waiting: array<vec4<Element>, ROWS * FOURS * LANES>;

alias Sums = array<array<vec4<Element>, FOURS>, ROWS>;
alias Depths = array<array<array<vec4<Element>, 4>, FOURS>, STEP / 4>;

// Adds what four depths contribute to a row: `x` is row `i` of the block that `lane` holds.
fn take_in(sums: ptr<function, Sums>, b: ptr<function, Depths>, lane: i32, i: i32, x: vec4<Element>) {
    let row = lane % BLOCKS * 4 + i;
    for (var q = 0; q < FOURS; q++) {
        let y = (*b)[lane / BLOCKS][q];
        (*sums)[row][q] = (*sums)[row][q] + x.x * y[0] + x.y * y[1] + x.z * y[2] + x.w * y[3];
    }
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_invocation_id) own: u32,
) {
    let tile = i32(group.y * groups.x + group.x);
    if (tile >= TILES) { return; }
    let lane = i32(own);
    // Neighbours share what the caches hold worst: the wider operand's part.
    let place = tile % (ROW_TILES * COLUMN_TILES);
    let column = select(place % COLUMN_TILES, place / ROW_TILES, M < N) * COLUMNS + lane * 4;
    let row = select(place / COLUMN_TILES, place % ROW_TILES, M < N) * ROWS;
    let batch = tile / (ROW_TILES * COLUMN_TILES);
    var sums: Sums;
    for (var r = 0; r < ROWS; r++) {
        for (var q = 0; q < FOURS; q++) { sums[r][q] = zero(); }
    }
    var b: Depths;
    for (var depth = 0; depth < K; depth += STEP) {
        let a = load_a(batch, row + lane % BLOCKS * 4, depth + lane / BLOCKS * 4);
        for (var d = 0; d < STEP / 4; d++) {
            for (var q = 0; q < FOURS; q++) { b[d][q] = load_b(batch, depth + d * 4, column + q * LANES * 4); }
        }
        for (var i = 0; i < 4; i++) {
            // The number of a broadcast's lane must be a constant.
            take_in(&sums, &b, 0, i, subgroupBroadcast(a[i], 0u));
            take_in(&sums, &b, 1, i, subgroupBroadcast(a[i], 1u));
            take_in(&sums, &b, 2, i, subgroupBroadcast(a[i], 2u));
            take_in(&sums, &b, 3, i, subgroupBroadcast(a[i], 3u));
            if (LANES > 4) {
                take_in(&sums, &b, 4 % LANES, i, subgroupBroadcast(a[i], 4u));
                take_in(&sums, &b, 5 % LANES, i, subgroupBroadcast(a[i], 5u));
                take_in(&sums, &b, 6 % LANES, i, subgroupBroadcast(a[i], 6u));
                take_in(&sums, &b, 7 % LANES, i, subgroupBroadcast(a[i], 7u));
            }
        }
    }
    for (var r = 0; r < ROWS; r++) {
        for (var q = 0; q < FOURS; q++) { waiting[(r * FOURS + q) * LANES + lane] = sums[r][q]; }
    }
    for (var i = 0; i < ROWS * FOURS; i++) {
        let own_row = row + i / FOURS;
        let own_column = column + i % FOURS * LANES * 4;
        if (own_row < M && own_column < N) { store_c(batch, own_row, own_column, waiting[i * LANES + lane]); }
    }
}
