// The products of training: with either operand transposed, so that a matrix and its gradient are stored in one way only.
#include "product.cuh"

namespace {

// A layout says how an operand is stored.
enum Layout {
  BY_ROWS,    // k, over which the sum runs, is the inner dimension
  BY_COLUMNS  // k is the outer dimension
};

// Where rows of a stage of BY_COLUMNS begin: eight of them lie in eight different places of the banks, for tiles of 64 and 128.
template <int COUNT> constexpr int COLUMN_STRIDE = COUNT + 8;

// Begins to copy a slice of an operand, of which COUNT rows (BY_ROWS) or columns are in the tile, `first` being the first one. most is how
// many there are; of columns, as many as make it a multiple of 8 can be read.
template <class T, int COUNT, Layout LAYOUT>
__device__ void load_operand(Element* to, const Element* from, int stride, int first, int most, int k, int length) {
  if constexpr (LAYOUT == BY_ROWS) {
    load_slice<T, COUNT>(to, [&](int r) { return first + r < most ? from + size_t(first + r) * stride : nullptr; }, from, k, length);
  } else {
#pragma unroll
    for (int i = 0; i < COUNT / 8 * T::SLICE / T::THREADS; i++) {
      int chunk = threadIdx.x + i * T::THREADS, row = chunk / (COUNT / 8), column = chunk % (COUNT / 8) * 8;
      bool valid = k + row < length && first + column < most;
      copy_async(to + row * COLUMN_STRIDE<COUNT> + column, valid ? from + size_t(k + row) * stride + first + column : from, valid);
    }
  }
}

// The operands of one tensor instruction in row i, or of two in columns j and j + 1, from a slice in shared memory.
template <class T, Layout LAYOUT> __device__ void load_a(unsigned (&of_a)[4], const Element* a, int i, int k) {
  int lane = threadIdx.x % 32, m = T::first_row() + i * 16;
  if constexpr (LAYOUT == BY_ROWS)
    load_matrices<false>(of_a, a + (m + lane % 16) * T::STRIDE + k + lane / 16 * 8);
  else
    load_matrices<true>(of_a, a + (k + lane / 16 * 8 + lane % 8) * COLUMN_STRIDE<T::TILE_M> + m + lane / 8 % 2 * 8);
}
template <class T, Layout LAYOUT> __device__ void load_b(unsigned (&two)[4], const Element* b, int j, int k) {
  int lane = threadIdx.x % 32, n = T::first_column() + j * 8 + lane / 16 * 8;
  if constexpr (LAYOUT == BY_ROWS)
    load_matrices<false>(two, b + (n + lane % 8) * T::STRIDE + k + lane / 8 % 2 * 8);
  else
    load_matrices<true>(two, b + (k + lane / 8 % 2 * 8 + lane % 8) * COLUMN_STRIDE<T::TILE_N> + n);
}

template <class T, Layout A, Layout B>
__device__ void multiply_slice(float (&sums)[T::ROWS][T::COLUMNS][4], const Element* a, const Element* b) {
#pragma unroll
  for (int k = 0; k < T::SLICE; k += 16) {
    unsigned of_a[T::ROWS][4], of_b[T::COLUMNS][2];
#pragma unroll
    for (int i = 0; i < T::ROWS; i++) load_a<T, A>(of_a[i], a, i, k);
#pragma unroll
    for (int j = 0; j < T::COLUMNS; j += 2) {
      unsigned two[4];
      load_b<T, B>(two, b, j, k);
      of_b[j][0] = two[0], of_b[j][1] = two[1], of_b[j + 1][0] = two[2], of_b[j + 1][1] = two[3];
    }
    mma_tiles(sums, of_a, of_b);
  }
}

// What becomes of the sums of a product.
struct Epilogue {
  const float* bias;        // n numbers, or null
  const Element* residual;  // of the shape of result, or null; may be result
  Element* result;          // or null, and then
  float* sums;              // they are stored in float32
  int stride;               // of residual, result and sums
  int rectified, add;       // to what is in sums
};

__device__ __forceinline__ void finish(const Epilogue& e, size_t at, int column, bool two, float x, float y) {
  if (e.bias) x += e.bias[column], y += two ? e.bias[column + 1] : 0.f;
  if (e.rectified) x = rectify(x), y = rectify(y);
  if (e.sums) {
    e.sums[at] = x + (e.add ? e.sums[at] : 0.f);
    if (two) e.sums[at + 1] = y + (e.add ? e.sums[at + 1] : 0.f);
    return;
  }
  if (e.residual) {
    float2 old = to_floats(*reinterpret_cast<const Element2*>(e.residual + at));
    x += old.x, y += old.y;
  }
  *reinterpret_cast<Element2*>(e.result + at) = from_floats(x, y);
}

// The m×n sums over k, in ascending order, of a and b, whose rows are as far apart as their strides say.
template <class T, Layout A, Layout B>
__device__ void product(const Element* a, const Element* b, int m, int n, int k, int a_stride, int b_stride, const Epilogue& e) {
  DYNAMIC_SHARED(Element, shared);
  int m0 = blockIdx.y * T::TILE_M, n0 = blockIdx.x * T::TILE_N, slices = (k + T::SLICE - 1) / T::SLICE;
  float sums[T::ROWS][T::COLUMNS][4] = {};
  auto load = [&](int slice) {
    if (slice < slices) {
      Element* stage = shared + slice % T::STAGES * T::STAGE;
      load_operand<T, T::TILE_M, A>(stage, a, a_stride, m0, m, slice * T::SLICE, k);
      load_operand<T, T::TILE_N, B>(stage + T::TILE_M * T::STRIDE, b, b_stride, n0, n, slice * T::SLICE, k);
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
#pragma unroll
  for (int i = 0; i < T::ROWS; i++)
#pragma unroll
    for (int j = 0; j < T::COLUMNS; j++)
#pragma unroll
      for (int half = 0; half < 4; half += 2) {
        int row = m0 + T::row(i, half), column = n0 + T::column(j, half);
        if (row < m && column < n)
          finish(e, size_t(row) * e.stride + column, column, column + 1 < n, sums[i][j][half], sums[i][j][half + 1]);
      }
}

// A slice BY_COLUMNS has to fit into the place of one BY_ROWS.
static_assert(32 * COLUMN_STRIDE<64> <= 64 * 40 && 32 * COLUMN_STRIDE<128> <= 128 * 40);

}  // namespace

// Inner dimensions can be read up to the next multiple of 8, strides of a and b are multiples of 8; n may be odd where sums are stored in
// float32.
#define TRAINING_PRODUCT(name, A, B, ...)                                                                                                  \
  extern "C" __global__ void __launch_bounds__(Tiling<__VA_ARGS__>::THREADS, Tiling<__VA_ARGS__>::BLOCKS)                                  \
      KERNEL_NAME(name)(const Element* a, const Element* b, const float* bias, const Element* residual, Element* result, float* sums,      \
                        int m, int n, int k, int a_stride, int b_stride, int stride, int rectified, int add) {                             \
    product<Tiling<__VA_ARGS__>, A, B>(a, b, m, n, k, a_stride, b_stride, {bias, residual, result, sums, stride, rectified, add});         \
  }                                                                                                                                        \
  KERNEL(name)

TRAINING_PRODUCT(training_product_128x128, BY_ROWS, BY_COLUMNS, 128, 128, 64, 32, 3);
TRAINING_PRODUCT(training_product_64x64, BY_ROWS, BY_COLUMNS, 64, 64, 32, 32, 3);
TRAINING_PRODUCT(training_product_transposed_b_128x128, BY_ROWS, BY_ROWS, 128, 128, 64, 32, 3);
TRAINING_PRODUCT(training_product_transposed_b_64x64, BY_ROWS, BY_ROWS, 64, 64, 32, 32, 3);
TRAINING_PRODUCT(training_product_transposed_a_128x128, BY_COLUMNS, BY_COLUMNS, 128, 128, 64, 32, 3);
TRAINING_PRODUCT(training_product_transposed_a_64x64, BY_COLUMNS, BY_COLUMNS, 64, 64, 32, 32, 3);
