// Recurrent cells in training: their steps forward and backward, additive attention between them, and what brings rows into the order of time
// and back. A step has a row for each sentence that is not over. Matrices are multiplied elsewhere. What a cell gave last is there as elements;
// what it remembers besides is float32. Gradients are added to what is there, if nothing else is said: rows have several readers.
#include "cells.cuh"
#include "dropout.cuh"
#include "spacing.cuh"

namespace {

constexpr int THREADS = 128;

// to += x, or to = x.
__device__ __forceinline__ void put_eight(Element* to, const float (&x)[8], bool add) {
  float old[8] = {};
  if (add) read_eight(old, to);
#pragma unroll
  for (int e = 0; e < 8; e++) old[e] += x[e];
  write_eight(to, old);
}

__device__ __forceinline__ void add_element(Element* to, float x) { *to = from_float(to_float(*to) + x); }

}  // namespace

// y = rows of x, n elements each.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_gather)(const Element* x, const int* rows, Element* y, int count, int n) {
  each_eight(count, n, [=](int row, int i) {
    float v[8];
    read_eight(v, x + size_t(rows[row]) * n + i);
    write_eight(y + size_t(row) * n + i, v);
  });
}
KERNEL(training_gather);

// Adds to the rows of dx the gradients of what was gathered from them. Block b has row rows[order[starts[b]]] and goes over rows
// order[starts[b]] to order[starts[b + 1] - 1] of dy, in this order.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_gather_backward)(const Element* dy, const int* rows, const int* order, const int* starts, Element* dx, int n) {
  int first = starts[blockIdx.x], end = starts[blockIdx.x + 1];
  dx += size_t(rows[order[first]]) * n;
  for (int column = threadIdx.x; column < n; column += THREADS) {
    float sum = 0;
    for (int i = first; i < end; i++) sum += to_float(dy[size_t(order[i]) * n + column]);
    add_element(dx + column, sum);
  }
}
KERNEL(training_gather_backward);

// Copies n columns of rows that are as far apart as the strides say, or adds them.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_copy_columns)(const Element* from, Element* to, int rows, int n, int from_stride, int to_stride, int add) {
  each_eight(rows, n, [=](int row, int i) {
    float v[8];
    read_eight(v, from + size_t(row) * from_stride + i);
    put_eight(to + size_t(row) * to_stride + i, v, add);
  });
}
KERNEL(training_copy_columns);

// The mean of the rows of each sentence: number s has rows starts[s] to starts[s + 1] - 1.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_sentence_mean)(const Element* x, const int* starts, Element* y, int sentences, int n) {
  each_eight(sentences, n, [=](int sentence, int i) {
    int first = starts[sentence], end = starts[sentence + 1];
    float sum[8] = {}, v[8];
    for (int row = first; row < end; row++) {
      read_eight(v, x + size_t(row) * n + i);
#pragma unroll
      for (int e = 0; e < 8; e++) sum[e] += v[e];
    }
#pragma unroll
    for (int e = 0; e < 8; e++) sum[e] /= end > first ? end - first : 1;
    write_eight(y + size_t(sentence) * n + i, sum);
  });
}
KERNEL(training_sentence_mean);

// Sets dx of each row to the share that it has in the gradient of its sentence's mean.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_sentence_mean_backward)(const Element* dy, const int* sentences, const int* starts, Element* dx, int rows, int n) {
  each_eight(rows, n, [=](int row, int i) {
    int sentence = sentences[row];
    float v[8];
    read_eight(v, dy + size_t(sentence) * n + i);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] /= starts[sentence + 1] - starts[sentence];
    write_eight(dx + size_t(row) * n + i, v);
  });
}
KERNEL(training_sentence_mean_backward);

// y = x, or that added, with the same columns dropped in all rows, which are `stride` elements apart. The columns are those from number `first` on.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_drop_columns)(const Element* x, Element* y, int rows, int n, int stride, int first, int width, int stored, int add,
                                       unsigned long long seed, unsigned threshold, float keep) {
  Dropout dropout{seed, threshold, keep};
  Spacing spacing{width, stored};
  each_eight(rows, n, [=](int row, int i) {
    unsigned long long number = first + spacing.number(i);
    float v[8];
    read_eight(v, x + size_t(row) * stride + i);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] *= dropout.of_element(number + e);
    put_eight(y + size_t(row) * stride + i, v, add);
  });
}
KERNEL(training_drop_columns);

// Adds a bias to n columns of rows that are `stride` elements apart.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8) KERNEL_NAME(training_shift)(Element* y, const float* bias, int rows, int n, int stride) {
  each_eight(rows, n, [=](int row, int i) {
    float v[8];
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = bias[i + e];
    put_eight(y + size_t(row) * stride + i, v, true);
  });
}
KERNEL(training_shift);

// y = a·b, or that added, for n elements, a multiple of 8.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_times)(const Element* a, const Element* b, Element* y, int n, int add) {
  size_t i = (size_t(blockIdx.x) * THREADS + threadIdx.x) * 8;
  if (i >= size_t(n)) return;
  float v[8], w[8];
  read_eight(v, a + i), read_eight(w, b + i);
#pragma unroll
  for (int e = 0; e < 8; e++) v[e] *= w[e];
  put_eight(y + i, v, add);
}
KERNEL(training_times);

// Makes float32 of n elements, a multiple of 8.
extern "C" __global__ void __launch_bounds__(THREADS, 8) KERNEL_NAME(training_widen)(float* to, const Element* from, int n) {
  size_t i = (size_t(blockIdx.x) * THREADS + threadIdx.x) * 8;
  if (i >= size_t(n)) return;
  float v[8];
  read_eight(v, from + i);
#pragma unroll
  for (int e = 0; e < 8; e++) to[i + e] = v[e];
}
KERNEL(training_widen);

namespace {

// What one element of a cell reads: a row of x and one of u, `parts` times n elements of which this is the one of each part, or null; what the
// cell gave last (of a GRU), its own input (of an SRU), and what it remembered.
struct CellInput {
  const Element *x, *u;
  float state, input, before;
  int n;

  __device__ float from_input(int part) const { return x ? to_float(x[part * n]) : 0.f; }
  __device__ float from_state(int part) const { return u ? to_float(u[part * n]) : 0.f; }
  __device__ float sum(int part) const { return from_input(part) + from_state(part); }
};

// The gradients of one element, which are added to what is there.
struct CellGradient {
  Element *x, *u, *state, *input;
  float* before;
  int n;

  __device__ void add_input(int part, float g) const {
    if (x) add_element(x + part * n, g);
  }
  __device__ void add_state(int part, float g) const {
    if (u) add_element(u + part * n, g);
  }
  __device__ void add_sum(int part, float g) const { add_input(part, g), add_state(part, g); }
  __device__ void add_before(float g) const {
    if (before) *before += g;
  }
};

// r, z of x + u; h = tanh(x + r·u); (1 - z)·h + z·state.
__device__ float gru(const CellInput& in) {
  float r = sigmoid(in.sum(0)), z = sigmoid(in.sum(1));
  return (1 - z) * tanhf(in.from_input(2) + r * in.from_state(2)) + z * in.state;
}

__device__ void gru_backward(const CellInput& in, const CellGradient& to, float g) {
  float r = sigmoid(in.sum(0)), z = sigmoid(in.sum(1)), u = in.from_state(2), h = tanhf(in.from_input(2) + r * u);
  float dh = g * (1 - z) * (1 - h * h);
  to.add_sum(0, dh * u * r * (1 - r));
  to.add_sum(1, g * (in.state - h) * z * (1 - z));
  to.add_input(2, dh), to.add_state(2, dh * r);
  add_element(to.state, g * z);
}

// f, i, c, o of x + u; m = σ(f)·m + σ(i)·tanh(c); σ(o)·tanh(m).
__device__ float lstm(const CellInput& in, float& memory) {
  memory = sigmoid(in.sum(0)) * in.before + sigmoid(in.sum(1)) * tanhf(in.sum(2));
  return sigmoid(in.sum(3)) * tanhf(memory);
}

__device__ void lstm_backward(const CellInput& in, const CellGradient& to, float g, float memory, float dm) {
  float f = sigmoid(in.sum(0)), i = sigmoid(in.sum(1)), c = tanhf(in.sum(2)), o = sigmoid(in.sum(3)), outset = tanhf(memory);
  dm += g * o * (1 - outset * outset);
  to.add_sum(0, dm * in.before * f * (1 - f));
  to.add_sum(1, dm * c * i * (1 - i));
  to.add_sum(2, dm * i * (1 - c * c));
  to.add_sum(3, g * outset * o * (1 - o));
  to.add_before(dm * f);
}

// w, f and, of an SRU, r of x; m = σ(f)·m + (1 - σ(f))·w; max(0, m), or σ(r)·tanh(m) + (1 - σ(r))·input.
__device__ float simple(const CellInput& in, float& memory, bool sru) {
  float keep = sigmoid(in.from_input(1));
  memory = keep * in.before + (1 - keep) * in.from_input(0);
  if (!sru) return rectify(memory);
  float r = sigmoid(in.from_input(2));
  return r * tanhf(memory) + (1 - r) * in.input;
}

__device__ void simple_backward(const CellInput& in, const CellGradient& to, float g, float memory, float dm, bool sru) {
  float keep = sigmoid(in.from_input(1)), w = in.from_input(0);
  if (sru) {
    float r = sigmoid(in.from_input(2)), outset = tanhf(memory);
    dm += g * r * (1 - outset * outset);
    to.add_input(2, g * (outset - in.input) * r * (1 - r));
    add_element(to.input, g * (1 - r));
  } else if (memory > 0) {
    dm += g;
  }
  to.add_input(0, dm * (1 - keep));
  to.add_input(1, dm * (in.before - w) * keep * (1 - keep));
  to.add_before(dm * keep);
}

// tanh or max(0, ·) of x + u.
__device__ float plain(const CellInput& in, int kind) { return kind == TANH ? tanhf(in.sum(0)) : rectify(in.sum(0)); }

__device__ void plain_backward(const CellInput& in, const CellGradient& to, float g, int kind) {
  float y = plain(in, kind);
  to.add_sum(0, kind == TANH ? g * (1 - y * y) : y > 0 ? g : 0.f);
}

// How many parts there are in a row of what comes from the input and from the state.
__device__ __forceinline__ int parts_of(int kind) {
  switch (kind) {
    case LSTM: case MULTIPLICATIVE_LSTM: return 4;
    case TANH: case RELU: return 1;
    case SSRU: return 2;
  }
  return 3;
}

}  // namespace

#define CELL_PARAMETERS const Element *x, const Element *u, const Element *state, const Element *input, const float *before
#define READ_CELL                                                                                                                     \
  int row = blockIdx.y, column = blockIdx.x * THREADS + threadIdx.x;                                                                  \
  if (column >= n) return;                                                                                                            \
  size_t at = size_t(row) * n + column, place = size_t(row) * n * parts_of(kind) + column;                                            \
  CellInput in{x ? x + place : nullptr, u ? u + place : nullptr, state ? to_float(state[at]) : 0.f, input ? to_float(input[at]) : 0.f, \
               before ? before[at] : 0.f, n}

// Advances cells: out and memory are what they give and remember. The grid is (columns, rows). x and u have rows of all parts, each n
// elements; any may be null, and so may before, which stands for zeros.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_cell)(CELL_PARAMETERS, Element* out, float* memory, int n, int kind) {
  READ_CELL;
  float remembered = 0, given;
  switch (kind) {
    case LSTM: case MULTIPLICATIVE_LSTM: given = lstm(in, remembered); break;
    case SRU: case SSRU: given = simple(in, remembered, kind == SRU); break;
    case TANH: case RELU: given = plain(in, kind); break;
    default: given = gru(in);
  }
  out[at] = from_float(given);
  if (memory) memory[at] = remembered;
}
KERNEL(training_cell);

// Adds the gradients of all that a step has read, given those of what it gave: dmemory is what later steps have added.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    KERNEL_NAME(training_cell_backward)(CELL_PARAMETERS, const float* memory, const Element* dout, const float* dmemory, Element* dx, Element* du,
                                        Element* dstate, Element* dinput, float* dbefore, int n, int kind) {
  READ_CELL;
  CellGradient to{dx ? dx + place : nullptr, du ? du + place : nullptr, dstate ? dstate + at : nullptr,
                  dinput ? dinput + at : nullptr, dbefore ? dbefore + at : nullptr, n};
  float g = to_float(dout[at]);
  switch (kind) {
    case LSTM: case MULTIPLICATIVE_LSTM: lstm_backward(in, to, g, memory[at], dmemory[at]); break;
    case SRU: case SSRU: simple_backward(in, to, g, memory[at], dmemory[at], kind == SRU); break;
    case TANH: case RELU: plain_backward(in, to, g, kind); break;
    default: gru_backward(in, to, g);
  }
}
KERNEL(training_cell_backward);

// A step of additive attention: row r is the word at `position` in target sentence sentences[r], and looks at the keys key_starts[s] to
// key_starts[s + 1] - 1. The weights of sentence s begin at places[s], a row of keys for each of its words. The softmax of the sums of
// score·tanh(mapped + query), n elements, weighs the context, of which a key has `width` elements; out's rows are `stride` apart. A block has a
// row.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_look)(const Element* query, const Element* mapped, const Element* context, const float* score, const int* sentences,
                               const int* key_starts, const int* places, float* weights, Element* out, int position, int n, int width, int stride) {
  int row = blockIdx.x, sentence = sentences[row], first = key_starts[sentence], keys = key_starts[sentence + 1] - first;
  float* weight = weights + places[sentence] + size_t(position) * keys;
  weigh_additively(weight, query + size_t(row) * n, mapped + size_t(first) * n, score, keys, n, n);
  for (int i = threadIdx.x; i < width; i += 32 * WARPS) {
    float found = 0;
    for (int k = 0; k < keys; k++) found += weight[k] * to_float(context[size_t(first + k) * width + i]);
    out[size_t(row) * stride + i] = from_float(found);
  }
}
KERNEL(training_look);

// The way back of a step to its queries, given the gradient of out. gradients, in the places of the weights p, receive those of the sums:
// p·(g - Σ p·g), where g = context·dout, and more if an alignment guides: targets a, in the same places, of the cost Σ (p - a)²/2 (squared) or
// -Σ a·log(p + ε), times cost_weight, which losses receive for word target_starts[s] + position. dquery grows by the sums of
// gradient·score·(1 - tanh²).
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_look_queries)(const Element* query, const Element* mapped, const Element* context, const float* score, const int* sentences,
                                       const int* key_starts, const int* places, const float* weights, const Element* dout, float* gradients,
                                       Element* dquery, const float* targets, const int* target_starts, float* losses, int position, int n, int width,
                                       int stride, int squared, float cost_weight) {
  SHARED(inners, float[WARPS]);
  SHARED(costs, float[WARPS]);
  int row = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32, sentence = sentences[row];
  int first = key_starts[sentence], keys = key_starts[sentence + 1] - first;
  size_t begin = places[sentence] + size_t(position) * keys;
  const float* weight = weights + begin;
  float* gradient = gradients + begin;
  query += size_t(row) * n, dout += size_t(row) * stride;
  float inner = 0, cost = 0;
  for (int k = warp; k < keys; k += WARPS) {
    float g = 0, p = weight[k];
    for (int i = lane; i < width; i += 32) g += to_float(context[size_t(first + k) * width + i]) * to_float(dout[i]);
    g = warp_sum(g);
    if (targets) {
      float a = targets[begin + k], apart = p - a;
      g += cost_weight * (squared ? apart : -a / (p + 1e-6f));
      cost += cost_weight * (squared ? apart * apart / 2 : a != 0 ? -a * logf(p + 1e-6f) : 0.f);
    }
    if (lane == 0) gradient[k] = g;
    inner += p * g;
  }
  if (lane == 0) inners[warp] = inner, costs[warp] = cost;
  __syncthreads();  // the gradients of all warps are there
  inner = cost = 0;
  for (int w = 0; w < WARPS; w++) inner += inners[w], cost += costs[w];
  for (int k = threadIdx.x; k < keys; k += 32 * WARPS) gradient[k] = weight[k] * (gradient[k] - inner);
  if (losses && threadIdx.x == 0) losses[target_starts[sentence] + position] = cost;
  __syncthreads();  // the gradients of the sums are there for all
  for (int i = threadIdx.x; i < n; i += 32 * WARPS) {
    float q = to_float(query[i]), sum = 0;
    for (int k = 0; k < keys; k++) {
      float h = tanhf(q + to_float(mapped[size_t(first + k) * n + i]));
      sum += gradient[k] * (1 - h * h);
    }
    add_element(dquery + size_t(row) * n + i, sum * score[i]);
  }
}
KERNEL(training_look_queries);

// The way back to the keys, when all steps have left their gradients: sets dcontext to the sums of p·dout over the words that looked, dmapped
// to those of gradient·score·(1 - tanh²), and dscores, a row for each key, to those of gradient·tanh. Word t of sentence s has row
// times[target_starts[s] + t] of query and dout. A block has a key.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_look_keys)(const Element* query, const Element* mapped, const float* score, const int* sentences, const int* key_starts,
                                    const int* target_starts, const int* times, const int* places, const float* weights, const float* gradients,
                                    const Element* dout, Element* dcontext, Element* dmapped, float* dscores, int n, int width, int stride) {
  int key = blockIdx.x, sentence = sentences[key], keys = key_starts[sentence + 1] - key_starts[sentence];
  int words = target_starts[sentence + 1] - target_starts[sentence];
  size_t begin = places[sentence] + key - key_starts[sentence];
  times += target_starts[sentence];
  for (int i = threadIdx.x; i < width; i += 32 * WARPS) {
    float sum = 0;
    for (int t = 0; t < words; t++) sum += weights[begin + size_t(t) * keys] * to_float(dout[size_t(times[t]) * stride + i]);
    dcontext[size_t(key) * width + i] = from_float(sum);
  }
  for (int i = threadIdx.x; i < n; i += 32 * WARPS) {
    float m = to_float(mapped[size_t(key) * n + i]), sum = 0, of_score = 0;
    for (int t = 0; t < words; t++) {
      float h = tanhf(m + to_float(query[size_t(times[t]) * n + i])), g = gradients[begin + size_t(t) * keys];
      sum += g * (1 - h * h), of_score += g * h;
    }
    dmapped[size_t(key) * n + i] = from_float(sum * score[i]);
    dscores[size_t(key) * n + i] = of_score;
  }
}
KERNEL(training_look_keys);
