// The products of training: with either operand transposed, so that a matrix and its gradient are stored in one way only.
#include "product.cuh"

namespace {

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

// What becomes of the sums of a product.
struct Epilogue {
  const void* bias;         // n numbers, as the result is stored, or null
  const Element* residual;  // of the shape of result, or null; may be result
  Element* result;          // or null, and then
  float* sums;              // they are stored in float32
  int stride;               // of residual, result and sums
  int rectified, add;       // to what is in sums
};

__device__ __forceinline__ float bias_of(const Epilogue& e, int column) {
  return e.sums ? static_cast<const float*>(e.bias)[column] : to_float(static_cast<const Element*>(e.bias)[column]);
}

__device__ __forceinline__ void finish(const Epilogue& e, size_t at, int column, bool two, float x, float y) {
  if (e.bias) x += bias_of(e, column), y += two ? bias_of(e, column + 1) : 0.f;
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
  int m0 = blockIdx.y * T::TILE_M, n0 = blockIdx.x * T::TILE_N;
  float sums[T::ROWS][T::COLUMNS][4] = {};
  multiply_slices<T, A, B>(sums, shared, k, [&](Element* to_a, Element* to_b, int from) {
    load_operand<T, T::TILE_M, A>(to_a, a, a_stride, m0, m, from, k);
    load_operand<T, T::TILE_N, B>(to_b, b, b_stride, n0, n, from, k);
  });
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
      KERNEL_NAME(name)(const Element* a, const Element* b, const void* bias, const Element* residual, Element* result, float* sums,       \
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
