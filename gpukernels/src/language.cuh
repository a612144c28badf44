// What is written differently for the device and for the host (SLUICE_EMULATED: gpukernels/emulated), and for the two types that weights
// and activations are stored as: fp16, or bfloat16 (SLUICE_BFLOAT16), whose kernels have other names. Every kernel begins here.
#pragma once
#ifdef SLUICE_EMULATED
#include "cuda_language.h"
#else
#include <cuda_fp16.h>
#ifdef SLUICE_BFLOAT16
#include <cuda_bf16.h>
#endif

#define INFINITY __int_as_float(0x7f800000)  // NVRTC has no math.h

extern __shared__ __align__(128) unsigned char dynamic_shared_memory_[];

template <class T> using Same = T;
#define SHARED(name, ...) __shared__ Same<__VA_ARGS__> name
#define DYNAMIC_SHARED(T, name) T* name = reinterpret_cast<T*>(dynamic_shared_memory_)
#define KERNEL(name) static_assert(true)
#endif

// An Element is a stored number, an Element2 two of them. All arithmetic is float32: these are the only ways to it and back, which rounds
// to the nearest, ties to the even one.
#ifdef SLUICE_BFLOAT16
#define KERNEL_NAME(name) name##_bfloat16
typedef __nv_bfloat16 Element;
typedef __nv_bfloat162 Element2;
__device__ __forceinline__ float to_float(Element x) { return __bfloat162float(x); }
__device__ __forceinline__ float2 to_floats(Element2 x) { return __bfloat1622float2(x); }
__device__ __forceinline__ Element from_float(float x) { return __float2bfloat16_rn(x); }
__device__ __forceinline__ Element2 from_floats(float x, float y) { return __floats2bfloat162_rn(x, y); }
#else
#define KERNEL_NAME(name) name
typedef __half Element;
typedef __half2 Element2;
__device__ __forceinline__ float to_float(Element x) { return __half2float(x); }
__device__ __forceinline__ float2 to_floats(Element2 x) { return __half22float2(x); }
__device__ __forceinline__ Element from_float(float x) { return __float2half_rn(x); }
__device__ __forceinline__ Element2 from_floats(float x, float y) { return __floats2half2_rn(x, y); }
#endif

// max(0, x), and NaN for NaN, which fmaxf would hide.
__device__ __forceinline__ float rectify(float x) { return x < 0 ? 0.f : x; }

#define NOT_A_NUMBER __int_as_float(0x7fffffff)
