package model

import "github.com/sluice-mt/sluice/translator/marian"

// New returns a model of the description whose parameters are yet to be trained: tensors of float32 with names and shapes,
// but without data. The description must give the sizes of the vocabularies. Models that are recurrent or of several sources, and transformers with other
// recurrent cells than SSRU and SRU, are refused: they cannot be trained.
func New(description []byte) (*Model, error) {
	a, err := Describe(description)
	if err != nil {
		return nil, err
	}
	switch {
	case a.Recurrence != nil:
		return nil, unsupported(remedyTrain, "training of type: %s, a recurrent model", a.Type)
	case a.Sources() > 1:
		return nil, unsupported(remedyTrain, "training of type: %s, a model of several sources", a.Type)
	case a.Autoregression == RecurrentCell:
		return nil, unsupported(remedyTrain, "training of dec-cell: %s in a transformer", a.DecoderCell)
	}
	b := newBinder(new(marian.File))
	b.create = true
	return b.model(a)
}
