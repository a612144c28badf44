//go:build !amd64 || purego

package cpu

// Assembly reports whether this build contains assembly.
const Assembly = false

// Detected returns Generic: without assembly there is nothing to choose from.
func Detected() Level { return Generic }
