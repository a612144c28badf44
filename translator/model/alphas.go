package model

import (
	"fmt"
	"math"

	"github.com/sluice-mt/sluice/translator/marian"
)

// Alphas are multipliers with which activations are quantised before products in 8 bits, by the names of the parameters that they are multiplied with.
type Alphas map[string]*marian.Tensor

// Multiplier returns the multiplier for a parameter, by the first of its names that has one; 0 if none has.
func (a Alphas) Multiplier(names ...string) (float32, error) {
	for _, name := range names {
		t := a[name]
		if t == nil {
			continue
		}
		m, err := t.Scalar()
		if err == nil && !(m > 0 && m <= math.MaxFloat32) {
			err = fmt.Errorf("tensor %s: an activation multiplier of %v, but it must be greater than 0", t.Name, m)
		}
		return m, err
	}
	return 0, nil
}

// Multiplier returns the multiplier for the output layer's table; 0 if there is none.
func (o *Output) Multiplier(a Alphas) (float32, error) {
	if o.W.Name == "Wemb" {
		return a.Multiplier("Wemb", "none") // "none" in files that old versions of browsermt wrote
	}
	return a.Multiplier(o.W.Name)
}
