// The output layer: the product with the table of all tokens, and the best of each row, without storing the product.
//
// output_* computes tiles of the product, and of each row of a tile the best tokens and the sum for the softmax. output_merge finds the
// best of all tiles. The other kernels let the next step begin with what was chosen.
#include "product.cuh"
#include "rows.cuh"

namespace {

// A Choice is a token with its score. The better one has the higher score, or the smaller token.
struct Choice {
  float score;
  int token;
};
__device__ __forceinline__ bool better(Choice a, Choice b) { return a.score > b.score || (a.score == b.score && a.token < b.token); }

// A Guess is what a row goes on with before anybody has read the choices: the number of a state, and a token.
struct Guess {
  int state, token;
};

// The best of what the lanes have.
__device__ __forceinline__ Choice warp_best(Choice c) {
#pragma unroll
  for (int d = 16; d; d /= 2) {
    Choice other = {__shfl_xor_sync(~0u, c.score, d), __shfl_xor_sync(~0u, c.token, d)};
    if (better(other, c)) c = other;
  }
  return c;
}

__device__ __forceinline__ Choice nothing() { return {-INFINITY, 0x7fffffff}; }

// Which tokens a row may have. All pointers but forbidden_starts may be null.
struct Tokens {
  const int* columns;           // the token of each column; null: column i is token i
  const unsigned* candidates;   // sets of tokens, `words` words of bits each
  const int* set_of_row;        // which of them is a row's; -1: the row may have every token
  int words;
  const int* forbidden_starts;  // row r may not have the tokens from forbidden[forbidden_starts[r]] up to that of r + 1
  const int* forbidden;

  __device__ int token(int column) const { return columns ? columns[column] : column; }
  __device__ bool candidate(int row, int token) const {
    if (!candidates || set_of_row[row] < 0) return true;
    return candidates[size_t(set_of_row[row]) * words + token / 32] >> token % 32 & 1;
  }
  __device__ bool allowed(int row, int token) const {
    for (int i = forbidden_starts[row]; i < forbidden_starts[row + 1]; i++)
      if (forbidden[i] == token) return false;
    return true;
  }
};

// Writes the best `count` tokens of a row of a tile, best first, and {largest score, Σ exp(score - largest)} over its candidates, those
// included that are forbidden; NaNs if a score is not finite.
template <int COLUMNS>
__device__ void choose(const float* scores, const Tokens& tokens, int row, int first, int columns, int count, Choice* best, float2* sum) {
  int lane = threadIdx.x % 32;
  Choice mine[COLUMNS / 32];
  float largest = -INFINITY, total = 0;
  bool broken = false;
#pragma unroll
  for (int i = 0; i < COLUMNS / 32; i++) {
    int column = i * 32 + lane, token = first + column < columns ? tokens.token(first + column) : -1;
    mine[i] = nothing();
    if (token < 0 || !tokens.candidate(row, token)) continue;
    mine[i] = {scores[column], token};
    largest = fmaxf(largest, scores[column]);
    broken = broken || !(fabsf(scores[column]) < INFINITY);
  }
  largest = warp_max(largest);
#pragma unroll
  for (int i = 0; i < COLUMNS / 32; i++)
    if (mine[i].score > -INFINITY) total += __expf(mine[i].score - largest);
  total = warp_sum(total);
  broken = __any_sync(~0u, broken);
  if (lane == 0) *sum = broken ? make_float2(NOT_A_NUMBER, NOT_A_NUMBER) : make_float2(largest, total);
#pragma unroll
  for (int i = 0; i < COLUMNS / 32; i++)
    if (mine[i].score > -INFINITY && !tokens.allowed(row, mine[i].token)) mine[i] = nothing();
  for (int n = 0; n < count; n++) {
    Choice top = mine[0];
#pragma unroll
    for (int i = 1; i < COLUMNS / 32; i++)
      if (better(mine[i], top)) top = mine[i];
    top = warp_best(top);
    if (lane == 0) best[n] = top;
#pragma unroll
    for (int i = 0; i < COLUMNS / 32; i++)
      if (mine[i].token == top.token) mine[i] = nothing();
  }
}

template <class T>
__device__ void output(const Element* x, const Element* table, const float* bias, const Tokens& tokens, Choice* best, float2* sums, int rows,
                       int columns, int length, int count) {
  constexpr int STRIDE = T::TILE_N + 2;
  static_assert(T::TILE_M * STRIDE * sizeof(float) <= T::STAGES * T::STAGE * sizeof(Element), "the scores need more room than the stages");
  DYNAMIC_SHARED(Element, shared);
  int m0 = blockIdx.y * T::TILE_M, n0 = blockIdx.x * T::TILE_N, tiles = gridDim.x;
  float products[T::ROWS][T::COLUMNS][4] = {};
  auto row_x = [&](int r) { return m0 + r < rows ? x + size_t(m0 + r) * length : nullptr; };
  auto row_table = [&](int r) { return n0 + r < columns ? table + size_t(tokens.token(n0 + r)) * length : nullptr; };
  multiply<T>(products, shared, row_x, row_table, x, length);
  __syncthreads();  // the scores take the place of the stages
  float* scores = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int i = 0; i < T::ROWS; i++)
#pragma unroll
    for (int j = 0; j < T::COLUMNS; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int column = T::column(j, e);
        float b = n0 + column < columns ? bias[tokens.token(n0 + column)] : 0.f;
        scores[T::row(i, e) * STRIDE + column] = products[i][j][e] + b;
      }
  __syncthreads();
  for (int r = threadIdx.x / 32; r < T::TILE_M && m0 + r < rows; r += T::THREADS / 32) {
    size_t at = size_t(m0 + r) * tiles + blockIdx.x;
    choose<T::TILE_N>(scores + r * STRIDE, tokens, m0 + r, n0, columns, count, best + at * count, sums + at);
  }
}

}  // namespace

// x: rows of `length` elements; table: one for each token; bias: of each token. best: for each row and tile of 64 columns `count` choices;
// sums: for each row and tile two numbers. The other parameters are those of Tokens. The grid is (tiles of columns, tiles of rows).
#define OUTPUT(name, ...)                                                                                                                 \
  extern "C" __global__ void __launch_bounds__(Tiling<__VA_ARGS__>::THREADS, Tiling<__VA_ARGS__>::BLOCKS)                                                              \
      KERNEL_NAME(name)(const Element* x, const Element* table, const float* bias, const int* columns_, const unsigned* candidates,                      \
           const int* set_of_row, const int* forbidden_starts, const int* forbidden, Choice* best, float2* sums, int rows, int columns,   \
           int length, int words, int count) {                                                                                            \
    Tokens tokens = {columns_, candidates, set_of_row, words, forbidden_starts, forbidden};                                               \
    output<Tiling<__VA_ARGS__>>(x, table, bias, tokens, best, sums, rows, columns, length, count);                                        \
  }                                                                                                                                       \
  KERNEL(name)

OUTPUT(output_64, 64, 64, 32, 32, 3);
OUTPUT(output_16, 16, 64, 16, 16, 4);

// result[r][token] = the score of every token, in float32: for those who want all of them. x, table and bias are those above.
extern "C" __global__ void __launch_bounds__(128, 4)
    KERNEL_NAME(output_scores)(const Element* x, const Element* table, const float* bias, float* result, int rows, int columns, int length) {
  using T = Tiling<16, 64, 16, 16, 4>;
  DYNAMIC_SHARED(Element, shared);
  int m0 = blockIdx.y * T::TILE_M, n0 = blockIdx.x * T::TILE_N;
  float sums[T::ROWS][T::COLUMNS][4] = {};
  auto row_x = [&](int r) { return m0 + r < rows ? x + size_t(m0 + r) * length : nullptr; };
  auto row_table = [&](int r) { return n0 + r < columns ? table + size_t(n0 + r) * length : nullptr; };
  multiply<T>(sums, shared, row_x, row_table, x, length);
#pragma unroll
  for (int j = 0; j < T::COLUMNS; j++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      int row = m0 + T::row(0, e), column = n0 + T::column(j, e);
      if (row < rows && column < columns) result[size_t(row) * columns + column] = sums[0][j][e] + bias[column];
    }
}
KERNEL(output_scores);

// Finds the `count` best of all tiles, best first, for each row. If normalised, log-probabilities take the place of scores. A row with a
// score that is not finite gets NaNs; where there are no more tokens, the choice is {-∞, -1}.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(output_merge)(const Choice* best, const float2* sums, Choice* result, int rows, int tiles, int count, int normalised) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;
  best += size_t(row) * tiles * count, sums += size_t(row) * tiles, result += size_t(row) * count;
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
