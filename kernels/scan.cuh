// Running results along rows, such as sums: a block has a point, and goes along its row
// stretch by stretch. A thread scans four neighbours by itself; the states of a warp
// meet by exchange in steps of doubled reach (Hillis and Steele 1986), those of warps in
// memory that the block shares, and all go on to the next stretch. What precedes a state
// is always merged in the same order.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
typedef f32 Element;
typedef f32 Result;
typedef i32 Place;
constexpr i32 THREADS = 64;
constexpr Place ROWS = 1001;
// What is known of neighbours.
struct State {
    f32 a;
};
KILN_FUNCTION State nothing() { return {0}; }
KILN_FUNCTION State with_element(State own, Element x) { return {own.a + x}; }
KILN_FUNCTION State merged(State own, State after) { return {own.a + after.a}; }
KILN_FUNCTION Result result(State own) { return own.a; }
// The state that another lane of the warp has.
KILN_FUNCTION State of_lane(State own, u32 lane) { return {__shfl_sync(~0u, own.a, lane)}; }
struct Scan {
    const f32* in;
    f32* out;
    // Four neighbours; anything beyond the last.
    KILN_METHOD void load_x(Place batch, Place row, Element (&x)[4]) const {
        for (i32 i = 0; i < 4; i++) x[i] = in[batch * ROWS + minimum(row + i, ROWS - 1)];
    }
    // What becomes of four neighbours' results; those beyond the last are dropped.
    KILN_METHOD void store_y(Place batch, Place row, const Result (&x)[4]) const {
        for (i32 i = 0; i < minimum(4, ROWS - row); i++) out[batch * ROWS + row + i] = x[i];
    }
};
// TEMPLATE

constexpr i32 WARPS = THREADS / 32;
static_assert(THREADS % 32 == 0 && WARPS > 0, "whole warps");

// Each lane's state merged with those of the lanes before it.
KILN_FUNCTION State scanned(State state, u32 lane) {
#pragma unroll
    for (u32 reach = 1; reach < 32; reach *= 2) {
        const State below = of_lane(state, (lane - reach) % 32);
        if (lane >= reach) state = merged(below, state);
    }
    return state;
}

KILN_FUNCTION void scan(const Scan& own) {
    __shared__ State totals[WARPS];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Place point = blockIdx.x;
    // What is known of all stretches before.
    State before = nothing();
    for (Place segment = 0; segment < ROWS; segment += 4 * THREADS) {
        const Place row = segment + (Place)threadIdx.x * 4;
        State running[4], state = nothing();
        if (row < ROWS) {
            Element x[4];
            own.load_x(point, row, x);
#pragma unroll
            for (i32 i = 0; i < 4; i++) running[i] = state = with_element(state, x[i]);
        }
        state = scanned(state, lane);
        if (lane == 31) totals[warp] = state;
        __syncthreads();
        // What is known of all before this thread's neighbours.
        State first = before;
#pragma unroll
        for (u32 i = 0; i < WARPS; i++) {
            if (i < warp) first = merged(first, totals[i]);
            before = merged(before, totals[i]);
        }
        const State below = of_lane(state, (lane - 1) % 32);
        if (lane > 0) first = merged(first, below);
        if (row < ROWS) {
            Result y[4];
#pragma unroll
            for (i32 i = 0; i < 4; i++) y[i] = result(merged(first, running[i]));
            own.store_y(point, row, y);
        }
        __syncthreads();
    }
}
