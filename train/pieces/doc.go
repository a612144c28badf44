// Package pieces trains vocabularies: it divides the words of a text into the pieces that a translation model works
// on, and writes them as SentencePiece models that the original library loads.
//
// A unigram model (Kudo 2018, "Subword Regularization") begins with all frequent substrings of the text, learns their
// probabilities by expectation maximisation, and again and again drops those whose loss costs the likelihood of the text
// least, until as many are left as are wanted. A BPE model (Sennrich, Haddow and Birch 2016) begins with the characters
// and joins the most frequent pair of neighbours, again and again. Options, their defaults and the order of steps are those
// of the original; how the steps are done is not:
//
//   - The text is counted once, as words and how often they occur. Everything after works on the words, so that memory
//     grows with their number, which Options.MaxWords bounds, and not with the length of the text.
//   - Words are cut where no piece may reach across, as between letters and punctuation. What is left is more often the same,
//     and the probabilities of its divisions do not change.
//   - Characters always stay pieces. The original may lose one on the way and gives it back at the end.
//   - Expected counts are added as integers, in a unit that is small enough, and so do not depend on the order of
//     addition. A vocabulary depends on the text and the options alone, not on the number of workers.
package pieces
