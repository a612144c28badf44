// The product with the table of all tokens, and the best of each row, without storing the product.
#pragma once
#include "choices.cuh"
#include "product.cuh"
#include "rows.cuh"

namespace {

// The better one has the higher score, or the smaller token.
__device__ __forceinline__ bool better(Choice a, Choice b) { return a.score > b.score || (a.score == b.score && a.token < b.token); }

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

// The columns of a tile, of all kernels here.
constexpr int TILE_COLUMNS = 64;

// How many columns there are, which a graph does not know: no more than its grid is for.
__device__ __forceinline__ int counted(const int* column_count, int columns) { return column_count ? min(columns, *column_count) : columns; }

// number(sum, row, token) is what a sum of products stands for. Tiles behind the last column have nothing to do; their places stay as they are.
template <class T, class Sum, class Number>
__device__ void output(const Element* x, const Element* table, Number number, const float* bias, const Tokens& tokens, Choice* best, float2* sums,
                       int rows, int most_columns, const int* column_count, int length, int count) {
  constexpr int STRIDE = T::TILE_N + 2;
  static_assert(T::TILE_N == TILE_COLUMNS, "output_merge counts tiles of that size");
  static_assert(T::TILE_M * STRIDE * sizeof(float) <= T::STAGES * T::STAGE * sizeof(Element), "the scores need more room than the stages");
  DYNAMIC_SHARED(Element, shared);
  int m0 = blockIdx.y * T::TILE_M, n0 = blockIdx.x * T::TILE_N, tiles = gridDim.x;
  if (n0 >= counted(column_count, most_columns)) return;  // the whole block
  Sum products[T::ROWS][T::COLUMNS][4] = {};
  auto row_x = [&](int r) { return m0 + r < rows ? x + size_t(m0 + r) * length : nullptr; };
  auto row_table = [&](int r) {
    return n0 + r < counted(column_count, most_columns) ? table + size_t(tokens.token(n0 + r)) * length : nullptr;
  };
  multiply<T>(products, shared, row_x, row_table, x, length);
  __syncthreads();  // the scores take the place of the stages
  int columns = counted(column_count, most_columns);  // once more, since products leave no register for it
  float* scores = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int i = 0; i < T::ROWS; i++)
#pragma unroll
    for (int j = 0; j < T::COLUMNS; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int row = T::row(i, e), column = T::column(j, e);
        if (m0 + row >= rows || n0 + column >= columns) continue;
        int token = tokens.token(n0 + column);
        scores[row * STRIDE + column] = number(products[i][j][e], m0 + row, token) + bias[token];
      }
  __syncthreads();
  for (int r = threadIdx.x / 32; r < T::TILE_M && m0 + r < rows; r += T::THREADS / 32) {
    size_t at = size_t(m0 + r) * tiles + blockIdx.x;
    choose<T::TILE_N>(scores + r * STRIDE, tokens, m0 + r, n0, columns, count, best + at * count, sums + at);
  }
}

// Writes the score of every token.
template <class Sum, class Number>
__device__ void scores(const Element* x, const Element* table, Number number, const float* bias, float* result, int rows, int columns, int length) {
  using T = Tiling<16, 64, 16, 16, 4>;
  DYNAMIC_SHARED(Element, shared);
  int m0 = blockIdx.y * T::TILE_M, n0 = blockIdx.x * T::TILE_N;
  Sum sums[T::ROWS][T::COLUMNS][4] = {};
  auto row_x = [&](int r) { return m0 + r < rows ? x + size_t(m0 + r) * length : nullptr; };
  auto row_table = [&](int r) { return n0 + r < columns ? table + size_t(n0 + r) * length : nullptr; };
  multiply<T>(sums, shared, row_x, row_table, x, length);
#pragma unroll
  for (int j = 0; j < T::COLUMNS; j++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      int row = m0 + T::row(0, e), column = n0 + T::column(j, e);
      if (row < rows && column < columns) result[size_t(row) * columns + column] = number(sums[0][j][e], row, column) + bias[column];
    }
}

}  // namespace
