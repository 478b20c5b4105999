// A libnccl for machines without a GPU: what kiln asks of NCCL, computed on the host by ranks that are
// processes or threads and meet in shared memory. Stricter than NCCL: buffers must be of the communicator's
// device and overlap in place alone, ranks that ask for different things fail, and a result is NaN until its
// stream is waited for.
//
// KILN_CUDA_SIM_FAULT=join:n:code or collective:n:code has a call fail (driver.cpp); with code -1 the process
// is killed there, with -2 the call never returns.
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <vector>

extern "C" {
int cuda_sim_fault(const char* call);
int cuda_sim_holds(uint64_t address, size_t bytes);
int cuda_sim_waited(void* stream);
int cuda_sim_put_off(void* stream, int (*run)(const void*), const void* data, size_t bytes);
}

namespace {
using Result = int;
constexpr Result OK = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6;
constexpr int MOST_RANKS = 16;
constexpr size_t PIECE = 1 << 18;

struct Id {
    char name[128];
};

enum Kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST };

// What a rank asks for; all ask for the same.
struct Request {
    int kind, type, reduction, root;
    size_t count;
};

// A rank's place in shared memory.
struct Seat {
    // How many pieces it has shown, and how many of all others it has seen.
    std::atomic<uint64_t> shown, seen;
    std::atomic<bool> is_gone;
    Request request;
    char piece[PIECE];
};

struct Room {
    std::atomic<int> ranks;
    Seat seats[MOST_RANKS];
};

struct Comm {
    Room* room;
    int rank, size;
    uint64_t pieces;
    std::atomic<bool> is_aborted;
};

// Waits, unless somebody gives up.
template <class Condition>
bool wait(const Comm& comm, Condition holds) {
    for (int i = 0; !holds(); i++) {
        if (comm.is_aborted) return false;
        for (int rank = 0; rank < comm.size; rank++)
            if (comm.room->seats[rank].is_gone) return false;
        if (i > 100) usleep(20);
    }
    return true;
}

Result injected(const char* call) {
    const Result code = cuda_sim_fault(call);
    if (code == -1) kill(getpid(), 9);
    while (code == -2) pause();
    return code;
}

// The bytes that every rank gives.
Result exchange(Comm& comm, const Request& request, const char* own, size_t bytes, std::vector<std::vector<char>>& all) {
    all.assign(comm.size, std::vector<char>(bytes));
    for (size_t at = 0; at < bytes; at += PIECE) {
        const size_t some = bytes - at < PIECE ? bytes - at : PIECE;
        Seat& seat = comm.room->seats[comm.rank];
        seat.request = request;
        memcpy(seat.piece, own + at, some);
        seat.shown = ++comm.pieces;
        for (int rank = 0; rank < comm.size; rank++) {
            Seat& other = comm.room->seats[rank];
            if (!wait(comm, [&] { return other.shown >= comm.pieces; })) return REMOTE_ERROR;
            if (memcmp(&other.request, &request, sizeof request)) return INVALID_USAGE;
            memcpy(all[rank].data() + at, other.piece, some);
        }
        seat.seen = comm.pieces;
        for (int rank = 0; rank < comm.size; rank++)
            if (!wait(comm, [&] { return comm.room->seats[rank].seen >= comm.pieces; })) return REMOTE_ERROR;
    }
    return OK;
}

struct Bfloat16 {
    uint16_t bits;
    operator float() const {
        const uint32_t wide = (uint32_t)bits << 16;
        float x;
        return memcpy(&x, &wide, 4), x;
    }
    static Bfloat16 of(float x) {
        uint32_t wide;
        memcpy(&wide, &x, 4);
        return {(uint16_t)(x != x ? 0x7fff : (wide + 0x7fff + (wide >> 16 & 1)) >> 16)};
    }
};
template <class T>
T narrow(T x) {
    return x;
}

// In the order of ranks, rounded at each step.
template <class T, class Wide>
void combine(char* to, const std::vector<std::vector<char>>& all, size_t start, size_t count, int reduction, T (*narrow)(Wide)) {
    constexpr int PRODUCT = 1, MEAN = 4;
    const size_t ranks = all.size();
    for (size_t i = 0; i < count; i++) {
        const auto of = [&](size_t rank) { return ((const T*)(all[rank].data() + start))[i]; };
        T sum = of(0);
        for (size_t rank = 1; rank < ranks; rank++)
            sum = narrow(reduction == PRODUCT ? (Wide)sum * (Wide)of(rank) : (Wide)sum + (Wide)of(rank));
        ((T*)to)[i] = reduction == MEAN ? narrow((Wide)sum / (Wide)ranks) : sum;
    }
}

size_t width(int type) {
    constexpr size_t WIDTHS[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return type >= 0 && type < 10 ? WIDTHS[type] : 0;
}

void combine(char* to, const std::vector<std::vector<char>>& all, size_t start, size_t count, int type, int reduction) {
    switch (type) {
        case 1: return combine<uint8_t, uint8_t>(to, all, start, count, reduction, narrow);
        case 2: case 3: return combine<uint32_t, uint32_t>(to, all, start, count, reduction, narrow);
        case 4: case 5: return combine<uint64_t, uint64_t>(to, all, start, count, reduction, narrow);
        case 6: return combine<_Float16, float>(to, all, start, count, reduction, [](float x) { return (_Float16)x; });
        case 7: return combine<float, float>(to, all, start, count, reduction, narrow);
        case 8: return combine<double, double>(to, all, start, count, reduction, narrow);
        case 9: return combine<Bfloat16, float>(to, all, start, count, reduction, Bfloat16::of);
    }
}

// A result on its way: where it goes, and its bytes.
int arrive(const void* data) {
    uint64_t to, bytes;
    memcpy(&to, data, 8);
    memcpy(&bytes, (const char*)data + 8, 8);
    return memcpy((void*)to, (const char*)data + 16, bytes), 0;
}

// Whether operand and result share no memory, or as NCCL calls in place.
bool is_apart_or_in_place(const Comm& comm, int kind, uint64_t from, size_t in, uint64_t to, size_t out, size_t one) {
    const uint64_t own = comm.rank * one;
    const bool in_place = kind == ALL_GATHER ? from == to + own : kind == REDUCE_SCATTER ? to == from + own : from == to;
    return in_place || from + in <= to || to + out <= from;
}

Result collective(Comm* comm, const Request& request, const void* from, void* to, void* stream) {
    if (Result code = injected("collective")) return code;
    const size_t one = request.count * width(request.type), all = one * comm->size;
    const size_t in = request.kind == REDUCE_SCATTER ? all : one, out = request.kind == ALL_GATHER ? all : one;
    if (!one || !cuda_sim_holds((uint64_t)from, in) || !cuda_sim_holds((uint64_t)to, out)) return INVALID_ARGUMENT;
    if (!is_apart_or_in_place(*comm, request.kind, (uint64_t)from, in, (uint64_t)to, out, one)) return INVALID_USAGE;
    if (!cuda_sim_waited(stream)) return fprintf(stderr, "simulated NCCL: an operand that is not waited for\n"), INVALID_USAGE;
    std::vector<std::vector<char>> given;
    if (Result code = exchange(*comm, request, (const char*)from, in, given)) return code;
    std::vector<char> result(16 + out);
    const uint64_t header[] = {(uint64_t)to, out};
    memcpy(result.data(), header, 16);
    char* at = result.data() + 16;
    switch ((Kind)request.kind) {
        case ALL_REDUCE: combine(at, given, 0, request.count, request.type, request.reduction); break;
        case REDUCE_SCATTER: combine(at, given, comm->rank * one, request.count, request.type, request.reduction); break;
        case BROADCAST: memcpy(at, given[request.root].data(), one); break;
        case ALL_GATHER:
            for (int rank = 0; rank < comm->size; rank++) memcpy(at + rank * one, given[rank].data(), one);
    }
    memset(to, 0xff, out);
    return cuda_sim_put_off(stream, arrive, result.data(), result.size());
}
}  // namespace

extern "C" {
Result ncclGetVersion(int* version) { return *version = 22800, OK; }
Result ncclGetUniqueId(Id* id) {
    static std::atomic<int> made;
    static Id last;
    memset(id, 0, sizeof *id);
    snprintf(id->name, sizeof id->name, "/cuda_sim_nccl_%d_%d", getpid(), made++);
    // Where not all come, nobody else removes it.
    last = *id;
    atexit([] { shm_unlink(last.name); });
    return OK;
}
Result ncclCommInitRank(Comm** out, int size, Id id, int rank) {
    if (Result code = injected("join")) return code;
    if (size > MOST_RANKS || rank < 0 || rank >= size) return INVALID_ARGUMENT;
    const int file = shm_open(id.name, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(Room))) return SYSTEM_ERROR;
    void* room = mmap(nullptr, sizeof(Room), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (room == MAP_FAILED) return SYSTEM_ERROR;
    Comm* comm = new Comm{(Room*)room, rank, size, 0, {}};
    comm->room->ranks++;
    const bool have_all_come = wait(*comm, [&] { return comm->room->ranks >= size; });
    // Those who came have it open.
    shm_unlink(id.name);
    return *out = comm, have_all_come ? OK : REMOTE_ERROR;
}
Result ncclCommAbort(Comm* comm) {
    comm->room->seats[comm->rank].is_gone = true;
    return comm->is_aborted = true, OK;
}
Result ncclCommDestroy(Comm*) { return OK; }
Result ncclCommGetAsyncError(Comm*, Result* code) { return *code = OK, OK; }
const char* ncclGetErrorString(Result code) {
    switch (code) {
        case SYSTEM_ERROR: return "unhandled system error";
        case INVALID_ARGUMENT: return "invalid argument";
        case INVALID_USAGE: return "invalid usage";
        case REMOTE_ERROR: return "remote process exited or there was a network error";
        default: return "simulated";
    }
}
Result ncclAllReduce(const void* from, void* to, size_t count, int type, int reduction, Comm* comm, void* stream) {
    return collective(comm, {ALL_REDUCE, type, reduction, 0, count}, from, to, stream);
}
Result ncclReduceScatter(const void* from, void* to, size_t count, int type, int reduction, Comm* comm, void* stream) {
    return collective(comm, {REDUCE_SCATTER, type, reduction, 0, count}, from, to, stream);
}
Result ncclBroadcast(const void* from, void* to, size_t count, int type, int root, Comm* comm, void* stream) {
    return collective(comm, {BROADCAST, type, 0, root, count}, from, to, stream);
}
Result ncclAllGather(const void* from, void* to, size_t count, int type, Comm* comm, void* stream) {
    return collective(comm, {ALL_GATHER, type, 0, 0, count}, from, to, stream);
}
}
