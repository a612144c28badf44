package gpunetwork

import (
	"fmt"
	"math"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/model"
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
	if dim := m.Dim / m.Heads; dim > gpukernels.MostOfHead {
		return unsupported("%d heads for dimension %d: a head must have %d elements at most", m.Heads, l.network.Model.Dim, gpukernels.MostOfHead)
	}
	if sigmoidWithGaps(&l.network.Model.Architecture) {
		return unsupported("hidden layers with sigmoid whose width is no multiple of 8")
	}
	return nil
}

// sigmoidWithGaps says whether a function is not zero of the zeros of gaps.
func sigmoidWithGaps(a *model.Architecture) bool {
	for _, hidden := range []struct {
		dim        int
		activation model.Activation
	}{{a.EncoderStack.FFNDim, a.EncoderStack.Activation}, {a.DecoderStack.FFNDim, a.DecoderStack.Activation}, {a.AverageNetwork.Dim, a.AverageNetwork.Activation}} {
		if hidden.activation == model.Sigmoid && hidden.dim%8 != 0 {
			return true
		}
	}
	return false
}
