// Kernels for the tests of the driver's interface and of the emulated device.
#include "../../src/language.cuh"

// c = a + b·factor, n elements
extern "C" __global__ void add(const float* a, const float* b, float* c, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i] * factor;
}
KERNEL(add);

// counts = {how many of n numbers are odd, the largest of them}
extern "C" __global__ void count(const int* x, int n, int* counts) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = i < n ? x[i] : 0;
  unsigned odd = __ballot_sync(~0u, v & 1);
  if (threadIdx.x % 32 == 0) atomicAdd(&counts[0], __popc(odd));
  atomicMax(&counts[1], v);
}
KERNEL(count);

// Reverses 64 numbers, and does it wrongly in one of several ways.
extern "C" __global__ void __launch_bounds__(64) wrong(float* x, int n, int how) {
  SHARED(kept, float[64]);
  DYNAMIC_SHARED(float, given);
  int i = threadIdx.x;
  if (how == 1 && i == 5) return;                // others wait at the barrier
  if (how == 2 && i < 8) __syncwarp(0xff00);     // not in the mask of its own operation
  if (how == 3 && i < 16) __syncwarp();          // the other half of the warp waits at the barrier
  if (how == 4) x[n + i] = 1;                    // out of bounds: memory of the device
  float* p = kept;
  if (how == 5) p[i + 1] = 1;                    // out of bounds: static shared memory
  if (how == 6) given[i + 1] = 1;                // out of bounds: dynamic shared memory
  kept[i] = x[i];
  if (how != 7) __syncthreads();                 // a race
  if (i < n) x[i] = kept[63 - i];
}
KERNEL(wrong);

// sum = that of n numbers: each block of 32 threads adds up its part, and the last one to be ready all parts. The fences let it see what the
// others wrote before they counted.
extern "C" __global__ void __launch_bounds__(32) add_up(const int* x, int n, int* parts, int* ready, int* sum, int fences) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, part = i < n ? x[i] : 0;
  for (int d = 16; d; d /= 2) part += __shfl_xor_sync(~0u, part, d);
  if (threadIdx.x) return;
  parts[blockIdx.x] = part;
  if (fences) __threadfence();
  if (atomicAdd(ready, 1) != int(gridDim.x) - 1) return;
  if (fences) __threadfence();
  int all = 0;
  for (int block = 0; block < int(gridDim.x); block++) all += parts[block];
  *sum = all;
}
KERNEL(add_up);
