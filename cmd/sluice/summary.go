package main

import (
	"log/slog"
	"sort"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/pipeline"
)

// A summary is what a run has done, as --report writes it.
type summary struct {
	Complete    bool             `json:"complete"`
	Records     int64            `json:"records"`
	Resumed     int64            `json:"records_done_before"`
	Empty       int64            `json:"empty_records"`
	Lanes       int64            `json:"files"`
	LanesDone   int64            `json:"files_done_before"`
	Words       int64            `json:"source_words"`
	Source      int64            `json:"source_pieces"`
	Target      int64            `json:"target_pieces"`
	Flags       map[string]int64 `json:"flags"`
	Seconds     seconds          `json:"seconds"`
	WordsPerSec float64          `json:"source_words_per_second"`
	Precision   string           `json:"precision"`
	Fingerprint string           `json:"fingerprint"`
}

// seconds says where time went. Stages overlap, so they add up to more than the total.
type seconds struct {
	Total     float64 `json:"total"`
	Read      float64 `json:"read"`
	Translate float64 `json:"waiting_for_translation"`
	Write     float64 `json:"write"`
	Commit    float64 `json:"commit"`
}

func newSummary(stats pipeline.Stats, elapsed time.Duration, parts *engineParts) summary {
	return summary{
		Records: stats.Records, Resumed: stats.Resumed, Empty: stats.Empty, Lanes: stats.Lanes, LanesDone: stats.LanesAlreadyDone,
		Words: stats.SourceWords, Source: stats.SourceTokens, Target: stats.TargetTokens, Flags: stats.Flags,
		Seconds:     seconds{elapsed.Seconds(), stats.Read.Seconds(), stats.Wait.Seconds(), stats.Write.Seconds(), stats.Commit.Seconds()},
		WordsPerSec: float64(stats.SourceWords) / max(elapsed.Seconds(), 1e-9), Precision: parts.models.precision.String(),
	}
}

// log writes the summary as one message.
func (s summary) log(logger *slog.Logger) {
	attributes := []any{
		"records", s.Records, "words", s.Words, "seconds", round(s.Seconds.Total, 0.01), "words/s", round(s.WordsPerSec, 1),
	}
	if s.Resumed > 0 {
		attributes = append(attributes, "done before", s.Resumed)
	}
	if s.LanesDone > 0 {
		attributes = append(attributes, "files done before", s.LanesDone)
	}
	if len(s.Flags) > 0 {
		attributes = append(attributes, "flags", flagCounts(s.Flags))
	}
	logger.Info("finished", attributes...)
}

func flagCounts(flags map[string]int64) string {
	var words []string
	for name, count := range flags {
		words = append(words, name+":"+formatCount(count))
	}
	sort.Strings(words)
	return strings.Join(words, " ")
}
