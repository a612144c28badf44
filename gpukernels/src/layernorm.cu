#include "rows.cuh"

namespace {

// Eight elements of x + residual, which may be null.
struct Sum {
  const Element *x, *residual;

  __device__ __forceinline__ void operator()(float (&v)[8], int i) const {
    read_eight(v, x + i);
    if (!residual) return;
    float r[8];
    read_eight(r, residual + i);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] += r[e];
  }
};

}  // namespace

// With v = x + residual, result = (v - mean)/sqrt(variance + epsilon)·scale + bias for each row of n elements. Of each `part` of them only the
// first `own` count, mean and variance being those of these; the others are zeros, in scale and bias, too, and stay so. Everything in float32;
// residual and bias may be null, n and part are multiples of 8. result may be x or residual. Rows of all three are `stride` elements apart.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(layer_norm)(const Element* x, const Element* residual, const float* scale, const float* bias, Element* result, int rows, int n, int stride,
                            int part, int own, float epsilon) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;
  Sum read{x + size_t(row) * stride, residual ? residual + size_t(row) * stride : nullptr};
  int count = n / part * own;
  float v[8], sum = 0, squares = 0;
  for (int i = lane * 8; i < n; i += 256) {
    read(v, i);
#pragma unroll
    for (int e = 0; e < 8; e++) sum += v[e];
  }
  float mean = warp_sum(sum) / count;
  for (int i = lane * 8; i < n; i += 256) {
    read(v, i);
    int here = own - (part < n ? i % part : i);
#pragma unroll
    for (int e = 0; e < 8; e++) squares += e < here ? (v[e] - mean) * (v[e] - mean) : 0.f;
  }
  float factor = rsqrtf(warp_sum(squares) / count + epsilon);
  for (int i = lane * 8; i < n; i += 256) {
    read(v, i);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = (v[e] - mean) * factor * scale[i + e] + (bias ? bias[i + e] : 0.f);
    write_eight(result + size_t(row) * stride + i, v);
  }
}
KERNEL(layer_norm);

// With v = x + residual, result = v/sqrt(mean of v² + epsilon)·scale for each row, of which the first `own` elements count. Otherwise as
// layer_norm.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(rms_norm)(const Element* x, const Element* residual, const float* scale, Element* result, int rows, int n, int own, float epsilon) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row > rows - 1) return;
  Sum read{x + size_t(row) * n, residual ? residual + size_t(row) * n : nullptr};
  float v[8], squares = 0;
  for (int i = lane * 8; i < n; i += 256) {
    read(v, i);
#pragma unroll
    for (int e = 0; e < 8; e++) squares += v[e] * v[e];
  }
  float factor = rsqrtf(warp_sum(squares) / own + epsilon);
  for (int i = lane * 8; i < n; i += 256) {
    read(v, i);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] *= factor * scale[i + e];
    write_eight(result + size_t(row) * n + i, v);
  }
}
KERNEL(rms_norm);
