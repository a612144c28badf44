package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/sluice-mt/sluice/pipeline"
)

// A meter knows how much input there is and how much of it was read.
type meter interface {
	Progress() (done, total int64)
}

// progress shows how far a run is: a bar on a terminal, messages elsewhere.
type progress struct {
	t        *translation
	meter    meter
	pipeline *pipeline.Pipeline
	kind     string // bar, log, none
	every    time.Duration
	lines    int64 // log every so many sentences instead
	bar      *progressbar.ProgressBar
	stop     chan struct{}
	done     sync.WaitGroup
}

func (t *translation) newProgress(m meter, p *pipeline.Pipeline) (*progress, error) {
	every, lines, err := t.log.statInterval()
	if err != nil {
		return nil, err
	}
	kind := t.log.progress
	if !slices.Contains([]string{"auto", "bar", "log", "none"}, kind) {
		return nil, usageErrorf("--progress %s: expected auto, bar, log or none", kind)
	}
	switch {
	case t.log.quiet || t.log.quieter:
		kind = "none"
	case kind == "auto" && term.IsTerminal(int(os.Stderr.Fd())) && (t.output.output != "-" || t.output.outputDir != "" || !term.IsTerminal(int(os.Stdout.Fd()))):
		kind = "bar"
	case kind == "auto":
		kind = "log"
	}
	return &progress{t: t, meter: m, pipeline: p, kind: kind, every: every, lines: lines, stop: make(chan struct{})}, nil
}

// begin starts showing.
func (p *progress) begin() {
	switch p.kind {
	case "bar":
		p.bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(p.t.stderr), progressbar.OptionSetWidth(24),
			progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetElapsedTime(false), progressbar.OptionUseANSICodes(true))
		p.done.Go(func() { p.loop(200*time.Millisecond, p.draw) })
	case "log":
		interval := p.every
		if p.lines > 0 {
			interval = 200 * time.Millisecond
		}
		p.done.Go(func() { p.loop(interval, p.message()) })
	}
}

// end shows the last state and stops.
func (p *progress) end() {
	close(p.stop)
	p.done.Wait()
	if p.bar != nil {
		_ = p.bar.Finish() // it only draws
	}
}

func (p *progress) loop(interval time.Duration, show func()) {
	ticker := time.NewTicker(max(interval, 50*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			show()
		}
	}
}

// draw redraws the bar: the share of the input, sentences and words a second, and the remaining time.
func (p *progress) draw() {
	stats := p.pipeline.Stats()
	elapsed := time.Since(p.t.start)
	rates := fmt.Sprintf("%s sentences (%s/s, %s words/s)", formatCount(stats.Completed),
		formatCount(int64(perSecond(stats.Completed, elapsed.Seconds()))), formatCount(int64(perSecond(stats.CompletedWords, elapsed.Seconds()))))
	if share, ok := p.share(stats); ok {
		p.bar.ChangeMax64(100)
		_ = p.bar.Set64(min(99, int64(100*share))) // the end is when everything is written
		rates += ", " + remaining(share, elapsed).String() + " left"
	}
	p.bar.Describe(rates)
}

// message returns a function that logs the progress.
func (p *progress) message() func() {
	last := int64(0)
	return func() {
		stats := p.pipeline.Stats()
		if p.lines > 0 && stats.Completed-last < p.lines {
			return
		}
		last = stats.Completed
		elapsed := time.Since(p.t.start)
		attributes := []any{"sentences", stats.Completed, "words/s", int64(perSecond(stats.CompletedWords, elapsed.Seconds()))}
		if share, ok := p.share(stats); ok {
			attributes = append(attributes, "percent", round(100*share, 0.1), "left", remaining(share, elapsed).String())
		}
		p.t.logger.Info("translating", attributes...)
	}
}

func perSecond(n int64, seconds float64) float64 { return float64(n) / max(seconds, 1e-9) }

// share is how much of the input is translated: the part that was read, less what is in flight.
func (p *progress) share(stats pipeline.Stats) (float64, bool) {
	done, total := p.meter.Progress()
	if total <= 0 || stats.Completed == 0 {
		return 0, false
	}
	return min(1, float64(done)/float64(total)*float64(stats.Completed)/float64(stats.Admitted)), true
}

// remaining extrapolates the time that is left.
func remaining(share float64, elapsed time.Duration) time.Duration {
	return time.Duration(float64(elapsed) * (1 - share) / max(share, 1e-6)).Round(time.Second)
}

func round(x, unit float64) float64 {
	parts := math.Round(1 / unit) // by which to divide, since a multiple of 0.01 has no exact value
	return math.Round(x*parts) / parts
}

// formatCount writes a number with thousands separated.
func formatCount(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
