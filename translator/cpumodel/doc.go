// Package cpumodel runs Marian's models on CPU cores, one for each Stepper and several where others have nothing to do: it is the search.Stepper on top of the kernels.
//
// # Memory
//
// Weights are packed once, by Load, and shared by all workers. Everything else belongs to a Stepper: buffers for the rows of a
// call, the state of each slot, the keys and values of the encoded sentences and, for self-attention decoders, of the target
// words so far. All of it grows to what the work needs and is used again, so that nothing is allocated in the steady state.
//
// # The encoder has no padding
//
// The sentences of a mini-batch lie one after another. Products and norms see one long list of tokens, only attention looks
// at sentences. Keys and values for the decoder's attention to the source are computed at once for all its layers.
//
// # Several cores for a sentence
//
// A Stepper that is told of cores without work (see Spread) shares rows of the encoder's layers and columns of the decoder's products with
// them, if it has found that to be faster.
//
// # A row depends on nothing but itself
//
// What a sentence or a hypothesis gives must not depend on its company, to the last bit. The kernels promise that the result
// of a row does not depend on the number of rows; here it follows that activations are quantised row by row, or with fixed
// multipliers, and that no sum goes over rows.
//
// # Recurrent models
//
// Their decoder's states are copied when hypotheses go on from one. Those of a step that hold the same state are known (see
// sharing), and what depends on it alone is computed once for them. What the first cells make of embeddings is looked up for frequent
// pieces (see known). Both are rows of the same products, and so have the same bits.
package cpumodel
