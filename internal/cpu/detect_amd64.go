//go:build amd64 && !purego

package cpu

import "golang.org/x/sys/cpu"

// Assembly reports whether this build contains assembly.
const Assembly = true

// Detected returns the highest level that the processor and the operating system support.
func Detected() Level {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA:
		return Generic
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI:
		return AVX512
	}
	return AVX2
}
