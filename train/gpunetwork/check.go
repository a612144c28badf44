package gpunetwork

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/model"
)

// ErrUnsupported is wrapped by the errors about models and options that this package cannot train with, but the processor can.
var ErrUnsupported = errors.New("this cannot be trained on the GPU")

func unsupported(format string, arguments ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, arguments...))
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
	processes := []model.Process{m.EncoderEmb, m.EncoderTop, m.DecoderEmb, m.DecoderTop}
	for i := range m.Encoder {
		l := &m.Encoder[i]
		processes = append(processes, l.Self.Pre, l.Self.Post, l.FFN.Pre, l.FFN.Post)
		if err := checkFeedForward(&l.FFN, m.EncoderStack.Activation); err != nil {
			return err
		}
	}
	for _, l := range m.Decoder {
		switch {
		case l.Self != nil:
			processes = append(processes, l.Self.Pre, l.Self.Post)
		case l.Recurrent != nil && l.Recurrent.Cell == nil && l.Recurrent.Reset == nil:
			processes = append(processes, l.Recurrent.Pre, l.Recurrent.Post)
		default:
			return unsupported("decoder layers with neither SSRUs nor self-attention")
		}
		processes = append(processes, l.Context.Pre, l.Context.Post, l.FFN.Pre, l.FFN.Post)
		if err := checkFeedForward(&l.FFN, m.DecoderStack.Activation); err != nil {
			return err
		}
	}
	return checkProcesses(processes)
}

func checkProcesses(processes []model.Process) error {
	for _, p := range processes {
		for i := range p {
			switch {
			case p[i].Operation == model.Highway:
				return unsupported("highway connections")
			case p[i].Operation == model.Normalize && p[i].Norm.RMS:
				return unsupported("RMS norms")
			}
		}
	}
	return nil
}

func checkFeedForward(f *model.FFN, activation model.Activation) error {
	if len(f.Layers) > 1 && activation != model.ReLU {
		return unsupported("a transformer-ffn-activation other than relu")
	}
	for i := range f.Layers {
		if f.Layers[i].Out%8 != 0 {
			return unsupported("sublayers of width %d, which is no multiple of 8", f.Layers[i].Out)
		}
	}
	return nil
}

// checkOptions refuses what is not computed.
func checkOptions(o *network.Options) error {
	switch {
	case o.AlignmentWeight > 0:
		return unsupported("guided-alignment")
	case o.DropoutRNN > 0:
		return unsupported("dropout-rnn")
	}
	return nil
}
