//go:build (!amd64 && !arm64) || purego

package kernels

func gru(s, x, u []float32) { gruGeneric(s, x, u) }

func lstm(s, m, x, u []float32) { lstmGeneric(s, m, x, u) }
