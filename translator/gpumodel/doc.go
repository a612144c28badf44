// Package gpumodel runs Marian's students on one GPU: it is the search.Stepper on top of gpukernels.
//
// It runs transformers with any number of sources, none (language models) included, whose decoders have self-attention, average attention
// or any recurrent cell, tied or not; and recurrent models (s2s, amun, nematus, lm, devlin, and those with hard attention), with as many sources.
// Load refuses attention heads of more than 1,024 elements, and numbers that the device cannot store, with an error that wraps ErrUnsupported. Rows
// and heads of sizes that the kernels do not take are filled up with zeros (layout.go).
//
// A recurrent encoder goes through the sentences of a call step by step, the longest first, so that those that go on are always the first rows
// (networkencoder.go). Its last layers write into the memory in which attention finds what they gave, and the keys that are computed of it.
//
// A source has an encoder of its own, one after the other in one stream, and keys and values in the same memory: rows are as wide for each.
//
// # Memory
//
// Weights are stored once for each device, as fp16 or bfloat16, and shared by all workers. Everything else belongs to a Stepper, which has a stream of
// its own: buffers for the rows of a call, the states of hypotheses, the keys and values of the encoded sentences, and with self-attention
// those of the target words. It grows to what the work needs and is used again.
//
// # Streams
//
// Encoder and decoder have a stream each, so that steps go on while the next sentences are encoded; only a step with such a sentence waits for that
// (encodes.go). A decoder step is a graph (graphs.go). It is asked for without waiting; the one wait of a step is for the tokens that it chose, and searches that are content
// with the best tokens of one model have asked for the next step before they wait (ahead.go). So have ensembles, and samples from the whole
// vocabulary, of which the device itself chooses or draws (joint.go).
//
// # Products
//
// Which matrices are multiplied by own kernels and which by cuBLASLt is decided when a model is loaded (products.go), for each kind of
// product: by measurement among what gives the same bits, or for the library on demand.
//
// # Errors
//
// The device works behind the back of who asks, and search.Stepper has no place for errors. So the first failure ends a Stepper: from
// then on all scores are NaN, which the search takes for a broken sentence, and Err says what happened. errors.Is tells
// cuda.ErrOutOfMemory, after which another Stepper with less can go on, from cuda.ErrLost, after which none can.
//
// # A row depends on nothing but itself
//
// The kernels promise it (see gpukernels), and here nothing goes over rows.
package gpumodel
