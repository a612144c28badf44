// Package train trains translation models: from text files to a model file that the engine, and Marian, translate with.
//
// A run is described by a Config, whose keys are those of Marian's training. Each worker has a replica of the network and
// takes its own mini-batches; their gradients are added in a fixed order. What a run gives depends on the configuration, the
// data and the number of workers, to the last bit, and on nothing else: not on the time, not on how often it was interrupted.
//
// Beside the model NAME there are NAME.checkpoints with what a run needs to continue, NAME.metrics.jsonl with its course, and
// NAME.decoder.yml with what a translating program needs to know.
package train
