// Products of fp8: 8 bits in the form e4m3, sign, 4 bits of exponent and 3 of fraction, up to ±448. They need sm_89, so they are a program of
// their own, compiled for that, and there for fp16 alone.
#ifndef SLUICE_BFLOAT16
#include "bytes.cuh"

namespace {

__device__ __forceinline__ float scaled(Float8Sum sum, float of_row, float of_column) { return __fmul_rn(sum.value, __fmul_rn(of_row, of_column)); }

// Four numbers rounded to the nearest of fp8, ties to the even ones.
__device__ __forceinline__ unsigned pack_four(const float* v) { return pack_float8(v[0], v[1]) | pack_float8(v[2], v[3]) << 16; }

}  // namespace

KERNELS_OF_BYTES(fp8, Float8Sum, 448.f);
#endif
