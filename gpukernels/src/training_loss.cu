// Cross-entropy with smoothed labels, some columns of the logits at a time: all of them never exist, but those of few rows. First the statistics of each
// row, over all columns; then the logits are made once more, and their gradients.
#include "rows.cuh"

namespace {

// What is known of a row's logits, `columns` of them so far: four float32.
struct Statistics { float largest, sum, target, total; };  // sum is that of exp(logit - largest), total that of the logits

__device__ Statistics read_statistics(const float* from) { return {from[0], from[1], from[2], from[3]}; }

}  // namespace

// Goes on with the statistics of rows, over the columns from `first` on. words are the rows' targets.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_loss_statistics)(const float* logits, const int* words, float* statistics, int rows, int columns, int stride, int first) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;
  logits += size_t(row) * stride, statistics += 4 * size_t(row);
  Statistics s = first ? read_statistics(statistics) : Statistics{-INFINITY, 0, 0, 0};
  float largest = -INFINITY, sum = 0, total = 0;
  for (int i = lane; i < columns; i += 32) largest = fmaxf(largest, logits[i]), total += logits[i];
  largest = fmaxf(s.largest, warp_max(largest)), total = warp_sum(total);
  for (int i = lane; i < columns; i += 32) sum += __expf(logits[i] - largest);
  sum = s.sum * __expf(s.largest - largest) + warp_sum(sum);
  int word = words[row] - first;
  if (lane == 0) {
    statistics[0] = largest, statistics[1] = sum, statistics[3] = s.total + total;
    statistics[2] = word >= 0 && word < columns ? logits[word] : s.target;
  }
}
KERNEL(training_loss_statistics);

// The gradients of the logits of the columns from `first` on: (p - q) times the row's weight, where q is smoothing/vocabulary everywhere and
// 1 - smoothing more at the target. weights may be null, for 1. Behind the columns, up to the stride, there are zeros.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(training_loss_gradient)(const float* logits, const int* words, const float* weights, const float* statistics, Element* gradient,
                                        int rows, int columns, int stride, int first, int vocabulary, float smoothing) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;
  logits += size_t(row) * stride, gradient += size_t(row) * stride;
  Statistics s = read_statistics(statistics + 4 * size_t(row));
  float weight = weights ? weights[row] : 1.f, log_sum = s.largest + logf(s.sum);
  int word = words[row] - first;
  for (int i = lane; i < stride; i += 32) {
    float g = 0;
    if (i < columns) g = weight * (__expf(logits[i] - log_sum) - smoothing / vocabulary - (i == word ? 1 - smoothing : 0.f));
    gradient[i] = from_float(g);
  }
}
KERNEL(training_loss_gradient);
