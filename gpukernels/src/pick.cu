// Log-probabilities of chosen tokens, from scores of the whole vocabulary that are there already.
#include "rows.cuh"

// result[i] = the log-probability of tokens[i] in the row r for which starts[r] <= i < starts[r + 1]: its score, less the logarithm of the sum of
// the exponentials of the scores of all candidates of the row, which the row's block adds up in an order of its own. A row in which a candidate's
// score is not finite has NaN. Candidates are those of output.cuh.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(pick_log_probabilities)(const float* scores, const int* starts, const int* tokens, const unsigned* candidates, const int* set_of_row,
                                        float* result, int n, int words) {
  SHARED(tops, float[WARPS]);
  SHARED(sums, float[WARPS]);
  int row = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = starts[row], end = starts[row + 1];
  const float* of_row = scores + size_t(row) * n;
  const unsigned* set = candidates && set_of_row[row] >= 0 ? candidates + size_t(set_of_row[row]) * words : nullptr;
  auto candidate = [&](int token) { return !set || (set[token / 32] >> token % 32 & 1); };
  float top = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < n; i += 32 * WARPS)
    if (candidate(i)) top = fmaxf(top, of_row[i]);
  top = warp_max(top);
  if (lane == 0) tops[warp] = top;
  __syncthreads();  // the largest scores of all warps are there
  for (int w = 0; w < WARPS; w++) top = fmaxf(top, tops[w]);
  for (int i = threadIdx.x; i < n; i += 32 * WARPS)
    if (candidate(i)) sum += fabsf(of_row[i]) < INFINITY ? __expf(of_row[i] - top) : NOT_A_NUMBER;
  sum = warp_sum(sum);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();  // the sums of all warps are there
  sum = 0;
  for (int w = 0; w < WARPS; w++) sum += sums[w];
  float less = top + logf(sum);
  for (int i = first + threadIdx.x; i < end; i += 32 * WARPS) result[i] = of_row[tokens[i]] - less;
}
KERNEL(pick_log_probabilities);
