package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// finishes is the annotation of commands that finish what is in flight when they are told to end, which takes as long as it takes.
func finishes() map[string]string { return map[string]string{whenInterrupted: "finishes"} }

const whenInterrupted = "interrupted"

// patience is how long the other commands may take to end by themselves. They have nothing that could be continued.
const patience = time.Second

// patienceWith is how long the command that is called may take, 0 for any time.
func patienceWith(root *cobra.Command, arguments []string) time.Duration {
	if command, _, err := root.Find(arguments); err == nil && command.Annotations[whenInterrupted] != "" {
		return 0
	}
	return patience
}

// interruptible returns a context that ends at the first SIGINT or SIGTERM: what is in flight is finished then. At the
// second, or when patience is at its end, unless that is 0, the process ends, which loses nothing that was committed: every output is safe
// against a kill at any moment. A command that knows how long its end may take says so with endAfter.
func interruptible(parent context.Context, stderr io.Writer, exit func(code int), patience time.Duration) (context.Context, context.CancelFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(parent)
	over := make(chan struct{})
	leave := func(why string) {
		fmt.Fprintf(stderr, "sluice: %s; the same command continues after the last commit\n", why)
		exit(exitInterrupted)
	}
	go func() {
		select {
		case received := <-signals:
			if patience == 0 {
				fmt.Fprintf(stderr, "sluice: %v: finishing what is in flight; once more stops at once\n", received)
			}
			cancel(fmt.Errorf("%v received", received))
		case <-over:
			return
		}
		var end <-chan time.Time
		if patience > 0 {
			end = time.After(patience)
		}
		select {
		case <-end:
			fmt.Fprintln(stderr, "sluice: interrupted")
			exit(exitInterrupted)
		case <-signals:
			leave("stopped at once")
		case <-over:
		}
	}()
	return context.WithValue(ctx, leaving{}, leave), func() { signal.Stop(signals); cancel(nil); close(over) }
}

// leaving is the key under which a context has the function that ends the process, and says why.
type leaving struct{}

// closing is how long it may take, after the grace period, to close what was in use. A worker that is in the middle of a step is waited for
// no longer than patience; the rest is for outputs.
const closing = 4 * patience

// endAfter has the process end if the command is still there when a signal has come and the grace period and the time for closing are over:
// a device may hang while models are loaded, measured or run, and nothing that waits for it would end. callOff is for a command that has
// ended by itself.
func endAfter(ctx context.Context, grace time.Duration) (callOff func()) {
	leave, ok := ctx.Value(leaving{}).(func(why string))
	if !ok { // no signal ends it
		return func() {}
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(grace + closing):
			leave(fmt.Sprintf("not ended %v after the grace period of %v: stopped at once", closing, grace))
		case <-ended:
		}
	})
	return func() { stop(); close(ended) }
}
