#include "rows.cuh"

// A step of simpler simple recurrent units (Kim et al. 2019, "From Research to Production and Back"): with the inputs x and f of a row,
// c = σ(f)·c + (1 - σ(f))·x and h = max(0, c).
//
// gates: rows of x and then f, n elements each, n a multiple of 8. c is in float32, those of a slot `stride` elements behind those of
// the slot before; row r reads that of slot from[r] and writes that of to[r]. c begins as 0: a row whose position is 0 does not read it.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(ssru)(const Element* gates, const int* from, const int* to, const int* positions, float* state, Element* h, int rows, int n, int stride) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* before = state + size_t(from[row]) * stride;
  float* cell = state + size_t(to[row]) * stride;
  bool begins = positions[row] == 0;
  for (int i = lane * 8; i < n; i += 256) {
    float x[8], f[8];
    read_eight(x, gates + size_t(row) * 2 * n + i);
    read_eight(f, gates + size_t(row) * 2 * n + n + i);
#pragma unroll
    for (int e = 0; e < 8; e++) {
      float keep = sigmoid(f[e]), c = begins ? 0.f : before[i + e];
      c = keep * c + (1 - keep) * x[e];
      cell[i + e] = c;
      x[e] = rectify(c);
    }
    write_eight(h + size_t(row) * n + i, x);
  }
}
KERNEL(ssru);
