package translator

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
)

// A shouter answers in capitals, in another order, from other goroutines.
type shouter struct{ waiting []job.Segment }

func (s *shouter) Submit(segment job.Segment) { s.waiting = append(s.waiting, segment) }

func (s *shouter) Flush() {
	var group sync.WaitGroup
	for i := range s.waiting {
		segment := s.waiting[len(s.waiting)-1-i]
		group.Go(func() {
			if strings.Contains(segment.Text, "fails") {
				segment.Done(job.Result{Err: errors.ErrUnsupported, SourceTokens: 1})
				return
			}
			text := segment.Prefix + strings.ToUpper(segment.Text)
			segment.Done(job.Result{Hypotheses: []job.Hypothesis{{Text: text, Score: -1}}, SourceTokens: 2, TargetTokens: 3, Flags: job.Unfinished})
		})
	}
	group.Wait()
	s.waiting = nil
}

func TestDocuments(t *testing.T) {
	translate := func(text, prefix string) (result job.Result, times int) {
		s := new(shouter)
		d := NewDocuments(s)
		var mutex sync.Mutex
		d.Submit(job.Segment{Text: text, Prefix: prefix, Done: func(r job.Result) {
			mutex.Lock()
			defer mutex.Unlock()
			result = r
			times++
		}})
		d.Flush()
		return result, times
	}
	for text, want := range map[string]string{
		"":                                "",
		"one":                             "ONE",
		" \n ":                            " \n ",
		"One.  Two!\n\nA heading\n":       "ONE.  TWO!\n\nA HEADING\n",
		"Good morning. It rains, I hear.": "GOOD MORNING. IT RAINS, I HEAR.",
	} {
		result, times := translate(text, "")
		if got := result.Text(); got != want || times != 1 || result.Err != nil {
			t.Errorf("%q: %q, %v, done %d times", text, got, result.Err, times)
		}
	}
	result, _ := translate("One. Two.", "x")
	if result.Text() != "xONE. TWO." || result.Hypotheses[0].Score != -2 || result.SourceTokens != 4 || result.TargetTokens != 6 || result.Flags != job.Unfinished {
		t.Errorf("%+v", result)
	}
	if result, times := translate("One. This fails. Three.", ""); !errors.Is(result.Err, errors.ErrUnsupported) || times != 1 || len(result.Hypotheses) != 0 {
		t.Errorf("a sentence that fails: %+v, done %d times", result, times)
	}
}
