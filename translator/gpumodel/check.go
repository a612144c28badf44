package gpumodel

import (
	"fmt"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/translator/model"
)

// check refuses what the kernels do not compute.
func check(m *model.Model) error {
	if m.Recurrence != nil {
		return nil
	}
	if _, ok := headOf(m); !ok {
		return unsupported("attention heads of %d elements (dim-emb: %d, transformer-heads: %d), and there is no kernel for more than %d", m.Dim/m.Heads,
			m.Dim, m.Heads, gpukernels.MostHeadDim)
	}
	return nil
}

// headOf is how the heads of a model are filled up; false if they are too large.
func headOf(m *model.Model) (head unit, ok bool) {
	own := m.Dim / m.Heads
	filled, ok := gpukernels.FilledHead(own)
	return unit{own, filled}, ok
}

func unsupported(format string, arguments ...any) error {
	return fmt.Errorf("%w: it has %s", ErrUnsupported, fmt.Sprintf(format, arguments...))
}
