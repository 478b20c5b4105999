// What kernels for compute capability 9.0 call besides the prelude: products of matrices
// in shared memory by warpgroups (wgmma). A compiler for another machine (the
// simulator of the tests) replaces all of it.

// The tensor map of a matrix, as the driver makes it.
struct __align__(64) TensorMap {
    u64 opaque[16];
};

#ifndef KILN_HOST
// Makes words that tell what arrived, which each wait for one thread's word and the bytes
// it expects.
KILN_FUNCTION void mbarriers_init(u64* mbarriers, i32 count) {
    for (i32 i = 0; i < count; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(mbarriers + i)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

KILN_FUNCTION void mbarrier_expect(u64* mbarrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(mbarrier)), "r"(bytes) : "memory");
}

// Waits until a word's phase of that parity is over.
KILN_FUNCTION void mbarrier_wait(u64* mbarrier, u32 parity) {
    asm volatile(
        "{ .reg .pred over; again: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1; @over bra done; bra again; done: }" ::"r"(
            shared_address(mbarrier)),
        "r"(parity)
        : "memory");
}

// Starts the copy of a chunk of the matrix to shared memory.
KILN_FUNCTION void tma_copy(void* shared, const TensorMap* map, u64* mbarrier, i32 element, i32 line, i32 matrix) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
            shared_address(shared)),
        "l"(map), "r"(element), "r"(line), "r"(matrix), "r"(shared_address(mbarrier))
        : "memory");
}

// Makes what this thread wrote to shared memory, and the copies that it waited for,
// visible to wgmma.
KILN_FUNCTION void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// An operand of 16-bit elements, in lines of 128 bytes whose chunks change places: where
// it begins, bytes from one block of lines to the next, and from eight lines to the next.
KILN_FUNCTION u64 wgmma_operand(const void* shared, u32 blocks, u32 lines) {
    return (u64)((shared_address(shared) & 0x3ffff) >> 4) | (u64)(blocks >> 4) << 16 | (u64)(lines >> 4) << 32 | 1ull << 62;
}

// Before the first product, and after sums were written by other means.
KILN_FUNCTION void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// The products since the last call are a group.
KILN_FUNCTION void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

#define KILN_8_SUMS(i) \
    "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3]), "+f"(c[i + 1][0]), "+f"(c[i + 1][1]), "+f"(c[i + 1][2]), "+f"(c[i + 1][3])
#define KILN_32_SUMS(i) KILN_8_SUMS(i), KILN_8_SUMS(i + 2), KILN_8_SUMS(i + 4), KILN_8_SUMS(i + 6)

// Waits for the groups but for the last so many; the sums are not to be read before.
template <i32 PENDING>
KILN_FUNCTION void wgmma_wait(f32 (&c)[8][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %32;" : KILN_32_SUMS(0) : "n"(PENDING) : "memory");
}
template <i32 PENDING>
KILN_FUNCTION void wgmma_wait(f32 (&c)[16][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %64;" : KILN_32_SUMS(0), KILN_32_SUMS(8) : "n"(PENDING) : "memory");
}
template <i32 PENDING>
KILN_FUNCTION void wgmma_wait(f32 (&c)[32][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %128;"
                 : KILN_32_SUMS(0), KILN_32_SUMS(8), KILN_32_SUMS(16), KILN_32_SUMS(24)
                 : "n"(PENDING)
                 : "memory");
}

// Names of sums in assembly.
#define KILN_32_NAMES \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define KILN_64_NAMES \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define KILN_128_NAMES \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// c += a * b for a group's 64 by 16 and 16 by n matrices. An operand is turned if its lines
// run along rows (columns of the second) instead of the depth.
#define KILN_WGMMA(name, type, n, names, operands, ...)                                      \
    template <bool A_TRANSPOSED, bool B_TRANSPOSED>                                                        \
    KILN_FUNCTION void name(f32 (&c)[n / 8][4], u64 a, u64 b) {                                    \
        asm volatile("{ .reg .pred adds; setp.eq.u32 adds, 0, 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type \
                     "." type " {" names "}, " operands "; }"                                      \
                     : __VA_ARGS__                                                                 \
                     : "l"(a), "l"(b), "n"((i32)A_TRANSPOSED), "n"((i32)B_TRANSPOSED));                    \
    }
KILN_WGMMA(wgmma_f16, "f16", 64, KILN_32_NAMES, "%32, %33, adds, 1, 1, %34, %35", KILN_32_SUMS(0))
KILN_WGMMA(wgmma_f16, "f16", 128, KILN_64_NAMES, "%64, %65, adds, 1, 1, %66, %67", KILN_32_SUMS(0), KILN_32_SUMS(8))
KILN_WGMMA(wgmma_f16, "f16", 256, KILN_128_NAMES, "%128, %129, adds, 1, 1, %130, %131", KILN_32_SUMS(0), KILN_32_SUMS(8), KILN_32_SUMS(16), KILN_32_SUMS(24))
KILN_WGMMA(wgmma_bf16, "bf16", 64, KILN_32_NAMES, "%32, %33, adds, 1, 1, %34, %35", KILN_32_SUMS(0))
KILN_WGMMA(wgmma_bf16, "bf16", 128, KILN_64_NAMES, "%64, %65, adds, 1, 1, %66, %67", KILN_32_SUMS(0), KILN_32_SUMS(8))
KILN_WGMMA(wgmma_bf16, "bf16", 256, KILN_128_NAMES, "%128, %129, adds, 1, 1, %130, %131", KILN_32_SUMS(0), KILN_32_SUMS(8), KILN_32_SUMS(16), KILN_32_SUMS(24))

// The same with the first operand's words in registers, as mma.sync takes them of each warp's
// 16 rows; c = a * b where it does not add.
#define KILN_WGMMA_RS(name, type, n, names, operands, adds, ...)                                 \
    template <bool B_TRANSPOSED, bool ADDS>                                                            \
    KILN_FUNCTION void name(f32 (&c)[n / 8][4], const u32 (&a)[4], u64 b) {                        \
        asm volatile("{ .reg .pred adds; setp.ne.u32 adds, " adds ", 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type \
                     "." type " {" names "}, " operands "; }"                                      \
                     : __VA_ARGS__                                                                 \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"((i32)B_TRANSPOSED), "n"((i32)ADDS)); \
    }
KILN_WGMMA_RS(wgmma_rs_f16, "f16", 64, KILN_32_NAMES, "{%32, %33, %34, %35}, %36, adds, 1, 1, %37", "%38", KILN_32_SUMS(0))
KILN_WGMMA_RS(wgmma_rs_f16, "f16", 128, KILN_64_NAMES, "{%64, %65, %66, %67}, %68, adds, 1, 1, %69", "%70", KILN_32_SUMS(0), KILN_32_SUMS(8))
KILN_WGMMA_RS(wgmma_rs_bf16, "bf16", 64, KILN_32_NAMES, "{%32, %33, %34, %35}, %36, adds, 1, 1, %37", "%38", KILN_32_SUMS(0))
KILN_WGMMA_RS(wgmma_rs_bf16, "bf16", 128, KILN_64_NAMES, "{%64, %65, %66, %67}, %68, adds, 1, 1, %69", "%70", KILN_32_SUMS(0), KILN_32_SUMS(8))
#endif
