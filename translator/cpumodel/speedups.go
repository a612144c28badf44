package cpumodel

import "github.com/sluice-mt/sluice/kernels"

// Speedups are ways to translate faster with recurrent models, as in Devlin, "Sharp Models on Dull Hardware", 2017. All are used
// unless Options.Without says otherwise, which is for measurements. None changes a bit of what a model gives, but for KeptContexts,
// which rounds sums in another order.
type Speedups uint8

// The speedups.
const (
	// KnownEmbeddings looks up what the first cells of encoder and decoder make of the embeddings of the first pieces of the
	// vocabularies, which are the most frequent ones; see Options.KnownPieces.
	KnownEmbeddings Speedups = 1 << iota

	// KeptContexts multiplies the results of the encoder with the matrices that the decoder multiplies what attention found with:
	// once for each source token, not for each target token of each hypothesis. A weighted sum of products is the product of
	// the weighted sum. It is there for models of type devlin and, where Options.Beam says that there are beams, for the others of
	// one source without layer norms.
	KeptContexts

	// VectorGates computes the gates and hyperbolic tangents of GRUs and attention with vector instructions.
	VectorGates

	// MergedStates computes what depends on the last state alone once for all hypotheses that go on from the same one.
	MergedStates
)

func (w *Weights) uses(s Speedups) bool { return w.without&s == 0 }

// tanh replaces x by its hyperbolic tangent.
func (w *Weights) tanh(x []float32) {
	if w.uses(VectorGates) {
		kernels.Tanh(x)
	} else {
		kernels.TanhOneByOne(x)
	}
}
