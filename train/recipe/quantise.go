package recipe

import (
	"errors"
	"strings"

	"github.com/sluice-mt/sluice/translator/marian"
)

// Quantise stores a model in 8 bits.
type Quantise struct {
	Model  string `yaml:"model" desc:"The model."`
	Family string `yaml:"family" oneof:"browsermt mainline" desc:"The Marian that shall read the file beside sluice: browsermt (bergamot, Firefox) or mainline. Default browsermt."`
	To     string `yaml:"to" desc:"The model to write, a .bin file."`
}

func (q *Quantise) inputs() []string { return []string{q.Model} }

func (q *Quantise) outputs() []string { return []string{q.To} }

func (q *Quantise) check(c *checking) {
	c.need(map[string]bool{"model": q.Model != "", "to": q.To != ""})
	if q.To != "" && !strings.HasSuffix(q.To, ".bin") {
		c.at("to", "%q: expected a .bin file", q.To)
	}
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
	quantised, err := file.Quantize(marian.Intgemm8, family, nil)
	if err != nil {
		return err
	}
	return marian.WriteBin(output, quantised, family)
}
