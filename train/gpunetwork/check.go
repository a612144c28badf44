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
func check(n *network.Network) error {
	m := n.Model
	switch {
	case m.Recurrent != nil || !m.HasEncoder() || m.Sources() != 1:
		return unsupported("type: %s", m.Type)
	case m.Dim%8 != 0 || m.Dim%m.Heads != 0 || m.Dim/m.Heads%8 != 0 || m.Dim/m.Heads > gpukernels.MostOfHead:
		return unsupported("%d heads for dimension %d: a head must have a multiple of 8 elements, %d at most", m.Heads, m.Dim, gpukernels.MostOfHead)
	case n.Size() > math.MaxInt32:
		return unsupported("%d parameters", n.Size())
	}
	widths := []model.Affine{}
	for i := range m.Encoder {
		widths = append(widths, m.Encoder[i].FFN.Layers...)
	}
	for _, l := range m.Decoder {
		switch {
		case l.Average != nil:
			widths = append(widths, l.Average.Hidden...)
		case l.Recurrent != nil && l.Recurrent.Cell != nil:
			return unsupported("decoder layers with the cells of recurrent models")
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

// checkOptions refuses what is not computed.
func checkOptions(o *network.Options) error {
	if o.DropoutRNN > 0 {
		return unsupported("dropout-rnn")
	}
	return nil
}
