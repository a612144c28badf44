// Attention of the decoder to encoded sentences: one query for each row, each row with a sentence of its own.
#include "rows.cuh"

namespace {

// Puts a query, times a factor, where all lanes of the warp can read it.
template <int DIM> __device__ const float* load_query(const __half* from, float factor) {
  SHARED(queries, float[WARPS][DIM]);
  float* query = queries[threadIdx.x / 32];
  for (int i = threadIdx.x % 32; i < DIM; i += 32) query[i] = __half2float(from[i]) * factor;
  __syncwarp();
  return query;
}

// Dot product of a query and a key, in ascending order.
template <int DIM> __device__ float dot(const float* query, const __half* key) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < DIM; i += 8) {
    float k[8];
    read_eight(k, key + i);
#pragma unroll
    for (int e = 0; e < 8; e++) sum += query[i + e] * k[e];
  }
  return sum;
}

// result += weight · value, a lane having DIM/32 elements of them.
template <int DIM> __device__ void add_value(float (&result)[DIM / 32], float weight, const __half* value) {
  int lane = threadIdx.x % 32;
  if (DIM == 32) {
    result[0] += weight * __half2float(value[lane]);
  } else {
#pragma unroll
    for (int i = 0; i < DIM / 32; i += 2) {
      float2 v = __half22float2(reinterpret_cast<const __half2*>(value)[lane + i * 16]);
      result[i] += weight * v.x, result[i + 1] += weight * v.y;
    }
  }
}

template <int DIM> __device__ void write_value(__half* to, const float (&x)[DIM / 32], float factor) {
  int lane = threadIdx.x % 32;
  if (DIM == 32) {
    to[lane] = __float2half_rn(x[0] * factor);
  } else {
#pragma unroll
    for (int i = 0; i < DIM / 32; i += 2)
      reinterpret_cast<__half2*>(to)[lane + i * 16] = __floats2half2_rn(x[i] * factor, x[i + 1] * factor);
  }
}

// A warp has one head of one row. Each lane scores a position, 32 at a time, and then all lanes add their elements of the 32 values.
template <int DIM>
__device__ void lookup(const __half* queries, const __half* keys, const __half* values, const int* starts, const int* lengths,
                       __half* result, int rows, int heads, int stride, float scale) {
  int row = row_of_warp(), head = blockIdx.y, lane = threadIdx.x % 32;
  if (row >= rows) return;
  size_t at = (size_t(row) * heads + head) * DIM;
  const float* query = load_query<DIM>(queries + at, scale);
  int length = lengths[row];
  size_t first = size_t(starts[row]) * stride + head * DIM;
  float sums[DIM / 32] = {}, largest = -INFINITY, sum = 0;
  for (int base = 0; base < length; base += 32) {
    int position = base + lane;
    float s = position < length ? dot<DIM>(query, keys + first + size_t(position) * stride) : -INFINITY;
    float top = fmaxf(largest, warp_max(s)), factor = __expf(largest - top), weight = __expf(s - top);
    largest = top;
    sum = sum * factor + warp_sum(weight);
#pragma unroll
    for (int i = 0; i < DIM / 32; i++) sums[i] *= factor;
    for (int j = 0; j < min(32, length - base); j++)
      add_value<DIM>(sums, __shfl_sync(~0u, weight, j), values + first + size_t(base + j) * stride);
  }
  write_value<DIM>(result + at, sums, length > 0 ? 1 / sum : 0.f);
}

// Writes the weights of the first head, `most` places for each row. Here a warp has a row.
template <int DIM>
__device__ void weights(const __half* queries, const __half* keys, const int* starts, const int* lengths, float* result, int rows, int width,
                        int stride, int most, float scale) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* query = load_query<DIM>(queries + size_t(row) * width, scale);
  int length = lengths[row];
  keys += size_t(starts[row]) * stride, result += size_t(row) * most;
  float largest = -INFINITY, sum = 0;
  for (int i = lane; i < length; i += 32) {
    result[i] = dot<DIM>(query, keys + size_t(i) * stride);
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
  extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)                                                                 \
      name(const __half* queries, const __half* keys, const __half* values, const int* starts, const int* lengths,         \
           __half* result, int rows, int heads, int stride, float scale) {                                                 \
    lookup<DIM>(queries, keys, values, starts, lengths, result, rows, heads, stride, scale);                               \
  }                                                                                                                        \
  KERNEL(name)

LOOKUP(lookup_32, 32);
LOOKUP(lookup_64, 64);

// The weights that the first head of each row gives to the positions of its sentence, `most` places for each row. width is that of a row
// of queries.
#define WEIGHTS(name, DIM)                                                                                                              \
  extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)                                                                              \
      name(const __half* queries, const __half* keys, const int* starts, const int* lengths, float* result, int rows, int width,        \
           int stride, int most, float scale) {                                                                                         \
    weights<DIM>(queries, keys, starts, lengths, result, rows, width, stride, most, scale);                                             \
  }                                                                                                                                     \
  KERNEL(name)

WEIGHTS(lookup_weights_32, 32);
WEIGHTS(lookup_weights_64, 64);
