// Package recipe runs the steps that lead from texts to a model: from cleaning and vocabulary over teachers, distilled and
// back-translated data to students, shortlist, quantised model and evaluation.
//
// A recipe is a YAML file that names steps. A step says what it reads and what it writes, and an input is whatever another
// step writes under that name, or else a file beside the recipe: this makes the order. The outputs of a step appear together,
// when all of them are complete, and with a stamp: a fingerprint of the settings and of the contents of the inputs, and how long
// it took. A step whose stamp fits is not done again. One that was interrupted, even by force, goes on from where it was, since
// each of its parts does: training by its checkpoints, translations by those of the pipeline. What comes out does not depend on
// interruptions.
//
// In a recipe's folder there is, beside the outputs, .recipe, and in it
//
//	done/STEP.json  the stamp of a step
//	work/STEP/      what a step is working on, until its outputs are complete
//	hashes.json     hashes of inputs, so that large ones are not read every time
//	lock            held by the process that is working
package recipe
