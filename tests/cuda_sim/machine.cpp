// The simulated machine: a fiber for every CUDA thread of a block, blocks one
// after the other. A thread runs until it must wait for others; who runs next
// is the order's business, so that what only one order gets right is found.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

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
enum class State { Ready, AtBarrier, InWarp, Done };

struct Fiber {
    void* stack;
    Position position;
    unsigned number;
    State state;
    const char* site;
};

struct Warp {
    unsigned arrived = 0, unread = 0;
    const char* site = "";
    unsigned char left[32][16];
};

constexpr size_t STACK = 64 << 10;
constexpr unsigned MOST = 1024;

std::vector<Fiber> fibers;
std::vector<Warp> warps;
Fiber* current;
void* scheduler;
unsigned alive, waiting;
const char* barrier_site;
const Launch* running;
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
    fibers.assign(launch.workgroup, Fiber{});
    warps.assign((launch.workgroup + 31) / 32, Warp{});
    for (unsigned i = 0; i < launch.workgroup; i++) {
        // Tops at different places of a page, for the cache's sake.
        uintptr_t* top = (uintptr_t*)(stacks + (i + 1) * STACK - (i % 61) * 64 - 64);
        *--top = 0;
        *--top = (uintptr_t)enter;
        for (int k = 0; k < 6; k++) *--top = 0;
        fibers[i] = {top, {i, 0, 0}, i, State::Ready, ""};
    }
}

bool run_block(const Launch& launch, unsigned block, const std::vector<unsigned>& order) {
    prepare(launch, block);
    while (alive > 0) {
        bool moved = false;
        for (unsigned i : order) {
            Fiber& fiber = fibers[i];
            if (fiber.state != State::Ready) continue;
            moved = true;
            current = &fiber;
            position_in_block = fiber.position;
            cuda_sim_switch(&scheduler, fiber.stack);
            if (error[0]) return false;
        }
        if (moved) continue;
        for (Fiber& fiber : fibers) {
            if (fiber.state == State::Done) continue;
            snprintf(error, sizeof error, "deadlock in block %u: thread %u waits %s at %s, %u threads are left", block,
                     fiber.number, fiber.state == State::AtBarrier ? "for the block" : "for its warp", fiber.site, alive);
            return false;
        }
    }
    return true;
}
}  // namespace

extern "C" {
const char* cuda_sim_error() { return error; }
unsigned cuda_sim_lane() { return current->number & 31; }

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
    if (launch->workgroup == 0 || launch->workgroup > MOST || launch->groups == 0) {
        snprintf(error, sizeof error, "%u blocks of %u threads cannot be launched", launch->groups, launch->workgroup);
        return 1;
    }
    if (!stacks)
        stacks = (char*)mmap(nullptr, MOST * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    running = launch;
    block_size = {launch->workgroup, 1, 1};
    grid_size = {launch->groups, 1, 1};
    const std::vector<unsigned> threads = sequence(launch->workgroup, order);
    for (unsigned block : sequence(launch->groups, order))
        if (!run_block(*launch, block, threads)) return 1;
    return 0;
}
}
}  // namespace cuda_sim
