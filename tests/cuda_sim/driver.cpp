// A libcuda for machines without a GPU: two devices whose memory is the host's
// and whose kernels the simulated machine runs, in several orders of threads
// and blocks. A launch whose orders disagree in any byte, or that writes
// outside its buffers, fails as an illegal access does.
//
// Environment:
//   KILN_CUDA_SIM_PEERS   0: no device reads another's memory
//   KILN_CUDA_SIM_ORDERS  orders per launch (3)
//   KILN_CUDA_SIM_FAULT   call:n:code, the n-th call of `allocate`, `write`,
//                         `launch`, `wait`, `graph` (making one), `change` (of a
//                         graph's launch), `replay`, or of the library's `heuristic`
//                         and `product`, or of NCCL's `join` and `collective`
//                         (from 1) fails with that code;
//                         all go on failing if the code is sticky
//
// Copies from memory of cuMemHostAlloc are made as late as the rules allow: when
// a stream is given something else to do, or is waited for. Whoever frees or
// changes such memory too early is found out.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "device.h"

namespace {
using Result = int;
constexpr Result OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200, NOT_FOUND = 500,
                 ILLEGAL_ADDRESS = 700;
constexpr size_t GUARD = 256;
constexpr unsigned char GUARD_BYTE = 0xa5;

struct Block {
    size_t bytes;
    bool is_device;
    int device;
};

struct Module {
    void* library;
};

struct Function {
    int (*launch)(void**, unsigned, unsigned, unsigned, unsigned);
    int arity;
    // Bytes of each parameter.
    const unsigned* sizes;
    // Bytes of shared memory that a launch may ask for.
    unsigned most_shared;
};

// What a library enqueued.
struct Work {
    int (*run)(const void*);
    std::vector<char> data;
};

// A launch of a graph, with the parameters it was given last; without a function, what
// a library enqueued.
struct Node {
    Function* function;
    unsigned groups, workgroup, shared;
    std::vector<std::vector<char>> parameters;
    const Node* before;
    std::vector<Work> works = {};
};

struct Graph {
    std::vector<Node*> nodes;
    std::vector<Work> works = {};
};

struct Exec {
    std::vector<Node> nodes;
    std::map<const Node*, size_t> numbers;
};

// As the driver's CUDA_KERNEL_NODE_PARAMS of version 2.
struct NodeParameters {
    Function* function;
    unsigned grid[3], block[3], shared;
    void** parameters;
    void **extra, *kernel, *context;
};

struct Copy {
    char* to;
    const char* from;
    size_t bytes;
};

struct Stream {
    int device;
    // Copies from other devices, put off until this stream, or one that waits
    // for it, has something else to do.
    std::vector<Copy> copies;
    // Of each device, up to which launch this stream has waited for it.
    std::map<int, size_t> seen;
    // What it records instead of running it.
    std::vector<Work>* recorded = nullptr;
    // What a library does later: when the stream is waited for, or an event of it is asked for a second time.
    std::vector<Work> later = {};
    bool is_library = false, is_asked = false;
};

struct Event {
    Stream* stream;
    size_t launch;
    std::chrono::steady_clock::time_point time;
};

constexpr int DEVICES = 2;
// Kernels that each device was given.
size_t launched[DEVICES];
// The device of this thread's context, which is its number and one.
thread_local int current_device;

std::recursive_mutex one;
std::vector<Copy> late;
std::map<char*, Block> blocks;
size_t allocated;
Result lost;

size_t memory_bytes() { return 4ull << 30; }

// Makes the copies that were put off.
void catch_up() {
    for (auto& copy : late) memcpy(copy.to, copy.from, copy.bytes);
    late.clear();
}

// Whether an address is in the host's memory that the driver gave.
bool is_pinned(const char* pointer) {
    auto after = blocks.upper_bound((char*)pointer);
    if (after == blocks.begin()) return false;
    auto block = std::prev(after);
    return !block->second.is_device && pointer < block->first + block->second.bytes;
}

// Makes the copies that a stream has put off.
void finish(Stream* stream) {
    for (auto& copy : stream->copies) memcpy(copy.to, copy.from, copy.bytes);
    stream->copies.clear();
    for (auto& work : stream->later) work.run(work.data.data());
    stream->later.clear();
    stream->is_asked = false;
}

// Whether an address is in a device's memory.
bool is_of(uint64_t address, int device) {
    auto after = blocks.upper_bound((char*)address);
    if (after == blocks.begin()) return false;
    auto block = std::prev(after);
    return block->second.is_device && block->second.device == device && (char*)address < block->first + block->second.bytes;
}

// The code of the fault that this call meets.
Result fault(const char* call) {
    static const char* wanted = getenv("KILN_CUDA_SIM_FAULT");
    static std::map<std::string, int> calls;
    if (lost) return lost;
    if (!wanted) return OK;
    char name[32];
    int at = 0, code = 0;
    if (sscanf(wanted, "%31[a-z]:%d:%d", name, &at, &code) != 3 || strcmp(name, call)) return OK;
    if (++calls[call] != at) return OK;
    if (code >= 700) lost = code;
    return code;
}

char* take(size_t bytes, bool is_device) {
    char* start = (char*)aligned_alloc(GUARD, (bytes + 3 * GUARD) / GUARD * GUARD);
    memset(start, GUARD_BYTE, GUARD);
    // Fresh memory is NaN, so that what nothing wrote shows.
    memset(start + GUARD, 0xff, bytes);
    memset(start + GUARD + bytes, GUARD_BYTE, GUARD);
    blocks[start + GUARD] = {bytes, is_device, current_device};
    return start + GUARD;
}

bool is_whole(const char* start, const Block& block) {
    for (size_t i = 1; i <= GUARD; i++)
        if ((unsigned char)start[-(long)i] != GUARD_BYTE || (unsigned char)start[block.bytes + i - 1] != GUARD_BYTE) return false;
    return true;
}

Result give_back(char* start) {
    auto found = blocks.find(start);
    if (found == blocks.end()) return INVALID_VALUE;
    const bool whole = is_whole(start, found->second);
    // Whoever still reads it finds NaN.
    memset(start, 0xff, found->second.bytes);
    blocks.erase(found);
    free(start - GUARD);
    return whole ? OK : ILLEGAL_ADDRESS;
}

// The blocks that a launch's arguments lead to.
std::map<char*, Block> reached(void** arguments, const Function& function) {
    std::map<char*, Block> found;
    for (int i = 0; i < function.arity; i++) {
        // A description begins with the address of its matrix.
        if (function.sizes[i] < sizeof(char*)) continue;
        char* pointer = *(char**)arguments[i];
        auto after = blocks.upper_bound(pointer);
        if (after == blocks.begin()) continue;
        auto block = std::prev(after);
        if (block->second.is_device && pointer < block->first + block->second.bytes) found.insert(*block);
    }
    return found;
}

using Contents = std::vector<std::vector<char>>;

Contents copy_of(const std::map<char*, Block>& some) {
    Contents all;
    for (auto& [start, block] : some) all.emplace_back(start, start + block.bytes);
    return all;
}

void restore(const std::map<char*, Block>& some, const Contents& contents) {
    size_t i = 0;
    for (auto& [start, block] : some) memcpy(start, contents[i++].data(), block.bytes);
}

Result complain(const char* what) {
    fprintf(stderr, "simulated device: %s\n", what);
    return ILLEGAL_ADDRESS;
}

Node node_of(const NodeParameters& from, const Node* before) {
    Node node{from.function, from.grid[0], from.block[0], from.shared, {}, before};
    for (int i = 0; i < from.function->arity; i++) {
        const char* start = (const char*)from.parameters[i];
        node.parameters.emplace_back(start, start + from.function->sizes[i]);
    }
    return node;
}

bool is_plain(const NodeParameters& of) {
    return of.grid[1] == 1 && of.grid[2] == 1 && of.block[1] == 1 && of.block[2] == 1 && of.shared <= of.function->most_shared && !of.extra;
}

Result run(const Function& function, void** arguments, unsigned groups, unsigned workgroup, unsigned shared) {
    static const char* wanted = getenv("KILN_CUDA_SIM_ORDERS");
    const unsigned orders = wanted ? atoi(wanted) : 3;
    const auto buffers = reached(arguments, function);
    for (auto& [start, block] : buffers)
        if (block.device != current_device) return complain("a kernel reads another device's memory");
    const Contents before = orders > 1 ? copy_of(buffers) : Contents{};
    Contents first;
    for (unsigned order = 0; order < orders; order++) {
        if (order > 0) restore(buffers, before);
        if (function.launch(arguments, groups, workgroup, shared, order)) return complain(cuda_sim::cuda_sim_error());
        for (auto& [start, block] : buffers)
            if (!is_whole(start, block)) return complain("a kernel wrote outside its buffers");
        if (order == 0)
            first = orders > 1 ? copy_of(buffers) : Contents{};
        else if (copy_of(buffers) != first)
            return complain("results depend on the order of threads");
    }
    return OK;
}
}  // namespace

#define LOCKED std::lock_guard<std::recursive_mutex> guard(one)

extern "C" {
Result cuInit(unsigned) { return OK; }
Result cuDriverGetVersion(int* version) { return *version = 13000, OK; }
Result cuGetErrorName(Result, const char** name) { return *name = "CUDA_ERROR_SIMULATED", OK; }
Result cuGetErrorString(Result, const char** text) { return *text = "simulated", OK; }

Result cuDeviceGetCount(int* count) { return *count = DEVICES, OK; }
Result cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal >= 0 && ordinal < DEVICES ? OK : INVALID_DEVICE; }
Result cuDeviceGetName(char* name, int bytes, int) { return snprintf(name, bytes, "simulated device"), OK; }
Result cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = memory_bytes(), OK; }
Result cuDeviceGetAttribute(int* value, int attribute, int) {
    constexpr int MAJOR = 75, MINOR = 76, PROCESSORS = 16;
    *value = attribute == MAJOR ? 9 : attribute == MINOR ? 0 : attribute == PROCESSORS ? 4 : 0;
    return OK;
}

Result cuDevicePrimaryCtxRetain(void** context, int device) { return *context = (void*)(1L + device), OK; }
Result cuCtxSetCurrent(void* context) { return current_device = (int)((long)context - 1), OK; }
Result cuStreamCreate(Stream** stream, unsigned) { return *stream = new Stream{current_device}, OK; }
Result cuStreamSynchronize(Stream* stream) {
    LOCKED;
    catch_up();
    finish(stream);
    return fault("wait");
}

Result cuDeviceCanAccessPeer(int* can, int device, int peer) {
    static const char* wanted = getenv("KILN_CUDA_SIM_PEERS");
    return *can = device != peer && !(wanted && !atoi(wanted)), OK;
}
Result cuMemPoolSetAccess(void*, const void*, size_t count) { return count == 1 ? OK : INVALID_VALUE; }
Result cuMemcpyPeerAsync(uint64_t to, void* to_context, uint64_t from, void* from_context, size_t bytes, Stream* stream) {
    LOCKED;
    if (Result code = fault("peer")) return code;
    catch_up();
    const int target = (int)((long)to_context - 1), source = (int)((long)from_context - 1);
    if (target != stream->device || !is_of(to, target) || !is_of(from, source)) return INVALID_VALUE;
    if (stream->seen[source] != launched[source]) return complain("a copy from a device that does not wait for its kernels");
    stream->copies.push_back({(char*)to, (const char*)from, bytes});
    return OK;
}

Result cuDeviceGetDefaultMemPool(void** pool, int) { return *pool = (void*)1, OK; }
Result cuMemPoolSetAttribute(void*, int, void*) { return OK; }
Result cuMemPoolGetAttribute(void*, int, void* value) {
    LOCKED;
    *(uint64_t*)value = allocated;
    return OK;
}
Result cuMemPoolTrimTo(void*, size_t) { return OK; }
Result cuMemGetInfo_v2(size_t* free, size_t* total) {
    LOCKED;
    *total = memory_bytes();
    *free = *total - allocated;
    return OK;
}

Result cuMemAllocAsync(uint64_t* pointer, size_t bytes, void*) {
    LOCKED;
    if (Result code = fault("allocate")) return code;
    if (allocated + bytes > memory_bytes()) return OUT_OF_MEMORY;
    allocated += bytes;
    *pointer = (uint64_t)take(bytes, true);
    return OK;
}
Result cuMemFreeAsync(uint64_t pointer, Stream* stream) {
    LOCKED;
    catch_up();
    finish(stream);
    auto found = blocks.find((char*)pointer);
    if (found != blocks.end()) allocated -= found->second.bytes;
    return give_back((char*)pointer);
}
// What the host and kernels share changes in no fixed order, and is not compared.
Result cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
    LOCKED;
    *pointer = take(bytes, false);
    return OK;
}
Result cuMemFreeHost(void* pointer) {
    LOCKED;
    return give_back((char*)pointer);
}
Result cuMemHostGetDevicePointer_v2(uint64_t* device, void* host, unsigned) { return *device = (uint64_t)host, OK; }

Result cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, Stream* stream) {
    LOCKED;
    finish(stream);
    if (Result code = fault("write")) return code;
    if (is_pinned((const char*)from)) return late.push_back({(char*)to, (const char*)from, bytes}), OK;
    catch_up();
    return memcpy((void*)to, from, bytes), OK;
}
Result cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, Stream* stream) {
    LOCKED;
    catch_up();
    finish(stream);
    return lost ? lost : (memcpy(to, (void*)from, bytes), OK);
}
Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, Stream* stream) {
    LOCKED;
    catch_up();
    finish(stream);
    if (!is_of(to, stream->device) || !is_of(from, stream->device)) return INVALID_VALUE;
    return lost ? lost : (memmove((void*)to, (void*)from, bytes), OK);
}

// An event is through once no copy is put off, whenever it was recorded.
Result cuEventCreate(Event** event, unsigned) { return *event = new Event{}, OK; }
Result cuEventRecord(Event* event, Stream* stream) {
    LOCKED;
    return *event = {stream, launched[stream->device], std::chrono::steady_clock::now()}, OK;
}
// Launches are done when they return, so an event is reached when it is recorded.
Result cuEventElapsedTime_v2(float* milliseconds, Event* start, Event* end) {
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return OK;
}
Result cuEventQuery(Event* event) {
    LOCKED;
    constexpr Result NOT_READY = 600;
    if (lost) return lost;
    if (!event->stream->is_library) return late.empty() ? OK : NOT_READY;
    if (event->stream->later.empty() || event->stream->is_asked) return finish(event->stream), OK;
    return event->stream->is_asked = true, NOT_READY;
}
Result cuEventDestroy_v2(Event* event) { return delete event, OK; }
Result cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
    LOCKED;
    finish(event->stream);
    stream->seen[event->stream->device] = event->launch;
    return OK;
}

Result cuModuleLoadData(Module** module, const void* image) {
    LOCKED;
    constexpr char MARK[] = "CUDA_SIM:";
    if (strncmp((const char*)image, MARK, sizeof MARK - 1)) return INVALID_IMAGE;
    void* library = dlopen((const char*)image + sizeof MARK - 1, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "simulated device: %s\n", dlerror());
        return INVALID_IMAGE;
    }
    *module = new Module{library};
    return OK;
}
Result cuModuleGetFunction(Function** function, Module* module, const char*) {
    LOCKED;
    void* launch = dlsym(module->library, "cuda_sim_launch");
    const int* arity = (const int*)dlsym(module->library, "cuda_sim_arity");
    auto sizes = (const unsigned* (*)())dlsym(module->library, "cuda_sim_sizes");
    if (!launch || !arity || !sizes) return NOT_FOUND;
    *function = new Function{(int (*)(void**, unsigned, unsigned, unsigned, unsigned))launch, *arity, sizes(), 48 << 10};
    return OK;
}
Result cuFuncSetAttribute(Function* function, int attribute, int value) {
    LOCKED;
    constexpr int MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
    if (attribute != MAX_DYNAMIC_SHARED_SIZE_BYTES || value > 227 << 10) return INVALID_VALUE;
    return function->most_shared = value, OK;
}
// Descriptions as the simulated machine reads them: matrices of 16-bit elements whose
// pieces have lines of 128 bytes that change places.
Result cuTensorMapEncodeTiled(uint64_t* map, int type, unsigned rank, void* start, const uint64_t* extents, const uint64_t* strides,
                              const unsigned* piece, const unsigned* steps, int interleave, int swizzle, int, int fill) {
    constexpr int UINT16 = 1, SWIZZLE_128B = 3;
    if (type != UINT16 || rank != 3 || interleave || swizzle != SWIZZLE_128B || fill || (uintptr_t)start % 16) return INVALID_VALUE;
    for (int i = 0; i < 3; i++)
        if (extents[i] == 0 || extents[i] > 1ull << 32 || piece[i] == 0 || piece[i] > 256 || steps[i] != 1) return INVALID_VALUE;
    if (strides[0] % 16 || strides[1] % strides[0] || strides[1] >= 1ull << 40 || piece[0] * 2 != 128 || piece[2] != 1) return INVALID_VALUE;
    const uint64_t all[16] = {(uint64_t)start, extents[0], extents[1], extents[2], strides[0], strides[1], piece[1]};
    return memcpy(map, all, sizeof all), OK;
}
Result cuLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, Stream* stream, void** arguments, void**) {
    LOCKED;
    if (Result code = fault("launch")) return code;
    catch_up();
    finish(stream);
    if (stream->device != current_device) return INVALID_VALUE;
    launched[stream->device]++;
    if (gy != 1 || gz != 1 || by != 1 || bz != 1 || shared > function->most_shared) return INVALID_VALUE;
    const Result code = run(*function, arguments, gx, bx, shared);
    if (code) lost = code;
    return code;
}

// Graphs are rows of kernels here: each after the one added before it.
Result cuGraphCreate(Graph** graph, unsigned) { return *graph = new Graph{}, OK; }
Result cuGraphAddKernelNode_v2(Node** node, Graph* graph, Node* const* before, size_t count, const NodeParameters* parameters) {
    LOCKED;
    const Node* last = graph->nodes.empty() ? nullptr : graph->nodes.back();
    if (!is_plain(*parameters) || count != (last ? 1 : 0) || (last && before[0] != last)) return INVALID_VALUE;
    graph->nodes.push_back(new Node(node_of(*parameters, last)));
    return *node = graph->nodes.back(), OK;
}
Result cuGraphInstantiateWithFlags(Exec** exec, Graph* graph, unsigned long long) {
    LOCKED;
    if (Result code = fault("graph")) return code;
    *exec = new Exec{};
    for (Node* node : graph->nodes) {
        (*exec)->numbers[node] = (*exec)->nodes.size();
        (*exec)->nodes.push_back(*node);
    }
    return OK;
}
Result cuGraphExecKernelNodeSetParams_v2(Exec* exec, Node* node, const NodeParameters* parameters) {
    LOCKED;
    if (Result code = fault("change")) return code;
    auto found = exec->numbers.find(node);
    if (found == exec->numbers.end() || !is_plain(*parameters)) return INVALID_VALUE;
    exec->nodes[found->second] = node_of(*parameters, node->before);
    return OK;
}
Result cuGraphLaunch(Exec* exec, Stream* stream) {
    LOCKED;
    if (Result code = fault("replay")) return code;
    catch_up();
    finish(stream);
    if (stream->device != current_device) return INVALID_VALUE;
    launched[stream->device]++;
    for (Node& node : exec->nodes) {
        if (Result code = fault("launch")) return code;
        for (const Work& work : node.works)
            if (work.run(work.data.data())) return lost = ILLEGAL_ADDRESS;
        if (!node.function) continue;
        std::vector<void*> arguments;
        for (auto& parameter : node.parameters) arguments.push_back(parameter.data());
        if (Result code = run(*node.function, arguments.data(), node.groups, node.workgroup, node.shared)) return lost = code;
    }
    return OK;
}
// What libraries enqueue on a stream that records becomes a graph, to be added to
// another as one node.
Result cuStreamBeginCapture_v2(Stream* stream, int) {
    LOCKED;
    if (stream->recorded) return INVALID_VALUE;
    return stream->recorded = new std::vector<Work>, OK;
}
Result cuStreamEndCapture(Stream* stream, Graph** graph) {
    LOCKED;
    if (!stream->recorded) return INVALID_VALUE;
    *graph = new Graph{{}, std::move(*stream->recorded)};
    delete stream->recorded;
    return stream->recorded = nullptr, OK;
}
Result cuGraphAddChildGraphNode(Node** node, Graph* graph, Node* const* before, size_t count, Graph* part) {
    LOCKED;
    const Node* last = graph->nodes.empty() ? nullptr : graph->nodes.back();
    if (part->works.empty() || count != (last ? 1 : 0) || (last && before[0] != last)) return INVALID_VALUE;
    graph->nodes.push_back(new Node{nullptr, 0, 0, 0, {}, last, part->works});
    return *node = graph->nodes.back(), OK;
}
Result cuGraphExecChildGraphNodeSetParams(Exec* exec, Node* node, Graph* part) {
    LOCKED;
    if (Result code = fault("change")) return code;
    auto found = exec->numbers.find(node);
    if (found == exec->numbers.end() || node->function || part->works.size() != node->works.size()) return INVALID_VALUE;
    return exec->nodes[found->second].works = part->works, OK;
}
Result cuGraphExecDestroy(Exec* exec) { return delete exec, OK; }
Result cuGraphDestroy(Graph* graph) {
    for (Node* node : graph->nodes) delete node;
    return delete graph, OK;
}

// For simulated libraries.
// The code of the fault that a call of theirs meets.
Result cuda_sim_fault(const char* call) {
    LOCKED;
    return fault(call);
}
// Whether so many bytes lie in one block of the current device's memory.
int cuda_sim_holds(uint64_t address, size_t bytes) {
    LOCKED;
    auto after = blocks.upper_bound((char*)address);
    return is_of(address, current_device) && (char*)address + bytes <= std::prev(after)->first + std::prev(after)->second.bytes;
}
// Whether a stream waits for an event since a library was asked for this the last time.
int cuda_sim_waited(Stream* stream) {
    LOCKED;
    const bool waited = !stream->seen.empty();
    return stream->seen.clear(), waited;
}
// Puts something off that a library does on a stream of its own.
Result cuda_sim_put_off(Stream* stream, int (*run)(const void*), const void* data, size_t bytes) {
    LOCKED;
    finish(stream);
    stream->is_library = true;
    stream->later.push_back({run, {(const char*)data, (const char*)data + bytes}});
    return OK;
}
// Enqueues something on a stream: it runs now, or is recorded. Its data are copied.
Result cuda_sim_enqueue(Stream* stream, int (*run)(const void*), const void* data, size_t bytes) {
    LOCKED;
    const std::vector<char> own((const char*)data, (const char*)data + bytes);
    if (stream->recorded) return stream->recorded->push_back({run, own}), OK;
    catch_up();
    finish(stream);
    if (stream->device != current_device) return INVALID_VALUE;
    launched[stream->device]++;
    return run(own.data()) ? (lost = ILLEGAL_ADDRESS) : OK;
}
}
