// Package corpus prepares text for training: it normalises and filters sentence pairs, removes duplicates, shuffles, and adds
// noise. A text of one language, such as one for back-translation, is treated as pairs without a target side.
//
// Everything is done with bounded memory, however long the text: filters look at one pair at a time, and what needs to know
// all of them works with sorted temporary files. Results depend on the text, the rules and the seed, never on memory, the
// number of workers or the time. What is left out is counted by reason.
package corpus
