// CUDA C on the host: what generated kernels use of the language, for g++.
// Every CUDA thread is a fiber of the machine in machine.cpp; this header
// stands before the kernel's text.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KILN_HOST 1
#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// Shared memory lies in one section, which the machine fills with NaN before
// every block.
#define __shared__ static __attribute__((section("cuda_shared")))

struct Position {
    unsigned x, y, z;
};

namespace cuda_sim {
struct Launch {
    void (*kernel)(void**);
    void** arguments;
    unsigned groups, workgroup;
    char *shared_start, *shared_end;
};
extern "C" {
extern Position position_in_block, block_position, block_size, grid_size;
// Runs every thread of every block in the given order; 0 is success.
int cuda_sim_run(const Launch* launch, unsigned order);
const char* cuda_sim_error();
void cuda_sim_barrier(const char* site);
// Leaves a value for the other lanes, waits for all of the mask, and takes
// what each of the 32 left.
void cuda_sim_exchange(unsigned mask, const void* value, unsigned size, void* all, const char* site);
unsigned cuda_sim_lane();
}

template <class T>
inline T exchange(unsigned mask, T value, unsigned from, const char* site) {
    T all[32];
    cuda_sim_exchange(mask, &value, sizeof value, all, site);
    return all[from & 31];
}

template <size_t... I>
struct Numbers {};
template <size_t N, size_t... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <size_t... I>
struct Count<0, I...> {
    using type = Numbers<I...>;
};
template <class... A, size_t... I>
inline void apply(void (*kernel)(A...), void** arguments, Numbers<I...>) {
    kernel(*(A*)arguments[I]...);
}
template <class... A>
inline void apply(void (*kernel)(A...), void** arguments) {
    apply(kernel, arguments, typename Count<sizeof...(A)>::type{});
}
template <class... A>
constexpr int arity(void (*)(A...)) {
    return sizeof...(A);
}
template <class T>
constexpr bool is_pointer(T*) {
    return true;
}
}  // namespace cuda_sim

#define threadIdx position_in_block
#define blockIdx block_position
#define blockDim block_size
#define gridDim grid_size
using cuda_sim::block_position;
using cuda_sim::block_size;
using cuda_sim::grid_size;
using cuda_sim::position_in_block;

#define CUDA_SIM_TEXT(x) #x
#define CUDA_SIM_LINE(x) CUDA_SIM_TEXT(x)
#define CUDA_SIM_SITE "line " CUDA_SIM_LINE(__LINE__)
#define __syncthreads() cuda_sim::cuda_sim_barrier(CUDA_SIM_SITE)
#define __shfl_sync(mask, x, lane) cuda_sim::exchange(mask, x, lane, CUDA_SIM_SITE)
#define __shfl_down_sync(mask, x, by) \
    cuda_sim::exchange(mask, x, cuda_sim::cuda_sim_lane() + (by) > 31 ? cuda_sim::cuda_sim_lane() \
                                                                        : cuda_sim::cuda_sim_lane() + (by), CUDA_SIM_SITE)

static inline unsigned atomicCAS(unsigned* at, unsigned expected, unsigned value) {
    const unsigned old = *at;
    if (old == expected) *at = value;
    return old;
}

template <class To, class From>
static inline To same_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "one width");
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
static inline float __int_as_float(int x) { return same_bits<float>(x); }
static inline int __float_as_int(float x) { return same_bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return same_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }

// What the prelude writes in assembly.
static inline float widen_f16(unsigned short half) { return (float)same_bits<_Float16>(half); }
static inline unsigned short narrow_f16(float x) { return same_bits<unsigned short>((_Float16)x); }
static inline unsigned short narrow_bf16(float x) {
    const unsigned bits = __float_as_uint(x);
    if (x != x) return 0x7fff;
    return (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

extern "C" {
extern char __start_cuda_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_cuda_shared[] __attribute__((weak, visibility("hidden")));
}
#define CUDA_SIM_EXPORT(kernel)                                                                       \
    extern "C" const int cuda_sim_arity = cuda_sim::arity(kernel);                                    \
    extern "C" int cuda_sim_launch(void** arguments, unsigned groups, unsigned size, unsigned order) { \
        const cuda_sim::Launch launch = {[](void** a) { cuda_sim::apply(kernel, a); }, arguments,     \
                                         groups, size, __start_cuda_shared, __stop_cuda_shared};      \
        return cuda_sim::cuda_sim_run(&launch, order);                                                \
    }
