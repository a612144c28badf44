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
	case m.Recurrence != nil || !m.HasEncoder() || m.Sources() != 1:
		return unsupported("type: %s", m.Type)
	case m.Autoregression != model.SSRU:
		return unsupported("a decoder with %v", m.Autoregression)
	case m.NoProjection:
		return unsupported("attention without projection")
	case m.Dim%m.Heads != 0 || !slices.Contains(gpukernels.HeadDims, m.Dim/m.Heads):
		return unsupported("%d heads for dimension %d: a head must have one of %v elements", m.Heads, m.Dim, gpukernels.HeadDims)
	case m.Dim%8 != 0:
		return unsupported("dimension %d, which is no multiple of 8", m.Dim)
	}
	for i := range m.Encoder {
		l := &m.Encoder[i]
		if err := checkLayer(l.Self.Pre, l.Self.Post, &l.FFN, m.EncoderStack); err != nil {
			return err
		}
	}
	for _, l := range m.Decoder {
		if err := checkLayer(l.Context.Pre, l.Context.Post, &l.FFN, m.DecoderStack); err != nil {
			return err
		}
		if err := checkFrame(l.Recurrent.Pre, l.Recurrent.Post); err != nil {
			return err
		}
		if post := l.Recurrent.Post; l.Recurrent.O == nil && (len(post) == 0 || post[len(post)-1].Operation != model.Normalize) {
			return unsupported("a recurrent unit with neither a projection nor a norm behind it")
		}
	}
	for _, p := range []model.Process{m.EncoderEmb, m.DecoderEmb, m.EncoderTop, m.DecoderTop} {
		if err := checkNorm(p); err != nil {
			return err
		}
	}
	return nil
}

func checkLayer(pre, post model.Process, f *model.FFN, stack model.Stack) error {
	if err := checkFrame(pre, post); err != nil {
		return err
	}
	if len(f.Layers) != 2 || stack.Activation != model.ReLU {
		return unsupported("feed-forward sublayers of %d matrices with %v", len(f.Layers), stack.Activation)
	}
	if f.Layers[0].Out%8 != 0 {
		return unsupported("feed-forward sublayers of width %d, which is no multiple of 8", f.Layers[0].Out)
	}
	return checkFrame(f.Pre, f.Post)
}

// checkFrame accepts a norm before a sublayer, and an addition, a norm or one and then the other behind it.
func checkFrame(pre, post model.Process) error {
	if err := checkNorm(pre); err != nil {
		return err
	}
	if len(post) > 0 && post[0].Operation == model.Add {
		post = post[1:]
	}
	return checkNorm(post)
}

// checkNorm accepts nothing or one layer norm.
func checkNorm(p model.Process) error {
	if len(p) > 1 || len(p) == 1 && (p[0].Operation != model.Normalize || p[0].Norm.RMS) {
		return unsupported("operations around sublayers other than d, a and n in that order")
	}
	return nil
}

func unsupported(format string, arguments ...any) error {
	return fmt.Errorf("%w: it has %s", ErrUnsupported, fmt.Sprintf(format, arguments...))
}
