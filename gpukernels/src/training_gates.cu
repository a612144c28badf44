// What decoders and sublayers of other kinds than the student's do in training: activations, gates, running means, simple recurrent units.
// Nobody adds to a gradient here: each is set, in a place of its own.
#include "rows.cuh"
#include "spacing.cuh"

namespace {

constexpr int THREADS = 128;

// The first of this thread's eight elements.
__device__ __forceinline__ size_t first_element() { return (size_t(blockIdx.x) * THREADS + threadIdx.x) * 8; }

// The column of this thread.
__device__ __forceinline__ int own_column() { return blockIdx.x * THREADS + threadIdx.x; }

// The numbers of model.Activation, and one more.
enum Activation { RELU = 1, SWISH, GELU, GELU_SIGMOID, SIGMOID, TANH };

// x·σ(slope·x) and its derivative.
__device__ __forceinline__ float swish(float x, float slope) { return x * sigmoid(slope * x); }
__device__ __forceinline__ float swish_derivative(float x, float slope) {
  float s = sigmoid(slope * x);
  return s + slope * x * s * (1 - s);
}

__device__ __forceinline__ float activated(float x, int kind) {
  switch (kind) {
    case RELU: return rectify(x);
    case SWISH: return swish(x, 1);
    case GELU: return 0.5f * x * (1 + erff(x * 0.70710678f));
    case GELU_SIGMOID: return swish(x, 1.702f);
    case SIGMOID: return sigmoid(x);
    case TANH: return tanhf(x);
  }
  return x;
}

__device__ __forceinline__ float derivative(float x, int kind) {
  switch (kind) {
    case RELU: return x > 0 ? 1.f : 0.f;
    case SWISH: return swish_derivative(x, 1);
    case GELU: return 0.5f * (1 + erff(x * 0.70710678f)) + x * 0.39894228f * __expf(-0.5f * x * x);
    case GELU_SIGMOID: return swish_derivative(x, 1.702f);
    case SIGMOID: return sigmoid(x) * (1 - sigmoid(x));
    case TANH: return 1 - tanhf(x) * tanhf(x);
  }
  return 1;
}

}  // namespace

// y = f(x), for n elements, a multiple of 8, of rows in groups. What is left of a group's place stays zero, whatever f(0) is; on the way back its
// gradients are zeros anyway.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_activate)(const Element* x, Element* y, int n, int kind, int width, int stored) {
  size_t i = first_element();
  if (i >= size_t(n)) return;
  float v[8];
  read_eight(v, x + i);
  int own = Spacing{width, stored}.left(int(i % unsigned(stored)));
#pragma unroll
  for (int e = 0; e < 8; e++) v[e] = e < own ? activated(v[e], kind) : 0.f;
  write_eight(y + i, v);
}
KERNEL(training_activate);

// dx = dy·f'(x)
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_activate_backward)(const Element* x, const Element* dy, Element* dx, int n, int kind) {
  size_t i = first_element();
  if (i >= size_t(n)) return;
  float v[8], g[8];
  read_eight(v, x + i), read_eight(g, dy + i);
#pragma unroll
  for (int e = 0; e < 8; e++) g[e] *= derivative(v[e], kind);
  write_eight(dx + i, g);
}
KERNEL(training_activate_backward);

// y = σ(a)·u + σ(b)·v, or σ(a)·u + (1 - σ(a))·v if b is null.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_gated_sum)(const Element* a, const Element* u, const Element* b, const Element* v, Element* y, int n) {
  size_t i = first_element();
  if (i >= size_t(n)) return;
  float ga[8], gb[8], x[8], z[8];
  read_eight(ga, a + i), read_eight(x, u + i), read_eight(z, v + i);
  if (b) read_eight(gb, b + i);
#pragma unroll
  for (int e = 0; e < 8; e++) {
    float keep = sigmoid(ga[e]), other = b ? sigmoid(gb[e]) : 1 - keep;
    x[e] = keep * x[e] + other * z[e];
  }
  write_eight(y + i, x);
}
KERNEL(training_gated_sum);

// The gradients: du = dy·σ(a), da = dy·u·σ(a)·(1 - σ(a)), and likewise dv and db; without b, dv = dy·(1 - σ(a)) and
// da = dy·(u - v)·σ(a)·(1 - σ(a)). An element is read before anything is written in its place.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_gated_sum_backward)(const Element* a, const Element* u, const Element* b, const Element* v, const Element* dy, Element* da,
                                             Element* du, Element* db, Element* dv, int n) {
  size_t i = (size_t(blockIdx.x) * THREADS + threadIdx.x) * 2;
  if (i >= size_t(n)) return;
  auto read = [&](const Element* from) { return to_floats(*reinterpret_cast<const Element2*>(from + i)); };
  auto write = [&](Element* to, float x, float y) { *reinterpret_cast<Element2*>(to + i) = from_floats(x, y); };
  float2 ga = read(a), x = read(u), z = read(v), g = read(dy);
  float s0 = sigmoid(ga.x), s1 = sigmoid(ga.y);
  write(du, g.x * s0, g.y * s1);
  if (!b) {
    write(dv, g.x * (1 - s0), g.y * (1 - s1));
    write(da, g.x * (x.x - z.x) * s0 * (1 - s0), g.y * (x.y - z.y) * s1 * (1 - s1));
    return;
  }
  float2 gb = read(b);
  float t0 = sigmoid(gb.x), t1 = sigmoid(gb.y);
  write(dv, g.x * t0, g.y * t1);
  write(da, g.x * x.x * s0 * (1 - s0), g.y * x.y * s1 * (1 - s1));
  write(db, g.x * z.x * t0 * (1 - t0), g.y * z.y * t1 * (1 - t1));
}
KERNEL(training_gated_sum_backward);

// For each row the mean of the rows of its sentence up to it. The grid is (columns, sentences); sentence s has rows starts[s] to
// starts[s + 1] - 1.
extern "C" __global__ void __launch_bounds__(THREADS, 8) KERNEL_NAME(training_mean)(const Element* x, const int* starts, Element* y, int n) {
  int column = own_column(), first = starts[blockIdx.y];
  if (column >= n) return;
  float mean = 0;
  for (int row = first; row < starts[blockIdx.y + 1]; row++) {
    size_t at = size_t(row) * n + column;
    mean = (mean * (row - first) + to_float(x[at])) / (row - first + 1);
    y[at] = from_float(mean);
  }
}
KERNEL(training_mean);

// dx of row i is Σ dy/(t + 1) over the rows t ≥ i of the sentence, counted from 0.
extern "C" __global__ void __launch_bounds__(THREADS, 8) KERNEL_NAME(training_mean_backward)(const Element* dy, const int* starts, Element* dx, int n) {
  int column = own_column(), first = starts[blockIdx.y];
  if (column >= n) return;
  float later = 0;
  for (int row = starts[blockIdx.y + 1] - 1; row >= first; row--) {
    size_t at = size_t(row) * n + column;
    later += to_float(dy[at]) / (row - first + 1);
    dx[at] = from_float(later);
  }
}
KERNEL(training_mean_backward);

// Simple recurrent units (Lei et al. 2017) over the rows of each sentence: c = σ(f)·c + (1 - σ(f))·w, beginning at zero, and
// h = σ(r)·tanh(c) + (1 - σ(r))·x. The grid is as for means.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_sru)(const Element* w, const Element* f, const Element* r, const Element* x, const int* starts, float* states, Element* h, int n) {
  int column = own_column();
  if (column >= n) return;
  float c = 0;
  for (int row = starts[blockIdx.y]; row < starts[blockIdx.y + 1]; row++) {
    size_t at = size_t(row) * n + column;
    float keep = sigmoid(to_float(f[at])), reset = sigmoid(to_float(r[at]));
    c = keep * c + (1 - keep) * to_float(w[at]);
    states[at] = c, h[at] = from_float(reset * tanhf(c) + (1 - reset) * to_float(x[at]));
  }
}
KERNEL(training_sru);

// With dc = dh·σ(r)·(1 - tanh²) and what later states give: dw = dc·(1 - σ(f)), df = dc·(c before - w)·σ(f)·(1 - σ(f)), and σ(f)·dc goes to
// the state before; dr = dh·(tanh - x)·σ(r)·(1 - σ(r)), dx = dh·(1 - σ(r)).
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_sru_backward)(const Element* w, const Element* f, const Element* r, const Element* x, const int* starts, const float* states,
                                       const Element* dh, Element* dw, Element* df, Element* dr, Element* dx, int n) {
  int column = own_column(), first = starts[blockIdx.y];
  if (column >= n) return;
  float later = 0;
  for (int row = starts[blockIdx.y + 1] - 1; row >= first; row--) {
    size_t at = size_t(row) * n + column;
    float keep = sigmoid(to_float(f[at])), reset = sigmoid(to_float(r[at])), out = tanhf(states[at]), g = to_float(dh[at]);
    float dc = later + g * reset * (1 - out * out), before = row > first ? states[at - n] : 0.f;
    dw[at] = from_float(dc * (1 - keep));
    df[at] = from_float(dc * (before - to_float(w[at])) * keep * (1 - keep));
    dr[at] = from_float(g * (out - to_float(x[at])) * reset * (1 - reset));
    dx[at] = from_float(g * (1 - reset));
    later = dc * keep;
  }
}
KERNEL(training_sru_backward);
