package corpus

// A Pair is a line of a corpus: a sentence and its translation. A text of one language has its sentences in Source.
type Pair struct {
	Source, Target string
	Rest           string // further columns, which are carried along
}
