package gpunetwork

import (
	"fmt"
	"math"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/train/network"
)

func unsupported(format string, arguments ...any) error {
	return fmt.Errorf("%w: %s", network.ErrUnsupported, fmt.Sprintf(format, arguments...))
}

// check refuses networks that the kernels do not compute.
func check(l *layout) error {
	if l.stored.Size() > math.MaxInt32 {
		return unsupported("%d parameters", l.stored.Size())
	}
	m := l.stored.Model
	if m.Recurrent != nil {
		return nil
	}
	if dim := m.Dim / m.Heads; dim > gpukernels.MostHeadDim {
		return unsupported("%d heads for dimension %d: a head must have %d elements at most", m.Heads, l.network.Model.Dim, gpukernels.MostHeadDim)
	}
	return nil
}
