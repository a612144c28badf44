// CUDA C++ for a host compiler: the part of the language and of its built-in functions that the kernels use. A thread of a block is
// a fiber (block.h), so that a barrier or an operation of a warp is a switch to another fiber. The rules are stricter than the
// hardware's, so that what passes here is right there.
#pragma once
#include <math.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "block.h"

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

// SHARED(name, float[32]) is an array in the block's shared memory: NaNs at first, with red zones under the address sanitizer, which
// a thread_local array would not have.
#define SHARED(name, ...)                 \
  static const char name##_key_ = 0;      \
  auto& name = *static_cast<std::add_pointer_t<__VA_ARGS__>>(emulated::shared_memory(&name##_key_, sizeof(__VA_ARGS__)))
#define DYNAMIC_SHARED(T, name) T* name = static_cast<T*>(emulated::self().block->dynamic)

// KERNEL(name) makes a kernel known to the driver, under the name that it has for the type of its elements (language.cuh).
#define KERNEL(name) REGISTER(KERNEL_NAME(name))
#define REGISTER(name) REGISTER_EXPANDED(name)
#define REGISTER_EXPANDED(name) [[maybe_unused]] static const emulated::Registration<name> registration_of_##name(#name)

#define threadIdx (emulated::self().index)
#define blockIdx (emulated::self().block->index)
#define blockDim (emulated::self().block->threads)
#define gridDim (emulated::self().block->grid)
#define CALLER emulated::Place place = emulated::Place::current()

struct alignas(8) float2 { float x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }

// ---- Threads that work together

inline void __syncthreads(CALLER) { emulated::barrier(place); }
inline void __syncwarp(unsigned mask = ~0u, CALLER) {
  emulated::collective(mask, [](void**, unsigned) {}, nullptr, place);
}

namespace emulated {
// Lane i of the mask gets the value of lane source(i), which it names itself.
template <class T> T shuffle(unsigned mask, T value, int source, Place place) {
  struct Brought { T value; int source; Place place; } brought{value, source, place};
  collective(mask, [](void** lanes, unsigned mask) {
    T taken[32];
    for_each_lane(mask, [&](int lane) {
      auto& own = *static_cast<Brought*>(lanes[lane]);
      if (!(mask >> own.source & 1)) fail("reads a lane that is outside of the shuffle's mask", own.place);
      taken[lane] = static_cast<Brought*>(lanes[own.source])->value;
    });
    for_each_lane(mask, [&](int lane) { static_cast<Brought*>(lanes[lane])->value = taken[lane]; });
  }, &brought, place);
  return brought.value;
}
inline int lane_number() {
  Thread& t = self();
  return ((t.index.z * t.block->threads.y + t.index.y) * t.block->threads.x + t.index.x) % 32;
}
}  // namespace emulated

template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32, CALLER) {
  return emulated::shuffle(mask, value, (emulated::lane_number() & -width) | (source & (width - 1)), place);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, CALLER) {
  int lane = emulated::lane_number(), source = lane ^ bits;
  return emulated::shuffle(mask, value, source < (lane & -width) + width ? source : lane, place);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, CALLER) {
  unsigned bits = predicate != 0;
  emulated::collective(mask, [](void** lanes, unsigned mask) {
    unsigned all = 0;
    emulated::for_each_lane(mask, [&](int lane) { all |= *static_cast<unsigned*>(lanes[lane]) << lane; });
    emulated::for_each_lane(mask, [&](int lane) { *static_cast<unsigned*>(lanes[lane]) = all; });
  }, &bits, place);
  return bits;
}
inline int __any_sync(unsigned mask, int predicate, CALLER) { return __ballot_sync(mask, predicate, place) != 0; }

inline void __threadfence() {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler moves nothing across
  emulated::fence();
}
inline int atomicAdd(int* p, int v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline int atomicMax(int* p, int v) {
  int old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (old < v && !__atomic_compare_exchange_n(p, &old, v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return old;
}

// ---- Numbers

template <class T> T min(T a, T b) { return b < a ? b : a; }
template <class T> T max(T a, T b) { return a < b ? b : a; }
inline float __expf(float x) { return expf(x); }
// Rounded by themselves: a compiler must not join a multiplication and an addition, as it does even through a wider type and back.
inline float __fmul_rn(float x, float y) {
  volatile float product = x * y;
  return product;
}
inline float __fadd_rn(float x, float y) {
  volatile float sum = x + y;
  return sum;
}
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline int __float2int_rn(float x) { return static_cast<int>(nearbyintf(x)); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}

// The half types hold bits and have no operators. On the device's side operators and conversions are switched off, so that both
// sides round in the same places.
struct __half { _Float16 value; };
struct alignas(4) __half2 { __half x, y; };
inline float __half2float(__half h) { return h.value; }
inline __half __float2half_rn(float f) { return {static_cast<_Float16>(f)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
inline float2 __half22float2(__half2 h) { return {h.x.value, h.y.value}; }

// bfloat16: the upper half of a float.
struct __nv_bfloat16 { uint16_t bits; };
struct alignas(4) __nv_bfloat162 { __nv_bfloat16 x, y; };
inline float __bfloat162float(__nv_bfloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }
inline __nv_bfloat16 __float2bfloat16_rn(float f) {
  uint32_t bits = std::bit_cast<uint32_t>(f);
  if (f != f) return {0x7fff};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)}; }
inline float2 __bfloat1622float2(__nv_bfloat162 x) { return {__bfloat162float(x.x), __bfloat162float(x.y)}; }
