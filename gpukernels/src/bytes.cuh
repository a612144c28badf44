// Products of bytes: what the kernels of product.cu and output.cu compute, with numbers of 8 bits and a scale for each row of both operands. Sum,
// the type of the sums, says what the bytes are (tensor.cuh), and scaled(sum, scale, scale) what a sum stands for.
//
// With sum = Σ a[m,k]·b[n,k], result = f(scaled(sum, a_scales[m], b_scales[n]) + bias[n]) + residual[m,n]. a and b: rows of k Elements, which
// are two bytes each and lie one behind the other.
#pragma once
#include "linear.cuh"
#include "output.cuh"

// Eight bytes, as they are written at once.
struct __align__(8) EightBytes { unsigned low, high; };

// Quantises rows of n elements, x_stride apart: with a row's largest magnitude, scale = largest/most and q = x·(most/largest), rounded as pack
// does it that makes bytes of four numbers. Where a multiplier is fixed, which 0 does not do, scale = 1/fixed and q = x·fixed, cut off at ±most.
// n and x_stride are multiples of 8; rows of q are `padded` bytes apart, a multiple of 16, and zeros fill what is behind the n-th.
//
// A row whose magnitudes are so small that most/largest overflows becomes zeros with scale 0. One with NaN or an infinity becomes zeros with that
// scale, so that every product with it is NaN.
template <class Pack>
__device__ __forceinline__ void quantise(const Element* x, unsigned char* q, float* scales, int rows, int n, int x_stride, int padded, float fixed,
                                         float most, Pack pack) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;
  x += size_t(row) * x_stride, q += size_t(row) * padded;
  float v[8];
  int magnitude = 0;  // as bits, where infinity and then NaN are the largest
  for (int i = lane * 8; i < n; i += 256) {
    read_eight(v, x + i);
#pragma unroll
    for (int e = 0; e < 8; e++) magnitude = max(magnitude, __float_as_int(fabsf(v[e])));
  }
  float largest = __int_as_float(warp_max(magnitude)), multiplier = fixed > 0 ? fixed : most / largest;
  bool finite = largest < INFINITY, zeros = !finite || !(multiplier < INFINITY);
  if (lane == 0) scales[row] = !finite ? largest : zeros ? 0.f : fixed > 0 ? 1 / fixed : largest / most;
  for (int i = lane * 8; i < padded; i += 256) {
    EightBytes eight = {};
    if (i < n && !zeros) {
      read_eight(v, x + i);
#pragma unroll
      for (int e = 0; e < 8; e++) v[e] = fmaxf(-most, fminf(most, __fmul_rn(v[e], multiplier)));
      eight = {pack(v), pack(v + 4)};
    }
    *reinterpret_cast<EightBytes*>(q + i) = eight;
  }
}

// See quantise. Numbers up to ±most are rounded by pack_four.
#define QUANTISE_TO_BYTES(name, most)                                                                                         \
  extern "C" __global__ void __launch_bounds__(32 * WARPS, 8) KERNEL_NAME(name)(const Element* x, unsigned char* q, float* scales, \
                                                                                int rows, int n, int x_stride, int padded, float fixed) { \
    quantise(x, q, scales, rows, n, x_stride, padded, fixed, most, pack_four);                                                \
  }                                                                                                                           \
  KERNEL(name)

#define PRODUCT_OF_BYTES(name, Sum, ...)                                                                                            \
  extern "C" __global__ void __launch_bounds__(Tiling<__VA_ARGS__>::THREADS, Tiling<__VA_ARGS__>::BLOCKS)                           \
      KERNEL_NAME(name)(const Element* a, const float* a_scales, const Element* b, const float* b_scales, const float* bias,        \
           const Element* residual, Element* result, int m, int n, int k, int residual_stride, int result_stride, int rectified) {  \
    auto number = [=](Sum sum, int row, int column) { return scaled(sum, a_scales[row], b_scales[column]); };                       \
    product<Tiling<__VA_ARGS__>, Sum>(a, b, number, bias, residual, result, m, n, k, k, residual_stride, result_stride, rectified); \
  }                                                                                                                                 \
  KERNEL(name)

// Those of output.cu: the score of a token is scaled(sum, x_scales[row], table_scales[token]) + bias[token]. length counts Elements.
#define OUTPUT_OF_BYTES(name, Sum, ...)                                                                                                   \
  extern "C" __global__ void __launch_bounds__(Tiling<__VA_ARGS__>::THREADS, Tiling<__VA_ARGS__>::BLOCKS)                                 \
      KERNEL_NAME(name)(const Element* x, const float* x_scales, const Element* table, const float* table_scales, const float* bias,      \
           const int* columns_, const int* column_count, const unsigned* candidates, const int* set_of_row, const int* forbidden_starts,  \
           const int* forbidden, Choice* best, float2* sums, int rows, int columns, int length, int words, int count) {                   \
    Tokens tokens = {columns_, candidates, set_of_row, words, forbidden_starts, forbidden};                                               \
    auto number = [=](Sum sum, int row, int token) { return scaled(sum, x_scales[row], table_scales[token]); };                           \
    output<Tiling<__VA_ARGS__>, Sum>(x, table, number, bias, tokens, best, sums, rows, columns, column_count, length, count);             \
  }                                                                                                                                       \
  KERNEL(name)

// See output_scores.
#define SCORES_OF_BYTES(name, Sum)                                                                                                        \
  extern "C" __global__ void __launch_bounds__(128, 4)                                                                                    \
      KERNEL_NAME(name)(const Element* x, const float* x_scales, const Element* table, const float* table_scales, const float* bias,      \
                        float* result, int rows, int columns, int length) {                                                               \
    auto number = [=](Sum sum, int row, int token) { return scaled(sum, x_scales[row], table_scales[token]); };                           \
    scores<Sum>(x, table, number, bias, result, rows, columns, length);                                                                   \
  }                                                                                                                                       \
  KERNEL(name)

// All of them.
#define KERNELS_OF_BYTES(what, Sum, most)                               \
  QUANTISE_TO_BYTES(quantise_##what, most);                             \
  PRODUCT_OF_BYTES(product_##what##_128x128, Sum, 128, 128, 64, 32, 3); \
  PRODUCT_OF_BYTES(product_##what##_64x64, Sum, 64, 64, 32, 32, 3);     \
  PRODUCT_OF_BYTES(product_##what##_16x64, Sum, 16, 64, 16, 16, 4);     \
  PRODUCT_OF_BYTES(product_##what##_16x16, Sum, 16, 16, 16, 16, 8);     \
  OUTPUT_OF_BYTES(output_##what##_64, Sum, 64, 64, 32, 32, 3);          \
  OUTPUT_OF_BYTES(output_##what##_16, Sum, 16, 64, 16, 16, 4);          \
  SCORES_OF_BYTES(output_##what##_scores, Sum)
