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
// against a kill at any moment.
func interruptible(parent context.Context, stderr io.Writer, exit func(code int), patience time.Duration) (context.Context, context.CancelFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(parent)
	over := make(chan struct{})
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
			fmt.Fprintln(stderr, "sluice: stopped at once; the same command continues after the last commit")
			exit(exitInterrupted)
		case <-over:
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil); close(over) }
}
