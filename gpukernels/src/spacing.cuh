// Widths that are no multiple of 8: groups of columns are stored in more place than they need.
#pragma once
#include "language.cuh"

// Columns come in groups of `width`, each in the place of `stored`, a multiple of 8. What is left of that place is zero, and stays so.
struct Spacing {
  int width, stored;

  // The number of element i among those that are no zeros of a place, in a matrix without gaps.
  __device__ __forceinline__ unsigned long long number(unsigned long long i) const {
    return width == stored ? i : i / unsigned(stored) * unsigned(width) + i % unsigned(stored);
  }
  // How many of the elements from i on, a multiple of 8, belong to its group.
  __device__ __forceinline__ int left(int i) const { return width == stored ? 8 : width - i % stored; }
  // How many of n columns belong to groups.
  __device__ __forceinline__ int columns(int n) const { return width == stored ? n : n / stored * width; }
};
