// Package cpu says which instructions the kernels may use: what the processor has, unless limited for a test or by the
// environment.
package cpu

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// Level is a family of instructions. A higher level includes the lower ones.
type Level int32

// The levels, lowest first.
const (
	Generic Level = iota // plain Go
	AVX2                 // AVX2 and FMA
	AVX512               // AVX-512 F, BW, DQ, VL and VNNI
)

// Variable is the environment variable that limits the level, to compare the implementations on one machine:
// generic, avx2 or avx512.
const Variable = "SLUICE_CPU"

var levelNames = [...]string{"generic", "AVX2", "AVX-512"}

// String returns the name of the level.
func (l Level) String() string {
	if l < 0 || int(l) >= len(levelNames) {
		return fmt.Sprintf("level %d", int32(l))
	}
	return levelNames[l]
}

// ParseLevel reads a level by its name, with or without the hyphen, in any case.
func ParseLevel(name string) (Level, error) {
	for l, n := range levelNames {
		if strings.EqualFold(strings.ReplaceAll(n, "-", ""), strings.ReplaceAll(name, "-", "")) {
			return Level(l), nil
		}
	}
	return Generic, fmt.Errorf("unknown level %q: want generic, avx2 or avx512", name)
}

var active = func() *atomic.Int32 {
	var a atomic.Int32
	a.Store(int32(initial(Detected(), os.Getenv(Variable))))
	return &a
}()

// initial returns the level to start with. A limit that is not understood changes nothing.
func initial(detected Level, limit string) Level {
	if l, err := ParseLevel(limit); err == nil {
		return min(l, detected)
	}
	return detected
}

// Active returns the level that the kernels use.
func Active() Level { return Level(active.Load()) }

// Limit lowers the level in use to l, or to what the processor has, and returns a function that restores it. It is for
// tests and benchmarks, and must not run beside code that depends on the level.
func Limit(l Level) (restore func()) {
	before := active.Load()
	active.Store(int32(min(l, Detected())))
	return func() { active.Store(before) }
}
