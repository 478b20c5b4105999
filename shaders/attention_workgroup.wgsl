// Attention whose scores are never in a buffer, by the online softmax (Milakov
// and Gimelshein 2018; Dao et al. 2022), through memory that a workgroup
// shares: for GPUs, with or without subgroups. A workgroup has a block of queries
// and goes through the keys block by block. An invocation computes the scores of
// four queries with four keys, and sums vec4s of columns of the same queries.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
alias Element = f32;
const BATCHES = 2;
const ROWS = 37;
const KEYS = 45;
const DEPTH = 13;
const COLUMNS = 27;
// Queries and keys of a block.
const BLOCK_ROWS = 32;
const BLOCK_KEYS = 32;
// Depths of queries and keys, and keys whose values, that are shared at a time.
const DEPTH_STEP = 16;
const KEY_STEP = 32;
// Vec4s of columns that an invocation sums.
const COLUMN_VEC4S = 1;
const CAUSAL = false;
const MASKED = false;
var<private> q_matrix: array<Element, BATCHES * ROWS * DEPTH>;
var<private> k_matrix: array<Element, BATCHES * KEYS * DEPTH>;
var<private> v_matrix: array<Element, BATCHES * KEYS * COLUMNS>;
var<private> o_matrix: array<Element, BATCHES * ROWS * COLUMNS>;

fn q_at(batch: i32, row: i32, depth: i32) -> Element {
    return select(0, q_matrix[(batch * ROWS + min(row, ROWS - 1)) * DEPTH + min(depth, DEPTH - 1)], depth < DEPTH);
}
fn k_at(batch: i32, key: i32, depth: i32) -> Element {
    return select(0, k_matrix[(batch * KEYS + min(key, KEYS - 1)) * DEPTH + min(depth, DEPTH - 1)], depth < DEPTH);
}
fn v_at(batch: i32, key: i32, column: i32) -> Element {
    return select(0, v_matrix[(batch * KEYS + min(key, KEYS - 1)) * COLUMNS + min(column, COLUMNS - 1)], key < KEYS);
}
// Four queries at each of four depths; zero beyond the last depth, anything beyond the last row.
fn load_q(batch: i32, depth: i32, row: i32) -> array<vec4<Element>, 4> {
    var x: array<vec4<Element>, 4>;
    for (var i = 0; i < 16; i++) { x[i / 4][i % 4] = q_at(batch, row + i % 4, depth + i / 4); }
    return x;
}
// Four depths of each of four keys; zero beyond the last depth, anything beyond the last key.
fn load_k(batch: i32, key: i32, depth: i32) -> array<vec4<Element>, 4> {
    var x: array<vec4<Element>, 4>;
    for (var i = 0; i < 16; i++) { x[i / 4][i % 4] = k_at(batch, key + i / 4, depth + i % 4); }
    return x;
}
// Each of four columns of four keys' values; zero beyond the last key, anything beyond the last column.
fn load_v(batch: i32, column: i32, key: i32) -> array<vec4<Element>, 4> {
    var x: array<vec4<Element>, 4>;
    for (var i = 0; i < 16; i++) { x[i / 4][i % 4] = v_at(batch, key + i % 4, column + i / 4); }
    return x;
}
// What the mask makes of the scores of four queries with each of four keys.
fn masked(batch: i32, key: i32, row: i32, x: array<vec4<Element>, 4>) -> array<vec4<Element>, 4> {
    return x;
}
// Four columns of a row of the result; those beyond the last are dropped.
fn store_o(batch: i32, row: i32, column: i32, x: vec4<Element>) {
    for (var i = 0; i < min(4, COLUMNS - column); i++) { o_matrix[(batch * ROWS + row) * COLUMNS + column + i] = x[i]; }
}
// The factor of the scores.
fn scale() -> Element {
    return 0.2773501;
}
// Zero and the scores of keys that are not looked at. They are hidden from
// compilers, which would take `0 + a * c + b * c` for `(a + b) * c`.
fn zero() -> vec4<Element> {
    return vec4<Element>();
}
fn minus_infinity() -> vec4<Element> {
    return vec4<Element>(bitcast<f32>(bitcast<u32>(o_matrix[0]) | 0xff800000u));
}
fn exp_f32(x: f32) -> f32 {
    return exp(x);
}
// Reads where inputs start.
fn read_offsets() {
}
// TEMPLATE

// Vec4s of queries and of keys in a block: an invocation for each pair.
const HIGH = BLOCK_ROWS / 4;
const WIDE = BLOCK_KEYS / 4;
const THREADS = HIGH * WIDE;
// Vec4s of columns.
const BROAD = WIDE * COLUMN_VEC4S;
const ROW_TILES = (ROWS + BLOCK_ROWS - 1) / BLOCK_ROWS;
const TILES = BATCHES * ROW_TILES;

alias Block4x4 = array<vec4<Element>, 4>;

// A step's queries, by depth and four, and behind them its keys; later a step's
// values, by key and four of columns.
const KEYS_AT = DEPTH_STEP * HIGH;
var<workgroup> step: array<vec4<Element>, max(DEPTH_STEP * (HIGH + WIDE), KEY_STEP * BROAD)>;
// Powers of a block's scores: by key, vec4s of queries.
var<workgroup> weights: array<vec4<Element>, BLOCK_KEYS * HIGH>;
// The largest scores of each four of keys.
var<workgroup> partial_max: array<vec4<Element>, WIDE * HIGH>;

fn copy_queries(batch: i32, row: i32, depth: i32, first: i32) {
    for (var part = first; part < HIGH * DEPTH_STEP / 4; part += THREADS) {
        let four = part / (DEPTH_STEP / 4);
        let at = part % (DEPTH_STEP / 4) * 4;
        let x = load_q(batch, depth + at, row + four * 4);
        for (var i = 0; i < 4; i++) { step[(at + i) * HIGH + four] = x[i]; }
    }
}

fn copy_keys(batch: i32, key: i32, depth: i32, first: i32) {
    for (var part = first; part < WIDE * DEPTH_STEP / 4; part += THREADS) {
        let four = part / (DEPTH_STEP / 4);
        let at = part % (DEPTH_STEP / 4) * 4;
        let x = load_k(batch, key + four * 4, depth + at);
        store_transposed(KEYS_AT + at * WIDE + four, WIDE, x);
    }
}

fn copy_values(batch: i32, key: i32, first: i32) {
    for (var part = first; part < BROAD * KEY_STEP / 4; part += THREADS) {
        let four = part % BROAD;
        let at = part / BROAD * 4;
        store_transposed(at * BROAD + four, BROAD, load_v(batch, four * 4, key + at));
    }
}

// Four vectors' first elements, second elements and so on, `apart` from each other.
fn store_transposed(at: i32, stride: i32, x: Block4x4) {
    step[at] = vec4<Element>(x[0].x, x[1].x, x[2].x, x[3].x);
    step[at + stride] = vec4<Element>(x[0].y, x[1].y, x[2].y, x[3].y);
    step[at + 2 * stride] = vec4<Element>(x[0].z, x[1].z, x[2].z, x[3].z);
    step[at + 3 * stride] = vec4<Element>(x[0].w, x[1].w, x[2].w, x[3].w);
}

fn exponentials(x: vec4<Element>) -> vec4<Element> {
    return vec4<Element>(exp_f32(x.x), exp_f32(x.y), exp_f32(x.z), exp_f32(x.w));
}

// The scores of four keys, but of those that a query does not look at.
fn apply_mask(batch: i32, key: i32, row: i32, x: Block4x4) -> Block4x4 {
    let last_of_row = row + vec4<i32>(0, 1, 2, 3);
    let last = min(vec4<i32>(KEYS - 1), select(vec4<i32>(KEYS - 1), last_of_row, vec4<bool>(CAUSAL)));
    var y = masked(batch, key, row, x);
    for (var i = 0; i < 4; i++) { y[i] = select(minus_infinity(), y[i], vec4<i32>(key + i) <= last); }
    return y;
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
    let own = i32(local);
    let across = own % WIDE;
    let down = own / WIDE;
    // The last queries first, which look at most keys where they look back only.
    let first = (ROW_TILES - 1 - tile % ROW_TILES) * BLOCK_ROWS;
    let batch = tile / ROW_TILES;
    let row = first + down * 4;
    // By query and by four of columns.
    var sums: array<array<vec4<Element>, COLUMN_VEC4S>, 4>;
    for (var r = 0; r < 4; r++) {
        for (var c = 0; c < COLUMN_VEC4S; c++) { sums[r][c] = zero(); }
    }
    // The largest score so far, from the least finite number on, so that
    // differences are numbers; and the sum of powers relative to it.
    var running_max = vec4<Element>(-3.4028235e38);
    var running_sum = zero();
    // No query of the block looks beyond the last one's own place.
    let end = select(KEYS, min(KEYS, first + BLOCK_ROWS), CAUSAL);
    for (var key = 0; key < end; key += BLOCK_KEYS) {
        // By key: the four queries' scores.
        var x: Block4x4;
        for (var i = 0; i < 4; i++) { x[i] = zero(); }
        for (var depth = 0; depth < DEPTH; depth += DEPTH_STEP) {
            copy_queries(batch, first, depth, own);
            copy_keys(batch, key, depth, own);
            workgroupBarrier();
            for (var d = 0; d < DEPTH_STEP; d++) {
                let q = step[d * HIGH + down];
                let k = step[KEYS_AT + d * WIDE + across];
                x[0] += k.x * q;
                x[1] += k.y * q;
                x[2] += k.z * q;
                x[3] += k.w * q;
            }
            workgroupBarrier();
        }
        for (var i = 0; i < 4; i++) { x[i] = x[i] * scale(); }
        if (MASKED || (KEYS % BLOCK_KEYS != 0 && key + BLOCK_KEYS > KEYS) || (CAUSAL && key + BLOCK_KEYS > first + 1)) {
            x = apply_mask(batch, key + across * 4, row, x);
        }
        partial_max[across * HIGH + down] = max(max(x[0], x[1]), max(x[2], x[3]));
        workgroupBarrier();
        var largest = running_max;
        for (var w = 0; w < WIDE; w++) { largest = max(largest, partial_max[w * HIGH + down]); }
        for (var i = 0; i < 4; i++) { weights[(across * 4 + i) * HIGH + down] = exponentials(x[i] - largest); }
        let rescale = exponentials(running_max - largest);
        running_max = largest;
        running_sum = running_sum * rescale;
        for (var r = 0; r < 4; r++) {
            for (var c = 0; c < COLUMN_VEC4S; c++) { sums[r][c] = sums[r][c] * rescale[r]; }
        }
        for (var from_key = 0; from_key < BLOCK_KEYS; from_key += KEY_STEP) {
            copy_values(batch, key + from_key, own);
            workgroupBarrier();
            for (var k = 0; k < KEY_STEP; k++) {
                let p = weights[(from_key + k) * HIGH + down];
                running_sum = running_sum + p;
                for (var c = 0; c < COLUMN_VEC4S; c++) {
                    let v = step[k * BROAD + across + c * WIDE];
                    sums[0][c] += p.x * v;
                    sums[1][c] += p.y * v;
                    sums[2][c] += p.z * v;
                    sums[3][c] += p.w * v;
                }
            }
            workgroupBarrier();
        }
    }
    // Where only a mask leaves nothing to look at, the result is zero.
    let none = vec4<bool>(MASKED) & (bitcast<vec4<u32>>(running_sum) == vec4<u32>());
    let part = select(1.0 / running_sum, vec4<Element>(), none);
    for (var r = 0; r < 4; r++) {
        for (var c = 0; c < COLUMN_VEC4S; c++) {
            let column = (across + c * WIDE) * 4;
            if (row + r < ROWS && column < COLUMNS) { store_o(batch, row + r, column, sums[r][c] * part[r]); }
        }
    }
}
