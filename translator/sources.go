package translator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// ErrSources is wrapped by the error of a segment that does not hold a text for each source of the models.
var ErrSources = errors.New("number of source texts")

// several makes a unit of the texts for models with several sources. They cannot be divided: nobody knows which parts of them
// belong together. A text that is too long is cropped.
func (x *Text) several(t *task) []*unit {
	if strings.TrimSpace(t.segment.Text) == "" {
		return nil
	}
	texts := strings.Split(t.segment.Text, "\t")
	if len(texts) != 1+len(x.Further) {
		t.err = fmt.Errorf("%w: there are %d texts, separated by tabs, but the model reads %d", ErrSources, len(texts), 1+len(x.Further))
		return nil
	}
	pieces := x.cropFlagged(t, x.Source, texts[0])
	if len(pieces) == 0 {
		return nil
	}
	t.results = make([]job.Result, 1)
	t.remaining.Store(1)
	u := x.unit(t, 0, pieces)
	for i, vocabulary := range x.Further {
		tokens := x.cropFlagged(t, vocabulary, texts[i+1])
		if x.RightLeft {
			reverse(tokens)
		}
		u.further = append(u.further, append(tokens, vocabulary.EOS()))
	}
	return x.force([]*unit{u})
}

// cropFlagged returns the pieces of a text, and notes if there are more than the model takes.
func (x *Text) cropFlagged(t *task, vocabulary vocab.Vocabulary, text string) []search.Token {
	pieces, cropped := x.crop(vocabulary, text, x.MaxLength-1)
	if cropped {
		t.flags |= job.Cropped
	}
	return pieces
}
