// The sums of a product of two matrices, by tensor cores: of fp16 or fp8 in float32, or of 8-bit integers in int32. The type of the sums
// says which; an Element stands for two numbers of 8 bits, and lengths and strides count Elements.
//
// Both matrices are stored with k, over which the sum runs, as the inner dimension. A block of threads computes a tile of the result:
// it copies slices of 32 of k to shared memory, STAGES of them under way, and its warps multiply their parts.
//
// Every element of the result is one chain of tensor instructions over ascending k, whatever the tiling. So its bits depend on its row
// and its column alone, not on how many rows there are nor on which tiling is chosen for them.
#pragma once
#include "tensor.cuh"

// TILE_M x TILE_N elements of the result for a block, WARP_M x WARP_N for each of its warps.
template <int TILE_M_, int TILE_N_, int WARP_M, int WARP_N, int STAGES_> struct Tiling {
  static constexpr int TILE_M = TILE_M_, TILE_N = TILE_N_, STAGES = STAGES_;
  static constexpr int SLICE = 32;
  static constexpr int STRIDE = SLICE + 8;  // 80 bytes: eight rows then lie in eight different places of the banks
  static constexpr int ROWS = WARP_M / 16, COLUMNS = WARP_N / 8;  // of tensor instructions in a warp
  static constexpr int WARPS_N = TILE_N / WARP_N;
  static constexpr int THREADS = TILE_M / WARP_M * WARPS_N * 32;
  static constexpr int BLOCKS = 512 / THREADS;  // on a multiprocessor: without being told, ptxas keeps room for more and spills registers
  static constexpr int STAGE = (TILE_M + TILE_N) * STRIDE;  // elements of shared memory

  // Where in the tile this thread's element e of the instruction in row i and column j is.
  __device__ static int row(int i, int e) { return threadIdx.x / 32 / WARPS_N * WARP_M + i * 16 + threadIdx.x % 32 / 4 + e / 2 * 8; }
  __device__ static int column(int j, int e) { return threadIdx.x / 32 % WARPS_N * WARP_N + j * 8 + threadIdx.x % 4 * 2 + e % 2; }
  __device__ static int first_row() { return threadIdx.x / 32 / WARPS_N * WARP_M; }
  __device__ static int first_column() { return threadIdx.x / 32 % WARPS_N * WARP_N; }
};

// Begins to copy columns k to k + 32 of some rows. row(i) is the address of row i, or null for a row of zeros.
template <class T, int COUNT, class Row> __device__ void load_slice(Element* to, Row row, const Element* readable, int k, int length) {
#pragma unroll
  for (int i = 0; i < (COUNT * T::SLICE / 8 + T::THREADS - 1) / T::THREADS; i++) {
    int chunk = threadIdx.x + i * T::THREADS, r = chunk / (T::SLICE / 8), column = chunk % (T::SLICE / 8) * 8;
    if (COUNT * T::SLICE / 8 % T::THREADS && r >= COUNT) break;
    const Element* from = row(r);
    bool valid = from && k + column < length;
    copy_async(to + r * T::STRIDE + column, valid ? from + k + column : readable, valid);
  }
}

// A layout says how an operand is stored.
enum Layout {
  BY_ROWS,    // k, over which the sum runs, is the inner dimension
  BY_COLUMNS  // k is the outer dimension
};

// Where rows of a stage of BY_COLUMNS begin: eight of them lie in eight different places of the banks, for tiles of 64 and 128.
template <int COUNT> constexpr int COLUMN_STRIDE = COUNT + 8;

// The operands of one tensor instruction in row i, or of two in columns j and j + 1, from a slice in shared memory.
template <class T, Layout LAYOUT> __device__ void load_a(unsigned (&of_a)[4], const Element* a, int i, int k, int lane) {
  int m = T::first_row() + i * 16;
  if constexpr (LAYOUT == BY_ROWS)
    load_matrices<false>(of_a, a + (m + lane % 16) * T::STRIDE + k + lane / 16 * 8);
  else
    load_matrices<true>(of_a, a + (k + lane / 16 * 8 + lane % 8) * COLUMN_STRIDE<T::TILE_M> + m + lane / 8 % 2 * 8);
}
template <class T, Layout LAYOUT> __device__ void load_b(unsigned (&two)[4], const Element* b, int j, int k, int lane) {
  int n = T::first_column() + j * 8 + lane / 16 * 8;
  if constexpr (LAYOUT == BY_ROWS)
    load_matrices<false>(two, b + (n + lane % 8) * T::STRIDE + k + lane / 8 % 2 * 8);
  else
    load_matrices<true>(two, b + (k + lane / 8 % 2 * 8 + lane % 8) * COLUMN_STRIDE<T::TILE_N> + n);
}

// How many steps of a slice a warp has operands of at a time: one where two would not fit into its registers. Those of fp8 take twice as
// many on devices that have no such tensor instruction, as sm_90 and sm_100, for which ptxas unpacks them to fp16.
template <class T, class Sum> struct Steps { enum { AT_A_TIME = 2 }; };
template <class T> struct Steps<T, Float8Sum> { enum { AT_A_TIME = T::ROWS * T::COLUMNS > 8 ? 1 : 2 }; };

// Multiplies a slice in shared memory: a has TILE_M rows or columns, b TILE_N.
template <class T, Layout A, Layout B, class Sum>
__device__ void multiply_slice(Sum (&sums)[T::ROWS][T::COLUMNS][4], const Element* a, const Element* b) {
  int lane = threadIdx.x % 32;
#pragma unroll (Steps<T, Sum>::AT_A_TIME)
  for (int k = 0; k < T::SLICE; k += 16) {
    unsigned of_a[T::ROWS][4], of_b[T::COLUMNS][2];
#pragma unroll
    for (int i = 0; i < T::ROWS; i++) load_a<T, A>(of_a[i], a, i, k, lane);
#pragma unroll
    for (int j = 0; j < T::COLUMNS; j += 2) {
      unsigned two[4];
      load_b<T, B>(two, b, j, k, lane);
      of_b[j][0] = two[0], of_b[j][1] = two[1], of_b[j + 1][0] = two[2], of_b[j + 1][1] = two[3];
    }
    mma_tiles(sums, of_a, of_b);
  }
}

// sums += the product of two operands over a length. copy(a, b, k) begins to copy the slices from k on of both of them to shared memory.
// shared has STAGES stages; the copies into it are done at the end, but other warps may still read.
template <class T, Layout A, Layout B, class Sum, class Copy>
__device__ void multiply_slices(Sum (&sums)[T::ROWS][T::COLUMNS][4], Element* shared, int length, Copy copy) {
  int slices = (length + T::SLICE - 1) / T::SLICE;
  auto load = [&](int slice) {
    if (slice < slices) {
      Element* stage = shared + slice % T::STAGES * T::STAGE;
      copy(stage, stage + T::TILE_M * T::STRIDE, slice * T::SLICE);
    }
    copy_async_commit();  // of nothing, perhaps: the wait below counts groups
  };
  for (int slice = 0; slice < T::STAGES - 1; slice++) load(slice);
  for (int slice = 0; slice < slices; slice++) {
    copy_async_wait<T::STAGES - 2>();
    __syncthreads();  // the slice is there for all, and all have read the stage that is loaded next
    load(slice + T::STAGES - 1);
    const Element* stage = shared + slice % T::STAGES * T::STAGE;
    multiply_slice<T, A, B>(sums, stage, stage + T::TILE_M * T::STRIDE);
  }
}

// sums += rows of a, TILE_M of them, times rows of b, TILE_N. length is that of a row, a multiple of 8; readable any address that can be
// read. shared: see multiply_slices.
template <class T, class Sum, class RowA, class RowB>
__device__ void multiply(Sum (&sums)[T::ROWS][T::COLUMNS][4], Element* shared, RowA row_a, RowB row_b, const Element* readable, int length) {
  multiply_slices<T, BY_ROWS, BY_ROWS>(sums, shared, length, [&](Element* a, Element* b, int k) {
    load_slice<T, T::TILE_M>(a, row_a, readable, k, length);
    load_slice<T, T::TILE_N>(b, row_b, readable, k, length);
  });
}
