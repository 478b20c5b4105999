// A libcublasLt for machines without a GPU: what kiln asks of cuBLASLt, computed on
// the host when the simulated device runs it, with the library's rules checked:
// shapes that fit, lines that do not overlap, alignment that was promised, memory that
// the matrices and the workspace really have.
//
// KILN_CUDA_SIM_FAULT=heuristic:n:code or product:n:code has a call fail (driver.cpp).
#include <stdint.h>
#include <stdio.h>
#include <string.h>

extern "C" {
int cuda_sim_fault(const char* call);
int cuda_sim_holds(uint64_t address, size_t bytes);
int cuda_sim_enqueue(void* stream, int (*run)(const void*), const void* data, size_t bytes);
}

namespace {
constexpr int OK = 0, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15;
// cudaDataType_t, cublasComputeType_t, cublasOperation_t.
enum Type { F32 = 0, F16 = 2, BF16 = 14 };
enum Compute { EXACT = 68, FAST_BF16 = 75, FAST_TF32 = 77 };
enum Operation { NONE = 0, TRANSPOSED = 1 };

struct Layout {
    int type;
    uint64_t rows, columns;
    int64_t pitch;
    int32_t batch = 1;
    int64_t apart = 0;

    uint64_t width() const { return type == F32 ? 4 : 2; }
    uint64_t bytes() const { return ((batch - 1) * apart + (columns - 1) * pitch + rows) * width(); }
    bool is_sound() const { return pitch >= (int64_t)rows && rows && columns && batch > 0; }
};

struct Description {
    int compute, scale;
    int32_t operations[2] = {NONE, NONE};
};

struct Preference {
    uint64_t workspace = 0;
    // Of a, b, c, d.
    uint32_t alignment[4] = {256, 256, 256, 256};
};

// As cublasLtMatmulAlgo_t; the first says which alignment it relies on, the second how
// much memory.
struct Algorithm {
    uint64_t alignment, workspace, rest[6];
};

struct Heuristic {
    Algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

struct Product {
    Description of;
    Layout a, b, d;
    uint64_t at[3], workspace, workspace_bytes;
};

float number(const char* at, int type) {
    uint16_t half;
    uint32_t bits;
    float x;
    if (type == F32) return memcpy(&x, at, 4), x;
    memcpy(&half, at, 2);
    if (type == BF16) return bits = (uint32_t)half << 16, memcpy(&x, &bits, 4), x;
    _Float16 small;
    return memcpy(&small, &half, 2), (float)small;
}

// To so many bits less, to the nearest, ties to even.
float rounded(float x, int bits_less) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (x != x || bits_less == 0) return x;
    bits += (1u << (bits_less - 1)) - 1 + (bits >> bits_less & 1);
    bits = bits >> bits_less << bits_less;
    return memcpy(&x, &bits, 4), x;
}

void store(char* at, int type, float x) {
    if (type == F32) {
        memcpy(at, &x, 4);
    } else if (type == F16) {
        const _Float16 small = (_Float16)x;
        memcpy(at, &small, 2);
    } else {
        const float y = rounded(x, 16);
        memcpy(at, (const char*)&y + 2, 2);
    }
}

int run(const void* data) {
    const Product& product = *(const Product*)data;
    const Layout* layouts[] = {&product.a, &product.b, &product.d};
    for (int i = 0; i < 3; i++)
        if (!cuda_sim_holds(product.at[i], layouts[i]->bytes()))
            return fprintf(stderr, "simulated cuBLASLt: matrix %d is not in memory\n", i), 1;
    if (product.workspace_bytes && !cuda_sim_holds(product.workspace, product.workspace_bytes))
        return fprintf(stderr, "simulated cuBLASLt: no such workspace\n"), 1;
    // What is there is anybody's after a call.
    if (product.workspace_bytes) memset((void*)product.workspace, 0x7f, product.workspace_bytes);
    const bool turned[] = {product.of.operations[0] == TRANSPOSED, product.of.operations[1] == TRANSPOSED};
    const int less = product.of.compute == FAST_BF16 ? 16 : product.of.compute == FAST_TF32 ? 13 : 0;
    const uint64_t depths = turned[0] ? product.a.rows : product.a.columns;
    const auto factor = [&](int i, int64_t batch, uint64_t row, uint64_t column) {
        const Layout& layout = *layouts[i];
        const int64_t within = turned[i] ? column + row * layout.pitch : row + column * layout.pitch;
        const float x = number((const char*)product.at[i] + (batch * layout.apart + within) * layout.width(), layout.type);
        return layout.type == F32 ? rounded(x, less) : x;
    };
    for (int64_t batch = 0; batch < product.d.batch; batch++)
        for (uint64_t column = 0; column < product.d.columns; column++)
            for (uint64_t row = 0; row < product.d.rows; row++) {
                float sum = 0;
                for (uint64_t depth = 0; depth < depths; depth++)
                    sum += factor(0, batch, row, depth) * factor(1, batch, depth, column);
                const int64_t at = batch * product.d.apart + (int64_t)(row + column * product.d.pitch);
                store((char*)product.at[2] + at * product.d.width(), product.d.type, sum);
            }
    return 0;
}

bool is_same(const Layout& c, const Layout& d) {
    return c.type == d.type && c.rows == d.rows && c.columns == d.columns && c.pitch == d.pitch && c.batch == d.batch && c.apart == d.apart;
}

int check(const Description& of, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
    if (!a.is_sound() || !b.is_sound() || !d.is_sound() || !is_same(c, d)) return INVALID_VALUE;
    if (a.batch != d.batch || b.batch != d.batch || (d.batch > 1 && !d.apart)) return INVALID_VALUE;
    const bool a_turned = of.operations[0] == TRANSPOSED, b_turned = of.operations[1] == TRANSPOSED;
    const uint64_t rows = a_turned ? a.columns : a.rows, columns = b_turned ? b.rows : b.columns;
    if (rows != d.rows || columns != d.columns) return INVALID_VALUE;
    if ((a_turned ? a.rows : a.columns) != (b_turned ? b.columns : b.rows)) return INVALID_VALUE;
    if (a.type != b.type || (d.type != a.type && d.type != F32) || of.scale != F32) return NOT_SUPPORTED;
    const bool is_fast = of.compute == FAST_BF16 || of.compute == FAST_TF32;
    return of.compute == EXACT || (is_fast && a.type == F32) ? OK : NOT_SUPPORTED;
}
}  // namespace

extern "C" {
size_t cublasLtGetVersion() { return 130000; }
int cublasLtCreate(void** handle) { return *handle = new int, OK; }

int cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t columns, int64_t pitch) {
    return *layout = new Layout{type, rows, columns, pitch}, OK;
}
int cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* value, size_t bytes) {
    constexpr int BATCH_COUNT = 5, STRIDED_BATCH_OFFSET = 6;
    if (attribute == BATCH_COUNT && bytes == 4) return memcpy(&layout->batch, value, 4), OK;
    if (attribute == STRIDED_BATCH_OFFSET && bytes == 8) return memcpy(&layout->apart, value, 8), OK;
    return INVALID_VALUE;
}
int cublasLtMatrixLayoutDestroy(Layout* layout) { return delete layout, OK; }

int cublasLtMatmulDescCreate(Description** description, int compute, int scale) {
    return *description = new Description{compute, scale}, OK;
}
int cublasLtMatmulDescSetAttribute(Description* description, int attribute, const void* value, size_t bytes) {
    constexpr int TRANSA = 3, TRANSB = 4;
    if ((attribute != TRANSA && attribute != TRANSB) || bytes != 4) return INVALID_VALUE;
    return memcpy(&description->operations[attribute - TRANSA], value, 4), OK;
}
int cublasLtMatmulDescDestroy(Description* description) { return delete description, OK; }

int cublasLtMatmulPreferenceCreate(Preference** preference) { return *preference = new Preference, OK; }
int cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute, const void* value, size_t bytes) {
    constexpr int MAX_WORKSPACE_BYTES = 1, MIN_ALIGNMENT_A_BYTES = 5, MIN_ALIGNMENT_D_BYTES = 8;
    if (attribute == MAX_WORKSPACE_BYTES && bytes == 8) return memcpy(&preference->workspace, value, 8), OK;
    if (attribute < MIN_ALIGNMENT_A_BYTES || attribute > MIN_ALIGNMENT_D_BYTES || bytes != 4) return INVALID_VALUE;
    return memcpy(&preference->alignment[attribute - MIN_ALIGNMENT_A_BYTES], value, 4), OK;
}
int cublasLtMatmulPreferenceDestroy(Preference* preference) { return delete preference, OK; }

// Matrices that are aligned have a way that takes memory; any others have one that
// takes none.
int cublasLtMatmulAlgoGetHeuristic(void*, const Description* of, const Layout* a, const Layout* b, const Layout* c, const Layout* d,
                                   const Preference* preference, int, Heuristic* found, int* count) {
    if (int code = cuda_sim_fault("heuristic")) return code;
    if (int code = check(*of, *a, *b, *c, *d)) return code;
    constexpr uint64_t MEMORY = 4096;
    uint64_t least = 16;
    for (uint32_t alignment : preference->alignment)
        if (alignment < least) least = alignment;
    const uint64_t memory = least == 16 && preference->workspace >= MEMORY ? MEMORY : 0;
    *found = {{least, memory, {}}, memory, OK, 1, {}};
    return *count = 1, OK;
}
int cublasLtMatmul(void*, const Description* of, const float* alpha, const void* a, const Layout* a_layout, const void* b,
                   const Layout* b_layout, const float* beta, const void* c, const Layout* c_layout, void* d, const Layout* d_layout,
                   const Algorithm* algorithm, void* workspace, size_t workspace_bytes, void* stream) {
    if (int code = cuda_sim_fault("product")) return code;
    if (int code = check(*of, *a_layout, *b_layout, *c_layout, *d_layout)) return code;
    if (*alpha != 1 || *beta != 0 || c != d || workspace_bytes < algorithm->workspace) return INVALID_VALUE;
    Product product = {*of, *a_layout, *b_layout, *d_layout, {}, (uint64_t)workspace, algorithm->workspace};
    const void* matrices[] = {a, b, d};
    for (int i = 0; i < 3; i++) {
        product.at[i] = (uint64_t)matrices[i];
        if (product.at[i] % algorithm->alignment) return INVALID_VALUE;
    }
    return cuda_sim_enqueue(stream, run, &product, sizeof product) ? EXECUTION_FAILED : OK;
}
}
