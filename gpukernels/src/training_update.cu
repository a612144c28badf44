// The update of the parameters: Adam, clipping and the moving average in one pass over them (train/optimiser).
#include "rows.cuh"

namespace {

constexpr int THREADS = 256;
constexpr int CHUNK = 16384;  // numbers whose squares a block adds up

}  // namespace

// For each chunk of a gradient, the sum of squares, times scale each, in an order that is always the same.
extern "C" __global__ void __launch_bounds__(THREADS, 4) KERNEL_NAME(training_squares)(const float* gradient, double* sums, int n, float scale) {
  SHARED(of_warps, double[THREADS / 32]);
  size_t first = size_t(blockIdx.x) * CHUNK, end = min(size_t(n), first + CHUNK);
  double sum = 0;
  for (size_t i = first + threadIdx.x; i < end; i += THREADS) {
    double g = gradient[i] * scale;
    sum += g * g;
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x) return;
  sum = 0;
  for (int i = 0; i < THREADS / 32; i++) sum += of_warps[i];
  sums[blockIdx.x] = sum;
}
KERNEL(training_squares);

// Adds n numbers to those in `to`: the gradient of another device.
extern "C" __global__ void __launch_bounds__(THREADS, 4) KERNEL_NAME(training_add_numbers)(float* to, const float* from, int n) {
  size_t i = size_t(blockIdx.x) * THREADS + threadIdx.x;
  if (i < size_t(n)) to[i] += from[i];
}
KERNEL(training_add_numbers);

// m = β₁·m + (1-β₁)·g, v = β₂·v + (1-β₂)·g², x -= rate·m/(sqrt(v·root) + ε), average += weight·(x - average), for g the gradient times
// scale, which becomes zero. stored receives x, rounded. average may be null.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    KERNEL_NAME(training_adam)(float* values, float* gradient, float* means, float* squares, float* averages, Element* stored, int n, float scale,
                               float beta1, float beta2, float epsilon, float rate, float root, float weight) {
  size_t i = size_t(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= size_t(n)) return;
  float g = gradient[i] * scale, m = beta1 * means[i] + (1 - beta1) * g, v = beta2 * squares[i] + (1 - beta2) * g * g;
  float x = values[i] - rate * m / (sqrtf(v * root) + epsilon);
  means[i] = m, squares[i] = v, gradient[i] = 0, values[i] = x, stored[i] = from_float(x);
  if (averages) averages[i] += weight * (x - averages[i]);
}
KERNEL(training_adam);
