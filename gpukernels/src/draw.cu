// Samples: the tokens that rows are going to draw from their best ones.
#include "choices.cuh"
#include "rows.cuh"

namespace {

// A Draw is that of a row: of its choices from choices[place] on, best first, the first `kept` have the odds
// exp((weight · score - weight · the best score) · inverse_temperature), and chance, between 0 and 1, tells which one it is.
struct Draw {
  double chance, inverse_temperature;
  int place, kept, state, guess;
};

// The odds of choice i; none for what is no token.
__device__ __forceinline__ double odds(const Choice* choices, int i, const Draw& d, float weight) {
  if (i >= d.kept || !(choices[i].score > -INFINITY)) return 0;
  float best = __fmul_rn(weight, choices[0].score);
  return exp(double(__fadd_rn(__fmul_rn(weight, choices[i].score), -best)) * d.inverse_temperature);
}

}  // namespace

// For each draw, into guesses[guess]: its state, and the token of the first choice at which the sum of the odds up to it is more than
// chance times the sum of all, or else of the last one; -1 if there is none. Sums run as the processor's do, one after the other.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(draw_tokens)(const Choice* choices, const Draw* draws, Guess* guesses, int count, float weight) {
  int number = row_of_warp(), lane = threadIdx.x % 32;
  if (number >= count) return;  // of draw_tokens
  Draw d = draws[number];
  choices += d.place;
  double total = 0;
  for (int first = 0; first < d.kept; first += 32) {
    double own = odds(choices, first + lane, d, weight);
    for (int i = 0; i < 32; i++) total += __shfl_sync(~0u, own, i);
  }
  double sum = 0;
  int drawn = -1;
  bool found = false;
  for (int first = 0; first < d.kept && !found; first += 32) {
    double own = odds(choices, first + lane, d, weight);
    for (int i = 0; i < 32 && !found; i++) {
      double x = __shfl_sync(~0u, own, i);
      if (x == 0) continue;
      sum += x;
      drawn = first + i;
      found = sum > d.chance * total;
    }
  }
  if (lane == 0) guesses[d.guess] = {d.state, drawn < 0 ? -1 : choices[drawn].token};
}
KERNEL(draw_tokens);
