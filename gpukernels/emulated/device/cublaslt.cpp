// The functions of cuBLASLt that the Go code calls, for products of 16-bit numbers with sums in float32, and results of either.
//
// What the library offers are algorithms that a test chooses (settings: algorithms), in that order:
//   wide, narrow  one chain of sums over ascending k, as the tensor instructions of the kernels here (tensor_emulated.h)
//   sliced        two chains, of every other 16 of k, that are added at the end: other bits, the same for every number of rows
//   varying       sliced for fewer than 32 rows, one chain for more
//   split         one chain, but said to be divided
//   workspace     one chain, and needs workspace, which it overwrites
//   picky         one chain, but not for more than 32 rows
//   hiding        one chain, but max(0, NaN) is 0
//   slow          one chain, and takes long
//   wrong         one chain, and adds 1 to the first column
#include <string.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cuda_language.h"
#include "driver.h"
#include "settings.h"

namespace {

enum BlasStatus : int { BLAS_SUCCESS = 0, BLAS_NOT_INITIALIZED = 1, BLAS_INVALID_VALUE = 7, BLAS_EXECUTION_FAILED = 13, BLAS_NOT_SUPPORTED = 15 };

const char* const kKinds[] = {"wide", "narrow", "sliced", "varying", "split", "workspace", "picky", "hiding", "slow", "wrong"};
enum Kind { WIDE, NARROW, SLICED, VARYING, SPLIT, WORKSPACE, PICKY, HIDING, SLOW, WRONG, KINDS };

constexpr int kFloat32 = 0, kFloat16 = 2, kBFloat16 = 14;
constexpr size_t kWorkspace = 4096;
constexpr uint64_t kMark = 0x6c676f;  // of an algorithm that this library made

struct Description { uint32_t epilogue = 1; int32_t transposed = 0, transposed_b = 0; uint64_t bias = 0; };
struct Layout { int type; uint64_t rows, columns; int64_t stride; };
struct Preference { uint64_t workspace = 0; uint32_t reductions = 7, alignment = 256; };
struct Algorithm { uint64_t mark, kind, unused[6]; };
struct Result { Algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; };
static_assert(sizeof(Algorithm) == 64 && sizeof(Result) == 96);

// A product as a call asks for it. As the library sees it, columns come first; here a row is one of m. Element i of row r of an operand is
// r * row + i * column elements behind its first.
struct Operand {
  uint64_t at;
  int64_t row, column;
};
struct Multiplication {
  int type, of_result, m, n, k;
  Operand weights, x;  // rows of k elements: n of them, m of them
  uint64_t old, result, bias, workspace;
  int64_t old_stride, result_stride;
  float alpha, beta;
  bool rectified;
  Kind kind;
};

typedef float Eight __attribute__((vector_size(32), aligned(4)));

size_t bytes_of(int type) { return type == kFloat32 ? 4 : 2; }
float number(int type, uint64_t address, int64_t element) {
  if (type == kFloat32) return reinterpret_cast<const float*>(address)[element];
  uint16_t x = reinterpret_cast<const uint16_t*>(address)[element];
  return type == kFloat16 ? __half2float(std::bit_cast<__half>(x)) : __bfloat162float(std::bit_cast<__nv_bfloat16>(x));
}
void store(int type, uint64_t address, int64_t element, float x) {
  if (type == kFloat32) reinterpret_cast<float*>(address)[element] = x;
  else reinterpret_cast<uint16_t*>(address)[element] = type == kFloat16 ? std::bit_cast<uint16_t>(__float2half_rn(x)) : std::bit_cast<uint16_t>(__float2bfloat16_rn(x));
}

// Sums over some of k for eight columns: parts of 16, each step-th from the first one on. weights has k as the outer dimension.
Eight chain(const float* x, const float* weights, int n, int k, int first, int step) {
  Eight sum = {};
  for (int part = first * 16; part < k; part += step * 16)
    for (int i = part; i < std::min(part + 16, k); i++) sum += x[i] * *reinterpret_cast<const Eight*>(weights + size_t(i) * n);
  return sum;
}

void multiply(const Multiplication& p) {
  if (p.kind == SLOW) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (p.kind == WORKSPACE) memset(reinterpret_cast<void*>(p.workspace), 0xff, kWorkspace);
  bool sliced = p.kind == SLICED || (p.kind == VARYING && p.m < 32);
  int wide = (p.n + 7) / 8 * 8;
  std::vector<float> weights(size_t(wide) * p.k), x(p.k);
  for (int j = 0; j < p.n; j++)
    for (int i = 0; i < p.k; i++) weights[size_t(i) * wide + j] = number(p.type, p.weights.at, j * p.weights.row + i * p.weights.column);
  for (int row = 0; row < p.m; row++) {
    for (int i = 0; i < p.k; i++) x[i] = number(p.type, p.x.at, row * p.x.row + i * p.x.column);
    for (int column = 0; column < p.n; column += 8) {
      Eight sums = sliced ? chain(x.data(), &weights[column], wide, p.k, 0, 2) + chain(x.data(), &weights[column], wide, p.k, 1, 2)
                          : chain(x.data(), &weights[column], wide, p.k, 0, 1);
      for (int j = column; j < std::min(column + 8, p.n); j++) {
        float y = p.alpha * sums[j - column];
        if (p.beta != 0) y += p.beta * number(p.of_result, p.old, row * p.old_stride + j);
        if (p.bias) y += number(p.of_result, p.bias, j);
        if (p.kind == WRONG && j == 0) y += 1;
        if (p.rectified) y = y < 0 || (p.kind == HIDING && y != y) ? 0 : y;
        store(p.of_result, p.result, row * p.result_stride + j, y);
      }
    }
  }
}

Kind kind_of(const Algorithm* a) { return a->mark == kMark && a->kind < KINDS ? Kind(a->kind) : KINDS; }
size_t workspace_of(Kind kind) { return kind == WORKSPACE ? kWorkspace : 0; }

// Says whether the layouts are those of one product that this library computes.
bool fit(const Description* d, const Layout* a, const Layout* b, const Layout* c, const Layout* of_result) {
  uint64_t n = d->transposed ? a->columns : a->rows, k = d->transposed ? a->rows : a->columns;
  uint64_t m = d->transposed_b ? b->rows : b->columns, k_of_b = d->transposed_b ? b->columns : b->rows;
  auto dense = [](const Layout* l) { return l->stride >= int64_t(l->rows) && l->stride % 8 == 0; };
  auto is_result = [&](const Layout* l) { return l->rows == n && l->columns == m && dense(l); };
  return k == k_of_b && dense(a) && dense(b) && is_result(c) && is_result(of_result) && a->rows % 8 == 0 && b->rows % 8 == 0 && n % 8 == 0 && m > 0 &&
         k > 0 && a->type != kFloat32 && a->type == b->type && c->type == of_result->type && (c->type == a->type || c->type == kFloat32);
}

// Copies an attribute of the size that the library has for it.
template <class T> int copy(T& to, const void* from, size_t bytes) {
  if (!from || bytes != sizeof to) return BLAS_INVALID_VALUE;
  memcpy(&to, from, bytes);
  return BLAS_SUCCESS;
}

// What a call answers before it does anything.
int answer(const emulated::Call& call) {
  if (call.fault) return call.fault;
  if (call.driver == 201) return BLAS_NOT_INITIALIZED;  // no context is bound
  return call.driver ? BLAS_EXECUTION_FAILED : BLAS_SUCCESS;
}

}  // namespace

#define BLAS_API(type, name, ...) extern "C" __attribute__((visibility("default"))) type cublasLt##name(__VA_ARGS__)
#define BLAS_CALL                   \
  emulated::Call call(__func__);    \
  if (int error = answer(call)) return error
// Of a call that works on this machine alone.
#define BLAS_HOST_CALL              \
  emulated::Call call(__func__);    \
  if (call.fault) return call.fault

BLAS_API(size_t, GetVersion) { return emulated::settings().blas; }
BLAS_API(const char*, GetStatusName, int status) {
  switch (status) {
    case BLAS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case BLAS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case 3: return "CUBLAS_STATUS_ALLOC_FAILED";
    case BLAS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case BLAS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case 14: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case BLAS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "<unknown>";
}
BLAS_API(int, Create, void** handle) { BLAS_CALL; return *handle = new char, BLAS_SUCCESS; }
BLAS_API(int, Destroy, char* handle) { BLAS_CALL; return delete handle, BLAS_SUCCESS; }

BLAS_API(int, MatmulDescCreate, Description** d, int compute, int scale) {
  BLAS_HOST_CALL;
  if (compute != 68 || scale != 0) return BLAS_NOT_SUPPORTED;  // CUBLAS_COMPUTE_32F, CUDA_R_32F
  return *d = new Description, BLAS_SUCCESS;
}
BLAS_API(int, MatmulDescDestroy, Description* d) { BLAS_HOST_CALL; return delete d, BLAS_SUCCESS; }
BLAS_API(int, MatmulDescSetAttribute, Description* d, int attribute, const void* from, size_t bytes) {
  BLAS_HOST_CALL;
  switch (attribute) {
    case 3: return copy(d->transposed, from, bytes);
    case 4: return copy(d->transposed_b, from, bytes);
    case 7: return copy(d->epilogue, from, bytes);
    case 8: return copy(d->bias, from, bytes);
  }
  return BLAS_INVALID_VALUE;
}
BLAS_API(int, MatrixLayoutCreate, Layout** l, int type, uint64_t rows, uint64_t columns, int64_t stride) {
  BLAS_HOST_CALL;
  if (type != kFloat32 && type != kFloat16 && type != kBFloat16) return BLAS_INVALID_VALUE;
  return *l = new Layout{type, rows, columns, stride}, BLAS_SUCCESS;
}
BLAS_API(int, MatrixLayoutDestroy, Layout* l) { BLAS_HOST_CALL; return delete l, BLAS_SUCCESS; }
BLAS_API(int, MatrixLayoutSetAttribute, Layout* l, int attribute, const void* from, size_t bytes) {
  BLAS_HOST_CALL;
  switch (attribute) {
    case 3: return copy(l->columns, from, bytes);
    case 4: return copy(l->stride, from, bytes);
  }
  return BLAS_INVALID_VALUE;
}
BLAS_API(int, MatmulPreferenceCreate, Preference** p) { BLAS_HOST_CALL; return *p = new Preference, BLAS_SUCCESS; }
BLAS_API(int, MatmulPreferenceDestroy, Preference* p) { BLAS_HOST_CALL; return delete p, BLAS_SUCCESS; }
BLAS_API(int, MatmulPreferenceSetAttribute, Preference* p, int attribute, const void* from, size_t bytes) {
  BLAS_HOST_CALL;
  switch (attribute) {
    case 1: return copy(p->workspace, from, bytes);
    case 3: return copy(p->reductions, from, bytes);
    case 5: case 6: case 7: case 8: return copy(p->alignment, from, bytes);
  }
  return BLAS_INVALID_VALUE;
}

BLAS_API(int, MatmulAlgoGetHeuristic, void*, Description* d, Layout* a, Layout* b, Layout* c, Layout* of_result, Preference* p, int most,
         Result* results, int* count) {
  BLAS_CALL;
  if (most <= 0 || !fit(d, a, b, c, of_result)) return BLAS_INVALID_VALUE;
  *count = 0;
  std::string list = "," + emulated::settings().algorithms + ",";
  if (list == ",none,") return BLAS_NOT_SUPPORTED;
  for (size_t begin = 1; begin < list.size() && *count < most;) {
    size_t end = list.find(',', begin);
    auto named = std::find(std::begin(kKinds), std::end(kKinds), list.substr(begin, end - begin));
    begin = end + 1;
    if (named == std::end(kKinds)) continue;
    Kind kind = Kind(named - kKinds);
    Result& r = results[*count];
    r = {{kMark, uint64_t(kind), {}}, workspace_of(kind), BLAS_SUCCESS, 1, {}};
    if (p->workspace >= r.workspace && p->alignment <= 16) ++*count;
  }
  return BLAS_SUCCESS;
}
BLAS_API(int, MatmulAlgoCheck, void*, Description* d, Layout* a, Layout* b, Layout* c, Layout* of_result, const Algorithm* algorithm, Result* r) {
  BLAS_CALL;
  Kind kind = kind_of(algorithm);
  if (kind == KINDS || !fit(d, a, b, c, of_result)) return BLAS_INVALID_VALUE;
  if (kind == PICKY && of_result->columns > 32) return BLAS_NOT_SUPPORTED;
  return r->workspace = workspace_of(kind), r->state = BLAS_SUCCESS;
}
BLAS_API(int, MatmulAlgoConfigGetAttribute, const Algorithm* a, int attribute, void* to, size_t bytes, size_t* written) {
  BLAS_HOST_CALL;
  uint32_t value = attribute == 0 ? a->kind : attribute == 2 ? 1 + (kind_of(a) == SPLIT) : 0;
  *written = attribute < 7 ? 4 : 2;
  if (attribute < 0 || attribute > 8 || bytes != *written) return BLAS_INVALID_VALUE;
  return memcpy(to, &value, bytes), BLAS_SUCCESS;
}
BLAS_API(int, Matmul, void*, Description* d, const float* alpha, uint64_t weights, Layout* a, uint64_t x, Layout* b, const float* beta, uint64_t old,
         Layout* c, uint64_t result, Layout* of_result, const Algorithm* algorithm, uint64_t workspace, size_t bytes, emulated::Stream* stream) {
  BLAS_CALL;
  Kind kind = kind_of(algorithm);
  if (kind == KINDS || !fit(d, a, b, c, of_result) || bytes < workspace_of(kind) || !emulated::is_own(stream)) return BLAS_INVALID_VALUE;
  if (kind == PICKY && of_result->columns > 32) return BLAS_NOT_SUPPORTED;
  auto there = [](uint64_t p, const Layout* l) { return p % 16 == 0 && emulated::on_device(p, bytes_of(l->type) * ((l->columns - 1) * l->stride + l->rows)); };
  bool with_bias = d->epilogue & 4;
  if (!there(weights, a) || !there(x, b) || !there(result, of_result) || (*beta != 0 && !there(old, c)) || (d->epilogue & ~7u) ||
      (with_bias && !emulated::on_device(d->bias, bytes_of(c->type) * c->rows)) || (bytes && !emulated::on_device(workspace, bytes)))
    return BLAS_INVALID_VALUE;
  auto rows_of = [](uint64_t p, const Layout* l, bool columns_are_rows) { return columns_are_rows ? Operand{p, l->stride, 1} : Operand{p, 1, l->stride}; };
  Multiplication p{a->type, c->type, int(c->columns), int(c->rows), int(d->transposed ? a->rows : a->columns), rows_of(weights, a, d->transposed),
                   rows_of(x, b, !d->transposed_b), old, result, with_bias ? d->bias : 0, workspace, c->stride, of_result->stride, *alpha, *beta,
                   (d->epilogue & 2) != 0, kind};
  return emulated::submit(stream, [p] { multiply(p); }) ? BLAS_EXECUTION_FAILED : BLAS_SUCCESS;
}
