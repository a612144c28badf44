//go:build !purego

package kernels

import (
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// Both kinds of assembly list what the reference lists.
func TestListsAgree(t *testing.T) {
	if !packsSparse() {
		t.Skip("this kind of processor has no lists")
	}
	ways := map[string]func(ks *uint16, values, a *uint8, k int) int{"AVX2": listInt8AVX2}
	if cpu.HasByteCompress() {
		ways["AVX-512"] = listInt8AVX512
	}
	for name, list := range ways {
		t.Run(name, func(t *testing.T) {
			eachListed(t, func(ks []uint16, values, a []uint8) int { return list(&ks[0], &values[0], &a[0], len(a)) })
		})
	}
}
