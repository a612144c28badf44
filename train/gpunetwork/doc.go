// Package gpunetwork trains networks on GPUs: what package network does on the processor, on top of gpukernels.
//
// It trains all types of models with guided alignment and fixed embeddings. Heads of more than 1,024 elements are refused by Open with an error that
// wraps network.ErrUnsupported. All widths are trained. Those that are no multiples of 8 have gaps on the device: see layout.
//
// # Numbers
//
// Parameters, their gradients and what the optimiser keeps are float32. Activations and their gradients are stored as bfloat16, and so is a
// copy of the parameters that products read. What recurrent cells remember, sums, norms, exponentials and the loss are float32. Nothing has to
// be scaled, since bfloat16 reaches as far as float32; a gradient that is not finite shows in its norm.
//
// # Who waits
//
// The processor asks for a whole mini-batch, forward and backward, and goes on. What it brings lies in memory that the driver copies meanwhile, of which
// there is as much for the next one (feed). So it waits once in an update: for the squares of the gradient, by which the step is clipped, with the losses
// before them. Then it asks for the step and the next mini-batch.
//
// # What is the same as on the processor
//
// The operations, their order and the random numbers of dropout: the same elements are dropped. Values differ by what rounding to bfloat16
// does. All sums have an order that the shapes alone decide, so the same batch and seed give the same gradient, to the last bit.
//
// # Several devices
//
// Each works on mini-batches of its own. The first one copies the gradients of the others, part by part, and adds them to its own, in the
// order of the devices; it has what the optimiser keeps, makes the step, and copies the parameters to the others. The devices never
// compute the same thing twice, so they cannot drift apart.
//
// # Validation
//
// Losses of validation go forward on the same tape, without a way back, and may be those of other parameters, which are there meanwhile. Translations are
// package gpumodel's, with the model's file and in its arithmetic, in the memory that the training leaves.
//
// # Memory
//
// Activations come from one block, which grows to what the largest batch takes. The logits are made in pieces of half of the vocabulary or less, and
// never exist all at the same time, but for batches of up to 64 target pieces and vocabularies of up to 512 (gpukernels.LossChunk).
package gpunetwork
