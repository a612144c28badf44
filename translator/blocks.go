package translator

import (
	"strings"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// What is allocated together. As long as somebody keeps one of the results, all of them stay.
const (
	hypothesesAtOnce = 32
	textAtOnce       = 4 << 10 // bytes
)

// blocks are what results are cut from, so that a sentence needs no memory of its own. What was given away is never used again.
type blocks struct {
	hypotheses []job.Hypothesis
	text       strings.Builder // the texts of many hypotheses, one behind the other
	decoded    []byte          // of one hypothesis
	reversed   []search.Token
}

// list returns n empty hypotheses.
func (b *blocks) list(n int) []job.Hypothesis {
	if n > len(b.hypotheses) {
		b.hypotheses = make([]job.Hypothesis, max(n, hypothesesAtOnce))
	}
	list := b.hypotheses[:n:n]
	b.hypotheses = b.hypotheses[n:]
	return list
}

// decode returns the text of pieces. A long one has memory of its own.
func (b *blocks) decode(vocabulary vocab.Vocabulary, tokens []search.Token) string {
	b.decoded = vocabulary.Decode(tokens, b.decoded[:0])
	if len(b.decoded) > textAtOnce/4 {
		return string(b.decoded)
	}
	if b.text.Len()+len(b.decoded) > b.text.Cap() {
		b.text = strings.Builder{}
		b.text.Grow(textAtOnce)
	}
	start := b.text.Len()
	b.text.Write(b.decoded)
	return b.text.String()[start:]
}

// backwards returns tokens in reverse order, but for the end of sentence if there is one. They are valid until the next call.
func (b *blocks) backwards(tokens []search.Token, finished bool) []search.Token {
	b.reversed = append(b.reversed[:0], tokens...)
	end := len(tokens)
	if finished {
		end--
	}
	reverse(b.reversed[:end])
	return b.reversed
}
