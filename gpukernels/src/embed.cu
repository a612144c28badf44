#include "rows.cuh"

// result[r] = table[tokens[r]]·factor + signal[positions[r]], rows of n elements, a multiple of 8. The token -1 has a vector of zeros.
// table holds fp16, signal float32.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(embed)(const int* tokens, const int* positions, const Element* table, const float* signal, Element* result, int rows, int n, float factor) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;
  int token = tokens[row];
  const float* place = signal + size_t(positions[row]) * n;
  for (int i = lane * 8; i < n; i += 256) {
    float v[8] = {};
    if (token >= 0) read_eight(v, table + size_t(token) * n + i);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = v[e] * factor + place[i + e];
    write_eight(result + size_t(row) * n + i, v);
  }
}
KERNEL(embed);

// result[r] = x[places[r]], or x[r] without places: n elements, a multiple of 8. Rows of x are stride, those of the result result_stride elements
// apart. The place -1 has zeros.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(copy_rows)(const Element* x, const int* places, Element* result, int rows, int n, int stride, int result_stride) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;
  int place = places ? places[row] : row;
  for (int i = lane * 8; i < n; i += 256) {
    float v[8] = {};
    if (place >= 0) read_eight(v, x + size_t(place) * stride + i);
    write_eight(result + size_t(row) * result_stride + i, v);
  }
}
KERNEL(copy_rows);
