package model

import "github.com/sluice-mt/sluice/translator/marian"

// New returns a model of the description whose parameters are yet to be trained: tensors of float32 with names and shapes,
// but without data. The description must give the sizes of the vocabularies.
func New(description []byte) (*Model, error) {
	a, err := Describe(description)
	if err != nil {
		return nil, err
	}
	b := newBinder(new(marian.File))
	b.create = true
	return b.model(a)
}
