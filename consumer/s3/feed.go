package s3

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-mt/sluice/internal/s3client"
)

// A Feed gives notifications of new objects. Receive waits for some; it is called from one goroutine.
type Feed interface {
	Receive(ctx context.Context) ([]Notice, error)
}

// A Notice is one notification. A feed gives it again, to this worker or to another, unless Done is called.
type Notice struct {
	Body []byte                          // see ParseEvents
	Keep func(ctx context.Context) error // keeps it from being given to others for a while longer; nil if that is not needed
	Each time.Duration                   // how often Keep is to be called
	Done func(ctx context.Context) error // everything it tells of is in the sink
	Once bool                            // it is not put aside after some attempts, so that one that leads nowhere is passed over for good
}

// What is waited for after the feed failed, and how often in a row it may.
const (
	feedPause    = time.Second
	feedPatience = 10
	noticeTime   = 30 * time.Second // for a request about one notice
)

// receive hands out what the feed tells of.
func (s *Source) receive(ctx context.Context) error {
	var deliveries sync.WaitGroup
	defer deliveries.Wait()
	for failures := 0; ctx.Err() == nil; {
		notices, err := s.config.Feed.Receive(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			failures++
			if failures >= feedPatience {
				return fmt.Errorf("receiving notifications: %w", err)
			}
			s.config.Logger.Warn("no notifications came; trying again", "error", err)
			select {
			case <-time.After(feedPause):
			case <-ctx.Done():
			}
			continue
		}
		failures = 0
		if err := s.deliver(ctx, &deliveries, notices); err != nil {
			return err
		}
	}
	return nil
}

// deliver hands out the objects that notices tell of. All of them are held on to from the start, since handing out
// waits until lanes are wanted.
func (s *Source) deliver(ctx context.Context, deliveries *sync.WaitGroup, notices []Notice) (err error) {
	list := make([]*delivery, len(notices))
	for i := range notices {
		d := &delivery{notice: &notices[i], source: s, ended: make(chan struct{})}
		d.expect(1) // until all its objects are handed out
		deliveries.Go(func() { d.keep(ctx) })
		list[i] = d
	}
	for _, d := range list {
		complete := false
		if err == nil {
			complete, err = s.handOut(ctx, d)
		}
		d.settle(complete)
	}
	return err
}

// handOut says whether all that a notice tells of was handed out. One that cannot be understood, or that tells of an
// object which is not there, is left to the feed: a queue gives it again and, after as many times as it is set to,
// puts it aside. A topic does not.
func (s *Source) handOut(ctx context.Context, d *delivery) (complete bool, err error) {
	events, err := ParseEvents(d.notice.Body)
	if err != nil {
		s.config.Logger.Error("a notification is passed over", "error", err)
		return d.notice.Once, nil
	}
	complete = true
	for _, event := range events {
		info, err := s.config.Client.Head(ctx, event.Bucket, event.Key)
		switch {
		case ctx.Err() != nil:
			return false, nil
		case errors.Is(err, s3client.ErrNotFound):
			s.config.Logger.Warn("a notification tells of an object that is not there", "object", s3client.URI(event.Bucket, event.Key))
			complete = complete && d.notice.Once
			continue
		case err != nil:
			return false, err
		}
		relative, ok := s.counts(info)
		if !ok || !s.wanted(info) || s.known(info) {
			continue
		}
		if err := s.hand(ctx, &object{info: *info, relative: relative, delivery: d}); err != nil {
			return false, err
		}
	}
	return complete && ctx.Err() == nil, nil
}

// wanted says whether an object belongs to the inputs.
func (s *Source) wanted(info *s3client.Info) bool {
	for _, in := range s.inputs {
		if in.has(info.Bucket, info.Key) {
			return true
		}
	}
	return len(s.inputs) == 0
}

// A delivery is a notice whose objects are on their way.
type delivery struct {
	notice *Notice
	source *Source
	ended  chan struct{}

	mutex   sync.Mutex
	waiting int  // for so many lanes
	failed  bool // one of them did not reach the sink
}

// expect counts lanes that are to be settled.
func (d *delivery) expect(lanes int) {
	d.mutex.Lock()
	d.waiting += lanes
	d.mutex.Unlock()
}

// settle says that a lane has ended, and whether all of it is in the sink.
func (d *delivery) settle(complete bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.waiting--
	d.failed = d.failed || !complete
	if d.waiting == 0 {
		close(d.ended)
	}
}

// keep holds on to the notice until its lanes are settled, and gives it back or is done with it then.
func (d *delivery) keep(ctx context.Context) {
	var due <-chan time.Time
	if d.notice.Keep != nil && d.notice.Each > 0 {
		ticker := time.NewTicker(d.notice.Each)
		defer ticker.Stop()
		due = ticker.C
	}
	for {
		select {
		case <-due:
			d.attempt(ctx, "a notification could not be kept from other workers", d.notice.Keep)
		case <-d.ended: // which comes after the source is closed, too, since its lanes are closed before
			if !d.failed && d.notice.Done != nil {
				d.attempt(context.WithoutCancel(ctx), "a notification could not be settled and will come again", d.notice.Done)
			}
			return
		}
	}
}

func (d *delivery) attempt(ctx context.Context, otherwise string, act func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	if err := act(ctx); err != nil && !errors.Is(err, context.Canceled) {
		d.source.config.Logger.Warn(otherwise, "error", err)
	}
}
