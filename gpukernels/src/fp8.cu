// Products of fp8: 8 bits in the form e4m3, sign, 4 bits of exponent and 3 of fraction, up to ±448. They need sm_89, so they are a program of
// their own, compiled for that, and there for fp16 alone.
#ifndef SLUICE_BFLOAT16
#include "bytes.cuh"

namespace {

__device__ __forceinline__ float scaled(Float8Sum sum, float of_row, float of_column) { return __fmul_rn(sum.value, __fmul_rn(of_row, of_column)); }

// Four numbers rounded to the nearest of fp8, ties to the even ones.
__device__ __forceinline__ unsigned pack_four(const float* v) { return pack_float8(v[0], v[1]) | pack_float8(v[2], v[3]) << 16; }

}  // namespace

// See quantise in bytes.cuh.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(quantise_fp8)(const Element* x, unsigned char* q, float* scales, int rows, int n, int x_stride, int padded) {
  quantise(x, q, scales, rows, n, x_stride, padded, 448.f, pack_four);
}
KERNEL(quantise_fp8);

KERNELS_OF_BYTES(fp8, Float8Sum);
#endif
