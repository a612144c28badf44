// The host's side of gpukernels/src/tensor.cuh.
#pragma once
#include "cuda_language.h"

namespace emulated {

struct Fragments { float (*d)[4]; const unsigned (*a)[4], (*b)[2]; };

// One warp's tiles, for all of its lanes.
template <int M, int N> void multiply_tiles(void** lanes, unsigned) {
  typedef float Row __attribute__((vector_size(32)));
  float A[M][16][16];
  Row B[N][16], D[16];
  Element pair[2];
  auto of = [&](int lane) -> Fragments& { return *static_cast<Fragments*>(lanes[lane]); };
  for (int lane = 0; lane < 32; lane++) {
    int g = lane / 4, t = lane % 4;
    for (int i = 0; i < M; i++)
      for (int r = 0; r < 4; r++) {
        std::memcpy(pair, &of(lane).a[i][r], 4);
        for (int e = 0; e < 2; e++) A[i][g + r % 2 * 8][t * 2 + r / 2 * 8 + e] = to_float(pair[e]);
      }
    for (int j = 0; j < N; j++)
      for (int r = 0; r < 2; r++) {
        std::memcpy(pair, &of(lane).b[j][r], 4);
        for (int e = 0; e < 2; e++) B[j][t * 2 + r * 8 + e][g] = to_float(pair[e]);
      }
  }
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      auto element = [&](int lane, int e) -> float& { return D[lane / 4 + e / 2 * 8][lane % 4 * 2 + e % 2]; };
      for (int lane = 0; lane < 32; lane++)
        for (int e = 0; e < 4; e++) element(lane, e) = of(lane).d[i * N + j][e];
      for (int m = 0; m < 16; m++)
        for (int k = 0; k < 16; k++) D[m] += A[i][m][k] * B[j][k];
      for (int lane = 0; lane < 32; lane++)
        for (int e = 0; e < 4; e++) of(lane).d[i * N + j][e] = element(lane, e);
    }
}

struct IntegerFragments { int (*d)[4]; const unsigned (*a)[4], (*b)[2]; };

// The same of 8-bit integers.
template <int M, int N> void multiply_integers(void** lanes, unsigned) {
  typedef int Row __attribute__((vector_size(32)));
  int A[M][16][32];
  Row B[N][32], D[16];
  int8_t four[4];
  auto of = [&](int lane) -> IntegerFragments& { return *static_cast<IntegerFragments*>(lanes[lane]); };
  for (int lane = 0; lane < 32; lane++) {
    int g = lane / 4, t = lane % 4;
    for (int i = 0; i < M; i++)
      for (int r = 0; r < 4; r++) {
        std::memcpy(four, &of(lane).a[i][r], 4);
        for (int e = 0; e < 4; e++) A[i][g + r % 2 * 8][t * 4 + r / 2 * 16 + e] = four[e];
      }
    for (int j = 0; j < N; j++)
      for (int r = 0; r < 2; r++) {
        std::memcpy(four, &of(lane).b[j][r], 4);
        for (int e = 0; e < 4; e++) B[j][t * 4 + r * 16 + e][g] = four[e];
      }
  }
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      auto element = [&](int lane, int e) -> int& { return of(lane).d[i * N + j][e]; };
      std::memset(D, 0, sizeof D);
      for (int m = 0; m < 16; m++)
        for (int k = 0; k < 32; k++) D[m] += A[i][m][k] * B[j][k];
      for (int lane = 0; lane < 32; lane++)
        for (int e = 0; e < 4; e++) element(lane, e) += D[lane / 4 + e / 2 * 8][lane % 4 * 2 + e % 2];
    }
}

struct MatrixRows { const Element* row; unsigned r[4]; };

template <bool TRANSPOSED> void load_matrices(void** lanes, unsigned) {
  for (int lane = 0; lane < 32; lane++)
    for (int m = 0; m < 4; m++)
      for (int e = 0; e < 2; e++) {
        int row = TRANSPOSED ? lane % 4 * 2 + e : lane / 4, column = TRANSPOSED ? lane / 4 : lane % 4 * 2 + e;
        uint16_t bits;
        std::memcpy(&bits, static_cast<MatrixRows*>(lanes[m * 8 + row])->row + column, 2);
        static_cast<MatrixRows*>(lanes[lane])->r[m] |= unsigned{bits} << 16 * e;
      }
}

inline bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

}  // namespace emulated

template <int M, int N>
void mma_tiles(float (&d)[M][N][4], const unsigned (&a)[M][4], const unsigned (&b)[N][2], CALLER) {
  emulated::Fragments brought{d[0], a, b};
  emulated::collective(~0u, emulated::multiply_tiles<M, N>, &brought, place);
}

template <int M, int N>
void mma_tiles(int (&d)[M][N][4], const unsigned (&a)[M][4], const unsigned (&b)[N][2], CALLER) {
  emulated::IntegerFragments brought{d[0], a, b};
  emulated::collective(~0u, emulated::multiply_integers<M, N>, &brought, place);
}

template <bool TRANSPOSED> void load_matrices(unsigned (&r)[4], const Element* row, CALLER) {
  if (!emulated::aligned(row)) emulated::fail("gives ldmatrix a row that is not aligned to 16 bytes", place);
  emulated::MatrixRows brought{row, {}};
  emulated::collective(~0u, emulated::load_matrices<TRANSPOSED>, &brought, place);
  for (int m = 0; m < 4; m++) r[m] = brought.r[m];
}

// The target is undefined from here to the wait for the copy, and becomes NaNs, which shows a wait or a barrier that is missing.
inline void copy_async(Element* to, const Element* from, bool valid, CALLER) {
  if (!emulated::aligned(to) || !emulated::aligned(from)) emulated::fail("gives cp.async an address that is not aligned to 16 bytes", place);
  std::memset(static_cast<void*>(to), 0xff, 16);
  emulated::self().copies.push_back({to, valid ? from : nullptr, false});
}
inline void copy_async_commit() { emulated::self().copies.push_back({nullptr, nullptr, true}); }
template <int N> void copy_async_wait() {
  auto& copies = emulated::self().copies;
  int groups = 0;
  for (auto& c : copies) groups += c.ends_group;
  auto c = copies.begin();
  for (; groups > N; ++c) {
    if (c->ends_group) groups--;
    else if (c->from) std::memcpy(c->to, c->from, 16);
    else std::memset(c->to, 0, 16);
  }
  copies.erase(copies.begin(), c);
}

inline unsigned pack_pair(float low, float high) { return std::bit_cast<unsigned>(from_floats(low, high)); }
