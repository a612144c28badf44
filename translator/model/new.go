package model

import "github.com/sluice-mt/sluice/translator/marian"

// New returns a model of the description whose parameters are yet to be trained: tensors of float32 with names and shapes,
// but without data. The description must give the sizes of the vocabularies. Names are those of the files that Marian writes.
func New(description []byte) (*Model, error) {
	a, err := Describe(description)
	if err != nil {
		return nil, err
	}
	return a.New()
}

// New returns a model of the architecture without values, as New does of a description.
func (a *Architecture) New() (*Model, error) {
	if err := a.writable(); err != nil {
		return nil, err
	}
	b := newBinder(new(marian.File))
	b.create = true
	m, err := b.model(a)
	if err != nil {
		return nil, err
	}
	if a.Type == typeNematus || a.Type == typeAmun {
		for _, t := range m.parameters {
			t.Name = a.toNematus(t.Name)
		}
		m.Marker = &marian.Tensor{Name: nematusMarker, Shape: []int{1, 0}, Type: marian.Float32}
	}
	return m, nil
}

// writable returns an error if Marian refuses to read a model of the type because of other parts of the description. Such files would
// be of use to nobody else, and type s2s does the same.
func (a *Architecture) writable() error {
	r := a.Recurrence
	if r == nil || a.Type != typeNematus && a.Type != typeAmun {
		return nil
	}
	cell, amun := GRUCell, a.Type == typeAmun
	if !amun {
		cell = NematusGRUCell
	}
	for _, problem := range []struct {
		is  bool
		key string
	}{
		{r.EncoderCell != cell, "enc-cell: " + r.EncoderCell.String()}, {r.DecoderCell != cell, "dec-cell: " + r.DecoderCell.String()},
		{!amun && r.Encoder != Bidirectional, "enc-type: " + r.Encoder.String()}, {r.HighCells > 1, "dec-cell-high-depth above 1"},
		{amun && a.EncoderStack.Depth > 1, "enc-depth above 1"}, {amun && a.DecoderStack.Depth > 1, "dec-depth above 1"},
		{amun && r.EncoderCells > 1, "enc-cell-depth above 1"}, {amun && r.BaseCells != 2, "dec-cell-base-depth other than 2"},
		{amun && r.Skip, "skip: true"},
	} {
		if problem.is {
			return unsupported("train a model of type: s2s", "type: %s with %s, which Marian does not read,", a.Type, problem.key)
		}
	}
	return nil
}
