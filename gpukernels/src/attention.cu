// Self-attention of the encoder over sentences of any lengths that lie one after another, without padding.
#include "tensor.cuh"

namespace {

constexpr int QUERIES = 64, KEYS = 64, THREADS = 128;  // of a block; each warp has 16 queries

// Rows of a head in shared memory.
template <int DIM> struct Rows {
  static constexpr int STRIDE = DIM + 8;

  // Begins to copy `count` rows of a column of a matrix, zeros from row `valid` on.
  template <int COUNT> __device__ static void load(Element* to, const Element* from, int stride, int valid) {
    for (int chunk = threadIdx.x; chunk < COUNT * DIM / 8; chunk += THREADS) {
      int row = chunk / (DIM / 8), column = chunk % (DIM / 8) * 8;
      copy_async(to + row * STRIDE + column, row < valid ? from + size_t(row) * stride + column : from, row < valid);
    }
  }
};

// What a warp knows of its 16 queries; a lane has two of them, g and g + 8, with g = lane/4.
template <int DIM> struct Queries {
  unsigned fragments[DIM / 16][4];
  float result[1][DIM / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY};  // score so far
  float sum[2] = {0, 0};                      // of exp(score - largest), this lane's part
};

// scores = queries · keys for 64 keys in shared memory.
template <int DIM> __device__ void score(float (&scores)[1][KEYS / 8][4], const Queries<DIM>& q, const Element* keys) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < DIM; k += 16) {
    unsigned b[KEYS / 8][2], a[1][4];
#pragma unroll
    for (int r = 0; r < 4; r++) a[0][r] = q.fragments[k / 16][r];
#pragma unroll
    for (int j = 0; j < KEYS / 8; j += 2) {
      unsigned two[4];
      load_matrices<false>(two, keys + (j * 8 + lane / 16 * 8 + lane % 8) * Rows<DIM>::STRIDE + k + lane / 8 % 2 * 8);
      b[j][0] = two[0], b[j][1] = two[1], b[j + 1][0] = two[2], b[j + 1][1] = two[3];
    }
    mma_tiles(scores, a, b);
  }
}

// Turns scores into weights relative to the largest so far, and what was summed before into the same measure (Milakov and Gimelshein
// 2018, "Online normalizer calculation for softmax"). Of the keys only `valid` are there.
template <int DIM> __device__ void weigh(float (&scores)[1][KEYS / 8][4], Queries<DIM>& q, int valid, float scale) {
  float top[2] = {q.largest[0], q.largest[1]};
#pragma unroll
  for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      float s = j * 8 + int(threadIdx.x) % 4 * 2 + e % 2 < valid ? scores[0][j][e] * scale : -INFINITY;
      scores[0][j][e] = s;
      top[e / 2] = fmaxf(top[e / 2], s);
    }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 1));
    top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 2));
    float factor = __expf(q.largest[h] - top[h]);
    q.largest[h] = top[h];
    q.sum[h] *= factor;
#pragma unroll
    for (int d = 0; d < DIM / 8; d++) q.result[0][d][2 * h] *= factor, q.result[0][d][2 * h + 1] *= factor;
  }
#pragma unroll
  for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      scores[0][j][e] = __expf(scores[0][j][e] - top[e / 2]);
      q.sum[e / 2] += scores[0][j][e];
    }
}

// result += weights · values for 64 keys.
template <int DIM> __device__ void accumulate(Queries<DIM>& q, const float (&weights)[1][KEYS / 8][4], const Element* values) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < KEYS; k += 16) {
    unsigned b[DIM / 8][2], a[1][4];
#pragma unroll
    for (int r = 0; r < 4; r++) a[0][r] = pack_pair(weights[0][k / 8 + r / 2][r % 2 * 2], weights[0][k / 8 + r / 2][r % 2 * 2 + 1]);
#pragma unroll
    for (int j = 0; j < DIM / 8; j += 2) {
      unsigned two[4];
      load_matrices<true>(two, values + (k + lane / 8 % 2 * 8 + lane % 8) * Rows<DIM>::STRIDE + j * 8 + lane / 16 * 8);
      b[j][0] = two[0], b[j][1] = two[1], b[j + 1][0] = two[2], b[j + 1][1] = two[3];
    }
    mma_tiles(q.result, a, b);
  }
}

template <int DIM> __device__ void load_queries(Queries<DIM>& q, const Element* rows) {
  int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16;
#pragma unroll
  for (int k = 0; k < DIM; k += 16) load_matrices<false>(q.fragments[k / 16], rows + (first + lane % 16) * Rows<DIM>::STRIDE + k + lane / 16 * 8);
}

template <int DIM> __device__ void write_result(Queries<DIM>& q, Element* result, int stride, int valid) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    q.sum[h] += __shfl_xor_sync(~0u, q.sum[h], 1);
    q.sum[h] += __shfl_xor_sync(~0u, q.sum[h], 2);
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + h * 8;
    if (row >= valid) continue;
    float factor = 1 / q.sum[h];
#pragma unroll
    for (int d = 0; d < DIM / 8; d++)
      *reinterpret_cast<Element2*>(result + size_t(row) * stride + d * 8 + threadIdx.x % 4 * 2) =
          from_floats(q.result[0][d][2 * h] * factor, q.result[0][d][2 * h + 1] * factor);
  }
}

// A block has 64 queries of a head of a sentence. The keys and values of the next 64 positions are copied while it works on those of the
// last.
template <int DIM> __device__ void attention(const Element* qkv, const int* starts, Element* result, int heads, float scale) {
  using R = Rows<DIM>;
  DYNAMIC_SHARED(Element, shared);
  Element *queries = shared, *keys = shared + QUERIES * R::STRIDE, *values = keys + 2 * KEYS * R::STRIDE;
  int start = starts[blockIdx.z], length = starts[blockIdx.z + 1] - start, first = blockIdx.x * QUERIES;
  if (first >= length) return;
  int width = heads * DIM, stride = 3 * width;
  const Element* sentence = qkv + size_t(start) * stride + blockIdx.y * DIM;
  R::template load<QUERIES>(queries, sentence + size_t(first) * stride, stride, length - first);
  auto load = [&](int tile) {
    const Element* from = sentence + size_t(tile) * KEYS * stride;
    if (tile * KEYS < length) {
      R::template load<KEYS>(keys + tile % 2 * KEYS * R::STRIDE, from + width, stride, length - tile * KEYS);
      R::template load<KEYS>(values + tile % 2 * KEYS * R::STRIDE, from + 2 * width, stride, length - tile * KEYS);
    }
    copy_async_commit();
  };
  load(0);
  Queries<DIM> q;
  for (int tile = 0; tile * KEYS < length; tile++) {
    load(tile + 1);
    copy_async_wait<1>();
    __syncthreads();  // the tile is there for all
    if (tile == 0) load_queries<DIM>(q, queries);
    float scores[1][KEYS / 8][4] = {};
    score<DIM>(scores, q, keys + tile % 2 * KEYS * R::STRIDE);
    weigh<DIM>(scores, q, length - tile * KEYS, scale);
    accumulate<DIM>(q, scores, values + tile % 2 * KEYS * R::STRIDE);
    __syncthreads();  // all have read it, before it is overwritten
  }
  write_result<DIM>(q, result + size_t(start + first) * width + blockIdx.y * DIM, width, length - first);
}

// The same for heads of several parts of DIM elements. A block has one part of the results of its queries: it scores by all parts, one after the
// other, and weighs the values of its own.
template <int DIM> __device__ void wide_attention(const Element* qkv, const int* starts, Element* result, int heads, float scale, int parts) {
  using R = Rows<DIM>;
  DYNAMIC_SHARED(Element, shared);
  Element *queries = shared, *keys = shared + QUERIES * R::STRIDE, *values = keys + KEYS * R::STRIDE;
  int start = starts[blockIdx.z], length = starts[blockIdx.z + 1] - start, first = blockIdx.x * QUERIES;
  if (first >= length) return;
  int width = heads * parts * DIM, stride = 3 * width, own = blockIdx.y * DIM;
  const Element *sentence = qkv + size_t(start) * stride, *head = sentence + blockIdx.y / parts * parts * DIM;
  Queries<DIM> q;
  for (int tile = 0; tile < length; tile += KEYS) {
    float scores[1][KEYS / 8][4] = {};
    for (int part = 0; part < parts; part++) {
      R::template load<QUERIES>(queries, head + size_t(first) * stride + part * DIM, stride, length - first);
      R::template load<KEYS>(keys, head + size_t(tile) * stride + width + part * DIM, stride, length - tile);
      if (part == 0) R::template load<KEYS>(values, sentence + size_t(tile) * stride + 2 * width + own, stride, length - tile);
      copy_async_commit();
      copy_async_wait<0>();
      __syncthreads();  // the part is there for all
      load_queries<DIM>(q, queries);
      score<DIM>(scores, q, keys);
      if (part == parts - 1) {
        weigh<DIM>(scores, q, length - tile, scale);
        accumulate<DIM>(q, scores, values);
      }
      __syncthreads();  // all have read the part, before it is overwritten
    }
  }
  write_result<DIM>(q, result + size_t(start + first) * width + own, width, length - first);
}

}  // namespace

// qkv: for each token a row of queries, keys and values, heads x DIM each. Sentence s has the tokens from starts[s] up to starts[s + 1].
// result: for each token a row of heads x DIM. The grid is (tiles of 64 queries of the longest sentence, heads, sentences).
#define ATTENTION(name, DIM)                                                                                \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                     \
      KERNEL_NAME(name)(const Element* qkv, const int* starts, Element* result, int heads, float scale) {                  \
    attention<DIM>(qkv, starts, result, heads, scale);                                                      \
  }                                                                                                         \
  KERNEL(name)

ATTENTION(attention_16, 16);
ATTENTION(attention_32, 32);
ATTENTION(attention_64, 64);
ATTENTION(attention_128, 128);

// The same of heads of parts x 128 elements. The grid is (tiles of 64 queries of the longest sentence, heads x parts, sentences).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    KERNEL_NAME(attention_wide)(const Element* qkv, const int* starts, Element* result, int heads, float scale, int parts) {
  wide_attention<128>(qkv, starts, result, heads, scale, parts);
}
KERNEL(attention_wide);
