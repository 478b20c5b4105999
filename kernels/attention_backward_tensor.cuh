// The gradients of attention of 16-bit floats on tensor cores, as `attention_backward.cuh`
// has them: a warp's own rows, of queries or of keys, stay in registers, and so do their
// scores with a tile of others, what becomes of these, and the gradient's sums. Weights,
// rounded to their type, are an operand of the product that is summed as they are. The next
// tile comes to shared memory while one is multiplied: by warps (`attention_by_warps.cuh`)
// or by groups of them (`attention_by_groups.cuh`), which go on adding a tile's products
// while the next one's scores become shares.
//
// What it computes on is the caller's: `Extents` has the sizes as constants, the functions
// give operands and take results.

// Everything above `// TEMPLATE` is an example: kiln puts its own in its place.
// Own rows of a block and of a warp.
constexpr i32 ATTENTION_TILE_ROWS = 64, ATTENTION_WARP_ROWS = 16;
constexpr bool ATTENTION_BY_WARPGROUPS = false;
// TEMPLATE

// How a block's shared memory is divided: tiles of queries and gradients, or of keys and
// values. Own rows are where other tiles come later.
template <class Extents>
struct AttentionSharedLayout {
    // Lines of queries or keys, and of gradients or values.
    typedef AttentionTile<Extents::DEPTH> Deep;
    typedef AttentionTile<Extents::COLUMNS> Wide;
    typedef AttentionLines<Deep::LENGTH> OwnDeep;
    typedef AttentionLines<Wide::LENGTH> OwnWide;
    // One more of the tiles that are still added while the next but one comes.
    static constexpr i32 DEEP_STAGES = 2 + (ATTENTION_BY_WARPGROUPS && !Extents::OF_VALUES);
    static constexpr i32 WIDE_STAGES = 2 + (ATTENTION_BY_WARPGROUPS && Extents::OF_VALUES);
    static constexpr i32 FIRST = Deep::ELEMENTS + Wide::ELEMENTS;
    static constexpr i32 DEEP_OTHERS = (DEEP_STAGES - 1) * Deep::ELEMENTS;
    static constexpr i32 OTHERS = DEEP_OTHERS + (WIDE_STAGES - 1) * Wide::ELEMENTS;
    static constexpr i32 OWN_DEEP = ATTENTION_TILE_ROWS * OwnDeep::LINE;
    static constexpr i32 OWN = OWN_DEEP + (Extents::OF_VALUES ? 0 : ATTENTION_TILE_ROWS * OwnWide::LINE);
    static constexpr i32 ALL = FIRST + (OTHERS < OWN ? OWN : OTHERS);
    static constexpr i32 RESULTS = AttentionStoreStrip<(Extents::OF_VALUES ? Wide::LENGTH : Deep::LENGTH)>::ELEMENTS;
    static constexpr i32 ELEMENTS = RESULTS < ALL ? ALL : RESULTS;
    // Where tiles lie: the first of both kinds, then the others.
    KILN_FUNCTION i32 deep_at(i32 tile) {
        const i32 stage = tile % DEEP_STAGES;
        return stage == 0 ? 0 : FIRST + (stage - 1) * Deep::ELEMENTS;
    }
    KILN_FUNCTION i32 wide_at(i32 tile) {
        const i32 stage = tile % WIDE_STAGES;
        return stage == 0 ? Deep::ELEMENTS : FIRST + DEEP_OTHERS + (stage - 1) * Wide::ELEMENTS;
    }
};

template <bool IS>
struct AttentionIs {
    static constexpr bool VALUE = IS;
};

// One or the other.
template <bool FIRST, class A, class B>
KILN_FUNCTION const auto& attention_either(const A& a, const B& b) {
    if constexpr (FIRST) return a;
    else return b;
}

// Brings so many rows of a batch, from `first` on.
template <class S, class Lines, bool IS_ASYNC, i32 LINES, i32 LENGTH, class Place, class From>
KILN_FUNCTION void attention_stage_rows(u16* lines, Place batch, i32 first, i32 end, i32 width, const From& from) {
    attention_stage<S, Lines, IS_ASYNC, LINES, LENGTH>(lines, end - first, width, [&](i32 line, i32 along, auto&... is_inside) {
        return from(batch, first + line, along, is_inside...);
    });
}

// Of the queries of a tile, or of a warp's rows, what their shares need: the logarithms of
// the sums of powers, in powers of two, and what the shares' gradients have in common.
struct AttentionQueries {
    f32 log_sums[ATTENTION_TILE_OTHERS], deltas[ATTENTION_TILE_OTHERS];
};

// A sum's logarithm for powers of two; where only a mask leaves nothing to look at, no key has
// a share.
template <class Extents>
KILN_FUNCTION f32 attention_log_two(f32 log_sum) {
    const f32 minus_infinity = __int_as_float(0xff800000);
    return Extents::MASKED && log_sum == minus_infinity ? -minus_infinity : log_sum * 1.4426950408889634f;
}

// The first tile, from one on, that the block looks at.
template <class Extents, i32 EACH, i32 OTHERS>
KILN_FUNCTION i32 attention_next(i32 first, i32 other) {
    if (!Extents::CAUSAL) return other;
    for (; other < OTHERS; other += ATTENTION_TILE_OTHERS) {
        // Places in their attention: all where the tile reaches into the next one.
        const i32 least = other % EACH;
        const bool is_whole = least + ATTENTION_TILE_OTHERS <= EACH;
        const i32 least_key = Extents::BY_QUERY ? (is_whole ? least : 0) : first;
        const i32 last_row = Extents::BY_QUERY ? first + ATTENTION_TILE_ROWS - 1 : is_whole ? least + ATTENTION_TILE_OTHERS - 1 : EACH - 1;
        if (least_key <= last_row) break;
    }
    return other;
}

// Makes shares of the scores of 16 own rows, from `top` on, with others from `other` on.
template <class Extents, i32 EACH, i32 OTHERS, class Place, class Masked, class LogSum>
KILN_FUNCTION void attention_shares(f32 (&scores)[ATTENTION_TILE_OTHERS / 8][4], Place batch, i32 top, i32 other, f32 scale, const Masked& masked, const LogSum& log_sum) {
    constexpr f32 TO_TWO = 1.4426950408889634f;
    constexpr i32 SIDE = ATTENTION_TILE_OTHERS;
    const i32 lane = threadIdx.x % 32, least = EACH == OTHERS ? other : other % EACH;
    // Where all look at all, nothing is asked of each. What own rows beyond the last have is
    // never stored.
    const bool is_even = !Extents::CAUSAL || (least + SIDE <= EACH && (Extents::BY_QUERY ? least + SIDE <= top + 1 : top + 16 <= least + 1));
    const bool is_plain = !Extents::MASKED && other + SIDE <= OTHERS && is_even;
    const f32 unit = is_plain ? scale * TO_TWO : TO_TWO;
    if (!is_plain) {
        const f32 minus_infinity = __int_as_float(0xff800000);
#pragma unroll
        for (i32 i = 0; i < SIDE / 2; i++) {
            const i32 own = top + lane / 4 + i % 4 / 2 * 8, it = other + i / 4 * 8 + lane % 4 * 2 + i % 2;
            const i32 row = Extents::BY_QUERY ? own : it, key = Extents::BY_QUERY ? it : own;
            const bool later = Extents::BY_QUERY ? it % EACH > own : own > it % EACH;
            const bool visible = own < ATTENTION_OWN<Extents> && it < OTHERS && !(Extents::CAUSAL && later);
            f32 x = scores[i / 4][i % 4] * scale;
            if (visible) x = masked(batch, row, key, x);
            scores[i / 4][i % 4] = visible ? x : minus_infinity;
        }
    }
#pragma unroll
    for (i32 i = 0; i < SIDE / 2; i++) {
        f32& x = scores[i / 4][i % 4];
        x = power_of_two(multiply_add(x, unit, -log_sum(i)));
    }
}

template <class Extents, class Place, class Q, class K, class V, class G, class LogSum, class Product, class Masked, class Store>
KILN_FUNCTION void attention_backward(
    u16* block, f32 scale, const Q& from_q, const K& from_k, const V& from_v, const G& from_g,
    const LogSum& load_log_sum, const Product& load_product, const Masked& masked, const Store& store
) {
    typedef typename Extents::Shares S;
    typedef AttentionSharedLayout<Extents> Parts;
    typedef typename Parts::Deep Deep;
    typedef typename Parts::Wide Wide;
    constexpr i32 HEIGHT = ATTENTION_TILE_ROWS, SIDE = ATTENTION_TILE_OTHERS;
    constexpr bool BY_QUERY = Extents::BY_QUERY, OF_VALUES = Extents::OF_VALUES;
    constexpr i32 OWN = ATTENTION_OWN<Extents>, EACH = BY_QUERY ? Extents::KEYS : Extents::ROWS;
    constexpr i32 OTHERS = Extents::SUMMED * EACH;
    const i32 lane = threadIdx.x % 32, own = threadIdx.x / 32 * 16;
    Place batch;
    const i32 first = attention_place<Extents>(batch), top = first + own;

    constexpr bool OWN_DEEP_IS_ASYNC = BY_QUERY ? Extents::Q_IS_ASYNC : Extents::K_IS_ASYNC;
    constexpr bool OWN_WIDE_IS_ASYNC = BY_QUERY ? Extents::G_IS_ASYNC : Extents::V_IS_ASYNC;
    constexpr bool DEEP_IS_ASYNC = BY_QUERY ? Extents::K_IS_ASYNC : Extents::Q_IS_ASYNC;
    constexpr bool WIDE_IS_ASYNC = BY_QUERY ? Extents::V_IS_ASYNC : Extents::G_IS_ASYNC;
    const auto stage = [&](i32 other, i32 tile) {
        u16* const deep = block + Parts::deep_at(tile);
        u16* const wide = block + Parts::wide_at(tile);
        attention_stage_rows<S, typename Deep::Lines, DEEP_IS_ASYNC, SIDE, Deep::LENGTH>(deep, batch, other, OTHERS, Extents::DEPTH, attention_either<BY_QUERY>(from_k, from_q));
        attention_stage_rows<S, typename Wide::Lines, WIDE_IS_ASYNC, SIDE, Wide::LENGTH>(wide, batch, other, OTHERS, Extents::COLUMNS, attention_either<BY_QUERY>(from_v, from_g));
    };
    // What a thread brings of a tile's queries.
    __shared__ AttentionQueries queries[2];
    constexpr i32 FETCHED = BY_QUERY ? 1 : ((OF_VALUES ? 1 : 2) * SIDE + ATTENTION_THREADS - 1) / ATTENTION_THREADS;
    f32 fetched[FETCHED];
    const auto fetch_queries = [&](i32 other) {
#pragma unroll
        for (i32 i = 0; i < FETCHED && !BY_QUERY; i++) {
            const i32 number = i * ATTENTION_THREADS + threadIdx.x, query = other + number % SIDE;
            fetched[i] = 0.0f;
            if (query >= OTHERS) continue;
            if (number < SIDE) fetched[i] = attention_log_two<Extents>(load_log_sum(batch, query));
            else if (!OF_VALUES && number < 2 * SIDE) fetched[i] = load_product(batch, query);
        }
    };
    const auto store_queries = [&](i32 stage) {
#pragma unroll
        for (i32 i = 0; i < FETCHED && !BY_QUERY; i++) {
            const i32 number = i * ATTENTION_THREADS + threadIdx.x;
            if (number < SIDE) queries[stage].log_sums[number] = fetched[i];
            else if (!OF_VALUES && number < 2 * SIDE) queries[stage].deltas[number - SIDE] = fetched[i];
        }
    };

    i32 other = attention_next<Extents, EACH, OTHERS>(first, 0);
    u16* const own_deep = block + Parts::FIRST;
    u16* const own_wide = own_deep + Parts::OWN_DEEP;
    attention_stage_rows<S, typename Parts::OwnDeep, OWN_DEEP_IS_ASYNC, HEIGHT, Deep::LENGTH>(own_deep, batch, first, OWN, Extents::DEPTH, attention_either<BY_QUERY>(from_q, from_k));
    if constexpr (!OF_VALUES) attention_stage_rows<S, typename Parts::OwnWide, OWN_WIDE_IS_ASYNC, HEIGHT, Wide::LENGTH>(own_wide, batch, first, OWN, Extents::COLUMNS, attention_either<BY_QUERY>(from_g, from_v));
    stage(other, 0);
    cp_async_commit();
    fetch_queries(other);
    store_queries(0);
    // Own queries' sums stay in registers.
    f32 log_sums[2] = {0.0f, 0.0f}, deltas[2] = {0.0f, 0.0f};
#pragma unroll
    for (i32 r = 0; r < 2 && BY_QUERY; r++) {
        const i32 row = top + lane / 4 + r * 8;
        if (row >= OWN) continue;
        log_sums[r] = attention_log_two<Extents>(load_log_sum(batch, row));
        deltas[r] = load_product(batch, row);
    }
    cp_async_wait<0>();
    // Own rows are there for all.
    __syncthreads();
    u32 deep[Deep::LENGTH / 16][4], wide[Wide::LENGTH / 16][4];
#pragma unroll
    for (i32 d = 0; d < Deep::LENGTH / 16; d++) attention_load_fragment<typename Parts::OwnDeep>(deep[d], own_deep, own, d * 16);
#pragma unroll
    for (i32 d = 0; d < Wide::LENGTH / 16 && !OF_VALUES; d++) attention_load_fragment<typename Parts::OwnWide>(wide[d], own_wide, own, d * 16);

    constexpr i32 WIDE = (OF_VALUES ? Wide::LENGTH : Deep::LENGTH) / 8;
    f32 sums[WIDE][4];
#pragma unroll
    for (i32 i = 0; i < WIDE * 4; i++) sums[i / 4][i % 4] = 0.0f;
    f32 scores[SIDE / 8][4], gradients[SIDE / 8][4];
    u32 weights[SIDE / 16][4];
    const auto start_sums = [&](i32 tile) {
        if constexpr (OF_VALUES) attention_start_sums<S, Wide>(sums, weights, block + Parts::wide_at(tile));
        else attention_start_sums<S, Deep>(sums, weights, block + Parts::deep_at(tile));
    };
    // Makes the weights of a tile, while those of the last one are still to be multiplied or not.
    const auto step = [&](i32 tile, auto has_last) {
        constexpr i32 LAST = decltype(has_last)::VALUE ? 1 : 0;
        const i32 next = attention_next<Extents, EACH, OTHERS>(first, other + SIDE);
        cp_async_wait<0>();
        attention_copied();
        // This tile is there for all, and own rows and tiles before have been read by all.
        __syncthreads();
        if (next < OTHERS) {
            stage(next, tile + 1);
            fetch_queries(next);
        }
        cp_async_commit();
        attention_start_products<S, Deep>(scores, deep, block + Parts::deep_at(tile));
        if constexpr (!OF_VALUES) attention_start_products<S, Wide>(gradients, wide, block + Parts::wide_at(tile));
        if constexpr (LAST) start_sums(tile - 1);
        const AttentionQueries& tile_queries = queries[tile % 2];
        const auto of_query = [&](const f32 (&own)[2], const f32 (&others)[SIDE], i32 i) {
            return BY_QUERY ? own[i % 4 / 2] : others[i / 4 * 8 + lane % 4 * 2 + i % 2];
        };
        attention_wait<(OF_VALUES ? 0 : 1) + LAST>(scores);
        attention_shares<Extents, EACH, OTHERS>(scores, batch, top, other, scale, masked, [&](i32 i) { return of_query(log_sums, tile_queries.log_sums, i); });
        if constexpr (!OF_VALUES) {
            // The shares' gradients are there.
            attention_wait<LAST>(gradients);
#pragma unroll
            for (i32 i = 0; i < SIDE / 2; i++) scores[i / 4][i % 4] *= gradients[i / 4][i % 4] - of_query(deltas, tile_queries.deltas, i);
        }
        // The last weights have been multiplied.
        if constexpr (LAST) attention_wait<0>(sums);
        attention_pack<S>(weights, scores);
        if constexpr (!ATTENTION_BY_WARPGROUPS) start_sums(tile);
        store_queries((tile + 1) % 2);
        other = next;
    };
    // Groups' sums are waited for a tile later also since NVRTC 13.0, where all products of a
    // tile were waited for in this loop, gave registers of own rows (64 wide) to other values.
    i32 tile = 0;
    if (ATTENTION_BY_WARPGROUPS && other < OTHERS) step(tile++, AttentionIs<false>());
#pragma unroll 1
    while (other < OTHERS) step(tile++, AttentionIs<ATTENTION_BY_WARPGROUPS>());
    if (ATTENTION_BY_WARPGROUPS && tile > 0) {
        start_sums(tile - 1);
        attention_wait<0>(sums);
    }

    // Tiles have been read: their place is for results.
    __syncthreads();
    const f32 unit = OF_VALUES ? 1.0f : scale, part[2] = {unit, unit};
    attention_store<Extents>(sums, part, block, batch, top, store);
}
