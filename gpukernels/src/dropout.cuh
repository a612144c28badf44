// The random numbers of dropout: those of the trainer on the processor (train/autodiff/dropout.go), so that both drop the same elements.
#pragma once
#include "language.cuh"

// Which elements are dropped: those whose number is below the threshold. What stays is multiplied by keep. Threshold 0 drops nothing.
struct Dropout {
  unsigned long long seed;
  unsigned threshold;
  float keep;

  // Number i of wyrand (Wang Yi), whose state is a counter.
  __device__ __forceinline__ unsigned long long draw(unsigned long long i) const {
    unsigned long long state = seed + (i + 1) * 0xa0761d6478bd642full, other = state ^ 0xe7037ed1a0b428dbull;
    return __umul64hi(state, other) ^ state * other;
  }
  // What element i is multiplied by; two elements share a number.
  __device__ __forceinline__ float of_element(unsigned long long i) const {
    if (!threshold) return 1;
    unsigned long long number = draw(i / 2);
    return unsigned(i % 2 ? number >> 32 : number) < threshold ? 0.f : keep;
  }
  // What row i is multiplied by, where whole rows are dropped.
  __device__ __forceinline__ float of_row(unsigned long long i) const {
    return !threshold ? 1.f : unsigned(draw(i)) < threshold ? 0.f : keep;
  }
};

// The finaliser of SplitMix64 (Steele et al. 2014).
__device__ __forceinline__ unsigned long long mix(unsigned long long x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}
