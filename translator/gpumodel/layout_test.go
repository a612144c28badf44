//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// Units are filled up where they end, in rows and in matrices, and what fits stays as it is.
func TestLayouts(t *testing.T) {
	l := append(unit{2, 3}.of(4), unit{1, 2})
	if l.own() != 5 || l.width() != 8 {
		t.Errorf("%d elements lie in %d", l.own(), l.width())
	}
	if have, want := fill([]int{1, 2, 3, 4, 5}, l), []int{1, 2, 0, 3, 4, 0, 5, 0}; !slices.Equal(have, want) {
		t.Errorf("a row is %v, want %v", have, want)
	}
	have := fillMatrix([]int{1, 2, 3, 4}, layout{{1, 2}, {1, 1}}, layout{{2, 3}})
	if want := []int{1, 2, 0, 0, 0, 0, 3, 4, 0}; !slices.Equal(have, want) {
		t.Errorf("a matrix is %v, want %v", have, want)
	}
	for own, filled := range map[int]int{1: 8, 8: 8, 9: 16, 500: 504} {
		if u := whole(own); u != (unit{own, filled}) {
			t.Errorf("%d elements are filled up to %d", own, u.filled)
		}
	}
}

// A matrix beside others whose columns are no whole units would be laid out in the wrong place: it is refused.
func TestPartsOfUnits(t *testing.T) {
	u := &uploader{w: &Weights{device: &Device{}}}
	u.laidOut(rowOf(8), whole(6), nil, model.Affine{W: &marian.Tensor{Name: "first"}, Out: 6}, model.Affine{W: &marian.Tensor{Name: "second"}, Out: 15})
	if u.err == nil || !strings.Contains(u.err.Error(), "second has 15 columns, which are to be a multiple of 6") {
		t.Errorf("%v", u.err)
	}
}
