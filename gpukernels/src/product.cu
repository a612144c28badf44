#include "linear.cuh"

// See product in linear.cuh.
#define PRODUCT(name, ...)                                                                                                          \
  extern "C" __global__ void __launch_bounds__(Tiling<__VA_ARGS__>::THREADS, Tiling<__VA_ARGS__>::BLOCKS)                                                        \
      KERNEL_NAME(name)(const Element* a, const Element* b, const float* bias, const Element* residual, Element* result, int m, int n, int k,        \
           int a_stride, int residual_stride, int result_stride, int rectified) {                                                   \
    product<Tiling<__VA_ARGS__>, float>(a, b, [](float sum, int, int) { return sum; }, bias, residual, result, m, n, k, a_stride,   \
                                        residual_stride, result_stride, rectified);                                                 \
  }                                                                                                                                 \
  KERNEL(name)

PRODUCT(product_128x128, 128, 128, 64, 32, 3);
PRODUCT(product_64x64, 64, 64, 32, 32, 3);
PRODUCT(product_16x64, 16, 64, 16, 16, 4);
PRODUCT(product_16x16, 16, 16, 16, 16, 8);
