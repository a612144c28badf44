// The output layer: the product with the table of all tokens, and the best of each row, without storing the product.
//
// output_* computes tiles of the product, and of each row of a tile the best tokens and the sum for the softmax. output_merge finds the
// best of all tiles. The other kernels let the next step begin with what was chosen.
#include "output.cuh"

// x: rows of `length` elements; table: one for each token; bias: of each token. best: for each row and tile of 64 columns `count` choices;
// sums: for each row and tile two numbers. The other parameters are those of Tokens. The grid is (tiles of columns, tiles of rows); where
// column_count is not null, *column_count of the columns are there.
#define OUTPUT(name, ...)                                                                                                                 \
  extern "C" __global__ void __launch_bounds__(Tiling<__VA_ARGS__>::THREADS, Tiling<__VA_ARGS__>::BLOCKS)                                                              \
      KERNEL_NAME(name)(const Element* x, const Element* table, const float* bias, const int* columns_, const int* column_count,                         \
           const unsigned* candidates, const int* set_of_row, const int* forbidden_starts, const int* forbidden, Choice* best,            \
           float2* sums, int rows, int columns, int length, int words, int count) {                                                       \
    Tokens tokens = {columns_, candidates, set_of_row, words, forbidden_starts, forbidden};                                               \
    output<Tiling<__VA_ARGS__>, float>(x, table, [](float sum, int, int) { return sum; }, bias, tokens, best, sums, rows, columns,        \
                                       column_count, length, count);                                                                      \
  }                                                                                                                                       \
  KERNEL(name)

OUTPUT(output_64, 64, 64, 32, 32, 3);
OUTPUT(output_16, 16, 64, 16, 16, 4);

// result[r][token] = the score of every token, in float32: for those who want all of them. x, table and bias are those above.
extern "C" __global__ void __launch_bounds__(128, 4)
    KERNEL_NAME(output_scores)(const Element* x, const Element* table, const float* bias, float* result, int rows, int columns, int length) {
  scores<float>(x, table, [](float sum, int, int) { return sum; }, bias, result, rows, columns, length);
}
KERNEL(output_scores);

// Finds the `count` best of all tiles, best first, for each row, which has places for `tiles`; where column_count is not null, those of so many
// columns are there. If normalised, log-probabilities take the place of scores. A row with a
// score that is not finite gets NaNs; where there are no more tokens, the choice is {-∞, -1}.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(output_merge)(const Choice* best, const float2* sums, Choice* result, const int* column_count, int rows, int tiles, int count,
                              int normalised) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;
  best += size_t(row) * tiles * count, sums += size_t(row) * tiles, result += size_t(row) * count;
  tiles = (counted(column_count, tiles * TILE_COLUMNS) + TILE_COLUMNS - 1) / TILE_COLUMNS;
  float largest = -INFINITY, total = 0;
  bool broken = false;
  for (int i = lane; i < tiles; i += 32) {
    largest = fmaxf(largest, sums[i].x);
    broken = broken || sums[i].x != sums[i].x;
  }
  largest = warp_max(largest);
  broken = __any_sync(~0u, broken);
  for (int i = lane; i < tiles; i += 32)
    if (sums[i].y > 0) total += sums[i].y * __expf(sums[i].x - largest);
  float subtract = normalised ? largest + logf(warp_sum(total)) : 0.f;
  Choice last = {INFINITY, -1};
  for (int n = 0; n < count; n++) {
    Choice next = nothing();
    for (int i = lane; i < tiles * count; i += 32)
      if (better(last, best[i]) && better(best[i], next)) next = best[i];
    last = warp_best(next);
    bool none = last.score == -INFINITY;
    if (lane == 0) result[n] = {broken ? NOT_A_NUMBER : none ? last.score : last.score - subtract, none && !broken ? -1 : last.token};
  }
}
KERNEL(output_merge);

// For each sentence the best ways to go on, best first, into guesses[first_guesses[s]] up to that of s + 1. Its rows are those from
// first_rows[s] up to that of s + 1; row r has `count` choices from choices[places[r]] on, and a way is worth ranks[r] + weight · score,
// each rounded as the processor does. Among equals earlier rows, then earlier choices come first. Where there are no more ways, or a score
// is no number, a guess has the token -1.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(guess_beams)(const Choice* choices, const int* places, const float* ranks, const int* states, const int* first_rows,
                             const int* first_guesses, Guess* guesses, int sentences, int count, float weight) {
  int sentence = row_of_warp(), lane = threadIdx.x % 32;
  if (sentence >= sentences) return;  // of guess_beams
  int first = first_rows[sentence], ways = (first_rows[sentence + 1] - first) * count;
  Choice last = {INFINITY, -1};  // a way in the place of the token
  for (int guess = first_guesses[sentence]; guess < first_guesses[sentence + 1]; guess++) {
    Choice next = nothing();
    for (int way = lane; way < ways; way += 32) {
      int row = first + way / count;
      Choice ranked = {__fadd_rn(ranks[row], __fmul_rn(weight, choices[places[row] + way % count].score)), way};
      if (better(last, ranked) && better(ranked, next)) next = ranked;
    }
    last = warp_best(next);
    bool none = last.score == -INFINITY;
    int row = none ? first : first + last.token / count;
    if (lane == 0) guesses[guess] = {states[row], none ? -1 : choices[places[row] + last.token % count].token};
  }
}
KERNEL(guess_beams);

// What rows begin a step with that follows before anybody has read the choices. Where places[r] is not -1, tokens[r] becomes the token of that
// choice, or -1 if there is none or its score is no number. Where guessed[r] is not -1, tokens[r] and from[r] become those of that guess.
// Then, if there are words, the numbers of those before positions[r], `capacity` for each state, are copied from state from[r] to to[r].
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(begin_rows)(const Choice* choices, const int* places, const Guess* guesses, const int* guessed, int* tokens, int* from,
                            const int* to, const int* positions, int* words, int rows, int capacity) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;  // of begin_rows
  int state;
  if (guessed[row] >= 0) {
    Guess g = guesses[guessed[row]];
    state = g.state;
    if (lane == 0) tokens[row] = g.token, from[row] = state;
  } else {
    state = from[row];
    if (places[row] >= 0 && lane == 0) {
      Choice c = choices[places[row]];
      tokens[row] = c.score > -INFINITY ? c.token : -1;
    }
  }
  if (!words) return;
  for (int i = lane; i < positions[row]; i += 32) words[size_t(to[row]) * capacity + i] = words[size_t(state) * capacity + i];
}
KERNEL(begin_rows);

// Where hard attention is: reads, for each state the number of a token of the source. It begins at the first, and after a token that is one of
// the steps it moves on, as long as there are tokens. places[r] becomes the row of the memory that row r reads, of those from firsts[r] on, of
// which there are counts[r]; -1 if there are none.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(read_on)(const int* tokens, const int* from, const int* to, const int* positions, const int* firsts, const int* counts,
                         const int* steps, int* reads, int* places, int rows, int step_count) {
  int row = blockIdx.x * 32 * WARPS + threadIdx.x;
  if (row >= rows) return;  // of read_on
  int read = positions[row] > 0 ? reads[from[row]] : 0;
  bool moves = false;
  for (int i = 0; i < step_count; i++) moves = moves || tokens[row] == steps[i];
  read = max(0, min(read + moves, counts[row] - 1));
  reads[to[row]] = read;
  places[row] = counts[row] > 0 ? firsts[row] + read : -1;
}
KERNEL(read_on);
