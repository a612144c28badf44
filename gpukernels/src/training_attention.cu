// Attention over ragged sentences, forward and backward: softmax(q·kᵀ·scale)·v in each head. Weights are not stored; the way back computes
// them again from the logarithm of the sum of each query's exponentials (Dao et al. 2022).
//
// A warp has one row, of queries or of keys, of one head. Its lanes go over the other side, 32 rows at a time, each with the products of one
// of them; then over the elements of the head, for the sums. Wide heads have several parts, and a warp sums up one after another: for each it
// computes all weights again, so that its registers do not grow with the head.
#include "dropout.cuh"
#include "rows.cuh"

namespace {

constexpr int PART = 128;         // elements of a head that are summed up together
constexpr int SHARE = PART / 32;  // of which a lane has so many

// What all of these kernels are told. Rows of all matrices are `width` elements, a head has `dim` of them, a multiple of 8. Row r belongs to
// sentence sentences[r]; the first row of each side of sentence s is query_starts[s], key_starts[s]. A causal query sees the keys up to its
// own position.
struct Batch {
  const int *sentences, *query_starts, *key_starts;
  int rows, width, dim, causal;
  float scale;
  Dropout dropout;  // of the weights; its seed is the whole layer's

  // The numbers are drawn anew for each head of each sentence.
  __device__ Dropout of_head(int sentence) const {
    return {mix(dropout.seed ^ mix(static_cast<unsigned long long>(sentence) << 32 | blockIdx.y)), dropout.threshold, dropout.keep};
  }
  __device__ int queries(int sentence) const { return query_starts[sentence + 1] - query_starts[sentence]; }
  __device__ int keys(int sentence) const { return key_starts[sentence + 1] - key_starts[sentence]; }
  // Where this warp's head of a row begins.
  __device__ size_t place(int row) const { return size_t(row) * width + blockIdx.y * dim; }
};

// Σ a·b over the elements of a head.
__device__ float dot(const float* a, const Element* b, int dim) {
  float sum = 0, x[8];
  for (int i = 0; i < dim; i += 8) {
    read_eight(x, b + i);
#pragma unroll
    for (int e = 0; e < 8; e++) sum += a[i + e] * x[e];
  }
  return sum;
}

// Where a warp keeps the row of its head that it is given of a side: sides are numbered from 0.
__device__ float* room(int side, int dim) {
  DYNAMIC_SHARED(float, shared);
  return shared + (side * WARPS + threadIdx.x / 32) * dim;
}

// A row of a head in float32, in shared memory, for all lanes of a warp.
__device__ void stage(float* to, const Element* from, int dim) {
  for (int i = threadIdx.x % 32; i < dim; i += 32) to[i] = to_float(from[i]);
}

// Adds what `count` rows have in a part, times what their lanes hold. `dim` is how many elements there are from the part on.
__device__ void add_rows(float (&sums)[SHARE], float factor, const Element* rows, int stride, int count, int dim) {
  for (int j = 0; j < count; j++, rows += stride) {
    float of_row = __shfl_sync(~0u, factor, j);
#pragma unroll
    for (int p = 0; p < SHARE; p++) {
      int i = threadIdx.x % 32 + 32 * p;
      if (i < dim) sums[p] += of_row * to_float(rows[i]);
    }
  }
}

__device__ void write_part(Element* to, const float (&sums)[SHARE], float factor, int dim) {
#pragma unroll
  for (int p = 0; p < SHARE; p++) {
    int i = threadIdx.x % 32 + 32 * p;
    if (i < dim) to[i] = from_float(sums[p] * factor);
  }
}

}  // namespace

#define BATCH_PARAMETERS                                                                                                              \
  const int *sentences, const int *query_starts, const int *key_starts, int rows, int width, int dim, int causal, float scale,        \
      unsigned long long seed, unsigned threshold, float keep
#define BATCH Batch{sentences, query_starts, key_starts, rows, width, dim, causal, scale, {seed, threshold, keep}}

// out receives what each query attends to, log_sums the logarithm of Σ exp(score), a number for each row and head. rows are those of
// queries. The grid of all three kernels is (rows by 4, heads).
extern "C" __global__ void __launch_bounds__(32 * WARPS, 6)
    KERNEL_NAME(training_attention)(const Element* q, const Element* k, const Element* v, Element* out, float* log_sums, BATCH_PARAMETERS) {
  Batch b = BATCH;
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= b.rows) return;
  float* query = room(0, b.dim);
  stage(query, q + b.place(row), b.dim);
  __syncwarp();
  int sentence = b.sentences[row], position = row - b.query_starts[sentence], keys = b.keys(sentence);
  int visible = b.causal ? position + 1 : keys;
  Dropout dropout = b.of_head(sentence);
  for (int part = 0; part < b.dim; part += PART) {
    float largest = -INFINITY, sum = 0, sums[SHARE] = {};
    for (int first = 0; first < visible; first += 32) {
      int count = min(32, visible - first), key = b.key_starts[sentence] + first;
      float score = lane < count ? dot(query, k + b.place(key + lane), b.dim) * b.scale : -INFINITY;
      float larger = fmaxf(largest, warp_max(score)), correction = __expf(largest - larger), weight = __expf(score - larger);
      sum = sum * correction + warp_sum(weight);
#pragma unroll
      for (int p = 0; p < SHARE; p++) sums[p] *= correction;
      if (lane < count) weight *= dropout.of_element(size_t(position) * keys + first + lane);
      add_rows(sums, weight, v + b.place(key) + part, b.width, count, b.dim - part);
      largest = larger;
    }
    write_part(out + b.place(row) + part, sums, 1 / sum, b.dim - part);
    if (lane == 0) log_sums[size_t(row) * gridDim.y + blockIdx.y] = largest + logf(sum);
  }
}
KERNEL(training_attention);

// With the weights p, their gradients g = (dout·v), dropped as they were, and inner = Σ p·g, the gradient of a score is p·(g - inner), and
// dq = Σ of that times k·scale, which is (Σ p·g·k - inner·Σ p·k)·scale. inners receives inner for each row and head.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 5)
    KERNEL_NAME(training_attention_queries)(const Element* q, const Element* k, const Element* v, const Element* dout, const float* log_sums,
                                            float* inners, Element* dq, BATCH_PARAMETERS) {
  Batch b = BATCH;
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= b.rows) return;
  float *query = room(0, b.dim), *gradient = room(1, b.dim);
  stage(query, q + b.place(row), b.dim), stage(gradient, dout + b.place(row), b.dim);
  __syncwarp();
  int sentence = b.sentences[row], position = row - b.query_starts[sentence], keys = b.keys(sentence);
  int visible = b.causal ? position + 1 : keys;
  size_t number = size_t(row) * gridDim.y + blockIdx.y;
  Dropout dropout = b.of_head(sentence);
  for (int part = 0; part < b.dim; part += PART) {
    float inner = 0, of_gradients[SHARE] = {}, of_weights[SHARE] = {};
    for (int first = 0; first < visible; first += 32) {
      int count = min(32, visible - first), key = b.key_starts[sentence] + first;
      float p = 0, pg = 0;
      if (lane < count) {
        size_t at = b.place(key + lane);
        p = __expf(dot(query, k + at, b.dim) * b.scale - log_sums[number]);
        pg = p * dot(gradient, v + at, b.dim) * dropout.of_element(size_t(position) * keys + first + lane);
      }
      inner += warp_sum(pg);
      add_rows(of_gradients, pg, k + b.place(key) + part, b.width, count, b.dim - part);
      add_rows(of_weights, p, k + b.place(key) + part, b.width, count, b.dim - part);
    }
#pragma unroll
    for (int i = 0; i < SHARE; i++) of_gradients[i] -= inner * of_weights[i];
    write_part(dq + b.place(row) + part, of_gradients, b.scale, b.dim - part);
    if (lane == 0) inners[number] = inner;
  }
}
KERNEL(training_attention_queries);

// The same for keys and values, whose rows `rows` and `sentences` are here: dv = Σ p·dout, dropped, and dk = Σ of the scores' gradients
// times q·scale, over the queries of the sentence that see the key.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 5)
    KERNEL_NAME(training_attention_keys)(const Element* q, const Element* k, const Element* v, const Element* dout, const float* log_sums,
                                         const float* inners, Element* dk, Element* dv, BATCH_PARAMETERS) {
  Batch b = BATCH;
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= b.rows) return;
  float *key = room(0, b.dim), *value = room(1, b.dim);
  stage(key, k + b.place(row), b.dim), stage(value, v + b.place(row), b.dim);
  __syncwarp();
  int sentence = b.sentences[row], position = row - b.key_starts[sentence], keys = b.keys(sentence), queries = b.queries(sentence);
  Dropout dropout = b.of_head(sentence);
  for (int part = 0; part < b.dim; part += PART) {
    float of_key[SHARE] = {}, of_value[SHARE] = {};
    for (int first = b.causal ? position : 0; first < queries; first += 32) {
      int count = min(32, queries - first), query = b.query_starts[sentence] + first;
      float weight = 0, of_score = 0;
      if (lane < count) {
        size_t at = b.place(query + lane), number = size_t(query + lane) * gridDim.y + blockIdx.y;
        float p = __expf(dot(key, q + at, b.dim) * b.scale - log_sums[number]), kept = dropout.of_element(size_t(first + lane) * keys + position);
        weight = p * kept;
        of_score = p * (dot(value, dout + at, b.dim) * kept - inners[number]);
      }
      add_rows(of_value, weight, dout + b.place(query) + part, b.width, count, b.dim - part);
      add_rows(of_key, of_score, q + b.place(query) + part, b.width, count, b.dim - part);
    }
    write_part(dk + b.place(row) + part, of_key, b.scale, b.dim - part);
    write_part(dv + b.place(row) + part, of_value, 1, b.dim - part);
  }
}
KERNEL(training_attention_keys);

namespace {

// An alignment that guides the first head: `targets` has a number for each query and key of a sentence, row by row, from places[sentence] on.
struct Guide {
  float* targets;
  const int* places;
  int heads, squared;  // the cost is Σ (p - a)²/2 of weights p and targets a, not -Σ a·log(p + ε)
  float weight;

  // The cost of a weight and its gradient.
  __device__ float cost(float p, float a) const {
    if (squared) return weight * (p - a) * (p - a) / 2;
    return a != 0 ? -weight * a * logf(p + 1e-6f) : 0.f;
  }
  __device__ float gradient(float p, float a) const { return squared ? weight * (p - a) : -weight * a / (p + 1e-6f); }
};

__device__ void add_part(Element* to, const float (&sums)[SHARE], int dim) {
#pragma unroll
  for (int p = 0; p < SHARE; p++) {
    int i = threadIdx.x % 32 + 32 * p;
    if (i < dim) to[i] = from_float(to_float(to[i]) + sums[p]);
  }
}

}  // namespace

#define GUIDE_PARAMETERS float *targets, const int *places, int heads, int squared, float weight
#define GUIDED_BATCH Batch{sentences, query_starts, key_starts, rows, width, dim, 0, scale, {0, 0, 1}}

// Adds to dq what guiding the first head gives, with losses for each query. With the gradients e of the weights p, those of the scores are
// p·(e - Σ p·e)·scale, which take the place of the targets.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 5)
    KERNEL_NAME(training_guide_queries)(const Element* q, const Element* k, const float* log_sums, float* losses, Element* dq, GUIDE_PARAMETERS,
                                        const int* sentences, const int* query_starts, const int* key_starts, int rows, int width, int dim, float scale) {
  Batch b = GUIDED_BATCH;
  Guide guide{targets, places, heads, squared, weight};
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= b.rows) return;
  float* query = room(0, b.dim);
  stage(query, q + b.place(row), b.dim);
  __syncwarp();
  int sentence = b.sentences[row], keys = b.keys(sentence), first_key = b.key_starts[sentence];
  float* own = guide.targets + guide.places[sentence] + size_t(row - b.query_starts[sentence]) * keys;
  float log_sum = log_sums[size_t(row) * heads], loss = 0, inner = 0;
  for (int j = lane; j < keys; j += 32) {
    float p = __expf(dot(query, k + b.place(first_key + j), b.dim) * b.scale - log_sum), e = guide.gradient(p, own[j]);
    loss += guide.cost(p, own[j]), inner += p * e;
    own[j] = e;
  }
  loss = warp_sum(loss), inner = warp_sum(inner);
  for (int j = lane; j < keys; j += 32) {
    float p = __expf(dot(query, k + b.place(first_key + j), b.dim) * b.scale - log_sum);
    own[j] = p * (own[j] - inner) * b.scale;
  }
  for (int part = 0; part < b.dim; part += PART) {
    float sums[SHARE] = {};
    for (int first = 0; first < keys; first += 32) {
      int count = min(32, keys - first);
      add_rows(sums, lane < count ? own[first + lane] : 0.f, k + b.place(first_key + first) + part, b.width, count, b.dim - part);
    }
    add_part(dq + b.place(row) + part, sums, b.dim - part);
  }
  if (lane == 0) losses[row] = loss;
}
KERNEL(training_guide_queries);

// The same for the keys, whose rows `rows` and `sentences` are here: dk grows by the gradients of the scores, which stand where the targets
// were, times q.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_guide_keys)(const Element* q, const float* scores, const int* places, Element* dk, const int* sentences, const int* query_starts,
                                     const int* key_starts, int rows, int width, int dim) {
  float scale = 1;
  Batch b = GUIDED_BATCH;
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= b.rows) return;
  int sentence = b.sentences[row], keys = b.keys(sentence), queries = b.queries(sentence);
  const float* own = scores + places[sentence] + row - b.key_starts[sentence];
  for (int part = 0; part < b.dim; part += PART) {
    float sums[SHARE] = {};
    for (int first = 0; first < queries; first += 32) {
      int count = min(32, queries - first);
      float score = lane < count ? own[size_t(first + lane) * keys] : 0.f;
      add_rows(sums, score, q + b.place(b.query_starts[sentence] + first) + part, b.width, count, b.dim - part);
    }
    add_part(dk + b.place(row) + part, sums, b.dim - part);
  }
}
KERNEL(training_guide_keys);
