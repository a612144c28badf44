package gpunetwork

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/model"
)

func unsupported(format string, arguments ...any) error {
	return fmt.Errorf("%w: %s", network.ErrUnsupported, fmt.Sprintf(format, arguments...))
}

// check refuses networks that the kernels do not compute.
func check(n *network.Network) error {
	if n.Size() > math.MaxInt32 {
		return unsupported("%d parameters", n.Size())
	}
	if n.Model.Recurrent != nil {
		return checkRecurrent(n.Model)
	}
	return checkTransformer(n.Model)
}

func checkTransformer(m *model.Model) error {
	if m.Dim%8 != 0 || m.Dim%m.Heads != 0 || m.Dim/m.Heads%8 != 0 || m.Dim/m.Heads > gpukernels.MostOfHead {
		return unsupported("%d heads for dimension %d: a head must have a multiple of 8 elements, %d at most", m.Heads, m.Dim, gpukernels.MostOfHead)
	}
	widths := widthsOf(m.Encoder)
	for i := range m.Further {
		widths = append(widths, widthsOf(m.Further[i].Layers)...)
	}
	for _, l := range m.Decoder {
		if l.Average != nil {
			widths = append(widths, l.Average.Hidden...)
		}
		widths = append(widths, l.FFN.Layers...)
	}
	for i := range widths {
		if widths[i].Out%8 != 0 {
			return unsupported("sublayers of width %d, which is no multiple of 8", widths[i].Out)
		}
	}
	return nil
}

func widthsOf(layers []model.EncoderLayer) (widths []model.Affine) {
	for i := range layers {
		widths = append(widths, layers[i].FFN.Layers...)
	}
	return widths
}

func checkRecurrent(m *model.Model) error {
	widths := map[string]int{"dim-emb": m.Dim, "dim-rnn": m.Recurrence.Dim}
	if d := m.Recurrence.Devlin; d != nil {
		widths["dim-fc"] = d.Dim
	}
	for _, name := range slices.Sorted(maps.Keys(widths)) {
		if widths[name]%8 != 0 {
			return unsupported("%s is %d, which is no multiple of 8", name, widths[name])
		}
	}
	return nil
}
