// The product of a layer: sums with a bias, an activation and a residual behind them.
#pragma once
#include "product.cuh"

// result[m,n] = f(Σ a[m,k]·b[n,k] + bias[n]) + residual[m,n], where f is max(0, ·) if rectified, and bias and residual may be null.
//
// a: m rows of k elements, a_stride apart; b: n rows of k elements; residual and result: m rows, their strides apart. k and a_stride
// are multiples of 8, n and the other strides are even. result may be residual. number(sum, row, column) is what a sum stands for.
template <class T, class Sum, class Number>
__device__ void product(const Element* a, const Element* b, Number number, const float* bias, const Element* residual, Element* result, int m,
                        int n, int k, int a_stride, int residual_stride, int result_stride, int rectified) {
  DYNAMIC_SHARED(Element, shared);
  int m0 = blockIdx.y * T::TILE_M, n0 = blockIdx.x * T::TILE_N;
  Sum sums[T::ROWS][T::COLUMNS][4] = {};
  auto row_a = [&](int r) { return m0 + r < m ? a + size_t(m0 + r) * a_stride : nullptr; };
  auto row_b = [&](int r) { return n0 + r < n ? b + size_t(n0 + r) * k : nullptr; };
  multiply<T>(sums, shared, row_a, row_b, a, k);
#pragma unroll
  for (int i = 0; i < T::ROWS; i++)
#pragma unroll
    for (int j = 0; j < T::COLUMNS; j++)
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        int row = m0 + T::row(i, e), column = n0 + T::column(j, e);
        if (row >= m || column >= n) continue;
        float x = number(sums[i][j][e], row, column), y = number(sums[i][j][e + 1], row, column + 1);
        if (bias) x += bias[column], y += bias[column + 1];
        if (rectified) x = rectify(x), y = rectify(y);
        if (residual) {
          float2 old = to_floats(*reinterpret_cast<const Element2*>(residual + size_t(row) * residual_stride + column));
          x += old.x, y += old.y;
        }
        *reinterpret_cast<Element2*>(result + size_t(row) * result_stride + column) = from_floats(x, y);
      }
}
