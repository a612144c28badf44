// What is computed element by element, a row for a warp. All rows have n elements, a multiple of 8, and lie one after another.
#include "rows.cuh"

namespace {

// The numbers of model.Activation, and one more.
enum Activation { RELU = 1, SWISH, GELU, GELU_SIGMOID, SIGMOID, TANH };

__device__ __forceinline__ float activated(float x, int kind) {
  switch (kind) {
    case RELU: return rectify(x);
    case SWISH: return x * sigmoid(x);
    case GELU: return 0.5f * x * (1 + erff(x * 0.70710678f));
    case GELU_SIGMOID: return x * sigmoid(1.702f * x);
    case SIGMOID: return sigmoid(x);
    case TANH: return fabsf(x) < INFINITY ? tanhf(x) : NOT_A_NUMBER;  // what overflowed must not become a number again
  }
  return x;
}

// Calls f for every eight elements of this warp's row.
template <class F> __device__ __forceinline__ void each_eight(int rows, int n, F f) {
  int row = row_of_warp();
  if (row >= rows) return;
  for (int i = int(threadIdx.x) % 32 * 8; i < n; i += 256) f(row, size_t(row) * n + i, i);
}

}  // namespace

// x = f(x)
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8) KERNEL_NAME(activate)(Element* x, int rows, int n, int kind) {
  each_eight(rows, n, [=](int, size_t at, int) {
    float v[8];
    read_eight(v, x + at);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = activated(v[e], kind);
    write_eight(x + at, v);
  });
}
KERNEL(activate);

// result = x + y; result may be either.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8) KERNEL_NAME(add)(const Element* x, const Element* y, Element* result, int rows, int n) {
  each_eight(rows, n, [=](int, size_t at, int) {
    float v[8], w[8];
    read_eight(v, x + at), read_eight(w, y + at);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] += w[e];
    write_eight(result + at, v);
  });
}
KERNEL(add);

// result = σ(gate)·x + (1 - σ(gate))·y; result may be any of them.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(highway)(const Element* gate, const Element* x, const Element* y, Element* result, int rows, int n) {
  each_eight(rows, n, [=](int, size_t at, int) {
    float g[8], v[8], w[8];
    read_eight(g, gate + at), read_eight(v, x + at), read_eight(w, y + at);
#pragma unroll
    for (int e = 0; e < 8; e++) {
      float keep = sigmoid(g[e]);
      v[e] = keep * v[e] + (1 - keep) * w[e];
    }
    write_eight(result + at, v);
  });
}
KERNEL(highway);

// result = σ(gate_x)·x + σ(gate_y)·y; result may be any of them.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(gated_sum)(const Element* gate_x, const Element* x, const Element* gate_y, const Element* y, Element* result, int rows, int n) {
  each_eight(rows, n, [=](int, size_t at, int) {
    float gx[8], gy[8], v[8], w[8];
    read_eight(gx, gate_x + at), read_eight(v, x + at), read_eight(gy, gate_y + at), read_eight(w, y + at);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = sigmoid(gx[e]) * v[e] + sigmoid(gy[e]) * w[e];
    write_eight(result + at, v);
  });
}
KERNEL(gated_sum);

// The running mean over positions: mean = (mean·t + x)/(t + 1) with t = positions[r], kept in float32, those of a slot `stride` elements
// behind those of the slot before; row r reads that of slot from[r] and writes that of to[r]. result has the mean, too.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8) KERNEL_NAME(average)(const Element* x, const int* from, const int* to, const int* positions,
                                                                    float* state, Element* result, int rows, int n, int stride) {
  each_eight(rows, n, [=](int row, size_t at, int i) {
    const float* mean = state + size_t(from[row]) * stride;
    float* next = state + size_t(to[row]) * stride;
    int t = positions[row];
    float v[8];
    read_eight(v, x + at);
#pragma unroll
    for (int e = 0; e < 8; e++) {
      float before = t > 0 ? mean[i + e] : 0.f;  // the state of who was in the slot before does not count
      v[e] = next[i + e] = (before * t + v[e]) / (t + 1);
    }
    write_eight(result + at, v);
  });
}
KERNEL(average);

// A step of simple recurrent units (Lei et al. 2017, "Simple Recurrent Units for Highly Parallelizable Recurrence"): with the gates' rows
// of w, f and r, c = σ(f)·c + (1 - σ(f))·w and h = σ(r)·tanh(c) + (1 - σ(r))·x. c is kept as in ssru.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(sru)(const Element* gates, const Element* x, const int* from, const int* to, const int* positions, float* state, Element* h, int rows, int n,
        int stride) {
  each_eight(rows, n, [=](int row, size_t at, int i) {
    const float* before = state + size_t(from[row]) * stride;
    float* cell = state + size_t(to[row]) * stride;
    const Element* of_row = gates + size_t(row) * 3 * n + i;
    bool begins = positions[row] == 0;
    float w[8], f[8], r[8], input[8];
    read_eight(w, of_row), read_eight(f, of_row + n), read_eight(r, of_row + 2 * n), read_eight(input, x + at);
#pragma unroll
    for (int e = 0; e < 8; e++) {
      float keep = sigmoid(f[e]), c = begins ? 0.f : before[i + e];
      c = keep * c + (1 - keep) * w[e];
      cell[i + e] = c;
      float reset = sigmoid(r[e]);
      input[e] = reset * tanhf(c) + (1 - reset) * input[e];
    }
    write_eight(h + at, input);
  });
}
KERNEL(sru);
