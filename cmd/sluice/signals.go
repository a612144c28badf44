package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// interruptible returns a context that ends at the first SIGINT or SIGTERM: what is in flight is finished then. At the
// second the process ends, which loses nothing that was committed: every output is safe against a kill at any moment.
func interruptible(parent context.Context, stderr io.Writer, exit func(code int)) (context.Context, context.CancelFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(parent)
	over := make(chan struct{})
	go func() {
		select {
		case received := <-signals:
			fmt.Fprintf(stderr, "sluice: %v: finishing what is in flight; once more stops at once\n", received)
			cancel(fmt.Errorf("%v received", received))
		case <-over:
			return
		}
		select {
		case <-signals:
			fmt.Fprintln(stderr, "sluice: stopped at once; the same command continues after the last commit")
			exit(exitInterrupted)
		case <-over:
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil); close(over) }
}
