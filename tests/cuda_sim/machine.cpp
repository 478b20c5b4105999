// The simulated machine: a fiber for every CUDA thread of a block, blocks one
// after the other. A thread runs until it must wait for others; who runs next
// is the order's business, so that what only one order gets right is found.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "device.h"
#undef __shared__

namespace cuda_sim {
extern "C" {
Position position_in_block, block_position, block_size, grid_size;
void cuda_sim_switch(void** save, void* to);
}

#if !defined(__x86_64__)
#error "cuda_sim_switch is written for x86-64 only"
#endif
// Keeps the registers that calls preserve on the fiber's stack.
asm(R"(.text
.globl cuda_sim_switch
.hidden cuda_sim_switch
cuda_sim_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
)");

namespace {
enum class State { Ready, AtBarrier, InWarp, AtArrival, Done };

// A piece of a matrix, which the device copies.
struct Piece {
    unsigned char* to;
    const uint64_t* map;
    int64_t element, line, matrix;
};

// A word that tells what arrived: the phase it is in, whether its one thread has said
// what it expects in it, how many bytes, and copies under way.
struct Arrival {
    unsigned phase = 0;
    bool is_armed = false;
    unsigned bytes = 0;
    std::vector<Piece> pieces = {};
};

// A copy to shared memory that is under way.
struct Copy {
    void* to;
    const void* from;
    bool is_inside;
};

// A product by a group of four warps.
struct Product {
    float* sums;
    unsigned columns;
    uint64_t operands[2];
    bool turned[2];
    Number number;
    // Whether it adds to the sums, or takes their place.
    bool adds;
    // Words of the first operand in registers: this thread's, and what all lanes had.
    const unsigned* held = nullptr;
    std::vector<std::array<unsigned, 4>> words = {};
};

struct Fiber {
    void* stack;
    Position position;
    unsigned number;
    State state;
    const char* site;
    // Committed groups, the first first; and the group that grows.
    std::deque<std::vector<Copy>> groups;
    std::vector<Copy> copies;
    // What copies brought since the last fence.
    std::vector<void*> unfenced;
    // Products that are not made yet, as copies.
    std::deque<std::vector<Product>> product_groups;
    std::vector<Product> products;
};

constexpr unsigned MOST_LEFT = 32;

struct Warp {
    unsigned arrived = 0, unread = 0;
    const char* site = "";
    unsigned char left[32][MOST_LEFT];
};

constexpr size_t STACK = 64 << 10;
constexpr unsigned MOST = 1024;

std::vector<Fiber> fibers;
std::vector<Warp> warps;
std::map<void*, Arrival> arrivals;
Fiber* current;
void* scheduler;
unsigned alive, waiting;
const char* barrier_site;
const Launch* running;
// What a launch may ask for, aligned as on a device, and a guard behind it.
constexpr unsigned MOST_SHARED = 227 << 10, GUARD = 1024;
alignas(1024) unsigned char shared_memory[MOST_SHARED + GUARD];
// The pieces of 16 bytes that copies brought and no fence made visible to wgmma.
bool is_unfenced[MOST_SHARED / 16];
unsigned running_order;
char error[512];
char* stacks;

void pause() { cuda_sim_switch(&current->stack, scheduler); }

void open_barrier() {
    for (Fiber& fiber : fibers)
        if (fiber.state == State::AtBarrier) fiber.state = State::Ready;
    waiting = 0;
    barrier_site = nullptr;
}

void enter() {
    running->kernel(running->arguments);
    current->state = State::Done;
    alive--;
    if (alive > 0 && waiting == alive) open_barrier();
    pause();
    abort();
}

// The same numbers for the same order, on every machine.
struct Random {
    uint64_t state;
    unsigned below(unsigned count) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (unsigned)(state % count);
    }
};

// 0 forwards, 1 backwards, else shuffled.
std::vector<unsigned> sequence(unsigned count, unsigned order) {
    std::vector<unsigned> all(count);
    for (unsigned i = 0; i < count; i++) all[i] = order == 1 ? count - 1 - i : i;
    Random random{order * 0x9e3779b97f4a7c15ull + 1};
    for (unsigned i = count - 1; order > 1 && count > 1 && i > 0; i--) std::swap(all[i], all[random.below(i + 1)]);
    return all;
}

void prepare(const Launch& launch, unsigned block) {
    block_position = {block, 0, 0};
    alive = launch.workgroup;
    waiting = 0;
    barrier_site = nullptr;
    // Shared memory starts out as NaN.
    if (launch.shared_start) memset(launch.shared_start, 0xff, launch.shared_end - launch.shared_start);
    memset(shared_memory, 0xff, launch.shared_bytes + GUARD);
    memset(is_unfenced, 0, sizeof is_unfenced);
    fibers.assign(launch.workgroup, Fiber{});
    warps.assign((launch.workgroup + 31) / 32, Warp{});
    arrivals.clear();
    for (unsigned i = 0; i < launch.workgroup; i++) {
        // Tops at different places of a page, for the cache's sake.
        uintptr_t* top = (uintptr_t*)(stacks + (i + 1) * STACK - (i % 61) * 64 - 64);
        *--top = 0;
        *--top = (uintptr_t)enter;
        for (int k = 0; k < 6; k++) *--top = 0;
        fibers[i] = {top, {i, 0, 0}, i, State::Ready, "", {}, {}, {}, {}, {}};
    }
}

// Element `line`, at `depth`, of an operand that wgmma reads.
float element(const Product& product, int which, unsigned line, unsigned depth) {
    const uint64_t operand = product.operands[which];
    const unsigned start = (operand & 0x3fff) << 4, blocks = (operand >> 16 & 0x3fff) << 4, lines = (operand >> 32 & 0x3fff) << 4;
    unsigned at = product.turned[which] ? start + line / 64 * blocks + line % 64 * 2 + depth / 8 * lines + depth % 8 * 128
                                        : start + line / 8 * lines + line % 8 * 128 + depth * 2;
    at ^= (at >> 7 & 7) << 4;
    if (at + 2 > running->shared_bytes || is_unfenced[at / 16]) {
        snprintf(error, sizeof error, "wgmma reads byte %u of shared memory, which %s", at,
                 at + 2 > running->shared_bytes ? "is not there" : "no fence has made visible");
        return 0;
    }
    uint16_t half;
    memcpy(&half, shared_memory + at, 2);
    return product.number(half, 0);
}

// This thread's sums of a product.
void make(const Product& product) {
    const unsigned lane = current->number % 32, warp = current->number % 128 / 32;
    const bool is_held = product.held != nullptr;
    if (is_held && memcmp(product.held, &product.words[lane], 16))
        snprintf(error, sizeof error, "thread %u changed an operand in registers before its product was made", current->number);
    const auto first = [&](unsigned row, unsigned depth) {
        if (!is_held) return element(product, 0, warp * 16 + row, depth);
        return product.number(product.words[row % 8 * 4 + depth % 8 / 2][row / 8 + depth / 8 * 2], depth % 2);
    };
    for (unsigned i = 0; i < product.columns / 2 && !error[0]; i++) {
        const unsigned row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (!product.adds) product.sums[i] = 0;
        for (unsigned depth = 0; depth < 16; depth++) product.sums[i] += first(row, depth) * element(product, 1, column, depth);
    }
    if (error[0]) pause();
}

// Makes a product now or when its group is waited for, as the order of threads says.
void begin(Product product) {
    if (running_order % 2 == 0) return make(product);
    current->products.push_back(std::move(product));
}

bool run_block(const Launch& launch, unsigned block, const std::vector<unsigned>& order) {
    prepare(launch, block);
    // The first two orders let each warp go as far as it can before the next, the others
    // let all go on together.
    const size_t together = running_order < 2 ? 32 : order.size();
    while (alive > 0) {
        bool moved = false;
        for (size_t first = 0; first < order.size();) {
            const size_t end = std::min(first + together, order.size());
            bool moves = false;
            for (size_t at = first; at < end; at++) {
                Fiber& fiber = fibers[order[at]];
                if (fiber.state != State::Ready) continue;
                moves = true;
                current = &fiber;
                position_in_block = fiber.position;
                cuda_sim_switch(&scheduler, fiber.stack);
                if (error[0]) return false;
            }
            moved |= moves;
            if (!moves || running_order >= 2) first = end;
        }
        if (moved) continue;
        for (Fiber& fiber : fibers) {
            if (fiber.state == State::Done) continue;
            snprintf(error, sizeof error, "deadlock in block %u: thread %u waits %s at %s, %u threads are left", block,
                     fiber.number, fiber.state == State::AtBarrier ? "for the block" : fiber.state == State::InWarp ? "for its warp" : "for copies", fiber.site, alive);
            return false;
        }
    }
    for (unsigned i = 0; i < GUARD; i++) {
        if (shared_memory[launch.shared_bytes + i] == 0xff) continue;
        snprintf(error, sizeof error, "block %u wrote behind its %u bytes of shared memory", block, launch.shared_bytes);
        return false;
    }
    return true;
}
}  // namespace

extern "C" {
const char* cuda_sim_error() { return error; }
unsigned cuda_sim_lane() { return current->number & 31; }

unsigned char* cuda_sim_shared() { return shared_memory; }

void cuda_sim_check(const void* at, unsigned bytes, const char* site) {
    const size_t start = (const unsigned char*)at - shared_memory;
    if (start % bytes || start + bytes > running->shared_bytes)
        snprintf(error, sizeof error, "thread %u accesses byte %zd of shared memory at %s", current->number, (ptrdiff_t)start, site);
}

void cuda_sim_copy(void* to, const void* from, bool is_inside, const char* site) {
    cuda_sim_check(to, 16, site);
    if ((uintptr_t)from % 16)
        snprintf(error, sizeof error, "thread %u copies from an address that 16 does not divide, at %s", current->number, site);
    if (error[0]) pause();
    memset(to, 0xff, 16);
    current->copies.push_back({to, from, is_inside});
}

void cuda_sim_commit() {
    current->groups.push_back(std::move(current->copies));
    current->copies.clear();
}

void cuda_sim_wait(unsigned pending) {
    for (; current->groups.size() > pending; current->groups.pop_front())
        for (const Copy& copy : current->groups.front()) {
            if (copy.is_inside)
                memcpy(copy.to, copy.from, 16);
            else
                memset(copy.to, 0, 16);
            current->unfenced.push_back(copy.to);
            is_unfenced[((unsigned char*)copy.to - shared_memory) / 16] = true;
        }
}

void cuda_sim_fence() {
    for (void* to : current->unfenced) is_unfenced[((unsigned char*)to - shared_memory) / 16] = false;
    current->unfenced.clear();
}

Arrival& arrival_of(void* word) {
    auto found = arrivals.find(word);
    if (found == arrivals.end()) {
        snprintf(error, sizeof error, "thread %u uses a word for arrivals that is none", current->number);
        pause();
    }
    return found->second;
}

void cuda_sim_arrivals(void* words, unsigned count) {
    for (unsigned i = 0; i < count; i++) arrivals[(uint64_t*)words + i] = Arrival{};
}

void cuda_sim_expect(void* word, unsigned bytes) {
    Arrival& arrival = arrival_of(word);
    if (arrival.is_armed) snprintf(error, sizeof error, "thread %u expects bytes twice in a phase", current->number);
    if (error[0]) pause();
    arrival.is_armed = true;
    arrival.bytes = bytes;
    for (Fiber& fiber : fibers)
        if (fiber.state == State::AtArrival) fiber.state = State::Ready;
}

// Bytes of a piece, in lines of 128.
unsigned bytes_of(const Piece& piece) { return (unsigned)piece.map[6] * 128; }

void cuda_sim_copy_piece(void* to, const void* map, void* word, int element, int line, int matrix) {
    const Piece piece = {(unsigned char*)to, (const uint64_t*)map, element, line, matrix};
    const size_t start = piece.to - shared_memory;
    if (start % 1024 || start + bytes_of(piece) > running->shared_bytes)
        snprintf(error, sizeof error, "a piece is copied to byte %zd of shared memory", (ptrdiff_t)start);
    if (error[0]) pause();
    memset(to, 0xff, bytes_of(piece));
    arrival_of(word).pieces.push_back(piece);
}

// Makes the copy of a piece; beyond its matrix there are zeros.
void land(const Piece& piece) {
    const uint64_t* map = piece.map;
    const auto inside = [&](int64_t at, int dimension) { return at >= 0 && (uint64_t)at < map[1 + dimension]; };
    for (unsigned line = 0; line < map[6]; line++)
        for (unsigned i = 0; i < 64; i++) {
            const int64_t element = piece.element + i, from_line = piece.line + line;
            uint16_t half = 0;
            if (inside(element, 0) && inside(from_line, 1) && inside(piece.matrix, 2))
                memcpy(&half, (const char*)map[0] + piece.matrix * map[5] + from_line * map[4] + element * 2, 2);
            size_t at = piece.to - shared_memory + line * 128 + i * 2;
            at ^= (at >> 7 & 7) << 4;
            memcpy(shared_memory + at, &half, 2);
            is_unfenced[at / 16] = false;
        }
}

void cuda_sim_arrive(void* word, unsigned parity) {
    Arrival& arrival = arrival_of(word);
    while (arrival.phase % 2 == parity) {
        unsigned bytes = 0;
        for (const Piece& piece : arrival.pieces) bytes += bytes_of(piece);
        if (arrival.is_armed && bytes != arrival.bytes) {
            snprintf(error, sizeof error, "%u bytes are expected, and %u are copied", arrival.bytes, bytes);
            pause();
        }
        if (arrival.is_armed) {
            for (const Piece& piece : arrival.pieces) land(piece);
            arrival = Arrival{arrival.phase + 1};
            return;
        }
        current->state = State::AtArrival;
        current->site = "a word for arrivals";
        pause();
    }
}

void cuda_sim_wgmma(float* sums, unsigned columns, uint64_t a, uint64_t b, bool a_turned, bool b_turned, Number number) {
    const uint64_t own[2] = {a, b};
    uint64_t all[32][2];
    cuda_sim_exchange(~0u, own, sizeof own, all, "wgmma");
    for (auto& other : all)
        if (other[0] != a || other[1] != b) snprintf(error, sizeof error, "lanes multiply different operands");
    begin({sums, columns, {a, b}, {a_turned, b_turned}, number, true});
}

void cuda_sim_wgmma_held(float* sums, unsigned columns, const unsigned* a, uint64_t b, bool b_turned, bool adds, Number number) {
    struct Own {
        uint64_t b;
        std::array<unsigned, 4> a;
    } own = {b, {a[0], a[1], a[2], a[3]}}, all[32];
    cuda_sim_exchange(~0u, &own, sizeof own, all, "wgmma");
    Product product = {sums, columns, {0, b}, {false, b_turned}, number, adds, a};
    for (const Own& other : all) {
        if (other.b != b) snprintf(error, sizeof error, "lanes multiply different operands");
        product.words.push_back(other.a);
    }
    begin(std::move(product));
}

void cuda_sim_wgmma_commit() {
    current->product_groups.push_back(std::move(current->products));
    current->products.clear();
}

void cuda_sim_wgmma_wait(unsigned pending) {
    for (; current->product_groups.size() > pending; current->product_groups.pop_front())
        for (const Product& product : current->product_groups.front()) make(product);
}

void cuda_sim_barrier(const char* site) {
    if (barrier_site && strcmp(barrier_site, site))
        snprintf(error, sizeof error, "thread %u waits at %s while others wait at %s", current->number, site, barrier_site);
    barrier_site = site;
    current->site = site;
    if (++waiting == alive) return open_barrier();
    current->state = State::AtBarrier;
    pause();
}

void cuda_sim_exchange(unsigned mask, const void* value, unsigned size, void* all, const char* site) {
    Fiber* own = current;
    const unsigned lane = own->number & 31, bit = 1u << lane;
    if (size > MOST_LEFT) snprintf(error, sizeof error, "lanes exchange %u bytes at %s", size, site);
    if (error[0]) pause();
    Warp& warp = warps[own->number / 32];
    if (!(mask & bit)) snprintf(error, sizeof error, "lane %u is not in the mask %08x at %s", lane, mask, site);
    const unsigned there = (unsigned)fibers.size() - (own->number & ~31u);
    if (there < 32 && mask >> there) snprintf(error, sizeof error, "mask %08x names lanes that are not there, at %s", mask, site);
    while (warp.unread & mask) pause();
    if ((warp.arrived & mask) && strcmp(warp.site, site))
        snprintf(error, sizeof error, "lane %u is at %s while others are at %s", lane, site, warp.site);
    warp.site = site;
    own->site = site;
    memcpy(warp.left[lane], value, size);
    warp.arrived |= bit;
    if ((warp.arrived & mask) == mask) {
        warp.arrived &= ~mask;
        warp.unread |= mask;
        for (unsigned i = own->number & ~31u; i < fibers.size() && i < (own->number & ~31u) + 32; i++)
            if ((mask >> (i & 31) & 1) && fibers[i].state == State::InWarp) fibers[i].state = State::Ready;
    } else {
        own->state = State::InWarp;
        pause();
    }
    for (int i = 0; i < 32; i++) memcpy((char*)all + i * size, warp.left[i], size);
    warp.unread &= ~bit;
}

int cuda_sim_run(const Launch* launch, unsigned order) {
    error[0] = 0;
    if (launch->workgroup == 0 || launch->workgroup > MOST || launch->groups == 0 || launch->shared_bytes > MOST_SHARED) {
        snprintf(error, sizeof error, "%u blocks of %u threads with %u bytes of shared memory cannot be launched", launch->groups,
                 launch->workgroup, launch->shared_bytes);
        return 1;
    }
    if (!stacks)
        stacks = (char*)mmap(nullptr, MOST * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    running = launch;
    running_order = order;
    block_size = {launch->workgroup, 1, 1};
    grid_size = {launch->groups, 1, 1};
    const std::vector<unsigned> threads = sequence(launch->workgroup, order);
    for (unsigned block : sequence(launch->groups, order))
        if (!run_block(*launch, block, threads)) return 1;
    return 0;
}
}
}  // namespace cuda_sim
