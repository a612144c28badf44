// What is written differently for the device and for the host (SLUICE_EMULATED: gpukernels/emulated). Every kernel begins here.
#pragma once
#ifdef SLUICE_EMULATED
#include "cuda_language.h"
#else
#include <cuda_fp16.h>

#define INFINITY __int_as_float(0x7f800000)  // NVRTC has no math.h

extern __shared__ __align__(128) unsigned char dynamic_shared_memory_[];

template <class T> using Same = T;
#define SHARED(name, ...) __shared__ Same<__VA_ARGS__> name
#define DYNAMIC_SHARED(T, name) T* name = reinterpret_cast<T*>(dynamic_shared_memory_)
#define KERNEL(name) static_assert(true)
#endif

// max(0, x), and NaN for NaN, which fmaxf would hide.
__device__ __forceinline__ float rectify(float x) { return x < 0 ? 0.f : x; }

#define NOT_A_NUMBER __int_as_float(0x7fffffff)
