package kafkaclient

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Brokers that are out of reach for a minute give two lines of log, however many calls wait for them; and their return
// gives one.
func TestAnOutageIsToldNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		away := errors.New("connection refused")
		client, err := New(Config{
			Brokers: []string{"broker:9092"}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Dial: func(context.Context, string, string) (net.Conn, error) { return nil, away },
		})
		if err != nil {
			t.Fatal(err)
		}
		end := time.Now().Add(time.Minute)
		call := func(context.Context) error {
			if time.Now().Before(end) {
				return away
			}
			return nil
		}
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				if err := client.retry(t.Context(), "commit", client.config.Patience, call); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		text := log.String()
		if strings.Count(text, "still trying") != 2 || strings.Count(text, "answer again") != 1 || strings.Count(text, "\n") != 3 {
			t.Errorf("the log is\n%s", text)
		}
		if !strings.Contains(text, "connection refused") || !strings.Contains(text, "operation=commit") {
			t.Errorf("the log does not say what is wrong:\n%s", text)
		}
	})
}

// A hiccup that is over at once is nobody's business.
func TestAHiccupIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		client, err := New(Config{Brokers: []string{"broker:9092"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		failures := 3
		err = client.retry(t.Context(), "commit", client.config.Patience, func(context.Context) error {
			if failures--; failures >= 0 {
				return errors.New("connection reset")
			}
			return nil
		})
		if err != nil || log.Len() > 0 {
			t.Errorf("%v, %s", err, log.String())
		}
	})
}
