package kafka

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/sluice-mt/sluice/internal/kafkaclient"
)

// protocolName names the way in which the members of a group divide the partitions.
const protocolName = "sluice-sticky"

// A group takes part in a consumer group for a Source: it joins, divides the partitions when it is the leader's turn,
// and sends heartbeats, from one goroutine.
type group struct {
	source  *Source
	client  *kafkaclient.Client
	member  kafkaclient.Member
	leads   bool
	divided map[string]int // the leader: how many partitions each topic had
	checked time.Time      // the leader: when that was last looked up
	alive   time.Time      // when the group last answered
}

func newGroup(s *Source) *group {
	return &group{
		source: s, client: s.config.Client, alive: time.Now(),
		member: kafkaclient.Member{Group: s.config.Group, Instance: s.config.Instance, Generation: -1},
	}
}

// errRejoin says that the leader has found reason to divide anew.
var errRejoin = errors.New("there are other partitions than before")

const (
	leastPause = 50 * time.Millisecond
	mostPause  = 2 * time.Second
	leaveTime  = 5 * time.Second
)

// run takes part until ctx ends, and leaves the group then.
func (g *group) run(ctx context.Context) {
	defer g.leave(ctx)
	pause := leastPause
	for ctx.Err() == nil {
		err := g.generation(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, kafkaclient.ErrRebalance), errors.Is(err, errRejoin):
			pause = leastPause
			continue
		case !kafkaclient.MayPass(err):
			g.source.fail(err)
			return
		case errors.Is(err, kafkaclient.ErrNotMember):
			g.member.ID, g.member.Generation = "", -1
			g.source.expel()
		case time.Since(g.alive) > g.source.config.Session:
			g.source.expel() // the group has given our partitions to others by now
		}
		g.source.config.Logger.Debug("kafka: joining again", "group", g.member.Group, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, mostPause)
	}
}

// generation joins and stays for one generation of the group.
func (g *group) generation(ctx context.Context) error {
	if err := g.join(ctx); err != nil {
		return err
	}
	return g.stay(ctx)
}

// claims are what a member tells the leader: what it had in which generation.
type claims struct {
	Generation int                    `json:"generation"`
	Partitions kafkaclient.Assignment `json:"partitions"`
}

// join joins the group and learns what this member gets.
func (g *group) join(ctx context.Context) error {
	config := &g.source.config
	before := g.member
	userData, err := json.Marshal(claims{Generation: before.Generation, Partitions: g.source.held()})
	if err != nil {
		return err
	}
	joined, err := g.client.Join(ctx, kafkaclient.JoinRequest{
		Member: before, Session: config.Session, Rebalance: config.Rebalance,
		Protocol: protocolName, Topics: config.Topics, UserData: userData,
	})
	g.member.ID = joined.Member.ID
	if err != nil {
		return err
	}
	g.alive = time.Now()
	g.leads = joined.Leader
	var shares map[string]kafkaclient.Assignment
	if g.leads {
		shares = g.share(ctx, joined.Members)
	}
	share, err := g.client.Sync(ctx, joined.Member, protocolName, shares, config.Rebalance)
	if err != nil {
		return err
	}
	g.alive = time.Now()
	// A member that was there in the generation before has kept what it had: had it been expelled, it would have
	// another ID now. In a generation that it has missed, others may have had its partitions.
	continued := before.ID == joined.Member.ID && joined.Member.Generation == before.Generation+1
	g.member = joined.Member
	g.source.divide(g.member, share, continued)
	return nil
}

// share divides the partitions of all topics that members want.
func (g *group) share(ctx context.Context, joiners []kafkaclient.Joiner) map[string]kafkaclient.Assignment {
	g.divided, g.checked = map[string]int{}, time.Now()
	members := make([]balanceMember, 0, len(joiners))
	for _, j := range joiners {
		m := balanceMember{id: j.ID, topics: j.Topics}
		var claimed claims
		if json.Unmarshal(j.UserData, &claimed) == nil { // without claims a member has none
			m.generation, m.claims = claimed.Generation, claimed.Partitions
		}
		members = append(members, m)
		for _, topic := range j.Topics {
			if _, known := g.divided[topic]; !known {
				g.divided[topic] = g.client.KnownPartitions(ctx, topic)
			}
		}
	}
	return balance(members, g.divided)
}

// stay sends heartbeats until something ends the generation.
func (g *group) stay(ctx context.Context) error {
	session := g.source.config.Session
	beat := time.NewTicker(min(session/10, 3*time.Second))
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-beat.C:
		}
		confirmed := g.source.toConfirm()
		err := g.client.Heartbeat(ctx, g.member, session/3)
		switch {
		case err == nil:
			g.alive = time.Now()
			g.source.confirm(confirmed)
		case errors.Is(err, kafkaclient.ErrRebalance), errors.Is(err, kafkaclient.ErrNotMember), !kafkaclient.MayPass(err):
			return err
		case time.Since(g.alive) > session:
			return err
		}
		if g.leads && g.changed(ctx) {
			return errRejoin
		}
	}
}

// changed says whether a topic has other partitions than when they were divided.
func (g *group) changed(ctx context.Context) bool {
	if time.Since(g.checked) < g.source.config.Recheck {
		return false
	}
	g.checked = time.Now()
	for topic, count := range g.divided {
		if now := g.client.KnownPartitions(ctx, topic); now > 0 && now != count {
			return true
		}
	}
	return false
}

// leave tells the group, unless the member is a static one, whose place is kept for its return.
func (g *group) leave(ctx context.Context) {
	g.source.expel()
	if g.member.ID == "" || g.member.Instance != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if err := g.client.Leave(ctx, g.member); err != nil && !errors.Is(err, kafkaclient.ErrNotMember) {
		g.source.config.Logger.Warn("kafka: the group waits for this member until its session ends", "error", err)
	}
}

// A balanceMember is what the leader knows of a member.
type balanceMember struct {
	id         string
	topics     []string
	generation int // of its claims
	claims     kafkaclient.Assignment
}

// balance divides partitions such that members that want the same topics get the same number of them, give or take
// one, and that no more partitions move than that needs. A partition that two members claim belongs to the one that
// had it later.
func balance(members []balanceMember, topics map[string]int) map[string]kafkaclient.Assignment {
	b := newBalancer(members, topics)
	b.honourClaims()
	b.trim()
	b.hand()
	shares := make(map[string]kafkaclient.Assignment, len(members))
	for _, m := range b.members {
		share := kafkaclient.Assignment{}
		for _, partition := range b.shares[m.id] {
			share[partition.Topic] = append(share[partition.Topic], partition.ID)
		}
		shares[m.id] = share
	}
	return shares
}

type balancer struct {
	members []balanceMember
	all     []kafkaclient.Partition
	owner   map[kafkaclient.Partition]string
	shares  map[string][]kafkaclient.Partition
}

func newBalancer(members []balanceMember, topics map[string]int) *balancer {
	b := &balancer{members: slices.Clone(members), owner: map[kafkaclient.Partition]string{}, shares: map[string][]kafkaclient.Partition{}}
	slices.SortFunc(b.members, func(x, y balanceMember) int { return cmp.Compare(x.id, y.id) })
	for topic, count := range topics {
		for id := range count {
			b.all = append(b.all, kafkaclient.Partition{Topic: topic, ID: id})
		}
	}
	slices.SortFunc(b.all, func(x, y kafkaclient.Partition) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.ID, y.ID))
	})
	return b
}

// honourClaims gives every partition to whom had it last and still wants it.
func (b *balancer) honourClaims() {
	since := map[kafkaclient.Partition]int{}
	for _, m := range b.members {
		for topic, ids := range m.claims {
			for _, id := range ids {
				partition := kafkaclient.Partition{Topic: topic, ID: id}
				if held, taken := since[partition]; slices.Contains(m.topics, topic) && (!taken || m.generation > held) {
					since[partition], b.owner[partition] = m.generation, m.id
				}
			}
		}
	}
	for _, partition := range b.all {
		if owner, ok := b.owner[partition]; ok {
			b.shares[owner] = append(b.shares[owner], partition)
		}
	}
}

// trim takes away what members have beyond an equal share. Those who have most are the ones who keep one more where
// the partitions cannot be divided evenly.
func (b *balancer) trim() {
	if len(b.members) == 0 {
		return
	}
	least, more := len(b.all)/len(b.members), len(b.all)%len(b.members)
	byLoad := slices.Clone(b.members)
	slices.SortStableFunc(byLoad, func(x, y balanceMember) int { return len(b.shares[y.id]) - len(b.shares[x.id]) })
	for i, m := range byLoad {
		quota := least
		if i < more {
			quota++
		}
		for len(b.shares[m.id]) > quota {
			last := len(b.shares[m.id]) - 1
			delete(b.owner, b.shares[m.id][last])
			b.shares[m.id] = b.shares[m.id][:last]
		}
	}
}

// hand gives every partition that nobody has to the one who has fewest and wants it.
func (b *balancer) hand() {
	for _, partition := range b.all {
		if _, taken := b.owner[partition]; taken {
			continue
		}
		var chosen *balanceMember
		for i := range b.members {
			m := &b.members[i]
			if slices.Contains(m.topics, partition.Topic) && (chosen == nil || len(b.shares[m.id]) < len(b.shares[chosen.id])) {
				chosen = m
			}
		}
		if chosen != nil {
			b.owner[partition] = chosen.id
			b.shares[chosen.id] = append(b.shares[chosen.id], partition)
		}
	}
}
