enable f16;
enable wgpu_cooperative_matrix;
// The product of 16-bit floats by the matrices that a subgroup multiplies
// together, with sums of 32 bits: for GPUs that have such.
// A workgroup computes a tile of the result, step by step of the depth: it
// copies the step's part of both operands, then each subgroup multiplies the
// blocks that its own part of the tile needs.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
alias Element = f32;
const BATCHES = 3;
const M = 37;
const N = 45;
const K = 29;
const ROWS = 64;
const COLUMNS = 64;
const STEP = 32;
const PART_ROWS = 32;
const PART_COLUMNS = 32;
// Rows and columns of a matrix.
const SIDE = 16;
alias MatrixA = coop_mat16x16<f16, A>;
alias MatrixB = coop_mat16x16<f16, B>;
alias MatrixC = coop_mat16x16<f32, C>;
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

// Parts along a row of the tile, parts in all, and invocations: most subgroups
// are of 32.
const ACROSS = COLUMNS / PART_COLUMNS;
const PARTS = ROWS / PART_ROWS * ACROSS;
const THREADS = PARTS * 32;
// Matrices of a part.
const HIGH = PART_ROWS / SIDE;
const WIDE = PART_COLUMNS / SIDE;
const ROW_TILES = (M + ROWS - 1) / ROWS;
const COLUMN_TILES = (N + COLUMNS - 1) / COLUMNS;
const TILES = BATCHES * ROW_TILES * COLUMN_TILES;

// From row to row in shared memory: multiples of 16 bytes, as drivers want
// them, but not of 64, so that rows start at different banks.
const A_STRIDE = STEP + 8;
const B_STRIDE = COLUMNS + 8;
const C_STRIDE = STRIP + 4;
// Sums leave by way of shared memory, 16 columns of a row of matrices at a time.
const STRIP = 16;
const CHUNK = SIDE * C_STRIDE;

// The step's rows of the first operand, its depths of the second, and a chunk
// of each part's sums. All are multiples of 16 bytes.
var<workgroup> a_part: array<f16, ROWS * A_STRIDE>;
var<workgroup> b_part: array<f16, STEP * B_STRIDE>;
var<workgroup> c_part: array<f32, PARTS * CHUNK>;
// How many subgroups there are, which only the device knows, four times.
var<workgroup> subgroup_count: vec4<i32>;

fn copy_a(batch: i32, row: i32, depth: i32, first: i32) {
    for (var block = first; block < ROWS / 4 * (STEP / 4); block += THREADS) {
        let four = block / (STEP / 4) * 4;
        let at = block % (STEP / 4) * 4;
        let x = load_a(batch, row + four, depth + at);
        for (var i = 0; i < 4; i++) { put_a((four + i) * A_STRIDE + at, x[i]); }
    }
}

fn put_a(at: i32, x: vec4<Element>) {
    let half = vec4<f16>(x);
    a_part[at] = half.x;
    a_part[at + 1] = half.y;
    a_part[at + 2] = half.z;
    a_part[at + 3] = half.w;
}

fn copy_b(batch: i32, depth: i32, column: i32, first: i32) {
    for (var block = first; block < STEP / 4 * (COLUMNS / 4); block += THREADS) {
        let four = block % (COLUMNS / 4) * 4;
        let at = block / (COLUMNS / 4) * 4;
        let x = load_b(batch, depth + at, column + four);
        for (var i = 0; i < 4; i++) { put_b((at + i) * B_STRIDE + four, x[i]); }
    }
}

fn put_b(at: i32, x: vec4<Element>) {
    let half = vec4<f16>(x);
    b_part[at] = half.x;
    b_part[at + 1] = half.y;
    b_part[at + 2] = half.z;
    b_part[at + 3] = half.w;
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_id) own_subgroup: u32,
) {
    read_offsets();
    let tile = i32(group.y * groups.x + group.x);
    if (tile >= TILES) { return; }
    let first = i32(local);
    // Neighbours share what the caches hold worst: the wider operand's part.
    let place = tile % (ROW_TILES * COLUMN_TILES);
    let column = select(place % COLUMN_TILES, place / ROW_TILES, M < N) * COLUMNS;
    let row = select(place / COLUMN_TILES, place % ROW_TILES, M < N) * ROWS;
    let batch = tile / (ROW_TILES * COLUMN_TILES);
    if (first == 0) { subgroup_count = vec4<i32>(i32(subgroups)); }
    for (var i = first; i < CHUNK; i += THREADS) { c_part[i] = zero().x; }
    workgroupBarrier();
    let zeros = coopLoadT<MatrixC>(&c_part[0], C_STRIDE);
    // Fewer subgroups than parts take their parts one after the other; of more,
    // the last ones compute the last part again.
    let concurrent = workgroupUniformLoad(&subgroup_count).x;
    for (var begin = 0; begin < PARTS; begin += concurrent) {
        let own = min(begin + i32(own_subgroup), PARTS - 1);
        let own_row = own / ACROSS * PART_ROWS;
        let own_column = own % ACROSS * PART_COLUMNS;
        var sums: array<array<MatrixC, WIDE>, HIGH>;
        for (var i = 0; i < HIGH; i++) {
            for (var j = 0; j < WIDE; j++) { sums[i][j] = zeros; }
        }
        for (var depth = 0; depth < K; depth += STEP) {
            copy_a(batch, row, depth, first);
            copy_b(batch, depth, column, first);
            workgroupBarrier();
            for (var k = 0; k < STEP; k += SIDE) {
                var b: array<MatrixB, WIDE>;
                for (var j = 0; j < WIDE; j++) {
                    b[j] = coopLoadT<MatrixB>(&b_part[k * B_STRIDE + own_column + j * SIDE], B_STRIDE);
                }
                for (var i = 0; i < HIGH; i++) {
                    let a = coopLoadT<MatrixA>(&a_part[(own_row + i * SIDE) * A_STRIDE + k], A_STRIDE);
                    for (var j = 0; j < WIDE; j++) { sums[i][j] = coopMultiplyAdd(a, b[j], sums[i][j]); }
                }
            }
            workgroupBarrier();
        }
        let fours = min(concurrent, PARTS - begin) * SIDE * (STRIP / 4);
        for (var i = 0; i < HIGH; i++) {
            for (var strip = 0; strip < PART_COLUMNS; strip += STRIP) {
                for (var at = 0; at < STRIP; at += SIDE) {
                    coopStoreT(sums[i][(strip + at) / SIDE], &c_part[own * CHUNK + at], C_STRIDE);
                }
                workgroupBarrier();
                for (var four = first; four < fours; four += THREADS) {
                    let part = begin + four / (SIDE * (STRIP / 4));
                    let down = four / (STRIP / 4) % SIDE;
                    let along = four % (STRIP / 4) * 4;
                    let at = part * CHUNK + down * C_STRIDE + along;
                    let x = vec4<Element>(c_part[at], c_part[at + 1], c_part[at + 2], c_part[at + 3]);
                    let to_row = row + part / ACROSS * PART_ROWS + i * SIDE + down;
                    let to_column = column + part % ACROSS * PART_COLUMNS + strip + along;
                    if (to_row < M && to_column < N) { store_c(batch, to_row, to_column, x); }
                }
                workgroupBarrier();
            }
        }
    }
}
