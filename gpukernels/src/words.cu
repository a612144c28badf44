// What a decoder with self-attention keeps of the target words: keys and values in the rows of a cache, and for each slot the numbers of
// its words' rows, so that hypotheses which begin alike share them, and moving one moves a few numbers.
#include "rows.cuh"

// Row r becomes the row of the cache that rows_of_cache[r] names, and the word of slot slots[r] at positions[r]. n, a multiple of 8, is
// the elements of a row, from_stride and to_stride what lies between two; words has `capacity` numbers for each slot.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    KERNEL_NAME(keep_words)(const Element* from, Element* cache, int* words, const int* rows_of_cache, const int* slots, const int* positions, int rows, int n,
               int from_stride, int to_stride, int capacity) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows) return;  // of keep_words
  from += size_t(row) * from_stride, cache += size_t(rows_of_cache[row]) * to_stride;
  for (int i = lane * 8; i < n; i += 256) {
    float v[8];
    read_eight(v, from + i);
    write_eight(cache + i, v);
  }
  if (lane == 0) words[size_t(slots[row]) * capacity + positions[row]] = rows_of_cache[row];
}
KERNEL(keep_words);

// Rows at position 0 get their row of x: attention to one word is its value.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8) KERNEL_NAME(first_words)(const Element* x, const int* positions, Element* result, int rows, int n) {
  int row = row_of_warp(), lane = threadIdx.x % 32;
  if (row >= rows || positions[row] > 0) return;
  for (int i = lane * 8; i < n; i += 256) {
    float v[8];
    read_eight(v, x + size_t(row) * n + i);
    write_eight(result + size_t(row) * n + i, v);
  }
}
KERNEL(first_words);
