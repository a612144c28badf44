//go:build arm64 && !purego

package cpu

import "golang.org/x/sys/cpu"

// Assembly reports whether this build contains assembly.
const Assembly = true

var levels = [...]Level{Generic, NEON, SDOT, SMMLA}

// Has reports whether the processor and the operating system support a level.
func Has(l Level) bool {
	switch l {
	case Generic, NEON:
		return true
	case SDOT:
		return cpu.ARM64.HasASIMDDP
	case SMMLA:
		return cpu.ARM64.HasASIMDDP && cpu.ARM64.HasI8MM
	}
	return false
}
