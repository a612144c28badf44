package recipe

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// saveEvery is how often it is written down how long a step has taken so far.
const saveEvery = 5 * time.Second

// watch looks after a step while it runs: it keeps the time, also over interruptions, and says now and then how far it is. The
// function that it returns ends it, and gives the seconds that the step has taken altogether.
func (r *runner) watch(w *work, b begun) func() (seconds float64, err error) {
	start, before := time.Now(), b.Seconds
	stop := make(chan struct{})
	var group sync.WaitGroup
	var failure error
	save := func() {
		b.Seconds, b.Share = before+time.Since(start).Seconds(), w.share()
		failure = errors.Join(failure, writeJSON(filepath.Join(w.scratch, "begun.json"), b))
	}
	group.Go(func() {
		saves, says := time.NewTicker(saveEvery), time.NewTicker(r.every)
		defer saves.Stop()
		defer says.Stop()
		for {
			select {
			case <-stop:
				save()
				return
			case <-saves.C:
				save()
			case <-says.C:
				r.say(w, before+time.Since(start).Seconds())
			}
		}
	})
	return func() (float64, error) {
		close(stop)
		group.Wait()
		return math.Round(10*b.Seconds) / 10, failure
	}
}

func (w *work) share() float64 { return math.Float64frombits(w.done.Load()) }

// say tells how far a step is, and how long it and those after it will take, where that is known.
func (r *runner) say(w *work, seconds float64) {
	attributes := []any{"done", percent(w.share()), "seconds", int(seconds)}
	own, known := remaining(seconds, w.share())
	if known {
		attributes = append(attributes, "left", duration(own))
	}
	rest, unknown := r.restAfter(w.node)
	switch {
	case known && unknown == 0:
		attributes = append(attributes, "whole_recipe_left", duration(own+rest))
	case unknown > 0:
		attributes = append(attributes, "steps_that_never_ran", unknown)
	}
	w.logger.Info("works", attributes...)
}

// remaining extrapolates.
func remaining(seconds, share float64) (float64, bool) {
	if share <= 0.001 {
		return 0, false
	}
	return seconds * (1 - share) / share, true
}

// restAfter adds up what the steps after n that are not done, or will have to be done again, took the last time. unknown is how
// many of them have never been done.
func (r *runner) restAfter(n *node) (seconds float64, unknown int) {
	todo := map[*node]bool{n: true}
	for _, other := range r.order[slices.Index(r.order, n)+1:] {
		var s stamp
		known, done := readJSON(r.stampPath(other), &s), false
		if !slices.ContainsFunc(other.inputs, func(in input) bool { return todo[in.writer] }) {
			if from, err := r.origin(other); err == nil {
				_, done = r.done(other, from)
			}
		}
		switch {
		case done:
			continue
		case known:
			seconds += s.Seconds
		default:
			unknown++
		}
		todo[other] = true
	}
	return seconds, unknown
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

// duration is a number of seconds as people write it.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
