// Recurrent cells, a row for a warp. What a cell gave last and, behind that, its memory are kept in float32, those of a state `stride`
// elements behind those of the state before. Matrices are multiplied elsewhere: with the inputs of many rows at once, and with what the cells
// gave last, which is there as elements, too.
#include "cells.cuh"

namespace {

// What comes from the input for eight elements of a gate: of a row of x, or the bias that stands in its place, or nothing.
struct FromInput {
  const Element* x;
  const float* bias;

  __device__ __forceinline__ void operator()(float (&v)[8], int i) const {
    if (x) {
      read_eight(v, x + i);
      return;
    }
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = bias ? bias[i + e] : 0.f;
  }
};

// v = u + x for eight elements of a gate.
__device__ __forceinline__ void read_gate(float (&v)[8], const FromInput& x, const Element* u, int i) {
  float w[8];
  x(v, i), read_eight(w, u + i);
#pragma unroll
  for (int e = 0; e < 8; e++) v[e] += w[e];
}

// r, z of x + u; h = tanh(x + r·u); s = (1 - z)·h + z·s.
__device__ __forceinline__ void advance_gru(float (&s)[8], const FromInput& x, const Element* u, int n, int i) {
  float r[8], z[8], v[8], w[8];
  read_gate(r, x, u, i), read_gate(z, x, u, n + i), x(v, 2 * n + i), read_eight(w, u + 2 * n + i);
#pragma unroll
  for (int e = 0; e < 8; e++) {
    float keep = sigmoid(z[e]);
    s[e] = keep * s[e] + (1 - keep) * tanhf(v[e] + sigmoid(r[e]) * w[e]);
  }
}

// f, i, c, o of x + u; m = σ(f)·m + σ(i)·tanh(c); s = σ(o)·tanh(m).
__device__ __forceinline__ void advance_lstm(float (&s)[8], float* m, const FromInput& x, const Element* u, int n, int i) {
  float forget[8], in[8], candidate[8], out[8];
  read_gate(forget, x, u, i), read_gate(in, x, u, n + i), read_gate(candidate, x, u, 2 * n + i), read_gate(out, x, u, 3 * n + i);
#pragma unroll
  for (int e = 0; e < 8; e++) {
    float memory = sigmoid(forget[e]) * m[e] + sigmoid(in[e]) * tanhf(candidate[e]);
    m[e] = memory;
    s[e] = sigmoid(out[e]) * tanhf(memory);
  }
}

// w, f and, of an SRU, r of x; m = σ(f)·m + (1 - σ(f))·w; s = max(0, m), or σ(r)·tanh(m) + (1 - σ(r))·input.
__device__ __forceinline__ void advance_simple(float (&s)[8], float* m, const FromInput& x, const Element* input, bool sru, int n, int i) {
  float w[8], forget[8], r[8] = {}, own[8] = {};
  x(w, i), x(forget, n + i);
  if (sru) x(r, 2 * n + i), read_eight(own, input + i);
#pragma unroll
  for (int e = 0; e < 8; e++) {
    float keep = sigmoid(forget[e]), memory = keep * m[e] + (1 - keep) * w[e], reset = sigmoid(r[e]);
    m[e] = memory;
    s[e] = sru ? reset * tanhf(memory) + (1 - reset) * own[e] : rectify(memory);
  }
}

// x, or NaN for what is not finite.
__device__ __forceinline__ float finite(float x) { return fabsf(x) < INFINITY ? x : NOT_A_NUMBER; }

}  // namespace

// Begins a step: state to[r] = state from[r], or at position 0 what it begins with, n elements of row numbers[r] of starts, the same for all
// `width` elements, or zeros where there are no starts. h has its first n elements. Without lists, row r has state r and begins.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(begin_cells)(float* states, const int* from, const int* to, const int* positions, const float* starts, const int* numbers, Element* h,
                             int rows, int n, int width, int stride) {
  each_eight(rows, width, [=](int row, int i) {
    bool begins = !positions || positions[row] == 0;
    const float* before = begins ? (starts ? starts + size_t(numbers[row]) * n + i % n : nullptr) : states + size_t(from[row]) * stride + i;
    float* state = states + size_t(to ? to[row] : row) * stride + i;
    float v[8];
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = state[e] = before ? before[e] : 0.f;
    if (i < n) write_eight(h + size_t(row) * n + i, v);
  });
}
KERNEL(begin_cells);

// Multiplicative cells: what the cell gave last becomes its product with factors, elementwise, and with the last n of the x_width elements
// that come from the input.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(multiply_cells)(float* states, const int* to, const Element* x, const int* places, const Element* factors, Element* h, int rows, int n,
                                int x_width, int stride) {
  each_eight(rows, n, [=](int row, int i) {
    float* state = states + size_t(to ? to[row] : row) * stride + i;
    float v[8], w[8];
    read_eight(v, x + size_t(places ? places[row] : row) * x_width + x_width - n + i), read_eight(w, factors + size_t(row) * n + i);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = state[e] = v[e] * w[e];
    write_eight(h + size_t(row) * n + i, v);
  });
}
KERNEL(multiply_cells);

// Advances the states to[r]. x: x_width elements for each place, or null; bias: in its place, or null. u: what comes from the states, u_width
// elements for each row, or null. input: n elements for each place, that SRUs read and that is added to the result if added. h has what the cells
// give, n elements for each row, and result, if there is one, the same plus what is added, result_stride elements apart for each place. Row r
// has places[r], or r.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 4)
    KERNEL_NAME(advance_cells)(float* states, const int* to, const Element* x, const int* places, const float* bias, const Element* u,
                               const Element* input, Element* h, Element* result, int rows, int n, int kind, int x_width, int u_width, int stride,
                               int result_stride, int added) {
  each_eight(rows, n, [=](int row, int i) {
    float* state = states + size_t(to ? to[row] : row) * stride + i;
    size_t place = places ? places[row] : row;
    const Element* own = input + place * n;
    const Element* from_state = u + size_t(row) * u_width;
    FromInput from_input{x ? x + place * x_width : nullptr, bias};
    float s[8];
#pragma unroll
    for (int e = 0; e < 8; e++) s[e] = state[e];
    switch (kind) {
      case GRU: case NEMATUS_GRU: case MULTIPLICATIVE_GRU: advance_gru(s, from_input, from_state, n, i); break;
      case LSTM: case MULTIPLICATIVE_LSTM: advance_lstm(s, state + n, from_input, from_state, n, i); break;
      case SRU: case SSRU: advance_simple(s, state + n, from_input, own, kind == SRU, n, i); break;
      default:
        read_gate(s, from_input, from_state, i);
#pragma unroll
        for (int e = 0; e < 8; e++) s[e] = kind == TANH ? tanhf(s[e]) : rectify(s[e]);
    }
#pragma unroll
    for (int e = 0; e < 8; e++) state[e] = s[e];
    write_eight(h + size_t(row) * n + i, s);
    if (!result) return;
    if (added) {
      float v[8];
      read_eight(v, own + i);
#pragma unroll
      for (int e = 0; e < 8; e++) s[e] += v[e];
    }
    write_eight(result + place * result_stride + i, s);
  });
}
KERNEL(advance_cells);

// The means of the rows of sentences, `stride` elements apart, of which number s has rows starts[s] up to starts[s + 1]; zeros of none. A
// sum runs from the first row on.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(mean_rows)(const Element* x, const int* starts, Element* result, int sentences, int n, int stride) {
  each_eight(sentences, n, [=](int sentence, int i) {
    int first = starts[sentence], end = starts[sentence + 1];
    float sum[8] = {}, v[8];
    for (int row = first; row < end; row++) {
      read_eight(v, x + size_t(row) * stride + i);
#pragma unroll
      for (int e = 0; e < 8; e++) sum[e] += v[e];
    }
#pragma unroll
    for (int e = 0; e < 8; e++) sum[e] /= end > first ? end - first : 1;
    write_eight(result + size_t(sentence) * n + i, sum);
  });
}
KERNEL(mean_rows);

// starts[numbers[r]] = x[r], or that added to what is there unless it begins; the hyperbolic tangent of it if it ends.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(add_starts)(const Element* x, const int* numbers, float* starts, int rows, int n, int begins, int ends) {
  each_eight(rows, n, [=](int row, int i) {
    float* start = starts + size_t(numbers[row]) * n + i;
    float v[8];
    read_eight(v, x + size_t(row) * n + i);
#pragma unroll
    for (int e = 0; e < 8; e++) {
      if (!begins) v[e] += start[e];
      start[e] = ends ? tanhf(v[e]) : v[e];
    }
  });
}
KERNEL(add_starts);

// Additive attention: the softmax of the sums of score·tanh(key + query) weighs the values. Each row has a sentence of its own, whose keys,
// n elements, and values behind them lie `stride` elements apart. A block has a row: each warp scores positions, then each thread adds two
// elements of the values. weights: `most` places for each row. What an infinite value gives is NaN: the hyperbolic tangents that read it
// would take it for a number.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(attend_additively)(const Element* queries, const Element* keys, const float* score, const int* starts, const int* lengths,
                                   float* weights, Element* result, int n, int stride, int most, int result_stride) {
  int row = blockIdx.x, length = lengths[row];
  const Element* memory = keys + size_t(starts[row]) * stride;
  float* weight = weights + size_t(row) * most;
  weigh_additively(weight, queries + size_t(row) * n, memory, score, length, n, stride);
  for (int i = 2 * threadIdx.x; i < n; i += 64 * WARPS) {
    float2 found = make_float2(0.f, 0.f);
    for (int j = 0; j < length; j++) {
      float2 v = to_floats(*reinterpret_cast<const Element2*>(memory + size_t(j) * stride + n + i));
      found.x += weight[j] * v.x, found.y += weight[j] * v.y;
    }
    *reinterpret_cast<Element2*>(result + size_t(row) * result_stride + i) = from_floats(finite(found.x), finite(found.y));
  }
}
KERNEL(attend_additively);
