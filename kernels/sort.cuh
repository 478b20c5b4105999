// The first places of the permutation that sorts lines of elements, by a bitonic network
// (Batcher 1968). Keys are unsigned integers that sort as the elements do; the place
// decides ties, which makes the network stable. A line is padded to a power of two with
// keys above all. A block sorts or merges a stretch of neighbours in memory that it
// shares; what lies further apart meets in the device's memory, a launch a stage.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
typedef u32 Key;
typedef i32 Place;
// Elements that a block sorts, and what power of two they are.
constexpr i32 STRETCH = 256, STRETCH_RUNS = 8;
// The extents: of a line, of one with what pads it, and what power of two that is.
constexpr Place LINES = 3, LENGTH = 3701, PADDED = 4096;
constexpr i32 RUNS = 12;
// How many of the sorted elements are wanted.
constexpr Place COUNT = 3701;
struct Sort {
    Key* keys;
    u32* places;
    const u32* in;
    i64* out;
    // Which launch this is.
    KILN_METHOD i32 number() const { return 0; }
    KILN_METHOD Key key_at(Place line, Place position) const { return in[line * LENGTH + position]; }
    // What becomes of the place that an element of the sorted line comes from.
    KILN_METHOD void store_place(Place line, Place position, u32 place) const { out[line * LENGTH + position] = place; }
};
// TEMPLATE

constexpr i32 THREADS = STRETCH / 2;

// A stretch of a network.
struct Shared {
    Key keys[STRETCH];
    u32 places[STRETCH];
};

// The lower of the pair `number` of entries `distance` apart, a power of two.
template <class T>
KILN_FUNCTION T lower(T number, T distance) {
    return number + (number & ~(distance - 1));
}

// Exchanges two entries that are in the wrong order; which that is depends on where
// they are in runs of `2 << run`.
template <class T>
KILN_FUNCTION void exchange(Key* keys, u32* places, T low, T distance, Place at, i32 run) {
    const T high = low + distance;
    const bool descends = (at & (PADDED - 1) & ((Place)2 << run)) != 0;
    const Key a = keys[low], b = keys[high];
    const u32 p = places[low], q = places[high];
    if ((a > b || (a == b && p > q)) == descends) return;
    keys[low] = b;
    keys[high] = a;
    places[low] = q;
    places[high] = p;
}

// An entry as a network starts with it; above all beyond the end of its line.
KILN_FUNCTION void start(const Sort& own, Shared& block, i32 at, Place entry) {
    const Place line = entry / PADDED, position = entry % PADDED;
    block.keys[at] = line < LINES && position < LENGTH ? own.key_at(line, position) : ~(Key)0;
    block.places[at] = (u32)position;
}

KILN_FUNCTION void finish(const Sort& own, const Shared& block, i32 at, Place entry) {
    const Place line = entry / PADDED, position = entry % PADDED;
    if (line < LINES && position < COUNT) own.store_place(line, position, block.places[at]);
}

KILN_FUNCTION void sort(const Sort& own) {
    __shared__ Shared block;
    const Place first = (Place)blockIdx.x * STRETCH;
    const i32 thread = threadIdx.x;
    // Launch 0 has all runs of a stretch. Of a longer run, each stage between
    // stretches is a launch, and all those within them are one.
    i32 stage = own.number() - 1, run = STRETCH_RUNS;
    const bool starts = stage < 0;
    while (stage > run - STRETCH_RUNS + 1) {
        stage -= run - STRETCH_RUNS + 2;
        run += 1;
    }
    if (!starts && stage <= run - STRETCH_RUNS) {
        const Place distance = (Place)1 << (run - stage), low = lower((Place)blockIdx.x * THREADS + thread, distance);
        return exchange(own.keys, own.places, low, distance, low, run);
    }
    for (i32 at = thread; at < STRETCH; at += THREADS) {
        if (starts) {
            start(own, block, at, first + at);
        } else {
            block.keys[at] = own.keys[first + at];
            block.places[at] = own.places[first + at];
        }
    }
    const i32 last = starts ? minimum(STRETCH_RUNS, RUNS) - 1 : run;
    for (run = starts ? 0 : run; run <= last; run++) {
        for (i32 distance = run < STRETCH_RUNS ? 1 << run : THREADS; distance > 0; distance /= 2) {
            __syncthreads();
            const i32 low = lower(thread, distance);
            exchange(block.keys, block.places, low, distance, first + low, run);
        }
    }
    __syncthreads();
    for (i32 at = thread; at < STRETCH; at += THREADS) {
        if (last == RUNS - 1) {
            finish(own, block, at, first + at);
        } else {
            own.keys[first + at] = block.keys[at];
            own.places[first + at] = block.places[at];
        }
    }
}
