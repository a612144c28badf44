// Products of 8-bit integers: what the kernels of product.cu and output.cu compute, with the integers and the sums of the processor. They
// are a program of their own, so that a driver does not compile them for those who do not want them, and there for fp16 alone.
#ifndef SLUICE_BFLOAT16
#include "linear.cuh"
#include "output.cuh"

namespace {

// Eight integers, as 8 bytes are written.
struct __align__(8) EightIntegers { signed char values[8]; };

// What a sum of products of integers stands for that were made with these scales. No multiplication and addition become one, so that
// the processor gets the same bits.
__device__ __forceinline__ float scaled(int sum, float of_row, float of_column) {
  return __fmul_rn(static_cast<float>(sum), __fmul_rn(of_row, of_column));
}

}  // namespace

// Quantises rows of n elements, x_stride apart: with a row's largest magnitude, scale = largest/127 and q = x·(127/largest), rounded to the
// nearest, ties to the even one. n and x_stride are multiples of 8; rows of q are `padded` integers apart, a multiple of 16, and zeros fill
// what is behind the n-th.
//
// A row whose magnitudes are so small that 127/largest overflows becomes zeros with scale 0. One with NaN or an infinity becomes zeros with that
// scale, so that every product with it is NaN. The integers are those of kernels.QuantizeRows.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(quantise)(const Element* x, signed char* q, float* scales, int rows, int n, int x_stride, int padded) {
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
  float largest = __int_as_float(warp_max(magnitude)), multiplier = 127.f / largest;
  bool finite = largest < INFINITY, zeros = !finite || !(multiplier < INFINITY);
  if (lane == 0) scales[row] = finite && zeros ? 0.f : finite ? largest / 127.f : largest;
  for (int i = lane * 8; i < padded; i += 256) {
    EightIntegers eight = {};
    if (i < n && !zeros) {
      read_eight(v, x + i);
#pragma unroll
      for (int e = 0; e < 8; e++) eight.values[e] = static_cast<signed char>(__float2int_rn(__fmul_rn(v[e], multiplier)));
    }
    *reinterpret_cast<EightIntegers*>(q + i) = eight;
  }
}
KERNEL(quantise);

// The kernels of product.cu: with sum = Σ a[m,k]·b[n,k], result = f(sum·(a_scales[m]·b_scales[n]) + bias[n]) + residual[m,n], every operation
// rounded by itself. a and b: rows of k Elements, which are two integers each and lie one behind the other.
#define PRODUCT_INT8(name, ...)                                                                                                     \
  extern "C" __global__ void __launch_bounds__(Tiling<__VA_ARGS__>::THREADS, Tiling<__VA_ARGS__>::BLOCKS)                           \
      KERNEL_NAME(name)(const Element* a, const float* a_scales, const Element* b, const float* b_scales, const float* bias,        \
           const Element* residual, Element* result, int m, int n, int k, int residual_stride, int result_stride, int rectified) {  \
    auto number = [=](int sum, int row, int column) { return scaled(sum, a_scales[row], b_scales[column]); };                       \
    product<Tiling<__VA_ARGS__>, int>(a, b, number, bias, residual, result, m, n, k, k, residual_stride, result_stride, rectified); \
  }                                                                                                                                 \
  KERNEL(name)

PRODUCT_INT8(product_int8_128x128, 128, 128, 64, 32, 3);
PRODUCT_INT8(product_int8_64x64, 64, 64, 32, 32, 3);
PRODUCT_INT8(product_int8_16x64, 16, 64, 16, 16, 4);

// Those of output.cu: the score of a token is sum·(x_scales[row]·table_scales[token]) + bias[token]. length counts Elements, which are two
// integers each.
#define OUTPUT_INT8(name, ...)                                                                                                            \
  extern "C" __global__ void __launch_bounds__(Tiling<__VA_ARGS__>::THREADS, Tiling<__VA_ARGS__>::BLOCKS)                                 \
      KERNEL_NAME(name)(const Element* x, const float* x_scales, const Element* table, const float* table_scales, const float* bias,      \
           const int* columns_, const unsigned* candidates, const int* set_of_row, const int* forbidden_starts, const int* forbidden,     \
           Choice* best, float2* sums, int rows, int columns, int length, int words, int count) {                                         \
    Tokens tokens = {columns_, candidates, set_of_row, words, forbidden_starts, forbidden};                                               \
    auto number = [=](int sum, int row, int token) { return scaled(sum, x_scales[row], table_scales[token]); };                           \
    output<Tiling<__VA_ARGS__>, int>(x, table, number, bias, tokens, best, sums, rows, columns, length, count);                           \
  }                                                                                                                                       \
  KERNEL(name)

OUTPUT_INT8(output_int8_64, 64, 64, 32, 32, 3);
OUTPUT_INT8(output_int8_16, 16, 64, 16, 16, 4);

// See output_scores.
extern "C" __global__ void __launch_bounds__(128, 4)
    KERNEL_NAME(output_int8_scores)(const Element* x, const float* x_scales, const Element* table, const float* table_scales, const float* bias,
                                    float* result, int rows, int columns, int length) {
  auto number = [=](int sum, int row, int token) { return scaled(sum, x_scales[row], table_scales[token]); };
  scores<int>(x, table, number, bias, result, rows, columns, length);
}
KERNEL(output_int8_scores);
#endif
