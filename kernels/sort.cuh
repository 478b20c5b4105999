// The first places of the permutation that sorts lines of elements, by a bitonic network
// (Batcher 1968). Keys are unsigned integers that sort as the elements do; the place
// decides ties, which makes the network stable. A line is padded to a power of two with
// keys above all. A block sorts or merges a stretch of neighbours in memory that it
// shares; what lies further apart meets in the device's memory, a launch a stage. Where
// few places are wanted, each stretch keeps but its first few entries, launch after launch,
// until one stretch has all that are left of a line.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
typedef u32 Key;
typedef i32 Place;
// Elements that a block sorts, and what power of two they are.
constexpr i32 SEGMENT = 256, SEGMENT_RUNS = 8;
// The extents: of a line, of one with what pads it, and what power of two that is.
constexpr Place LINES = 3, LENGTH = 3701, PADDED = 4096;
constexpr i32 RUNS = 12;
// How many of the sorted elements are wanted, and how many entries a stretch keeps
// where they are few, a power of two.
constexpr Place COUNT = 3701;
constexpr i32 SELECTED = SEGMENT;
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

constexpr i32 PAIRS = SEGMENT / 2, THREADS = PAIRS < 512 ? PAIRS : 512;

// A stretch of a network.
struct Shared {
    Key keys[SEGMENT];
    u32 places[SEGMENT];
};

// The lower of the pair `number` of entries `distance` apart, a power of two.
template <class T>
KILN_FUNCTION T lower(T number, T distance) {
    return number + (number & ~(distance - 1));
}

// Exchanges two entries that are in the wrong order; which that is depends on where
// they are in runs of `2 << run`, among so many that are sorted.
template <class T>
KILN_FUNCTION void exchange(Key* keys, u32* places, T low, T distance, Place at, i32 run, Place sorted) {
    const T high = low + distance;
    const bool descends = (at & (sorted - 1) & ((Place)2 << run)) != 0;
    const Key a = keys[low], b = keys[high];
    const u32 p = places[low], q = places[high];
    if ((a > b || (a == b && p > q)) == descends) return;
    keys[low] = b;
    keys[high] = a;
    places[low] = q;
    places[high] = p;
}

// The stages of runs from one to another, those within a stretch.
KILN_FUNCTION void merge(Shared& block, Place first, i32 run, i32 last, Place sorted) {
    for (; run <= last; run++) {
        for (i32 distance = run < SEGMENT_RUNS ? 1 << run : PAIRS; distance > 0; distance /= 2) {
            __syncthreads();
            for (i32 pair = threadIdx.x; pair < PAIRS; pair += THREADS) {
                const i32 low = lower(pair, distance);
                exchange(block.keys, block.places, low, distance, first + low, run, sorted);
            }
        }
    }
    __syncthreads();
}

// An entry as a network starts with it; above all beyond the end of its line.
KILN_FUNCTION void start(const Sort& own, Shared& block, i32 at, Place entry) {
    const Place line = entry / PADDED, position = entry % PADDED;
    block.keys[at] = line < LINES && position < LENGTH ? own.key_at(line, position) : ~(Key)0;
    block.places[at] = (u32)position;
}

// Where a sorted entry goes, of lines with so many.
KILN_FUNCTION void finish(const Sort& own, const Shared& block, i32 at, Place entry, Place padded) {
    const Place line = entry / padded, position = entry % padded;
    if (line < LINES && position < COUNT) own.store_place(line, position, block.places[at]);
}

// The few first entries of every stretch.
KILN_FUNCTION void select(const Sort& own) {
    __shared__ Shared block;
    // What a launch leaves is behind what it reads, or before it.
    constexpr Place BEHIND = LINES * (PADDED / SEGMENT) * SELECTED;
    const i32 launch = own.number();
    Place padded = PADDED;
    for (i32 before = 0; before < launch; before++) padded = padded / SEGMENT * SELECTED;
    const Place from = launch % 2 == 0 ? BEHIND : 0, to = BEHIND - from;
    const Place first = (Place)blockIdx.x * SEGMENT;
    if (first >= LINES * padded) return;
    for (i32 at = threadIdx.x; at < SEGMENT; at += THREADS) {
        const bool is_inside = first + at < LINES * padded;
        if (launch == 0) {
            start(own, block, at, first + at);
        } else {
            block.keys[at] = is_inside ? own.keys[from + first + at] : ~(Key)0;
            block.places[at] = is_inside ? own.places[from + first + at] : ~0u;
        }
    }
    const Place sorted = padded < SEGMENT ? padded : SEGMENT;
    i32 runs = 0;
    while ((Place)1 << runs < sorted) runs++;
    merge(block, first, 0, runs - 1, sorted);
    for (i32 at = threadIdx.x; at < SEGMENT; at += THREADS) {
        if (padded <= SEGMENT) {
            finish(own, block, at, first + at, padded);
        } else if (at < SELECTED) {
            own.keys[to + (Place)blockIdx.x * SELECTED + at] = block.keys[at];
            own.places[to + (Place)blockIdx.x * SELECTED + at] = block.places[at];
        }
    }
}

KILN_FUNCTION void sort(const Sort& own) {
    __shared__ Shared block;
    const Place first = (Place)blockIdx.x * SEGMENT;
    // Launch 0 has all runs of a stretch. Of a longer run, each stage between
    // stretches is a launch, and all those within them are one.
    i32 stage = own.number() - 1, run = SEGMENT_RUNS;
    const bool starts = stage < 0;
    while (stage > run - SEGMENT_RUNS + 1) {
        stage -= run - SEGMENT_RUNS + 2;
        run += 1;
    }
    if (!starts && stage <= run - SEGMENT_RUNS) {
        const Place distance = (Place)1 << (run - stage);
        for (i32 pair = threadIdx.x; pair < PAIRS; pair += THREADS) {
            const Place low = lower((Place)blockIdx.x * PAIRS + pair, distance);
            exchange(own.keys, own.places, low, distance, low, run, PADDED);
        }
        return;
    }
    for (i32 at = threadIdx.x; at < SEGMENT; at += THREADS) {
        if (starts) {
            start(own, block, at, first + at);
        } else {
            block.keys[at] = own.keys[first + at];
            block.places[at] = own.places[first + at];
        }
    }
    const i32 last = starts ? minimum(SEGMENT_RUNS, RUNS) - 1 : run;
    merge(block, first, starts ? 0 : run, last, PADDED);
    for (i32 at = threadIdx.x; at < SEGMENT; at += THREADS) {
        if (last == RUNS - 1) {
            finish(own, block, at, first + at, PADDED);
        } else {
            own.keys[first + at] = block.keys[at];
            own.places[first + at] = block.places[at];
        }
    }
}
