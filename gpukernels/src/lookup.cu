// Attention of the decoder with one query for each row: to encoded sentences, each row with one of its own, and to the target words
// before.
//
// Wide heads have several parts of WIDE elements. Whoever sums up a part of the values scores all positions by all parts, in their order.
#include "rows.cuh"

namespace {

constexpr int WIDE = 128;

// Where a warp keeps its query.
template <int DIM> __device__ __forceinline__ float* room() {
  SHARED(queries, float[WARPS][DIM]);
  return queries[threadIdx.x / 32];
}
__device__ __forceinline__ float* wide_room(int parts) {
  DYNAMIC_SHARED(float, shared);
  return shared + threadIdx.x / 32 * parts * WIDE;
}

// Puts a query, times a factor, where all lanes of the warp can read it.
__device__ __forceinline__ void load_query(float* query, const Element* from, int dim, float factor) {
  for (int i = threadIdx.x % 32; i < dim; i += 32) query[i] = to_float(from[i]) * factor;
  __syncwarp();
}

// Dot product of a query and a key, in ascending order.
template <int DIM> __device__ float dot(const float* query, const Element* key, int parts) {
  float sum = 0;
  for (int part = 0; part < parts; part++, query += DIM, key += DIM)
#pragma unroll
    for (int i = 0; i < DIM; i += 8) {
      float k[8];
      read_eight(k, key + i);
#pragma unroll
      for (int e = 0; e < 8; e++) sum += query[i + e] * k[e];
    }
  return sum;
}

// What a lane has of the DIM elements of a value: two that follow each other, 64 apart, or one of 32, or of the first 16 lanes.
template <int DIM> struct Share { static constexpr int COUNT = DIM < 32 ? 1 : DIM / 32; };

// result += weight · value.
template <int DIM> __device__ void add_value(float (&result)[Share<DIM>::COUNT], float weight, const Element* value) {
  int lane = threadIdx.x % 32;
  if (DIM <= 32) {
    if (lane < DIM) result[0] += weight * to_float(value[lane]);
  } else {
#pragma unroll
    for (int i = 0; i + 1 < Share<DIM>::COUNT; i += 2) {
      float2 v = to_floats(reinterpret_cast<const Element2*>(value)[lane + i * 16]);
      result[i] += weight * v.x, result[i + 1] += weight * v.y;
    }
  }
}

template <int DIM> __device__ void write_value(Element* to, const float (&x)[Share<DIM>::COUNT], float factor) {
  int lane = threadIdx.x % 32;
  if (DIM <= 32) {
    if (lane < DIM) to[lane] = from_float(x[0] * factor);
  } else {
#pragma unroll
    for (int i = 0; i + 1 < Share<DIM>::COUNT; i += 2)
      reinterpret_cast<Element2*>(to)[lane + i * 16] = from_floats(x[i] * factor, x[i + 1] * factor);
  }
}

// Attention to `length` positions, of which place(i) says where the keys and values of position i lie. A warp has one head of one row, and of it one
// of some parts of the values. Each lane scores a position, 32 at a time, and then all lanes add their elements of the 32 values.
template <int DIM, class Place>
__device__ void attend(const float* query, const Element* keys, const Element* values, int parts, int length, Place place, Element* result) {
  int lane = threadIdx.x % 32;
  float sums[Share<DIM>::COUNT] = {}, largest = -INFINITY, sum = 0;
  for (int base = 0; base < length; base += 32) {
    int position = base + lane;
    float s = position < length ? dot<DIM>(query, keys + place(position), parts) : -INFINITY;
    float top = fmaxf(largest, warp_max(s)), factor = __expf(largest - top), weight = __expf(s - top);
    largest = top;
    sum = sum * factor + warp_sum(weight);
#pragma unroll
    for (int i = 0; i < Share<DIM>::COUNT; i++) sums[i] *= factor;
    for (int j = 0; j < min(32, length - base); j++) add_value<DIM>(sums, __shfl_sync(~0u, weight, j), values + place(base + j));
  }
  write_value<DIM>(result, sums, length > 0 ? 1 / sum : 0.f);
}

template <int DIM>
__device__ void lookup(float* query, const Element* queries, const Element* keys, const Element* values, const int* starts, const int* lengths,
                       Element* result, int rows, int heads, int stride, float scale, int parts) {
  int row = row_of_warp(), head = blockIdx.y / parts, own = blockIdx.y % parts * DIM, dim = parts * DIM;
  if (row >= rows) return;
  size_t at = (size_t(row) * heads + head) * dim, first = size_t(starts[row]) * stride + head * dim;
  load_query(query, queries + at, dim, scale);
  attend<DIM>(query, keys, values + own, parts, lengths[row], [=](int i) { return first + size_t(i) * stride; }, result + at + own);
}

template <int DIM>
__device__ void recall(float* query, const Element* queries, const Element* keys, const Element* values, const int* words, const int* slots,
                       const int* positions, Element* result, int rows, int heads, int query_stride, int stride, int capacity, float scale,
                       int parts) {
  int row = row_of_warp(), head = blockIdx.y / parts, own = blockIdx.y % parts * DIM, dim = parts * DIM;
  if (row >= rows) return;
  load_query(query, queries + size_t(row) * query_stride + head * dim, dim, scale);
  const int* of_row = words + size_t(slots[row]) * capacity;
  attend<DIM>(query, keys, values + own, parts, positions[row] + 1, [=](int i) { return size_t(of_row[i]) * stride + head * dim; },
              result + (size_t(row) * heads + head) * dim + own);
}

// Writes the weights of the first head, `most` places for each row. Here a warp has a row.
template <int DIM>
__device__ void weights(float* query, const Element* queries, const Element* keys, const int* starts, const int* lengths, float* result, int rows,
                        int width, int stride, int most, float scale, int parts) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;
  load_query(query, queries + size_t(row) * width, parts * DIM, scale);
  int length = lengths[row];
  keys += size_t(starts[row]) * stride, result += size_t(row) * most;
  float largest = -INFINITY, sum = 0;
  for (int i = lane; i < length; i += 32) {
    result[i] = dot<DIM>(query, keys + size_t(i) * stride, parts);
    largest = fmaxf(largest, result[i]);
  }
  largest = warp_max(largest);
  for (int i = lane; i < length; i += 32) sum += result[i] = __expf(result[i] - largest);
  sum = warp_sum(sum);
  for (int i = lane; i < length; i += 32) result[i] /= sum;
}

}  // namespace

// queries, result: rows of heads x DIM elements. The sentence of row r has lengths[r] positions from starts[r] on; the keys and values of
// a position lie `stride` elements behind those of the one before. No positions give zeros. The grid is (rows by 4, heads).
#define LOOKUP(name, DIM)                                                                                                  \
  extern "C" __global__ void __launch_bounds__(32 * WARPS, DIM > 64 ? 4 : 8)                                                                 \
      KERNEL_NAME(name)(const Element* queries, const Element* keys, const Element* values, const int* starts, const int* lengths,         \
           Element* result, int rows, int heads, int stride, float scale) {                                                 \
    lookup<DIM>(room<DIM>(), queries, keys, values, starts, lengths, result, rows, heads, stride, scale, 1);               \
  }                                                                                                                        \
  KERNEL(name)

LOOKUP(lookup_16, 16);
LOOKUP(lookup_32, 32);
LOOKUP(lookup_64, 64);
LOOKUP(lookup_128, 128);

// The same of heads of parts x WIDE elements. The grid is (rows by 4, heads x parts).
extern "C" __global__ void __launch_bounds__(32 * WARPS, 4)
    KERNEL_NAME(lookup_wide)(const Element* queries, const Element* keys, const Element* values, const int* starts, const int* lengths,
                             Element* result, int rows, int heads, int stride, float scale, int parts) {
  lookup<WIDE>(wide_room(parts), queries, keys, values, starts, lengths, result, rows, heads, stride, scale, parts);
}
KERNEL(lookup_wide);

// The weights that the first head of each row gives to the positions of its sentence, `most` places for each row. width is that of a row
// of queries.
#define WEIGHTS(name, DIM)                                                                                                              \
  extern "C" __global__ void __launch_bounds__(32 * WARPS, DIM > 64 ? 4 : 8)                                                                              \
      KERNEL_NAME(name)(const Element* queries, const Element* keys, const int* starts, const int* lengths, float* result, int rows, int width,        \
           int stride, int most, float scale) {                                                                                         \
    weights<DIM>(room<DIM>(), queries, keys, starts, lengths, result, rows, width, stride, most, scale, 1);                             \
  }                                                                                                                                     \
  KERNEL(name)

WEIGHTS(lookup_weights_16, 16);
WEIGHTS(lookup_weights_32, 32);
WEIGHTS(lookup_weights_64, 64);
WEIGHTS(lookup_weights_128, 128);

extern "C" __global__ void __launch_bounds__(32 * WARPS, 4)
    KERNEL_NAME(lookup_weights_wide)(const Element* queries, const Element* keys, const int* starts, const int* lengths, float* result, int rows,
                                     int width, int stride, int most, float scale, int parts) {
  weights<WIDE>(wide_room(parts), queries, keys, starts, lengths, result, rows, width, stride, most, scale, parts);
}
KERNEL(lookup_weights_wide);

// Attention to the target words before and the one at positions[r]. Row r is in slot slots[r], and words, `capacity` numbers for each
// slot, says which row of the cache has the keys and values of each position; rows of the cache are `stride` elements apart, those of
// queries query_stride.
#define RECALL(name, DIM)                                                                                                         \
  extern "C" __global__ void __launch_bounds__(32 * WARPS, DIM > 64 ? 4 : 8)                                                                     \
      KERNEL_NAME(name)(const Element* queries, const Element* keys, const Element* values, const int* words, const int* slots,                   \
           const int* positions, Element* result, int rows, int heads, int query_stride, int stride, int capacity, float scale) {  \
    recall<DIM>(room<DIM>(), queries, keys, values, words, slots, positions, result, rows, heads, query_stride, stride, capacity, \
                scale, 1);                                                                                                        \
  }                                                                                                                               \
  KERNEL(name)

RECALL(recall_16, 16);
RECALL(recall_32, 32);
RECALL(recall_64, 64);
RECALL(recall_128, 128);

extern "C" __global__ void __launch_bounds__(32 * WARPS, 4)
    KERNEL_NAME(recall_wide)(const Element* queries, const Element* keys, const Element* values, const int* words, const int* slots,
                             const int* positions, Element* result, int rows, int heads, int query_stride, int stride, int capacity, float scale,
                             int parts) {
  recall<WIDE>(wide_room(parts), queries, keys, values, words, slots, positions, result, rows, heads, query_stride, stride, capacity, scale, parts);
}
KERNEL(recall_wide);
