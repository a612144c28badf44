package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-mt/sluice/translator/marian"
)

// Quantise stores a model in 8 or 4 bits. A step that trains with quantize-bits before it makes it lose less.
type Quantise struct {
	Model  string `yaml:"model" desc:"The model; best one that was trained with quantize-bits."`
	Bits   int    `yaml:"bits" desc:"8 or 4. 4 bits, powers of two and half powers, are read by sluice alone. Default 8."`
	Eight  string `yaml:"in-8-bits" desc:"Rows that a model of 4 bits keeps in 8, such as Wemb:2000; auto (default) for as many of embeddings and output layers as leave a seventh of the size in float32, none for none."`
	Family string `yaml:"family" oneof:"browsermt mainline" desc:"The Marian that shall read the file beside sluice: browsermt (bergamot, Firefox) or mainline. Default browsermt."`
	To     string `yaml:"to" desc:"The model to write, a .bin file."`
}

// log4Steps is how often the scale of a matrix is fitted that was not trained for 4 bits. It has converged by then.
const log4Steps = 10

func (q *Quantise) inputs() []string { return []string{q.Model} }

func (q *Quantise) outputs() []string { return []string{q.To} }

func (q *Quantise) check(c *checking) {
	c.need(map[string]bool{"model": q.Model != "", "to": q.To != ""})
	if q.Bits != 0 && q.Bits != 4 && q.Bits != 8 {
		c.at("bits", "%d: expected 8 or 4", q.Bits)
	}
	if q.Eight != "" && q.Bits != 4 {
		c.at("in-8-bits", "is for 4 bits only")
	}
	if q.To != "" && !strings.HasSuffix(q.To, ".bin") {
		c.at("to", "%q: expected a .bin file", q.To)
	}
}

// inFew returns the model in 4 bits.
func (q *Quantise) inFew(file *marian.File) (*marian.File, error) {
	eight, err := marian.RowsIn8Bits(cmp.Or(q.Eight, marian.EightBitsAuto), file.Tensors)
	if err != nil {
		return nil, fmt.Errorf("in-8-bits: %w", err)
	}
	return file.Log4(log4Steps, eight)
}

func (q *Quantise) run(w *work) (err error) {
	output, err := w.output(q.To)
	if err != nil {
		return err
	}
	file, err := marian.Open(w.input(q.Model))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	family := marian.Browsermt
	if q.Family == "mainline" {
		family = marian.Mainline
	}
	var quantised *marian.File
	if q.Bits == 4 {
		quantised, err = q.inFew(file)
	} else {
		quantised, err = file.Quantize(marian.Intgemm8, family, nil)
	}
	if err != nil {
		return err
	}
	return marian.WriteBin(output, quantised, family)
}
