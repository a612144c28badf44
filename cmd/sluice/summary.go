package main

import (
	"log/slog"
	"sort"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/pipeline"
	"github.com/sluice-mt/sluice/translator"
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

// seconds says where time went. Stages overlap, so they add up to more than the total; those of the workers are sums over all
// of them.
type seconds struct {
	Total     float64 `json:"total"`
	Read      float64 `json:"read"`
	Translate float64 `json:"waiting_for_translation"`
	Write     float64 `json:"write"`
	Commit    float64 `json:"commit"`
	Encode    float64 `json:"workers_encoding"`
	Decode    float64 `json:"workers_decoding"`
	Idle      float64 `json:"workers_idle"`
}

// ofWorkers adds what the workers of the engine have done.
func (s *seconds) ofWorkers(stats translator.Stats) {
	s.Encode, s.Decode, s.Idle = stats.Encode.Seconds(), stats.Decode.Seconds(), stats.Idle.Seconds()
}

func newSummary(stats pipeline.Stats, elapsed time.Duration, parts *engineParts) summary {
	return summary{
		Records: stats.Records, Resumed: stats.Resumed, Empty: stats.Empty, Lanes: stats.Lanes, LanesDone: stats.LanesAlreadyDone,
		Words: stats.SourceWords, Source: stats.SourceTokens, Target: stats.TargetTokens, Flags: stats.Flags,
		Seconds: seconds{
			Total: elapsed.Seconds(), Read: stats.Read.Seconds(), Translate: stats.Wait.Seconds(), Write: stats.Write.Seconds(), Commit: stats.Commit.Seconds(),
		},
		WordsPerSec: perSecond(stats.SourceWords, elapsed.Seconds()), Precision: parts.models.arithmetic(),
	}
}

// log writes the summary as one message.
func (s summary) log(logger *slog.Logger) {
	attributes := throughput(s.Records, s.Words, s.Seconds.Total)
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

// throughput is what every summary begins with, as attributes of a message.
func throughput(records, words int64, seconds float64) []any {
	return []any{"records", records, "words", words, "seconds", round(seconds, 0.01), "words/s", round(perSecond(words, seconds), 1)}
}

func flagCounts(flags map[string]int64) string {
	var words []string
	for name, count := range flags {
		words = append(words, name+":"+formatCount(count))
	}
	sort.Strings(words)
	return strings.Join(words, " ")
}
