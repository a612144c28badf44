// Package kafka reads records from the partitions of topics.
//
// A Source is a member of a consumer group, and every partition it is given is a lane. Partitions come and go: Next
// waits for those that come, and a lane that was taken away says consumer.ErrLaneLost. The group divides its
// partitions such that as few as possible move, and a lane that stays goes on through the change without a pause.
//
// Where a lane continues is known to the sink. The offsets of the group are read only where the sink knows nothing,
// and stored only with Config.CommitOffsets: a sink of transactions stores them itself.
//
// A record's position has the offset behind it and its number among the records that count. Records of transactions
// that were aborted do not, and those that compaction has removed are not there; so offsets have gaps, and numbers
// have none.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
)

// A Codec finds the text in the value of a message.
type Codec interface {
	// Decode sets Text, Carry, Flags and Err of the record. What it keeps of the value it copies, except for
	// Original, which it may set to the value itself.
	Decode(value []byte, record *job.Record)
}

// Begin says where a partition is begun of which nothing is known.
type Begin int

// Where partitions are begun.
const (
	Earliest Begin = iota // at the first record that there is
	Latest                // behind the last one, at the time when it is first read
)

// Config says what is read, and how. Zero values are replaced by the defaults named.
type Config struct {
	Client *kafkaclient.Client
	Topics []string
	Group  string
	Values Codec

	// Instance, if set, makes the member a static one: it may leave and come back under this name within a session
	// without anything being divided anew.
	Instance string

	// Begin says where a partition is begun of which neither the sink nor the group knows anything.
	Begin Begin

	// SkipLost goes on at the first record that there is where records were deleted before they were read. Without
	// it that is an error.
	SkipLost bool

	// CommitOffsets stores in the group what the sink has made durable. It is for every sink that does not do so
	// itself.
	CommitOffsets bool

	// StopAtEnd ends every lane at the last record that there is when it is started, and the source when all lanes have
	// ended, those of other members included.
	StopAtEnd bool

	Session   time.Duration // without a heartbeat, after which a member counts as dead; 30 s
	Rebalance time.Duration // how long members have to join again; 60 s
	Recheck   time.Duration // how often topics are looked up for new partitions; 10 s

	FetchBytes int // asked for at once, per lane; 1 MiB
	MaxBatch   int // the largest batch of records, inflated; 64 MiB. A larger one becomes a record with Err

	Logger *slog.Logger // nil is silent
}

func (c Config) withDefaults() Config {
	setDefault(&c.Session, 30*time.Second)
	setDefault(&c.Rebalance, time.Minute)
	setDefault(&c.Recheck, 10*time.Second)
	setDefault(&c.FetchBytes, 1<<20)
	setDefault(&c.MaxBatch, 64<<20)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[T int | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

func (c *Config) check() error {
	switch {
	case c.Client == nil || c.Values == nil:
		return errors.New("consumer/kafka: Client and Values must be set")
	case len(c.Topics) == 0:
		return errors.New("kafka: no topic is given to read from")
	case c.Group == "":
		return errors.New("kafka: a consumer group needs a name")
	}
	return nil
}

// A Source is a consumer.Source of topics.
type Source struct {
	config    Config
	group     *group
	stopAtEnd atomic.Bool

	mutex     sync.Mutex
	stopGroup context.CancelFunc // nil before the source is connected
	groupDone chan struct{}
	member    kafkaclient.Member
	lanes     map[string]*lane                // those that the group has given to this member
	ready     []*lane                         // of them, those that Next has not given yet
	returned  []*lane                         // of them, those to be given again once it is certain that they are still ours
	ends      map[kafkaclient.Partition]int64 // where partitions of others end, for a source that stops there
	waiting   waiting                         // for a partition of another member, when everything else is done
	divided   bool                            // the group has been divided at least once
	failure   error
	changed   chan struct{} // closed and replaced whenever something above changes
}

// New returns a Source. Connect checks the configuration.
func New(config Config) *Source {
	s := &Source{config: config.withDefaults(), lanes: map[string]*lane{}, ends: map[kafkaclient.Partition]int64{}, changed: make(chan struct{})}
	s.stopAtEnd.Store(config.StopAtEnd)
	return s
}

// Connect makes sure that the topics exist and joins the group.
func (s *Source) Connect(ctx context.Context) error {
	if err := s.config.check(); err != nil {
		return err
	}
	for _, topic := range s.config.Topics {
		if _, err := s.config.Client.Partitions(ctx, topic); err != nil {
			return err
		}
	}
	s.group = newGroup(s)
	groupCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	s.mutex.Lock()
	s.stopGroup, s.groupDone = stop, done
	s.mutex.Unlock()
	go func() {
		defer close(done)
		s.group.run(groupCtx)
	}()
	return nil
}

// Next waits for a partition to be given to this member.
func (s *Source) Next(ctx context.Context) (consumer.Lane, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		lane, changed, err := s.take()
		if lane != nil {
			return lane, nil
		}
		if errors.Is(err, consumer.ErrEndOfInput) {
			if err = s.finished(ctx, changed); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take returns the next lane, or what to wait for. consumer.ErrEndOfInput says that this member's lanes have ended.
func (s *Source) take() (*lane, <-chan struct{}, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.failure != nil {
		return nil, nil, s.failure
	}
	if len(s.ready) > 0 {
		next := s.ready[0]
		s.ready = s.ready[1:]
		return next, nil, nil
	}
	if s.stopAtEnd.Load() && s.divided && !slices.ContainsFunc(slices.Collect(maps.Values(s.lanes)), (*lane).goesOn) {
		return nil, s.changed, consumer.ErrEndOfInput
	}
	return nil, s.changed, nil
}

func (s *Source) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// StopAtEnd makes every lane end at the last record that there is now.
func (s *Source) StopAtEnd() {
	s.stopAtEnd.Store(true)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.notify()
}

// Close leaves the group.
func (s *Source) Close(ctx context.Context) error {
	s.Leave(ctx)
	return nil
}

// Leave leaves the group, and every lane is lost. A watchdog calls it when nothing moves, so that others take over.
// It returns when the group knows, or ctx ends.
func (s *Source) Leave(ctx context.Context) {
	s.mutex.Lock()
	stop, done := s.stopGroup, s.groupDone
	s.mutex.Unlock()
	if stop == nil {
		return // it has not joined
	}
	stop()
	select {
	case <-done:
	case <-ctx.Done():
		s.config.Logger.Warn("kafka: the group could not be told that this member leaves", "group", s.config.Group)
	}
}

// Member returns as whom a lane's offsets may be committed. ok is false if the lane is not ours now.
func (s *Source) Member(name string) (member kafkaclient.Member, partition kafkaclient.Partition, ok bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l, ok := s.lanes[name]
	if !ok {
		return kafkaclient.Member{}, kafkaclient.Partition{}, false
	}
	return s.member, l.partition, true
}

// Lag returns, for each lane, how many offsets lie before the end of its partition, as of its last fetch.
func (s *Source) Lag() map[string]int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	lag := make(map[string]int64, len(s.lanes))
	for name, l := range s.lanes {
		lag[name] = l.lag.Load()
	}
	return lag
}

// divide is told what the group has given to this member. Lanes that stay go on, unless another member may have had
// them in between.
func (s *Source) divide(member kafkaclient.Member, share kafkaclient.Assignment, continued bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !continued {
		s.loseAll()
	}
	given := map[string]kafkaclient.Partition{}
	for topic, ids := range share {
		for _, id := range ids {
			partition := kafkaclient.Partition{Topic: topic, ID: id}
			given[partition.LaneName()] = partition
		}
	}
	for name, l := range s.lanes {
		if _, stays := given[name]; !stays {
			s.lose(l)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if s.lanes[name] == nil {
			l := newLane(s, given[name])
			s.lanes[name] = l
			s.ready = append(s.ready, l)
		}
	}
	s.member, s.divided = member, true
	s.config.Logger.Info("kafka: the group was divided", "group", member.Group, "generation", member.Generation, "lanes", len(given))
	s.notify()
}

// lose takes a lane away. The mutex is held.
func (s *Source) lose(l *lane) {
	l.lose()
	delete(s.lanes, l.Name())
	same := func(other *lane) bool { return other == l }
	s.ready = slices.DeleteFunc(s.ready, same)
	s.returned = slices.DeleteFunc(s.returned, same)
}

func (s *Source) loseAll() {
	for _, l := range s.lanes {
		s.lose(l)
	}
}

// expel is told that this member has no lanes any more.
func (s *Source) expel() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.loseAll()
	s.notify()
}

// fail makes Next return an error.
func (s *Source) fail(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.failure = err
	s.loseAll()
	s.notify()
}

// closed is told that a lane was closed. If it did not end, and is still ours, the sink has given it up: it is given
// again as a new lane, which continues where the sink says. That waits until the group has confirmed that this member
// still has it; a member that does not know that it was expelled would otherwise disturb whoever has it now.
func (s *Source) closed(l *lane) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.lanes[l.Name()] == l && l.goesOn() {
		again := newLane(s, l.partition)
		s.lanes[l.Name()] = again
		s.returned = append(s.returned, again)
	}
	s.notify()
}

// toConfirm returns the lanes that a heartbeat that is sent now will confirm.
func (s *Source) toConfirm() []*lane {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.returned)
}

// confirm makes lanes ready.
func (s *Source) confirm(lanes []*lane) {
	if len(lanes) == 0 {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, l := range lanes {
		if i := slices.Index(s.returned, l); i >= 0 {
			s.returned = slices.Delete(s.returned, i, i+1)
			s.ready = append(s.ready, l)
		}
	}
	s.notify()
}

// held returns the partitions of this member.
func (s *Source) held() kafkaclient.Assignment {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	share := kafkaclient.Assignment{}
	for _, name := range slices.Sorted(maps.Keys(s.lanes)) {
		partition := s.lanes[name].partition
		share[partition.Topic] = append(share[partition.Topic], partition.ID)
	}
	return share
}

// commit stores an offset in the group.
func (s *Source) commit(ctx context.Context, l *lane, pos job.Position) error {
	member, _, ok := s.Member(l.Name())
	if !ok {
		return consumer.ErrLaneLost
	}
	metadata, err := kafkaclient.Progress{Record: pos.Record}.Metadata()
	if err != nil {
		return err
	}
	err = s.config.Client.CommitOffset(ctx, member, l.partition, kafkaclient.Committed{Offset: pos.Offset, Metadata: metadata})
	if kafkaclient.IsStale(err) {
		return nil // the group is being divided anew; the next commit will tell more
	}
	if err != nil {
		return fmt.Errorf("lane %s: %w", l.Name(), err)
	}
	return nil
}
