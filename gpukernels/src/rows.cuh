// What kernels share that give each row to one warp.
#pragma once
#include "language.cuh"

constexpr int WARPS = 4;  // rows in a block

// The row of this warp.
__device__ __forceinline__ int row_of_warp() { return blockIdx.x * WARPS + threadIdx.x / 32; }

// Eight elements of fp16, as 16 bytes are read and written.
struct __align__(16) Eight { Element2 pairs[4]; };

__device__ __forceinline__ void read_eight(float (&x)[8], const Element* from) {
  Eight e = *reinterpret_cast<const Eight*>(from);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    float2 pair = to_floats(e.pairs[i]);
    x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
  }
}

__device__ __forceinline__ void write_eight(Element* to, const float (&x)[8]) {
  Eight e;
#pragma unroll
  for (int i = 0; i < 4; i++) e.pairs[i] = from_floats(x[2 * i], x[2 * i + 1]);
  *reinterpret_cast<Eight*>(to) = e;
}

__device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + __expf(-x)); }

// The sum, the largest of what the lanes of a warp have, for all of them. The order is that of a tree, the same every time.
template <class T> __device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
  for (int d = 16; d; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  return x;
}
__device__ __forceinline__ int warp_max(int x) {
#pragma unroll
  for (int d = 16; d; d /= 2) x = max(x, __shfl_xor_sync(~0u, x, d));
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int d = 16; d; d /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
  return x;
}
