// Package cpu says which instructions the kernels may use: what the processor has, unless limited for a test or by the
// environment.
package cpu

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
)

// Level is a set of instructions. Those of one architecture are ordered: a processor that lacks a level may still have a
// higher one (AVX512VNNI without AVXVNNI), but of two that it has, the higher is the faster.
type Level int32

// The levels, lowest first.
const (
	Generic    Level = iota // plain Go
	AVX2                    // AVX2 and FMA
	AVXVNNI                 // AVX2, and dot products of bytes in their VEX encoding
	AVX512                  // AVX-512 F, BW, DQ and VL
	AVX512VNNI              // AVX-512, and its dot products of bytes and words
	NEON                    // what every 64-bit ARM has
	SDOT                    // NEON, and dot products of bytes (FEAT_DotProd)
	SMMLA                   // SDOT, and products of byte matrices (FEAT_I8MM)
)

// Variable is the environment variable that limits the level, to compare the implementations on one machine:
// generic; avx2, avxvnni, avx512 or avx512vnni; neon, sdot or smmla.
const Variable = "SLUICE_CPU"

var levelNames = [...]string{"generic", "AVX2", "AVX-VNNI", "AVX-512", "AVX-512 VNNI", "NEON", "SDOT", "SMMLA"}

// String returns the name of the level.
func (l Level) String() string {
	if l < 0 || int(l) >= len(levelNames) {
		return fmt.Sprintf("level %d", int32(l))
	}
	return levelNames[l]
}

// Family returns the level that tells the registers: of the levels that differ in their dot products alone, the lowest.
// Whatever is no dot product of integers has one implementation for the family.
func (l Level) Family() Level {
	switch l {
	case AVXVNNI:
		return AVX2
	case AVX512VNNI:
		return AVX512
	case SDOT, SMMLA:
		return NEON
	}
	return l
}

// ParseLevel reads a level by its name, with or without hyphens and spaces, in any case.
func ParseLevel(name string) (Level, error) {
	plain := strings.NewReplacer("-", "", " ", "")
	for l, n := range levelNames {
		if strings.EqualFold(plain.Replace(n), plain.Replace(name)) {
			return Level(l), nil
		}
	}
	return Generic, fmt.Errorf("unknown level %q: want one of %s", name, strings.Join(levelNames[:], ", "))
}

var active = func() *atomic.Int32 {
	var a atomic.Int32
	a.Store(int32(initial(os.Getenv(Variable))))
	return &a
}()

// initial returns the level to start with. A limit that is not understood, or is not of this build, changes nothing.
func initial(limit string) Level {
	if l, err := ParseLevel(limit); err == nil && slices.Contains(levels[:], l) {
		return highest(l)
	}
	return Detected()
}

// Detected returns the highest level that the processor and the operating system support.
func Detected() Level { return highest(top()) }

// top is the highest level of this architecture.
func top() Level { return levels[len(levels)-1] }

// highest returns the highest level that the processor has, up to a limit.
func highest(limit Level) Level {
	best := Generic
	for _, l := range levels {
		if l <= limit && Has(l) {
			best = l
		}
	}
	return best
}

// Levels returns the levels that this build has implementations for, lowest first, whether the processor has them or not.
func Levels() []Level { return slices.Clone(levels[:]) }

// Active returns the family of the level that the kernels use: what matters to all kernels but dot products of integers.
func Active() Level { return Integer().Family() }

// Integer returns the level that the kernels use, for dot products of integers.
func Integer() Level { return Level(active.Load()) }

// Limit lowers the level in use to l, or to what the processor has below it, and returns a function that restores it. It
// is for tests and benchmarks, and must not run beside code that depends on the level.
func Limit(l Level) (restore func()) {
	before := active.Load()
	active.Store(int32(highest(l)))
	return func() { active.Store(before) }
}
