package kafka_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluice-mt/sluice/internal/kafkatest"
)

const (
	chaosPartitions = 4
	chaosRecords    = 1500 // of each partition
	chaosTime       = 4 * time.Second
)

// Whatever happens to workers and brokers, the output is every record once and in order. A seed says what happens;
// when, depends on the machine.
func TestChaos(t *testing.T) {
	seeds := 20
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := newChaos(t, uint64(seed))
			for begin := time.Now(); time.Since(begin) < chaosTime; {
				time.Sleep(time.Duration(50+c.random.IntN(200)) * time.Millisecond)
				c.something(t)
			}
			c.settle(t)
		})
	}
}

// chaos is a job whose workers and brokers have a hard time.
type chaos struct {
	*setup
	cluster *kafkatest.Cluster
	random  *rand.Rand
	workers []*worker
	killed  []*worker
	records int // of each partition
	counts  map[string]int
}

func newChaos(t *testing.T, seed uint64) *chaos {
	cluster := kafkatest.StartFake(t, kfake.NumBrokers(3))
	c := &chaos{
		setup: newSetup(t, cluster, chaosPartitions), cluster: cluster,
		random: rand.New(rand.NewPCG(seed, 1)), counts: map[string]int{},
	}
	c.prepare(t, chaosRecords)
	return c
}

// prepare writes the input and starts the workers.
func (c *chaos) prepare(t *testing.T, records int) {
	c.records = records
	c.source.Session = 1500 * time.Millisecond
	c.source.Rebalance = 1500 * time.Millisecond
	c.source.FetchBytes = 2000
	c.pipeline.Grace = 2 * time.Second
	c.pipeline.Memory = 200 << 10 // so that work goes on all the time
	c.sink.BatchBytes = 1000
	c.translator = restless{60 * time.Millisecond}
	for p := range chaosPartitions {
		for i := 0; i < records; i += 25 { // in small batches, so that a fetch does not give everything
			c.cluster.Write(t, kafkatest.Numbers(c.in(), p, i, i+25)...)
		}
	}
	for range 3 {
		c.workers = append(c.workers, c.start(t))
	}
}

// something happens.
func (c *chaos) something(t *testing.T) {
	switch what := c.random.IntN(8); what {
	case 0, 1, 2:
		c.toWorkers(t, what)
	case 3:
		c.counts["leaders moved"]++
		c.cluster.Fake.ShufflePartitionLeaders()
	case 4:
		c.counts["coordinators moved"]++
		c.cluster.Fake.RehashCoordinators()
	default:
		c.counts["faults"]++
		c.fault()
	}
}

// toWorkers makes something happen to one of the workers.
func (c *chaos) toWorkers(t *testing.T, what int) {
	i := c.random.IntN(len(c.workers))
	w := c.workers[i]
	switch what {
	case 0:
		c.counts["killed"]++
		w.kill()
		c.killed = append(c.killed, w)
		c.workers[i] = c.start(t)
	case 1: // its session ends, and it does not know: it goes on writing
		c.counts["zombie"]++
		w.sourceNet.stalled.Store(true)
		time.AfterFunc(time.Duration(1500+c.random.IntN(2000))*time.Millisecond, func() { w.sourceNet.stalled.Store(false) })
	case 2: // it stands still as a whole, as with SIGSTOP
		c.counts["stopped"]++
		w.sourceNet.stalled.Store(true)
		w.sinkNet.stalled.Store(true)
		time.AfterFunc(time.Duration(1000+c.random.IntN(2000))*time.Millisecond, func() {
			w.sinkNet.stalled.Store(false)
			w.sourceNet.stalled.Store(false)
		})
	}
}

// fault makes a call fail. A request that timed out was carried out all the same.
func (c *chaos) fault() {
	keys := []kmsg.Key{
		kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.InitProducerID,
		kmsg.Fetch, kmsg.OffsetFetch, kmsg.FindCoordinator, kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup,
	}
	key := keys[c.random.IntN(len(keys))]
	errors := []*kerr.Error{kerr.RequestTimedOut, kerr.NotLeaderForPartition}
	whole := false
	switch key {
	case kmsg.AddOffsetsToTxn, kmsg.EndTxn, kmsg.InitProducerID:
		errors = []*kerr.Error{kerr.RequestTimedOut, kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress}
		whole = true
	case kmsg.AddPartitionsToTxn, kmsg.TxnOffsetCommit, kmsg.OffsetFetch:
		errors = []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress}
	case kmsg.FindCoordinator, kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup:
		errors = []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.RebalanceInProgress}
		whole = true
	}
	c.cluster.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: errors[c.random.IntN(len(errors))], Count: 1 + c.random.IntN(3), TopLevel: whole})
}

// settle lets the job finish in peace, and consults the oracle.
func (c *chaos) settle(t *testing.T) {
	for _, w := range c.workers {
		w.sourceNet.stalled.Store(false)
		w.sinkNet.stalled.Store(false)
	}
	finished := false
	for attempt := 0; attempt < 6 && !finished; attempt++ {
		if attempt > 0 { // fake brokers keep a member that has died between joining and learning its share; a newcomer makes them notice
			c.counts["newcomers"]++
			c.describe(t)
			c.workers = append(c.workers, c.start(t))
		}
		finished = c.awaitOffsets(t, c.cluster, chaosPartitions, int64(c.records), 15*time.Second)
	}
	for _, w := range append(c.workers, c.killed...) {
		w.end(t)
	}
	t.Log(c.counts)
	if !finished {
		t.Error("the job does not finish")
	}
	c.oracle(t, c.cluster, chaosPartitions, c.records)
}

// describe logs who has which partitions, in the group's eyes and in the workers' own.
func (c *chaos) describe(t *testing.T) {
	if c.cluster.Fake == nil {
		return
	}
	info := c.cluster.Fake.GroupInfo(c.source.Group)
	t.Logf("the group is %s, in generation %d", info.State, info.Epoch)
	for _, member := range info.Members {
		t.Logf("member %s has %v", member.MemberID, member.Assignment)
	}
	for _, w := range c.workers {
		lag := w.source.Lag()
		for name := range lag {
			member, _, _ := w.source.Member(name)
			t.Logf("a worker, %s of generation %d, has %s, %d behind", member.ID, member.Generation, name, lag[name])
		}
	}
}

// A worker comes or goes every 300 ms. The job goes on all the same, and nothing is done twice.
func TestRebalanceStorm(t *testing.T) {
	t.Parallel()
	storm := 60 * time.Second
	if testing.Short() {
		storm = 4 * time.Second
	}
	cluster := kafkatest.StartFake(t, kfake.NumBrokers(3))
	s := newSetup(t, cluster, chaosPartitions)
	s.source.Session, s.source.Rebalance = 3*time.Second, 3*time.Second
	s.source.FetchBytes = 500
	s.pipeline.Memory = 100 << 10
	s.translator = restless{20 * time.Millisecond}
	steady := s.start(t)
	records := 0
	var guests, gone []*worker
	for begin := time.Now(); time.Since(begin) < storm; {
		for p := range chaosPartitions {
			cluster.Write(t, kafkatest.Numbers(s.in(), p, records, records+10)...)
		}
		records += 10
		time.Sleep(300 * time.Millisecond)
		if len(guests) < 2 {
			guests = append(guests, s.start(t))
			continue
		}
		guests[0].stop()
		gone = append(gone, guests[0])
		guests = guests[1:]
	}
	var during int64
	for _, offset := range committedOffsets(t, cluster, s.source.Group, s.in(), chaosPartitions) {
		during += max(0, offset)
	}
	if during == 0 {
		t.Error("nothing was done during the storm")
	}
	if !s.awaitOffsets(t, cluster, chaosPartitions, int64(records), 60*time.Second) {
		t.Error("the job does not finish")
	}
	for _, w := range append(append(guests, gone...), steady) {
		w.end(t)
	}
	t.Logf("%d workers came and went; %d of %d records were done meanwhile", len(gone), during, records*chaosPartitions)
	s.oracle(t, cluster, chaosPartitions, records)
}
