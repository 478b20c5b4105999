// Attention whose scores are never in a buffer, by the online softmax (Milakov
// and Gimelshein 2018; Dao et al. 2022), in registers: for adapters that run on
// the host's processor, where every read of a buffer and every barrier is expensive.
// A workgroup is one subgroup; each of its invocations has four queries of its
// own. Keys and values, which all need, are read once for the subgroup, each
// invocation a part, and given to all by broadcast.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
alias Element = f32;
const BATCHES = 2;
const ROWS = 37;
const KEYS = 45;
const DEPTH = 13;
const COLUMNS = 27;
const LANES = 8;
// Invocations that hold different vec4s of keys and of columns; the others
// hold other depths and keys of the same.
const KEY_LANES = 8;
const COLUMN_LANES = 8;
// How often the invocations read columns, at most twice.
const COLUMN_PASSES = 1;
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

// Keys of a block, whose scores are computed before the first value is needed.
const BLOCK = 4 * KEY_LANES;
// Depths that the invocations hold of the block's keys at a time.
const DEPTH_STEP = 4 * LANES / KEY_LANES;
// Columns of the result that a workgroup computes.
const WIDTH = 4 * COLUMN_LANES * COLUMN_PASSES;
// Keys of which they hold a column's values at a time.
const KEY_STEP = 4 * LANES / COLUMN_LANES;
const HEIGHT = 4 * LANES;
const ROW_TILES = (ROWS + HEIGHT - 1) / HEIGHT;
const COLUMN_TILES = (COLUMNS + WIDTH - 1) / WIDTH;
const TILES = BATCHES * ROW_TILES * COLUMN_TILES;

alias Block4x4 = array<vec4<Element>, 4>;
// The same, as single numbers: software drivers keep a vector that loops carry in one variable,
// of which they read all for each number, and so compile it for longer.
alias ScalarBlock = array<array<Element, 4>, 4>;
// By key and by column: an invocation's four queries.
alias Scores = array<ScalarBlock, KEY_LANES>;
alias Sums = array<ScalarBlock, COLUMN_LANES * COLUMN_PASSES>;
alias Depths = array<Block4x4, DEPTH_STEP / 4>;
alias Weights = array<Block4x4, KEY_STEP / 4>;

fn as_vec4(x: array<Element, 4>) -> vec4<Element> {
    return vec4<Element>(x[0], x[1], x[2], x[3]);
}

fn as_array(x: vec4<Element>) -> array<Element, 4> {
    return array<Element, 4>(x.x, x.y, x.z, x.w);
}

// Adds what four depths contribute to key `i` of the four that `lane` holds.
fn add_depths(scores: ptr<function, Scores>, q: ptr<function, Depths>, lane: i32, i: i32, k: vec4<Element>) {
    let y = (*q)[lane / KEY_LANES];
    let four = lane % KEY_LANES;
    let own = &(*scores)[four][i];
    (*own)[0] = (*own)[0] + k.x * y[0].x + k.y * y[1].x + k.z * y[2].x + k.w * y[3].x;
    (*own)[1] = (*own)[1] + k.x * y[0].y + k.y * y[1].y + k.z * y[2].y + k.w * y[3].y;
    (*own)[2] = (*own)[2] + k.x * y[0].z + k.y * y[1].z + k.z * y[2].z + k.w * y[3].z;
    (*own)[3] = (*own)[3] + k.x * y[0].w + k.y * y[1].w + k.z * y[2].w + k.w * y[3].w;
}

// Adds what four keys contribute to column `i` of the four that `lane` holds.
fn add_keys(sums: ptr<function, Sums>, p: ptr<function, Weights>, pass_number: i32, lane: i32, i: i32, v: vec4<Element>) {
    let y = (*p)[lane / COLUMN_LANES];
    let four = pass_number * COLUMN_LANES + lane % COLUMN_LANES;
    let own = &(*sums)[four][i];
    (*own)[0] = (*own)[0] + v.x * y[0].x + v.y * y[1].x + v.z * y[2].x + v.w * y[3].x;
    (*own)[1] = (*own)[1] + v.x * y[0].y + v.y * y[1].y + v.z * y[2].y + v.w * y[3].y;
    (*own)[2] = (*own)[2] + v.x * y[0].z + v.y * y[1].z + v.z * y[2].z + v.w * y[3].z;
    (*own)[3] = (*own)[3] + v.x * y[0].w + v.y * y[1].w + v.z * y[2].w + v.w * y[3].w;
}

// The number of a broadcast's lane must be a constant; a loop over turns
// around these would not be written out, and so leave its sums in memory.
fn take_keys(scores: ptr<function, Scores>, q: ptr<function, Depths>, own: Block4x4) {
    var k = own;
    for (var i = 0; i < 4; i++) {
        add_depths(scores, q, 0, i, subgroupBroadcast(k[i], 0u));
        add_depths(scores, q, 1, i, subgroupBroadcast(k[i], 1u));
        add_depths(scores, q, 2, i, subgroupBroadcast(k[i], 2u));
        add_depths(scores, q, 3, i, subgroupBroadcast(k[i], 3u));
        if (LANES > 4) {
            add_depths(scores, q, 4 % LANES, i, subgroupBroadcast(k[i], 4u));
            add_depths(scores, q, 5 % LANES, i, subgroupBroadcast(k[i], 5u));
            add_depths(scores, q, 6 % LANES, i, subgroupBroadcast(k[i], 6u));
            add_depths(scores, q, 7 % LANES, i, subgroupBroadcast(k[i], 7u));
        }
    }
}

fn take_values(sums: ptr<function, Sums>, p: ptr<function, Weights>, pass_number: i32, own: Block4x4) {
    var v = own;
    for (var i = 0; i < 4; i++) {
        add_keys(sums, p, pass_number, 0, i, subgroupBroadcast(v[i], 0u));
        add_keys(sums, p, pass_number, 1, i, subgroupBroadcast(v[i], 1u));
        add_keys(sums, p, pass_number, 2, i, subgroupBroadcast(v[i], 2u));
        add_keys(sums, p, pass_number, 3, i, subgroupBroadcast(v[i], 3u));
        if (LANES > 4) {
            add_keys(sums, p, pass_number, 4 % LANES, i, subgroupBroadcast(v[i], 4u));
            add_keys(sums, p, pass_number, 5 % LANES, i, subgroupBroadcast(v[i], 5u));
            add_keys(sums, p, pass_number, 6 % LANES, i, subgroupBroadcast(v[i], 6u));
            add_keys(sums, p, pass_number, 7 % LANES, i, subgroupBroadcast(v[i], 7u));
        }
    }
}

fn exponentials(x: vec4<Element>) -> vec4<Element> {
    return vec4<Element>(exp_f32(x.x), exp_f32(x.y), exp_f32(x.z), exp_f32(x.w));
}

// Hides the scores of keys that a query does not look at; gives the largest of those
// left, or `most`.
fn apply_mask(batch: i32, key: i32, row: i32, fours: i32, own: ptr<function, Scores>, running_max: vec4<Element>) -> vec4<Element> {
    var scores = *own;
    var largest = running_max;
    let last_of_row = row + vec4<i32>(0, 1, 2, 3);
    let last = min(vec4<i32>(KEYS - 1), select(vec4<i32>(KEYS - 1), last_of_row, vec4<bool>(CAUSAL)));
    for (var t = 0; t < fours; t++) {
        var x: Block4x4;
        for (var i = 0; i < 4; i++) { x[i] = as_vec4(scores[0][i]); }
        x = masked(batch, key + 4 * t, row, x);
        for (var i = 0; i < 4; i++) {
            x[i] = select(minus_infinity(), x[i], vec4<i32>(key + 4 * t + i) <= last);
            largest = max(largest, x[i]);
        }
        for (var i = 0; i < KEY_LANES - 1; i++) { scores[i] = scores[i + 1]; }
        scores[KEY_LANES - 1] = ScalarBlock(as_array(x[0]), as_array(x[1]), as_array(x[2]), as_array(x[3]));
    }
    *own = scores;
    return largest;
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_invocation_id) own: u32,
) {
    read_offsets();
    let tile = i32(group.y * groups.x + group.x);
    let lane = i32(own);
    // One, which no compiler knows: drivers would write out the iterations of loops that
    // they can count. So values that a loop takes one after the other move up meanwhile.
    // Where there is no tile it is zero, and so no loop does anything: after a return,
    // software drivers would mask all that follows.
    let one = select(0, i32(min(groups.y, 1u)), tile < TILES);
    // Neighbours share the keys and values of a batch.
    let column = tile % COLUMN_TILES * WIDTH;
    let first = tile / COLUMN_TILES % ROW_TILES * HEIGHT;
    let batch = tile / (COLUMN_TILES * ROW_TILES);
    let row = first + lane * 4;
    var sums: Sums;
    for (var c = 0; c < COLUMN_LANES * COLUMN_PASSES; c++) {
        for (var i = 0; i < 4; i++) { sums[c][i] = as_array(zero()); }
    }
    // The largest score so far, from the least finite number on, so that
    // differences are numbers; and the sum of powers relative to it.
    var running_max = vec4<Element>(-3.4028235e38);
    var running_sum = zero();
    // Zero at the start of each block.
    var scores: Scores;
    for (var t = 0; t < KEY_LANES; t++) {
        for (var i = 0; i < 4; i++) { scores[t][i] = as_array(zero()); }
    }
    // No query of the tile looks beyond the last one's own place.
    let end = select(KEYS, min(KEYS, first + HEIGHT), CAUSAL) * one;
    for (var key = 0; key < end; key += BLOCK) {
        for (var depth = 0; depth < DEPTH; depth += DEPTH_STEP) {
            var q: Depths;
            // Queries are scaled, not scores: those are more, and written out.
            for (var d = 0; d < DEPTH_STEP / 4; d++) {
                q[d] = load_q(batch, depth + d * 4, row);
                for (var i = 0; i < 4; i++) { q[d][i] = q[d][i] * scale(); }
            }
            take_keys(&scores, &q, load_k(batch, key + lane % KEY_LANES * 4, depth + lane / KEY_LANES * 4));
        }
        var largest = running_max;
        for (var t = 0; t < KEY_LANES; t++) {
            for (var i = 0; i < 4; i++) { largest = max(largest, as_vec4(scores[t][i])); }
        }
        if (MASKED || (KEYS % BLOCK != 0 && key + BLOCK > KEYS) || (CAUSAL && key + BLOCK > first + 1)) {
            largest = apply_mask(batch, key, row, KEY_LANES * one, &scores, running_max);
        }
        let rescale = exponentials(running_max - largest);
        running_max = largest;
        running_sum = running_sum * rescale;
        for (var c = 0; c < COLUMN_LANES * COLUMN_PASSES; c++) {
            for (var i = 0; i < 4; i++) { sums[c][i] = as_array(as_vec4(sums[c][i]) * rescale); }
        }
        for (var t = 0; t < BLOCK * one; t += KEY_STEP) {
            var p: Weights;
            for (var d = 0; d < KEY_STEP / 4; d++) {
                for (var i = 0; i < 4; i++) {
                    p[d][i] = exponentials(as_vec4(scores[d][i]) - running_max);
                    running_sum = running_sum + p[d][i];
                }
            }
            let own_key = key + t + lane / COLUMN_LANES * 4;
            let own_column = column + lane % COLUMN_LANES * 4;
            take_values(&sums, &p, 0, load_v(batch, own_column, own_key));
            if (COLUMN_PASSES > 1) {
                take_values(&sums, &p, 1 % COLUMN_PASSES, load_v(batch, own_column + 4 * COLUMN_LANES, own_key));
            }
            for (var i = 0; i < KEY_LANES - KEY_STEP / 4; i++) { scores[i] = scores[i + KEY_STEP / 4]; }
            for (var i = KEY_LANES - KEY_STEP / 4; i < KEY_LANES; i++) {
                scores[i] = ScalarBlock(as_array(zero()), as_array(zero()), as_array(zero()), as_array(zero()));
            }
        }
    }
    // Where only a mask leaves nothing to look at, the result is zero.
    let none = vec4<bool>(MASKED) & (bitcast<vec4<u32>>(running_sum) == vec4<u32>());
    let part = select(1.0 / running_sum, vec4<Element>(), none);
    for (var c = 0; c < WIDTH * one; c += 4) {
        for (var i = 0; i < 4; i++) {
            let x = vec4<Element>(sums[0][0][i], sums[0][1][i], sums[0][2][i], sums[0][3][i]) * part[i];
            if (row + i < ROWS && column + c < COLUMNS) { store_o(batch, row + i, column + c, x); }
        }
        for (var i = 0; i < COLUMN_LANES * COLUMN_PASSES - 1; i++) { sums[i] = sums[i + 1]; }
    }
}
