//go:build !linux

package kernels

import "testing"

// guardedBytes returns n bytes, and makes room for marks after them.
func guardedBytes(_ *testing.T, n int) []byte { return make([]byte, n+margin) }
