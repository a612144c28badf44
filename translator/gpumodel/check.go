package gpumodel

import (
	"fmt"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/translator/model"
)

// check refuses what the kernels do not compute.
func check(m *model.Model) error {
	switch {
	case m.Recurrence != nil:
		return checkRecurrent(m)
	case m.Dim%m.Heads != 0 || !slices.Contains(gpukernels.HeadDims, m.Dim/m.Heads):
		return unsupported("%d heads for dimension %d: a head must have one of %v elements", m.Heads, m.Dim, gpukernels.HeadDims)
	case m.Dim%8 != 0:
		return unsupported("dimension %d, which is no multiple of 8", m.Dim)
	}
	for _, l := range m.Encoder {
		if err := checkWidths(l.FFN.Layers); err != nil {
			return err
		}
	}
	for _, l := range m.Decoder {
		if err := checkWidths(l.FFN.Layers); err != nil {
			return err
		}
		if l.Average != nil {
			if err := checkWidths(l.Average.Hidden); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRecurrent is check for recurrent models.
func checkRecurrent(m *model.Model) error {
	r := m.Recurrence
	switch {
	case r.Devlin != nil || r.Hard != nil:
		return unsupported("type: %s", m.Type)
	case m.Dim%8 != 0 || r.Dim%8 != 0:
		return unsupported("embeddings of %d and states of %d elements: both must be multiples of 8", m.Dim, r.Dim)
	}
	return nil
}

// checkWidths looks at the matrices of a sublayer: rows are read eight elements at a time.
func checkWidths(layers []model.Affine) error {
	for _, l := range layers {
		if l.Out%8 != 0 {
			return unsupported("sublayers of width %d, which is no multiple of 8", l.Out)
		}
	}
	return nil
}

func unsupported(format string, arguments ...any) error {
	return fmt.Errorf("%w: it has %s", ErrUnsupported, fmt.Sprintf(format, arguments...))
}
