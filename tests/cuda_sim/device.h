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
#define __grid_constant__
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
    // Bytes of shared memory besides.
    unsigned shared_bytes;
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
// The shared memory that the launch asked for.
unsigned char* cuda_sim_shared();
// Checks that an access of so many bytes to that memory lies in it, aligned.
void cuda_sim_check(const void* at, unsigned bytes, const char* site);
// A copy of 16 bytes that is made when its group is waited for; until then its
// target is NaN.
void cuda_sim_copy(void* to, const void* from, bool is_inside, const char* site);
void cuda_sim_commit();
void cuda_sim_wait(unsigned pending);
// Makes what this thread's copies brought visible to wgmma.
void cuda_sim_fence();
// Words that tell what the device copied by descriptions, and such copies: made when
// the word is first waited for, till then NaN.
void cuda_sim_arrivals(void* words, unsigned count);
void cuda_sim_expect(void* word, unsigned bytes);
void cuda_sim_arrive(void* word, unsigned parity);
void cuda_sim_copy_piece(void* to, const void* map, void* word, int element, int line, int matrix);
// A product by a group of four warps: made now or when its group is waited for, as the
// order of threads says.
typedef float (*Number)(unsigned word, int i);
void cuda_sim_wgmma(float* sums, unsigned columns, uint64_t a, uint64_t b, bool a_turned, bool b_turned, Number number);
// The same with the first operand's words in registers, which may not change before.
void cuda_sim_wgmma_held(float* sums, unsigned columns, const unsigned* a, uint64_t b, bool b_turned, bool adds, Number number);
void cuda_sim_wgmma_commit();
void cuda_sim_wgmma_wait(unsigned pending);
}

template <class T>
inline T exchange(unsigned mask, T value, unsigned from, const char* site) {
    T all[32];
    cuda_sim_exchange(mask, &value, sizeof value, all, site);
    return all[from & 31];
}

// A bit for each lane whose condition holds.
inline unsigned vote(unsigned mask, bool holds, const char* site) {
    bool all[32];
    cuda_sim_exchange(mask, &holds, sizeof holds, all, site);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; lane++) bits |= (mask >> lane & 1u & all[lane]) << lane;
    return bits;
}

// Four 8 by 8 matrices whose rows the lanes name.
inline void take_matrices(unsigned (&x)[4], const void* row, bool transposed, const char* site) {
    const unsigned char* rows[32];
    cuda_sim_check(row, 16, site);
    cuda_sim_exchange(~0u, &row, sizeof row, rows, site);
    const unsigned lane = cuda_sim_lane();
    for (int matrix = 0; matrix < 4; matrix++) {
        uint16_t pair[2];
        for (int i = 0; i < 2; i++) {
            const unsigned line = lane / 4, along = lane % 4 * 2 + i;
            memcpy(&pair[i], rows[matrix * 8 + (transposed ? along : line)] + (transposed ? line : along) * 2, 2);
        }
        memcpy(&x[matrix], pair, 4);
    }
}

// c += a * b of a warp's matrices; `number` gives the i-th of a word's numbers.
template <class Number>
inline void multiply_matrices(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], int in_word, Number number, const char* site) {
    struct Operands {
        unsigned a[4], b[2];
    } all[32], own;
    memcpy(own.a, a, sizeof a);
    memcpy(own.b, b, sizeof b);
    cuda_sim_exchange(~0u, &own, sizeof own, all, site);
    const unsigned lane = cuda_sim_lane();
    for (int i = 0; i < 4; i++) {
        const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        float sum = c[i];
        for (int depth = 0; depth < 8 * in_word; depth++) {
            const unsigned half = depth / (4 * in_word), at = depth / in_word % 4;
            const unsigned x = all[row % 8 * 4 + at].a[row / 8 + half * 2], y = all[column * 4 + at].b[half];
            sum += number(x, depth % in_word) * number(y, depth % in_word);
        }
        c[i] = sum;
    }
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
// Bytes of each parameter.
template <class... A>
const unsigned* sizes(void (*)(A...)) {
    static const unsigned all[] = {sizeof(A)..., 0};
    return all;
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
#define __syncwarp() ((void)cuda_sim::exchange(~0u, 0, 0, CUDA_SIM_SITE))
#define KILN_SHARED(name) unsigned char* const name = cuda_sim::cuda_sim_shared()
#define __shfl_sync(mask, x, lane) cuda_sim::exchange(mask, x, lane, CUDA_SIM_SITE)
#define __ballot_sync(mask, holds) cuda_sim::vote(mask, holds, CUDA_SIM_SITE)
#define __ffs(x) __builtin_ffs((int)(x))
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
static inline unsigned narrow_f16x2(float x, float y) { return narrow_f16(x) | (unsigned)narrow_f16(y) << 16; }
static inline unsigned narrow_bf16x2(float x, float y) { return narrow_bf16(x) | (unsigned)narrow_bf16(y) << 16; }
static inline float power_of_two(float x) { return exp2f(x); }

// Tensor cores and asynchronous copies, as the prelude wraps them.
static inline float number_f16(unsigned word, int i) { return widen_f16((unsigned short)(word >> 16 * i)); }
static inline float number_bf16(unsigned word, int i) { return __uint_as_float(word >> 16 * i << 16); }
// The lowest 13 bits do not count.
static inline float number_tf32(unsigned word, int) { return __uint_as_float(word & ~0x1fffu); }
// To the nearest, ties away from zero.
static inline unsigned round_tf32(float x) {
    const unsigned bits = __float_as_uint(x);
    return x - x == 0 ? (bits + 0x1000u) & ~0x1fffu : bits;
}
#define mma_f16(c, a, b) cuda_sim::multiply_matrices(c, a, b, 2, number_f16, CUDA_SIM_SITE)
#define mma_bf16(c, a, b) cuda_sim::multiply_matrices(c, a, b, 2, number_bf16, CUDA_SIM_SITE)
#define mma_tf32(c, a, b) cuda_sim::multiply_matrices(c, a, b, 1, number_tf32, CUDA_SIM_SITE)
#define ldmatrix(x, row) cuda_sim::take_matrices(x, row, false, CUDA_SIM_SITE)
#define ldmatrix_trans(x, row) cuda_sim::take_matrices(x, row, true, CUDA_SIM_SITE)
#define cp_async(to, from, is_inside) cuda_sim::cuda_sim_copy(to, from, is_inside, CUDA_SIM_SITE)
static inline void cp_async_commit() { cuda_sim::cuda_sim_commit(); }
template <int PENDING>
static inline void cp_async_wait() {
    cuda_sim::cuda_sim_wait(PENDING);
}

// Products of matrices in shared memory, as `hopper.cuh` wraps them.
struct TensorMap;
static inline void mbarriers_init(unsigned long long* words, int count) { cuda_sim::cuda_sim_arrivals(words, count); }
static inline void mbarrier_expect(unsigned long long* word, unsigned bytes) { cuda_sim::cuda_sim_expect(word, bytes); }
static inline void mbarrier_wait(unsigned long long* word, unsigned parity) { cuda_sim::cuda_sim_arrive(word, parity); }
static inline void tma_copy(void* to, const TensorMap* map, unsigned long long* word, int element, int line, int matrix) {
    cuda_sim::cuda_sim_copy_piece(to, map, word, element, line, matrix);
}
static inline void fence_async() { cuda_sim::cuda_sim_fence(); }
static inline void wgmma_fence() {}
static inline void wgmma_commit() { cuda_sim::cuda_sim_wgmma_commit(); }
template <int PENDING, int WIDE>
static inline void wgmma_wait(float (&)[WIDE][4]) {
    cuda_sim::cuda_sim_wgmma_wait(PENDING);
}
static inline unsigned long long wgmma_operand(const void* shared, unsigned blocks, unsigned lines) {
    const unsigned long long at = (const unsigned char*)shared - cuda_sim::cuda_sim_shared();
    return at >> 4 | (unsigned long long)(blocks >> 4) << 16 | (unsigned long long)(lines >> 4) << 32 | 1ull << 62;
}
template <bool A_TRANSPOSED, bool B_TRANSPOSED, int WIDE>
static inline void wgmma_f16(float (&c)[WIDE][4], unsigned long long a, unsigned long long b) {
    cuda_sim::cuda_sim_wgmma(&c[0][0], WIDE * 8, a, b, A_TRANSPOSED, B_TRANSPOSED, number_f16);
}
template <bool A_TRANSPOSED, bool B_TRANSPOSED, int WIDE>
static inline void wgmma_bf16(float (&c)[WIDE][4], unsigned long long a, unsigned long long b) {
    cuda_sim::cuda_sim_wgmma(&c[0][0], WIDE * 8, a, b, A_TRANSPOSED, B_TRANSPOSED, number_bf16);
}
template <bool B_TRANSPOSED, bool ADDS, int WIDE>
static inline void wgmma_rs_f16(float (&c)[WIDE][4], const unsigned (&a)[4], unsigned long long b) {
    cuda_sim::cuda_sim_wgmma_held(&c[0][0], WIDE * 8, a, b, B_TRANSPOSED, ADDS, number_f16);
}
template <bool B_TRANSPOSED, bool ADDS, int WIDE>
static inline void wgmma_rs_bf16(float (&c)[WIDE][4], const unsigned (&a)[4], unsigned long long b) {
    cuda_sim::cuda_sim_wgmma_held(&c[0][0], WIDE * 8, a, b, B_TRANSPOSED, ADDS, number_bf16);
}

extern "C" {
extern char __start_cuda_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_cuda_shared[] __attribute__((weak, visibility("hidden")));
}
#define CUDA_SIM_EXPORT(kernel)                                                                       \
    extern "C" const int cuda_sim_arity = cuda_sim::arity(kernel);                                    \
    extern "C" const unsigned* cuda_sim_sizes() { return cuda_sim::sizes(kernel); }                   \
    extern "C" int cuda_sim_launch(void** arguments, unsigned groups, unsigned size, unsigned shared, \
                                   unsigned order) {                                                  \
        const cuda_sim::Launch launch = {[](void** a) { cuda_sim::apply(kernel, a); },                \
                                         arguments,                                                   \
                                         groups,                                                      \
                                         size,                                                        \
                                         __start_cuda_shared,                                         \
                                         __stop_cuda_shared,                                          \
                                         shared};                                                     \
        return cuda_sim::cuda_sim_run(&launch, order);                                                \
    }
