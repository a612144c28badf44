#include "rows.cuh"

// With v = x + residual, result = (v - mean)/sqrt(variance + epsilon)·scale + bias for each row of n elements, the variance being divided
// by n. Everything in float32; residual and bias may be null, n is a multiple of 8. result may be x or residual.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    layer_norm(const __half* x, const __half* residual, const float* scale, const float* bias, __half* result, int rows, int n, float epsilon) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;
  auto read = [&](float (&v)[8], int i) {
    read_eight(v, x + size_t(row) * n + i);
    if (!residual) return;
    float r[8];
    read_eight(r, residual + size_t(row) * n + i);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] += r[e];
  };
  float v[8], sum = 0, squares = 0;
  for (int i = lane * 8; i < n; i += 256) {
    read(v, i);
#pragma unroll
    for (int e = 0; e < 8; e++) sum += v[e];
  }
  float mean = warp_sum(sum) / n;
  for (int i = lane * 8; i < n; i += 256) {
    read(v, i);
#pragma unroll
    for (int e = 0; e < 8; e++) squares += (v[e] - mean) * (v[e] - mean);
  }
  float factor = rsqrtf(warp_sum(squares) / n + epsilon);
  for (int i = lane * 8; i < n; i += 256) {
    read(v, i);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = (v[e] - mean) * factor * scale[i + e] + (bias ? bias[i + e] : 0.f);
    write_eight(result + size_t(row) * n + i, v);
  }
}
KERNEL(layer_norm);
