// Tensor cores and asynchronous copies (sm_80 and later): PTX, or what it does, for the host.
//
// A warp multiplies 16x16 with 16x8 elements of fp16 or bfloat16 and adds to 16x8 elements of float32. With g = lane/4 and t = lane%4, a lane holds
//   of A, in register r:  rows g + r%2*8,  columns t*2 + r/2*8 and the next
//   of B, in register r:  rows t*2 + r*8 and the next,  column g
//   of D, in element i:   row g + i/2*8,  column t*2 + i%2
// (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"). The order in which an instruction adds its 16 products is the
// hardware's; it depends on nothing but k, so that a sum over ascending k has the same bits whatever else a kernel computes.
//
// Of 8-bit integers it multiplies 16x32 with 32x8 and adds to 16x8 of int32, exactly. Where a register has two elements of fp16 it has four
// integers then, so that whoever loads operands may take an Element for two integers that lie one behind the other
// ("Matrix Fragments for mma.m16n8k32"). Of fp8 it does the same (sm_89 and later), and adds to float32, which is a Float8Sum then.
#pragma once
#include "language.cuh"

// A sum of products of fp8.
struct Float8Sum { float value; };

#ifndef SLUICE_EMULATED

#ifdef SLUICE_BFLOAT16
#define MMA_TYPES "bf16.bf16"
#else
#define MMA_TYPES "f16.f16"
#endif

__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MMA_TYPES ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma(Float8Sum (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0].value), "+f"(d[1].value), "+f"(d[2].value), "+f"(d[3].value)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// d[i][j] += a[i] * b[j], of elements for sums that are float, of integers for int, of fp8 for Float8Sum.
template <int M, int N, class Sum>
__device__ __forceinline__ void mma_tiles(Sum (&d)[M][N][4], const unsigned (&a)[M][4], const unsigned (&b)[N][2]) {
#pragma unroll
  for (int i = 0; i < M; i++)
#pragma unroll
    for (int j = 0; j < N; j++) mma(d[i][j], a[i], b[j]);
}

// Loads four 8x8 matrices of elements, or their transposes: lane l gives the address of row l%8 of matrix l/8, and gets in register m of
// matrix m the elements of row l/4 (column, if transposed), columns l%4*2 and the next.
template <bool TRANSPOSED> __device__ __forceinline__ void load_matrices(unsigned (&r)[4], const Element* row) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

// Begins to copy 16 bytes to shared memory, or to write zeros there if not valid; from must be an address that can be read even then.
__device__ __forceinline__ void copy_async(Element* to, const Element* from, bool valid) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
// Ends a group of copies.
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most N of this thread's groups are under way.
template <int N> __device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Two numbers rounded to elements, the first in the low half.
__device__ __forceinline__ unsigned pack_pair(float low, float high) {
  Element2 h = from_floats(low, high);
  return *reinterpret_cast<unsigned*>(&h);
}

// Two numbers rounded to fp8, the first in the low byte. What is too large becomes the largest.
__device__ __forceinline__ unsigned pack_float8(float low, float high) {
  unsigned short two;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(high), "f"(low));
  return two;
}

#else
#include "tensor_emulated.h"
#endif
