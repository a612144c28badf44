package gpumodel

import (
	"fmt"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/translator/model"
)

// check refuses what the kernels do not compute.
func check(m *model.Model) error {
	if m.Recurrence != nil {
		return checkRecurrent(m)
	}
	if _, ok := headOf(m); !ok {
		return unsupported("heads of %d elements: more than %d have no kernel", m.Dim/m.Heads, slices.Max(gpukernels.HeadDims))
	}
	return nil
}

// headOf is how the heads of a model are filled up; false if they are too large.
func headOf(m *model.Model) (head unit, ok bool) {
	own := m.Dim / m.Heads
	for _, filled := range gpukernels.HeadDims {
		if own <= filled {
			return unit{own, filled}, true
		}
	}
	return unit{}, false
}

// checkRecurrent is check for recurrent models.
func checkRecurrent(m *model.Model) error {
	if r := m.Recurrence; r.Devlin != nil || r.Hard != nil {
		return unsupported("type: %s", m.Type)
	}
	return nil
}

func unsupported(format string, arguments ...any) error {
	return fmt.Errorf("%w: it has %s", ErrUnsupported, fmt.Sprintf(format, arguments...))
}
