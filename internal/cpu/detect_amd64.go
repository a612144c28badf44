//go:build amd64 && !purego

package cpu

import "golang.org/x/sys/cpu"

// Assembly reports whether this build contains assembly.
const Assembly = true

var levels = [...]Level{Generic, AVX2, AVXVNNI, AVX512, AVX512VNNI}

// Has reports whether the processor and the operating system support a level.
func Has(l Level) bool {
	x := &cpu.X86
	avx2 := x.HasAVX2 && x.HasFMA
	avx512 := avx2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasBMI2
	switch l {
	case Generic:
		return true
	case AVX2:
		return avx2
	case AVXVNNI:
		return avx2 && x.HasAVXVNNI
	case AVX512:
		return avx512
	case AVX512VNNI:
		return avx512 && x.HasAVX512VNNI
	}
	return false
}

// HasBF16 reports whether the processor multiplies bfloat16 in 512-bit registers (AVX512_BF16).
func HasBF16() bool { return Has(AVX512) && cpu.X86.HasAVX512BF16 }

// HasByteCompress reports whether the processor brings chosen bytes together in 512-bit registers (AVX-512 VBMI2).
func HasByteCompress() bool { return Has(AVX512) && cpu.X86.HasAVX512VBMI2 }
