// Package kernels holds the arithmetic of the engine on one CPU core: products of quantised and of float32 matrices,
// attention, normalisation and the elementwise functions, all on plain slices that the caller owns.
//
// Matrices are row-major and contiguous unless a stride (in elements) is given. No function allocates, and none keeps a
// slice. Slices that are too short, or counts that do not fit each other, are mistakes of the programmer and panic;
// values never do: NaN and infinities travel through to the result, where the caller can see them.
//
// # Every implementation gives the same bits
//
// Each kernel exists in plain Go (the reference, xGeneric, compiled everywhere), and the heavy ones in assembly for
// AVX-512, for AVX2 and for NEON; products of int8 also for the first two with and without VNNI, and for the dot products and
// matrix products of bytes of ARM (see internal/cpu for the levels). All of them give bit-identical results (except for the
// payload and sign of a NaN), and
// the result of a row never depends on how many rows are in the call. Translations are therefore the same on every
// machine and for every batch. That needs the arithmetic to be defined to the last rounding:
//
//   - int8 products accumulate exactly, in int32; the result is scaled as
//     float32(sum)·(aScale·wScale) + bias, every operation rounded.
//   - float32 matrix products are one chain of fused multiply-adds for each element of the result, in ascending k,
//     starting at zero. The reference emulates the float32 FMA exactly (see fma32).
//   - Every other sum over a row is striped: element i goes to stripe i mod 16, in ascending order, and the 16 stripes
//     are added in one fixed tree (see stripes.sum). A dot product of two rows (attention scores, DotRowsFloat32) uses
//     FMA within each stripe; all else multiplies and adds with separate roundings.
//   - exp, sigmoid, tanh and erf are fixed polynomials with FMA (see exp32 and its neighbours). Results below the smallest normal
//     float32 are zero, which keeps denormals, slow on most machines, out of the softmax.
//
// The tests run every kernel once for each implementation that the processor has and compare with the reference;
// SLUICE_CPU (see internal/cpu) limits the choice for a whole process.
//
// The explicit conversions float32(a*b) in the reference are there for this reason: they forbid the compiler to fuse
// the product with the sum that follows, as it does on arm64 and with GOAMD64=v3.
//
// # Assembly
//
// The assembly and its declarations, *_asm_*.go, are written by go generate. The generators, in _asm, are a module of their
// own, so that avo is no dependency of anything else, and start with the mathematics of each kernel. "go test -C _asm ."
// checks that what is committed is what they write. The build tag purego leaves the assembly out.
//
// A call of assembly is bounded to some tens of microseconds, and starts from a function that is not inlined: the
// garbage collector can stop a goroutine in a function's prologue, but not in assembly.
package kernels
