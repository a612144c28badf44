package monitor

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-mt/sluice/pipeline"
	"github.com/sluice-mt/sluice/translator"
)

// A Pipeline is what metrics are read from.
type Pipeline interface {
	Stats() pipeline.Stats
	Lanes() []pipeline.LaneState
	Credits() (used, total int64)
}

// An Engine is what the translator's metrics are read from.
type Engine interface {
	Stats() translator.Stats
}

// A collector reads the pipeline's counts when Prometheus asks, so that nothing is counted twice.
type collector struct {
	pipeline func() Pipeline
	engine   Engine
	lag      func() map[string]int64
}

func description(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sluice_"+name, help, labels, nil)
}

var (
	records   = description("records_total", "Records by what became of them: read, completed, written.", "stage")
	flagged   = description("records_flagged_total", "Records written that carry a flag.", "flag")
	words     = description("source_words_total", "Words of the records written.")
	tokens    = description("tokens_total", "Pieces of the records written.", "side")
	bytesRead = description("source_bytes_total", "Bytes of the records written, as the source counts them.")
	stages    = description("stage_seconds_total", "Time spent in a stage, summed over lanes.", "stage")
	lanes     = description("lanes_total", "Lanes by how they ended.", "end")
	open      = description("lanes_open", "Lanes being carried.")
	credits   = description("credits_bytes", "Memory for records in flight.", "state")
	inFlight  = description("lane_records_in_flight", "Records read and not yet written.", "lane")
	age       = description("lane_frontier_age_seconds", "For how long the oldest record that is not committed has been in flight.", "lane")
	still     = description("lane_still_seconds", "For how long nothing has happened that the oldest record of the lane waits for.", "lane")
	committed = description("lane_committed_records", "Records of the lane that are committed.", "lane")
	workers   = description("engine_workers", "Workers of the engine.")
	slots     = description("engine_slots", "Hypotheses that the engine can decode at a time.")
	waiting   = description("engine_waiting_sentences", "Sentences that wait to be encoded.")
	sentences = description("engine_sentences_total", "Sentences encoded; those that were searched again count again.", "why")
	batches   = description("engine_mini_batches_total", "Encoder batches.")
	encoded   = description("engine_encoded_tokens_total", "Source pieces encoded; divided by the mini-batches it tells how full these are.")
	steps     = description("engine_steps_total", "Decoder steps.")
	rows      = description("engine_rows_total", "Hypotheses advanced; divided by steps and by a worker's slots it tells how full the decoders are.")
	busy      = description("engine_seconds_total", "Time of workers.", "stage")
	lag       = description("lane_lag_records", "Records of the lane that have not been read.", "lane")
)

// Describe tells nothing: which series there are depends on lanes and flags.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect gives the current values.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	pipeline := c.pipeline()
	stats := pipeline.Stats()
	count := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	count(records, float64(stats.Admitted), "read")
	count(records, float64(stats.Completed), "completed")
	count(records, float64(stats.Records), "written")
	for flag, n := range stats.Flags {
		count(flagged, float64(n), flag)
	}
	count(words, float64(stats.SourceWords))
	count(tokens, float64(stats.SourceTokens), "source")
	count(tokens, float64(stats.TargetTokens), "target")
	count(bytesRead, float64(stats.SourceBytes))
	count(stages, stats.Read.Seconds(), "read")
	count(stages, stats.Wait.Seconds(), "wait")
	count(stages, stats.Write.Seconds(), "write")
	count(stages, stats.Commit.Seconds(), "commit")
	count(lanes, float64(stats.Lanes), "complete")
	count(lanes, float64(stats.LanesAlreadyDone), "complete before")
	count(lanes, float64(stats.LanesLost), "lost")
	used, total := pipeline.Credits()
	gauge(credits, float64(used), "used")
	gauge(credits, float64(total), "total")
	states := pipeline.Lanes()
	gauge(open, float64(len(states)))
	for _, lane := range states {
		gauge(inFlight, float64(lane.InFlight), lane.Name)
		gauge(age, lane.Age.Seconds(), lane.Name)
		gauge(still, lane.Still.Seconds(), lane.Name)
		gauge(committed, float64(lane.Committed.Record), lane.Name)
	}
	if c.engine != nil {
		stats := c.engine.Stats()
		gauge(workers, float64(stats.Workers))
		gauge(slots, float64(stats.Workers*stats.Slots))
		gauge(waiting, float64(stats.Waiting))
		count(sentences, float64(stats.Sentences-stats.Redone), "new")
		count(sentences, float64(stats.Redone), "repetition")
		count(sentences, float64(stats.Precise), "overflow")
		count(batches, float64(stats.MiniBatches))
		count(encoded, float64(stats.Tokens))
		count(steps, float64(stats.Steps))
		count(rows, float64(stats.Rows))
		count(busy, stats.Encode.Seconds(), "encode")
		count(busy, stats.Decode.Seconds(), "decode")
		count(busy, stats.Idle.Seconds(), "idle")
	}
	if c.lag != nil {
		for lane, behind := range c.lag() {
			gauge(lag, float64(behind), lane)
		}
	}
}
