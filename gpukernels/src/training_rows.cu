// What training does with rows and elements, forward and backward. Sums over rows are made in two steps: over groups of 64 rows, in
// ascending order, and over the groups, likewise. So they depend on nothing but the rows.
#include "dropout.cuh"
#include "rows.cuh"
#include "spacing.cuh"

namespace {

constexpr int THREADS = 128;
constexpr int GROUP = 64;  // rows

// The first of this thread's eight elements.
__device__ __forceinline__ size_t first_element() { return (size_t(blockIdx.x) * THREADS + threadIdx.x) * 8; }

// The column of this thread.
__device__ __forceinline__ int own_column() { return blockIdx.x * THREADS + threadIdx.x; }

}  // namespace

// y = a + b, for n elements, a multiple of 8. y may be either.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_add)(Element* y, const Element* a, const Element* b, int n) {
  size_t i = first_element();
  if (i >= size_t(n)) return;
  float x[8], more[8];
  read_eight(x, a + i), read_eight(more, b + i);
#pragma unroll
  for (int e = 0; e < 8; e++) x[e] += more[e];
  write_eight(y + i, x);
}
KERNEL(training_add);

// Sets dy to zero where y is not positive: the gradient of max(0, ·).
extern "C" __global__ void __launch_bounds__(THREADS, 8) KERNEL_NAME(training_mask)(Element* dy, const Element* y, int n) {
  size_t i = first_element();
  if (i >= size_t(n)) return;
  float g[8], v[8];
  read_eight(g, dy + i), read_eight(v, y + i);
#pragma unroll
  for (int e = 0; e < 8; e++) g[e] = v[e] > 0 ? g[e] : 0;
  write_eight(dy + i, g);
}
KERNEL(training_mask);

// Drops elements of x, in place.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_dropout)(Element* x, int n, int width, int stored, unsigned long long seed, unsigned threshold, float keep) {
  size_t i = first_element();
  if (i >= size_t(n)) return;
  Dropout dropout{seed, threshold, keep};
  unsigned long long first = Spacing{width, stored}.number(i);
  float v[8];
  read_eight(v, x + i);
#pragma unroll
  for (int e = 0; e < 8; e++) v[e] *= dropout.of_element(first + e);
  write_eight(x + i, v);
}
KERNEL(training_dropout);

// Rounds n float32, a multiple of 8, to elements.
extern "C" __global__ void __launch_bounds__(THREADS, 8) KERNEL_NAME(training_store)(Element* to, const float* from, int n) {
  size_t i = first_element();
  if (i >= size_t(n)) return;
  float v[8];
#pragma unroll
  for (int e = 0; e < 8; e++) v[e] = from[i + e];
  write_eight(to + i, v);
}
KERNEL(training_store);

// Rounds each row of n elements, a multiple of 8, to whole multiples of its largest magnitude divided by 127, halves to even: what products in 8
// bits make of their input. A row that is not finite stays as it is.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8) KERNEL_NAME(training_round_rows)(const Element* x, Element* y, int rows, int n) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;
  x += size_t(row) * n, y += size_t(row) * n;
  float v[8], largest = 0;
  int finite = 1;
  for (int i = lane * 8; i < n; i += 256) {
    read_eight(v, x + i);
#pragma unroll
    for (int e = 0; e < 8; e++) {
      largest = fmaxf(largest, fabsf(v[e]));
      finite = finite && fabsf(v[e]) < INFINITY;
    }
  }
  largest = warp_max(largest);
  finite = -warp_max(-finite);
  float multiplier = 127 / largest, scale = largest / 127;
  for (int i = lane * 8; i < n; i += 256) {
    read_eight(v, x + i);
#pragma unroll
    for (int e = 0; e < 8; e++) {
      if (finite) v[e] = multiplier < INFINITY ? rintf(v[e] * multiplier) * scale : 0.f;
    }
    write_eight(y + i, v);
  }
}
KERNEL(training_round_rows);

// y = (x - mean)/sqrt(variance + epsilon)·scale + bias for each row of n elements, a multiple of 8; rows of x and y are `stride` apart, and bias
// may be null. statistics receives the mean and 1/sqrt(variance + epsilon) of each row. In an RMS norm, the mean counts as zero. What belongs to no group of columns is left out.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_norm)(const Element* x, const float* scale, const float* bias, Element* y, float* statistics, int rows, int n, int stride,
                               float epsilon, int rms, int width, int stored) {
  Spacing spacing{width, stored};
  int row = row_of_warp(), lane = threadIdx.x % 32, columns = spacing.columns(n);
  if (row >= rows) return;
  x += size_t(row) * stride, y += size_t(row) * stride;
  float v[8], sum = 0, squares = 0;
  for (int i = lane * 8; i < n; i += 256) {
    read_eight(v, x + i);
#pragma unroll
    for (int e = 0; e < 8; e++) sum += v[e];
  }
  float mean = rms ? 0.f : warp_sum(sum) / columns;
  for (int i = lane * 8; i < n; i += 256) {
    int left = spacing.left(i);
    read_eight(v, x + i);
#pragma unroll
    for (int e = 0; e < 8; e++) squares += e < left ? (v[e] - mean) * (v[e] - mean) : 0.f;
  }
  float inverse = rsqrtf(warp_sum(squares) / columns + epsilon);
  for (int i = lane * 8; i < n; i += 256) {
    read_eight(v, x + i);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = (v[e] - mean) * inverse * scale[i + e] + (bias ? bias[i + e] : 0.f);  // zeros in gaps
    write_eight(y + i, v);
  }
  if (lane == 0) statistics[2 * row] = mean, statistics[2 * row + 1] = inverse;
}
KERNEL(training_norm);

// With n̂ = (x - mean)·inverse and g = dy·scale: dx = (g - mean of g - n̂·mean of g·n̂)·inverse, added to dx if `add`. In an RMS norm, the mean
// of g does not count.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_norm_backward)(const Element* x, const float* scale, const float* statistics, const Element* dy, Element* dx, int rows, int n, int stride, int add,
                                        int rms, int width, int stored) {
  Spacing spacing{width, stored};
  int row = row_of_warp(), lane = threadIdx.x % 32, columns = spacing.columns(n);
  if (row >= rows) return;
  x += size_t(row) * stride, dy += size_t(row) * stride, dx += size_t(row) * stride;
  float mean = statistics[2 * row], inverse = statistics[2 * row + 1], v[8], g[8], sum = 0, with = 0;
  for (int i = lane * 8; i < n; i += 256) {
    read_eight(v, x + i), read_eight(g, dy + i);
#pragma unroll
    for (int e = 0; e < 8; e++) {
      g[e] *= scale[i + e];
      sum += g[e], with += g[e] * (v[e] - mean) * inverse;
    }
  }
  sum = rms ? 0.f : warp_sum(sum) / columns, with = warp_sum(with) / columns;
  for (int i = lane * 8; i < n; i += 256) {
    int left = spacing.left(i);
    float old[8] = {};
    read_eight(v, x + i), read_eight(g, dy + i);
    if (add) read_eight(old, dx + i);
#pragma unroll
    for (int e = 0; e < 8; e++) old[e] += e < left ? (g[e] * scale[i + e] - sum - (v[e] - mean) * inverse * with) * inverse : 0.f;
    write_eight(dx + i, old);
  }
}
KERNEL(training_norm_backward);

// For each group of rows, Σ dy·n̂ into scales and Σ dy into biases. The grid is (columns, groups).
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_norm_sums)(const Element* x, const float* statistics, const Element* dy, float* scales, float* biases, int rows, int n,
                                    int stride) {
  int column = own_column(), first = blockIdx.y * GROUP;
  if (column >= n) return;
  float scale = 0, bias = 0;
  for (int row = first; row < rows && row < first + GROUP; row++) {
    size_t at = size_t(row) * stride + column;
    float g = to_float(dy[at]);
    bias += g, scale += g * (to_float(x[at]) - statistics[2 * row]) * statistics[2 * row + 1];
  }
  scales[size_t(blockIdx.y) * n + column] = scale, biases[size_t(blockIdx.y) * n + column] = bias;
}
KERNEL(training_norm_sums);

// For each group of rows, the sum of each of n columns.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_column_sums)(const Element* x, float* sums, int rows, int n, int stride) {
  int column = own_column(), first = blockIdx.y * GROUP;
  if (column >= n) return;
  float sum = 0;
  for (int row = first; row < rows && row < first + GROUP; row++) sum += to_float(x[size_t(row) * stride + column]);
  sums[size_t(blockIdx.y) * n + column] = sum;
}
KERNEL(training_column_sums);

// Adds the sums of the groups to those in `to`.
extern "C" __global__ void __launch_bounds__(THREADS, 8) KERNEL_NAME(training_add_groups)(float* to, const float* sums, int groups, int n) {
  int column = own_column();
  if (column >= n) return;
  float sum = 0;
  for (int group = 0; group < groups; group++) sum += sums[size_t(group) * n + column];
  to[column] += sum;
}
KERNEL(training_add_groups);

// y = table[tokens[r]]·factor, or zeros where the token is negative or the row is dropped, and signal[positions[r]] added; signal may be
// null.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_embed)(const int* tokens, const int* positions, const Element* table, const float* signal, Element* y, int rows, int n,
                                float factor, unsigned long long seed, unsigned threshold, float keep) {
  int row = row_of_warp();
  if (row >= rows) return;
  int token = tokens[row];
  factor *= Dropout{seed, threshold, keep}.of_row(row);
  for (int i = threadIdx.x % 32 * 8; i < n; i += 256) {
    float v[8] = {};
    if (token >= 0) read_eight(v, table + size_t(token) * n + i);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = v[e] * factor + (signal ? signal[size_t(positions[row]) * n + i + e] : 0.f);
    write_eight(y + size_t(row) * n + i, v);
  }
}
KERNEL(training_embed);

// Adds to the rows of a table the gradients of what was made of them. Block w has the word of row order[starts[w]] and goes over rows
// order[starts[w]] to order[starts[w + 1] - 1], in this order: nobody else writes the word's gradient.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_embed_backward)(const int* tokens, const int* order, const int* starts, const Element* dy, float* gradient, int n,
                                         float factor, unsigned long long seed, unsigned threshold, float keep) {
  Dropout dropout{seed, threshold, keep};
  int first = starts[blockIdx.x], end = starts[blockIdx.x + 1];
  gradient += size_t(tokens[order[first]]) * n;
  for (int column = threadIdx.x; column < n; column += THREADS) {
    float sum = 0;
    for (int i = first; i < end; i++) sum += to_float(dy[size_t(order[i]) * n + column]) * dropout.of_row(order[i]);
    gradient[column] += sum * factor;
  }
}
KERNEL(training_embed_backward);

// Simpler simple recurrent units (Kim et al. 2019) over the rows of each sentence: c = σ(f)·c + (1 - σ(f))·x, beginning at zero, and
// h = max(0, c). The grid is (columns, sentences); sentence s has rows starts[s] to starts[s + 1] - 1.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_ssru)(const Element* x, const Element* f, const int* starts, float* states, Element* h, int n) {
  int column = own_column();
  if (column >= n) return;
  float c = 0;
  for (int row = starts[blockIdx.y]; row < starts[blockIdx.y + 1]; row++) {
    size_t at = size_t(row) * n + column;
    float keep = sigmoid(to_float(f[at]));
    c = keep * c + (1 - keep) * to_float(x[at]);
    states[at] = c, h[at] = from_float(rectify(c));
  }
}
KERNEL(training_ssru);

// With dc, the gradient of a state by its output and by later states: dx = dc·(1 - σ), df = dc·(c before - x)·σ·(1 - σ), and σ·dc goes to
// the state before.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_ssru_backward)(const Element* x, const Element* f, const int* starts, const float* states, const Element* dh, Element* dx,
                                        Element* df, int n) {
  int column = own_column(), first = starts[blockIdx.y];
  if (column >= n) return;
  float later = 0;
  for (int row = starts[blockIdx.y + 1] - 1; row >= first; row--) {
    size_t at = size_t(row) * n + column;
    float keep = sigmoid(to_float(f[at])), dc = later + (states[at] > 0 ? to_float(dh[at]) : 0.f), before = row > first ? states[at - n] : 0.f;
    dx[at] = from_float(dc * (1 - keep));
    df[at] = from_float(dc * (before - to_float(x[at])) * keep * (1 - keep));
    later = dc * keep;
  }
}
KERNEL(training_ssru_backward);
