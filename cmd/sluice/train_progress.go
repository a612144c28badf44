package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/sluice-mt/sluice/train"
)

// redrawEvery is how often a bar is drawn anew at most.
const redrawEvery = 200 * time.Millisecond

// A trainingBar shows how far a training is, in the last line of a terminal. Messages are written through it, so that they stand
// above the bar.
type trainingBar struct {
	mutex sync.Mutex
	out   io.Writer
	bar   *progressbar.ProgressBar
	clock func() time.Time

	first int // update with which this process began
	begin time.Time
	drawn time.Time
}

// wantsBar says whether --progress asks for a bar, which auto does on a terminal.
func wantsBar(kind string, quiet bool) (bool, error) {
	if !slices.Contains([]string{"auto", "bar", "log"}, kind) {
		return false, usageErrorf("--progress %s: expected auto, bar or log", kind)
	}
	return !quiet && (kind == "bar" || kind == "auto" && term.IsTerminal(int(os.Stderr.Fd()))), nil
}

func newTrainingBar(out io.Writer, clock func() time.Time) *trainingBar {
	b := &trainingBar{out: out, clock: clock, begin: clock()}
	b.bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(out), progressbar.OptionSetWidth(24), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionClearOnFinish(),
		progressbar.OptionUseANSICodes(true))
	return b
}

// Write writes a message where the bar was; the next update draws it again below.
func (b *trainingBar) Write(message []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if !b.drawn.IsZero() {
		_ = b.bar.Clear() // it only draws
		b.drawn = time.Time{}
	}
	return b.out.Write(message)
}

// show draws the state after an update, unless that was done a moment ago.
func (b *trainingBar) show(p train.Progress) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now := b.clock()
	if b.first == 0 {
		b.first, b.begin = p.Update, now
	}
	if now.Sub(b.drawn) < redrawEvery {
		return
	}
	b.drawn = now
	text := fmt.Sprintf("update %s, epoch %d, loss %.3f, %s words/s", formatCount(int64(p.Update)), p.Epoch, p.Loss, formatCount(int64(p.WordsPerSecond)))
	if p.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", p.Skipped)
	}
	if done := p.Update - b.first; p.Updates > 0 && done > 0 {
		left := time.Duration(float64(now.Sub(b.begin)) / float64(done) * float64(p.Updates-p.Update))
		text += ", " + left.Round(time.Second).String() + " left"
	}
	b.bar.Describe(text)
	if p.Updates > 0 {
		b.bar.ChangeMax64(int64(p.Updates))
		_ = b.bar.Set64(min(int64(p.Update), int64(p.Updates)-1)) // the end is when everything is saved
	}
}

// end removes the bar.
func (b *trainingBar) end() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	_ = b.bar.Finish() // it only draws
}
