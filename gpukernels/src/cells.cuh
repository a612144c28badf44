// What recurrent cells and the additive attention between them have in common in translation and in training.
#pragma once
#include "rows.cuh"

namespace {

// The numbers of model.CellKind.
enum Cell { GRU, NEMATUS_GRU, LSTM, MULTIPLICATIVE_GRU, MULTIPLICATIVE_LSTM, TANH, RELU, SRU, SSRU };

// Calls f for every eight elements of this warp's row.
template <class F> __device__ __forceinline__ void each_eight(int rows, int n, F f) {
  int row = row_of_warp();
  if (row >= rows) return;  // of all cells
  for (int i = int(threadIdx.x) % 32 * 8; i < n; i += 256) f(row, i);
}

// The weights of additive attention: the softmax of the sums of score·tanh(key + query) over `count` keys of n elements, `stride` apart. A
// block works on them together: each warp sums for some keys. When it returns, the weights are there for all of its threads.
__device__ __forceinline__ void weigh_additively(float* weight, const Element* query, const Element* keys, const float* score, int count, int n,
                                                 int stride) {
  SHARED(tops, float[WARPS]);
  SHARED(sums, float[WARPS]);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float largest = -INFINITY, sum = 0;
  for (int j = warp; j < count; j += WARPS) {
    float dot = 0;
    for (int i = lane * 8; i < n; i += 256) {
      float q[8], k[8];
      read_eight(q, query + i), read_eight(k, keys + size_t(j) * stride + i);
#pragma unroll
      for (int e = 0; e < 8; e++) dot += score[i + e] * tanhf(q[e] + k[e]);
    }
    dot = warp_sum(dot);
    if (lane == 0) weight[j] = dot;
    largest = fmaxf(largest, dot);
  }
  if (lane == 0) tops[warp] = largest;
  __syncthreads();  // the scores of all warps are there
  for (int w = 0; w < WARPS; w++) largest = fmaxf(largest, tops[w]);
  for (int j = threadIdx.x; j < count; j += 32 * WARPS) sum += weight[j] = __expf(weight[j] - largest);
  sum = warp_sum(sum);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();  // the sums of all warps are there
  sum = 0;
  for (int w = 0; w < WARPS; w++) sum += sums[w];
  for (int j = threadIdx.x; j < count; j += 32 * WARPS) weight[j] /= sum;
  __syncthreads();  // the weights are there for all
}

}  // namespace
