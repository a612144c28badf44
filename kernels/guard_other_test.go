//go:build !linux

package kernels

import "testing"

// guardedBytes returns n bytes. Without protected pages only writes beside a slice are found, by the marks around it.
func guardedBytes(_ *testing.T, n int, _ bool) []byte { return make([]byte, n) }
