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

// What a number of fp8 (e4m3) is: fractions of 3 bits with exponents from -6 on, below that multiples of 2⁻⁹, and no infinity.
inline float of_float8(uint8_t bits) {
  int exponent = bits >> 3 & 15, fraction = bits & 7;
  float x = exponent ? ldexpf(8 + fraction, exponent - 10) : ldexpf(fraction, -9);
  if ((bits & 0x7f) == 0x7f) x = NAN;
  return bits & 0x80 ? -x : x;
}

// The nearest number of fp8, of two the even one; the largest for what is larger.
inline uint8_t to_float8(float x) {
  uint8_t sign = std::signbit(x) ? 0x80 : 0;
  if (x != x) return 0x7f;
  float magnitude = fminf(fabsf(x), 448);
  int exponent = magnitude < 0x1p-6f ? -6 : ilogbf(magnitude);
  int eighths = static_cast<int>(nearbyintf(ldexpf(magnitude, 3 - exponent)));  // 16, if it is rounded up to the next exponent
  return sign | (eighths + (exponent + 6) * 8);
}

struct Float8Fragments { Float8Sum (*d)[4]; const unsigned (*a)[4], (*b)[2]; };

// Products of fp8 are exact in float32; they are added one after the other.
template <int M, int N> void multiply_float8(void** lanes, unsigned) {
  typedef float Row __attribute__((vector_size(32)));
  float A[M][16][32], numbers[256];
  Row B[N][32], D[16];
  for (int i = 0; i < 256; i++) numbers[i] = of_float8(i);
  uint8_t four[4];
  auto of = [&](int lane) -> Float8Fragments& { return *static_cast<Float8Fragments*>(lanes[lane]); };
  for (int lane = 0; lane < 32; lane++) {
    int g = lane / 4, t = lane % 4;
    for (int i = 0; i < M; i++)
      for (int r = 0; r < 4; r++) {
        std::memcpy(four, &of(lane).a[i][r], 4);
        for (int e = 0; e < 4; e++) A[i][g + r % 2 * 8][t * 4 + r / 2 * 16 + e] = numbers[four[e]];
      }
    for (int j = 0; j < N; j++)
      for (int r = 0; r < 2; r++) {
        std::memcpy(four, &of(lane).b[j][r], 4);
        for (int e = 0; e < 4; e++) B[j][t * 4 + r * 16 + e][g] = numbers[four[e]];
      }
  }
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      auto element = [&](int lane, int e) -> float& { return D[lane / 4 + e / 2 * 8][lane % 4 * 2 + e % 2]; };
      for (int lane = 0; lane < 32; lane++)
        for (int e = 0; e < 4; e++) element(lane, e) = of(lane).d[i * N + j][e].value;
      for (int m = 0; m < 16; m++)
        for (int k = 0; k < 32; k++) D[m] += A[i][m][k] * B[j][k];
      for (int lane = 0; lane < 32; lane++)
        for (int e = 0; e < 4; e++) of(lane).d[i * N + j][e].value = element(lane, e);
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

template <int M, int N>
void mma_tiles(Float8Sum (&d)[M][N][4], const unsigned (&a)[M][4], const unsigned (&b)[N][2], CALLER) {
  emulated::Float8Fragments brought{d[0], a, b};
  emulated::collective(~0u, emulated::multiply_float8<M, N>, &brought, place);
}

inline unsigned pack_float8(float low, float high) { return emulated::to_float8(low) | emulated::to_float8(high) << 8; }

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
