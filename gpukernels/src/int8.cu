// Products of 8-bit integers: what the kernels of product.cu and output.cu compute, with the integers and the sums of the processor. They
// are a program of their own, so that a driver does not compile them for those who do not want them, and there for fp16 alone.
#ifndef SLUICE_BFLOAT16
#include "bytes.cuh"

namespace {

// What a sum of products of integers stands for that were made with these scales. No multiplication and addition become one, so that
// the processor gets the same bits.
__device__ __forceinline__ float scaled(int sum, float of_row, float of_column) {
  return __fmul_rn(static_cast<float>(sum), __fmul_rn(of_row, of_column));
}

// Four numbers rounded to the nearest integers, ties to the even ones.
__device__ __forceinline__ unsigned pack_four(const float* v) {
  unsigned four = 0;
#pragma unroll
  for (int e = 0; e < 4; e++) four |= (__float2int_rn(v[e]) & 255u) << 8 * e;
  return four;
}

}  // namespace

// The integers are those of kernels.QuantizeRows, and of kernels.QuantizeRowsFixed but for rows that are not finite.
KERNELS_OF_BYTES(int8, int, 127.f);
#endif
