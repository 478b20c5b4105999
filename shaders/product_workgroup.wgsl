// The product of matrices through memory that a workgroup shares: for GPUs.
// A workgroup computes a tile of the result, step by step of the depth: it
// copies the step's part of both operands, then each invocation multiplies
// what its vec4s of rows and columns need.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
alias Element = f32;
const BATCHES = 3;
const M = 37;
const N = 45;
const K = 29;
const ROWS = 32;
const COLUMNS = 64;
const STEP = 16;
const ROW_VEC4S = 2;
const COLUMN_VEC4S = 1;
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
// Reads where inputs start.
fn read_offsets() {
}
// TEMPLATE

// Vec4s of rows and of columns in a tile, and invocations along them.
const HIGH = ROWS / 4;
const WIDE = COLUMNS / 4;
const DOWN = HIGH / ROW_VEC4S;
const ACROSS = WIDE / COLUMN_VEC4S;
const THREADS = DOWN * ACROSS;
const ROW_TILES = (M + ROWS - 1) / ROWS;
const COLUMN_TILES = (N + COLUMNS - 1) / COLUMNS;
const TILES = BATCHES * ROW_TILES * COLUMN_TILES;

// At each depth of the step, vec4s of rows of the first operand and vec4s of
// columns of the second.
var<workgroup> a_part: array<vec4<Element>, STEP * HIGH>;
var<workgroup> b_part: array<vec4<Element>, STEP * WIDE>;

fn copy_a(batch: i32, row: i32, depth: i32, first: i32) {
    for (var block = first; block < HIGH * STEP / 4; block += THREADS) {
        let four = block / (STEP / 4);
        let at = block % (STEP / 4) * 4;
        let x = load_a(batch, row + four * 4, depth + at);
        a_part[at * HIGH + four] = vec4<Element>(x[0].x, x[1].x, x[2].x, x[3].x);
        a_part[(at + 1) * HIGH + four] = vec4<Element>(x[0].y, x[1].y, x[2].y, x[3].y);
        a_part[(at + 2) * HIGH + four] = vec4<Element>(x[0].z, x[1].z, x[2].z, x[3].z);
        a_part[(at + 3) * HIGH + four] = vec4<Element>(x[0].w, x[1].w, x[2].w, x[3].w);
    }
}

fn copy_b(batch: i32, depth: i32, column: i32, first: i32) {
    for (var block = first; block < WIDE * STEP / 4; block += THREADS) {
        let four = block % WIDE;
        let at = block / WIDE * 4;
        let x = load_b(batch, depth + at, column + four * 4);
        for (var i = 0; i < 4; i++) { b_part[(at + i) * WIDE + four] = x[i]; }
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
    if (tile >= TILES) { return; }
    let first = i32(local);
    let across = first % ACROSS;
    let down = first / ACROSS;
    // Neighbours share what the caches hold worst: the wider operand's part.
    let place = tile % (ROW_TILES * COLUMN_TILES);
    let column = select(place % COLUMN_TILES, place / ROW_TILES, M < N) * COLUMNS;
    let row = select(place / COLUMN_TILES, place % ROW_TILES, M < N) * ROWS;
    let batch = tile / (ROW_TILES * COLUMN_TILES);
    var sums: array<array<vec4<Element>, COLUMN_VEC4S>, ROW_VEC4S * 4>;
    for (var r = 0; r < ROW_VEC4S * 4; r++) {
        for (var q = 0; q < COLUMN_VEC4S; q++) { sums[r][q] = zero(); }
    }
    for (var depth = 0; depth < K; depth += STEP) {
        copy_a(batch, row, depth, first);
        copy_b(batch, depth, column, first);
        workgroupBarrier();
        for (var k = 0; k < STEP; k++) {
            for (var r = 0; r < ROW_VEC4S; r++) {
                let x = a_part[k * HIGH + down + r * DOWN];
                for (var q = 0; q < COLUMN_VEC4S; q++) {
                    let y = b_part[k * WIDE + across + q * ACROSS];
                    sums[r * 4][q] += x.x * y;
                    sums[r * 4 + 1][q] += x.y * y;
                    sums[r * 4 + 2][q] += x.z * y;
                    sums[r * 4 + 3][q] += x.w * y;
                }
            }
        }
        workgroupBarrier();
    }
    for (var r = 0; r < ROW_VEC4S * 4; r++) {
        let own_row = row + (down + r / 4 * DOWN) * 4 + r % 4;
        for (var q = 0; q < COLUMN_VEC4S; q++) {
            let own_column = column + (across + q * ACROSS) * 4;
            if (own_row < M && own_column < N) { store_c(batch, own_row, own_column, sums[r][q]); }
        }
    }
}
