// Attention of few queries, such as the one of a token that is generated, by the online
// softmax (Milakov and Gimelshein 2018). A workgroup has one query; teams of its invocations
// share out the keys, four at a time, and the invocations of a team share out the depths and
// columns of each. In the end the teams' results meet (Dao et al., "Flash-Decoding", 2023).

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
alias Element = f32;
const BATCHES = 2;
const ROWS = 3;
const KEYS = 45;
const DEPTH = 13;
const COLUMNS = 27;
// Invocations of a team, and teams.
const LANES = 4;
const TEAMS = 8;
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

const THREADS = LANES * TEAMS;
// Keys that the teams look at together.
const BLOCK_KEYS = 4 * TEAMS;
// Vec4s of an invocation: of depths and of columns.
const DEPTH_VEC4S = (DEPTH + 4 * LANES - 1) / (4 * LANES);
const COLUMN_VEC4S = (COLUMNS + 4 * LANES - 1) / (4 * LANES);
// Vec4s of a team's columns.
const WIDTH = LANES * COLUMN_VEC4S;
const TILES = BATCHES * ROWS;

// Each invocation's part of four scores: of two blocks by turns, so that one barrier is enough.
var<workgroup> parts: array<vec4<Element>, 2 * THREADS>;
// Of each team: its largest score, its powers' sum, its columns.
var<workgroup> team_max: array<Element, TEAMS>;
var<workgroup> team_sum: array<Element, TEAMS>;
var<workgroup> team_columns: array<vec4<Element>, TEAMS * WIDTH>;

fn exponentials(x: vec4<Element>) -> vec4<Element> {
    return vec4<Element>(exp_f32(x.x), exp_f32(x.y), exp_f32(x.z), exp_f32(x.w));
}

// The scores of four keys, but of those that the query does not look at.
fn apply_mask(batch: i32, key: i32, row: i32, scores: vec4<Element>) -> vec4<Element> {
    // Masks come for four neighbouring queries.
    let first = row / 4 * 4;
    let own = row % 4;
    var x: array<vec4<Element>, 4>;
    for (var i = 0; i < 4; i++) { x[i] = vec4<Element>(scores[i]); }
    x = masked(batch, key, first, x);
    let last = select(KEYS - 1, min(KEYS - 1, row), CAUSAL);
    let is_visible = key + vec4<i32>(0, 1, 2, 3) <= vec4<i32>(last);
    return select(minus_infinity(), vec4<Element>(x[0][own], x[1][own], x[2][own], x[3][own]), is_visible);
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
    let thread = i32(local);
    let lane = thread % LANES;
    let team = thread / LANES;
    let row = tile % ROWS;
    let batch = tile / ROWS;
    var q: array<vec4<Element>, DEPTH_VEC4S>;
    for (var d = 0; d < DEPTH_VEC4S; d++) {
        var x = load_q(batch, (d * LANES + lane) * 4, row / 4 * 4);
        let own = row % 4;
        q[d] = vec4<Element>(x[0][own], x[1][own], x[2][own], x[3][own]) * scale();
    }
    var sums: array<vec4<Element>, COLUMN_VEC4S>;
    for (var c = 0; c < COLUMN_VEC4S; c++) { sums[c] = zero(); }
    // The largest score so far, from the least finite number on, so that
    // differences are numbers; and the sum of powers relative to it.
    var running_max: Element = -3.4028235e38;
    var running_sum: Element = 0.0;
    let end = select(KEYS, min(KEYS, row + 1), CAUSAL);
    var turn = 0;
    for (var first = 0; first < end; first += BLOCK_KEYS) {
        let key = first + team * 4;
        var scores = zero();
        for (var d = 0; d < DEPTH_VEC4S; d++) {
            let k = load_k(batch, key, (d * LANES + lane) * 4);
            scores += vec4<Element>(dot(k[0], q[d]), dot(k[1], q[d]), dot(k[2], q[d]), dot(k[3], q[d]));
        }
        if (LANES > 1) {
            parts[turn + thread] = scores;
            workgroupBarrier();
            scores = parts[turn + team * LANES];
            for (var i = 1; i < LANES; i++) { scores += parts[turn + team * LANES + i]; }
            turn = THREADS - turn;
        }
        if (MASKED || CAUSAL || KEYS % BLOCK_KEYS != 0) { scores = apply_mask(batch, key, row, scores); }
        let largest = max(max(running_max, max(scores.x, scores.y)), max(scores.z, scores.w));
        let rescale = exp_f32(running_max - largest);
        let p = exponentials(scores - vec4<Element>(largest));
        running_max = largest;
        running_sum = running_sum * rescale + (p.x + p.y + p.z + p.w);
        for (var c = 0; c < COLUMN_VEC4S; c++) {
            let v = load_v(batch, (c * LANES + lane) * 4, key);
            sums[c] = sums[c] * rescale + vec4<Element>(dot(v[0], p), dot(v[1], p), dot(v[2], p), dot(v[3], p));
        }
    }
    if (lane == 0) {
        team_max[team] = running_max;
        team_sum[team] = running_sum;
    }
    for (var c = 0; c < COLUMN_VEC4S; c++) { team_columns[team * WIDTH + c * LANES + lane] = sums[c]; }
    workgroupBarrier();
    var largest = team_max[0];
    for (var t = 1; t < TEAMS; t++) { largest = max(largest, team_max[t]); }
    for (var four = thread; four < WIDTH; four += THREADS) {
        var all: Element = 0.0;
        var x = zero();
        for (var t = 0; t < TEAMS; t++) {
            let factor = exp_f32(team_max[t] - largest);
            all += team_sum[t] * factor;
            x += team_columns[t * WIDTH + four] * factor;
        }
        // Where only a mask leaves nothing to look at, the result is zero.
        let part = select(1.0 / all, 0.0, MASKED && bitcast<u32>(all) == 0u);
        if (four * 4 < COLUMNS) { store_o(batch, row, four * 4, x * part); }
    }
}
