// Package m2 is about corrections of texts: edits as the M² format writes them, their extraction from a text and its
// corrected form, and the score of the MaxMatch scorer (Dahlmeier and Ng 2012, "Better Evaluation for Grammatical Error
// Correction").
//
// The score is that of the public scorer (nusnlp/m2scorer, commit cb874a7) to the last digit, its habits included: which of
// several equally good edit sequences it takes, how it matches insertions at one place, and how it chooses among annotators.
package m2

import "unicode"

// An Edit replaces the tokens from Start to before End of a source sentence. An insertion has Start = End.
type Edit struct {
	Start, End  int
	Type        string   // what kind of error it is; free text
	Corrections []string // alternatives, tokens separated by single spaces; "" deletes
}

// A Sentence is a source with what its annotators corrected.
type Sentence struct {
	Source      string
	Annotations []Annotation // in the order of the annotators' numbers; at least one
}

// An Annotation is what one annotator corrected: nothing, if the sentence was found to be correct.
type Annotation struct {
	Annotator int
	Edits     []Edit // in the order of the file
}

// isSpace says what divides tokens: Python's notion of white space, which has four control characters more than Unicode's.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
