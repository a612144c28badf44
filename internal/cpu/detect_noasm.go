//go:build (!amd64 && !arm64) || purego

package cpu

// Assembly reports whether this build contains assembly.
const Assembly = false

var levels = [...]Level{Generic}

// Has reports whether this build can use a level: without assembly there is nothing to choose from.
func Has(l Level) bool { return l == Generic }
