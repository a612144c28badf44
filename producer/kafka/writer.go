package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/producer"
)

// A writer is a producer.Writer of one lane.
type writer struct {
	sink     *Sink
	lane     string
	place    place
	home     int // number of the partition that outputs go to
	producer *kafkaclient.Producer

	committed job.Position
	written   job.Position                    // after the last output
	identity  json.RawMessage                 // of a lane that is no partition
	begun     bool                            // the marker that the lane was begun is written
	skip      map[kafkaclient.Partition]int64 // at-least-once: up to which coordinate outputs are there already

	batches map[kafkaclient.Partition]*kafkaclient.Builder
	order   []kafkaclient.Partition // of batches, in the order in which they were begun
	size    int                     // of all batches

	// Memory that is used again for every output.
	scratch kafkaclient.Record
	value   []byte
	source  []byte
	job     []byte
}

func newWriter(s *Sink, lane string) *writer {
	return &writer{sink: s, lane: lane, job: []byte(s.config.Job), batches: map[kafkaclient.Partition]*kafkaclient.Builder{}}
}

// open takes the lane over and finds out where it continues.
func (w *writer) open(ctx context.Context) error {
	config := &w.sink.config
	if config.Delivery == AtLeastOnce {
		w.producer = config.Client.NewPlainProducer()
	} else {
		w.producer = config.Client.NewProducer(w.place.id, config.TransactionTimeout)
		if err := w.producer.Init(ctx); err != nil {
			return w.failure(err)
		}
		w.sink.step("id taken over")
	}
	if w.place.pseudo && config.Input != nil {
		var err error
		if w.identity, err = config.Input.Identity(w.lane); err != nil {
			return err
		}
	}
	committed, err := config.Client.CommittedOffset(ctx, w.place.group, w.place.partition)
	if err != nil {
		return err
	}
	if err := w.continueAt(ctx, committed); err != nil {
		return err
	}
	w.written = w.committed
	if config.Delivery == AtLeastOnce {
		return w.readTails(ctx)
	}
	return nil
}

// continueAt sets where the lane continues to what is stored.
func (w *writer) continueAt(ctx context.Context, committed kafkaclient.Committed) error {
	progress, ours := kafkaclient.ParseProgress(committed.Metadata)
	if w.place.pseudo && committed.Offset < 0 {
		return w.consultMarkers(ctx)
	}
	if committed.Offset < 0 {
		return nil
	}
	if !w.place.pseudo {
		// A group that another consumer has used before has offsets, but no numbers.
		w.committed = job.Position{Record: progress.Record, Offset: committed.Offset}
		if !ours {
			return nil
		}
		return w.checkMadeWith(progress.MadeWith)
	}
	if !ours || progress.Position == nil && !progress.Done {
		return fmt.Errorf("kafka: what group %s has stored for lane %s cannot be read: %q", w.place.group, w.lane, committed.Metadata)
	}
	return w.resume(progress)
}

// resume continues a lane that is no partition.
func (w *writer) resume(progress kafkaclient.Progress) error {
	if err := w.checkMadeWith(progress.MadeWith); err != nil {
		return err
	}
	if w.sink.config.Input != nil && progress.Input != nil {
		changes, err := w.changes(progress.Input)
		if err != nil {
			return err
		}
		if len(changes) > 0 && !w.sink.config.AcceptChanges {
			return &producer.ChangedError{Output: "kafka: lane " + w.lane, Changes: changes}
		}
	}
	if progress.Done {
		return producer.ErrDone
	}
	w.committed, w.begun = *progress.Position, true
	return nil
}

func (w *writer) checkMadeWith(stored map[string]string) error {
	if len(stored) == 0 || w.sink.config.AcceptChanges {
		return nil
	}
	if changes := producer.MadeWithChanges(stored, w.sink.madeWith); len(changes) > 0 {
		return &producer.ChangedError{Output: "kafka: lane " + w.lane, Changes: changes}
	}
	return nil
}

// Write puts a run into batches and sends those that are full.
func (w *writer) Write(ctx context.Context, run []job.Output) error {
	for i := range run {
		output := &run[i]
		partition, err := w.message(output)
		if err != nil {
			return err
		}
		w.written = output.Record.End
		if there, ok := w.skip[partition]; ok && w.coordinate(&output.Record) <= there {
			continue
		}
		if err := w.add(ctx, partition); err != nil {
			return w.failure(err)
		}
	}
	return nil
}

// add puts the message into the batch of its partition.
func (w *writer) add(ctx context.Context, partition kafkaclient.Partition) error {
	batch := w.batches[partition]
	if batch == nil {
		batch = &kafkaclient.Builder{}
		w.batches[partition] = batch
	}
	size := kafkaclient.SizeOf(&w.scratch)
	if batch.Len() > 0 && batch.Size()+size > w.sink.config.MaxMessage {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	if batch.Len() == 0 {
		w.order = append(w.order, partition)
	}
	before := batch.Size()
	batch.Add(&w.scratch)
	w.size += batch.Size() - before
	if w.size >= w.sink.config.BatchBytes {
		return w.flush(ctx)
	}
	return nil
}

// flush sends all batches, one after the other.
func (w *writer) flush(ctx context.Context) error {
	for _, partition := range w.order {
		batch := w.batches[partition]
		if err := w.producer.Produce(ctx, partition, batch, w.sink.config.Compression); err != nil {
			return err
		}
		batch.Reset()
		w.sink.step("batch produced")
	}
	w.order, w.size = w.order[:0], 0
	return nil
}

// Commit ends the transaction: what was written becomes visible, together with where the lane continues.
func (w *writer) Commit(ctx context.Context) (job.Position, error) {
	return w.commit(ctx, false)
}

func (w *writer) commit(ctx context.Context, done bool) (job.Position, error) {
	if w.written == w.committed && !done {
		return w.committed, nil
	}
	if err := w.flush(ctx); err != nil {
		return w.committed, w.failure(err)
	}
	if w.sink.config.Delivery == ExactlyOnce && (w.place.pseudo || w.written != w.committed) {
		if err := w.endTransaction(ctx, done); err != nil {
			return w.committed, err
		}
	}
	w.committed = w.written
	return w.committed, nil
}

// mostEnd is how long the end of a transaction may take after the caller's time is over: half way, it would not be
// known whether it took place.
const mostEnd = 8 * time.Second

// outlast returns a context that ends some time after the given one.
func outlast(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(most)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-longer.Done():
		}
	})
	return longer, func() { stop(); cancel() }
}

func (w *writer) endTransaction(ctx context.Context, done bool) error {
	progress, err := w.progress(done)
	if err != nil {
		return err
	}
	if err := w.mark(ctx, done); err != nil {
		return w.failure(err)
	}
	metadata, err := progress.Metadata()
	if err != nil {
		return err
	}
	offset := kafkaclient.Committed{Offset: w.written.Offset, Metadata: metadata}
	if w.place.pseudo {
		offset.Offset = w.written.Record
	}
	if err := w.producer.CommitOffset(ctx, w.member, w.place.partition, offset); err != nil {
		return w.failure(err)
	}
	w.sink.step("offset in the transaction")
	ending, cancel := outlast(ctx, mostEnd)
	defer cancel()
	if err := w.producer.End(ending, true); err != nil {
		return w.settle(ctx, offset, err)
	}
	w.sink.step("transaction ended")
	return nil
}

// How much of the metadata of an offset the options and the identity of an input may take, in bytes of JSON.
const (
	mostMadeWith = 1500
	mostIdentity = 2000
)

// progress is what is stored with a commit.
func (w *writer) progress(done bool) (kafkaclient.Progress, error) {
	progress := kafkaclient.Progress{Record: w.written.Record, MadeWith: w.sink.madeWith}
	if !w.place.pseudo {
		return progress, nil
	}
	position := w.written
	progress.Position, progress.Done = &position, done
	progress.Input = w.storedIdentity()
	return progress, nil
}

// settle finds out whether a transaction was committed whose end was not confirmed. Taking the id over again decides
// it: nothing is open afterwards.
func (w *writer) settle(ctx context.Context, offset kafkaclient.Committed, cause error) error {
	if errors.Is(cause, kafkaclient.ErrFenced) {
		return w.failure(cause)
	}
	ctx, cancel := outlast(ctx, mostEnd)
	defer cancel()
	if err := w.producer.Init(ctx); err != nil {
		return w.failure(errors.Join(cause, err))
	}
	now, err := w.sink.config.Client.CommittedOffset(ctx, w.place.group, w.place.partition)
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case now == offset:
		return nil
	case w.place.pseudo:
		return cause
	default:
		return fmt.Errorf("%w: lane %s: the transaction was not committed: %w", producer.ErrFenced, w.lane, cause)
	}
}

// Finish commits everything, and stores that a lane that is no partition is complete.
func (w *writer) Finish(ctx context.Context) error {
	_, err := w.commit(ctx, w.place.pseudo)
	return err
}

// mostAbort is how long closing may take.
const mostAbort = 5 * time.Second

// Close aborts what was not committed, so that readers of the topic need not wait for the broker to do so. Whoever
// opens the lane next would do it otherwise.
func (w *writer) Close() error {
	if !w.producer.IsOpen() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), mostAbort)
	defer cancel()
	var err error
	if w.producer.InDoubt() {
		// Something may still be on its way. It must find another epoch when it arrives.
		err = w.producer.Init(ctx)
	} else {
		err = w.producer.End(ctx, false)
	}
	if err != nil && !errors.Is(err, kafkaclient.ErrFenced) {
		w.sink.config.Logger.Warn("kafka: a transaction was left open", "lane", w.lane, "error", err)
	}
	return nil
}

// failure says of an error whether the lane is to be opened again. A lane that is a partition is, whenever the
// transaction is lost: its source reads the records again.
func (w *writer) failure(err error) error {
	if errors.Is(err, producer.ErrFenced) {
		return err
	}
	fenced := errors.Is(err, kafkaclient.ErrFenced) || kafkaclient.IsStaleMember(err)
	if fenced {
		return fmt.Errorf("%w: lane %s: %w", producer.ErrFenced, w.lane, err)
	}
	return err
}
