// The product of matrices in registers, without operands in memory that a
// workgroup shares: for adapters that run on the host's processor, where every read of a
// buffer and every barrier is expensive. A workgroup is one subgroup; each of its
// invocations holds part of the first operand, which all get by broadcast, and
// computes the same rows in columns of its own.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
alias Element = f32;
const LANES = 8;
const ROWS = 16;
const VEC4S = 2;
var<private> a_matrix: array<Element, 3 * 37 * 29>;
var<private> b_matrix: array<Element, 3 * 29 * 45>;
var<private> c_matrix: array<Element, 3 * 37 * 45>;

// Functions, since a text for several sizes reads them from uniforms.
fn batches() -> i32 {
    return 3;
}
fn m() -> i32 {
    return 37;
}
fn n() -> i32 {
    return 45;
}
fn k() -> i32 {
    return 29;
}
fn a_at(batch: i32, row: i32, depth: i32) -> Element {
    return select(0, a_matrix[(batch * m() + min(row, m() - 1)) * k() + min(depth, k() - 1)], depth < k());
}
fn b_at(batch: i32, depth: i32, column: i32) -> Element {
    return select(0, b_matrix[(batch * k() + min(depth, k() - 1)) * n() + min(column, n() - 1)], depth < k());
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
    for (var i = 0; i < min(4, n() - column); i++) { c_matrix[(batch * m() + row) * n() + column + i] = x[i]; }
}
// Zero. It is hidden from compilers, which would take `0 + a * c + b * c` for `(a + b) * c`.
fn zero() -> vec4<Element> {
    return vec4<Element>();
}
// Reads where inputs start.
fn read_offsets() {
}
// TEMPLATE

// Vec4s of rows in a workgroup's tile.
const BLOCKS = ROWS / 4;
// Depths of a step: the lanes hold a block of four rows and four depths each.
const STEP = 4 * LANES / BLOCKS;
const COLUMNS = 4 * LANES * VEC4S;

// What loops carry is single numbers: software drivers keep a vector in one variable, of
// which they read all for each number, and so compile it for longer.
alias Scalars4 = array<Element, 4>;
alias Sums = array<array<Scalars4, VEC4S>, ROWS>;
alias Depths = array<array<array<vec4<Element>, 4>, VEC4S>, STEP / 4>;

// Adds what four depths contribute to a row: `x` is row `i` of the block that `lane` holds.
fn take_in(sums: ptr<function, Sums>, b: ptr<function, Depths>, lane: i32, i: i32, x: vec4<Element>) {
    let row = lane % BLOCKS * 4 + i;
    for (var q = 0; q < VEC4S; q++) {
        let y = (*b)[lane / BLOCKS][q];
        let own = &(*sums)[row][q];
        (*own)[0] = (*own)[0] + x.x * y[0].x + x.y * y[1].x + x.z * y[2].x + x.w * y[3].x;
        (*own)[1] = (*own)[1] + x.x * y[0].y + x.y * y[1].y + x.z * y[2].y + x.w * y[3].y;
        (*own)[2] = (*own)[2] + x.x * y[0].z + x.y * y[1].z + x.z * y[2].z + x.w * y[3].z;
        (*own)[3] = (*own)[3] + x.x * y[0].w + x.y * y[1].w + x.z * y[2].w + x.w * y[3].w;
    }
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_invocation_id) own: u32,
) {
    read_offsets();
    let tile = i32(group.y * groups.x + group.x);
    let row_tiles = (m() + ROWS - 1) / ROWS;
    let column_tiles = (n() + COLUMNS - 1) / COLUMNS;
    let lane = i32(own);
    // One, which no compiler knows: drivers would write out the iterations of a loop that
    // they can count, and may compile one anew for each launch that counts to a uniform.
    // Where there is no tile it is zero, and so no loop does anything: after a return,
    // software drivers would mask all that follows.
    let one = select(0, i32(min(groups.y, 1u)), tile < batches() * row_tiles * column_tiles);
    // Neighbours share what the caches hold worst: the wider operand's part.
    let place = tile % (row_tiles * column_tiles);
    let by_rows = m() < n();
    let column = select(place % column_tiles, place / row_tiles, by_rows) * COLUMNS + lane * 4;
    let row = select(place / column_tiles, place % row_tiles, by_rows) * ROWS;
    let batch = tile / (row_tiles * column_tiles);
    var sums: Sums;
    let none = zero().x;
    for (var r = 0; r < ROWS; r++) {
        for (var q = 0; q < VEC4S; q++) { sums[r][q] = Scalars4(none, none, none, none); }
    }
    var b: Depths;
    for (var depth = 0; depth < k() * one; depth += STEP) {
        let a = load_a(batch, row + lane % BLOCKS * 4, depth + lane / BLOCKS * 4);
        for (var d = 0; d < STEP / 4; d++) {
            for (var q = 0; q < VEC4S; q++) { b[d][q] = load_b(batch, depth + d * 4, column + q * LANES * 4); }
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
    // Sums move up and are stored from the first row, since what becomes of each would
    // else be written out.
    for (var r = 0; r < ROWS * one; r++) {
        for (var q = 0; q < VEC4S; q++) {
            let own_column = column + q * LANES * 4;
            let x = sums[0][q];
            if (row + r < m() && own_column < n()) {
                store_c(batch, row + r, own_column, vec4<Element>(x[0], x[1], x[2], x[3]));
            }
        }
        for (var i = 0; i < ROWS - 1; i++) { sums[i] = sums[i + 1]; }
    }
}
