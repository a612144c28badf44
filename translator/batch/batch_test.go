package batch

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// An arrival is a test item.
type arrival struct {
	number int
	length int
	time   time.Time
}

func configs() *rapid.Generator[Config] {
	return rapid.Custom(func(t *rapid.T) Config {
		return Config{
			Tokens:       rapid.IntRange(1, 200).Draw(t, "tokens"),
			Sentences:    rapid.IntRange(1, 20).Draw(t, "sentences"),
			Unsorted:     rapid.Bool().Draw(t, "unsorted"),
			Full:         rapid.IntRange(1, 100).Draw(t, "full"),
			Linger:       time.Duration(rapid.IntRange(0, 50).Draw(t, "linger")) * time.Millisecond,
			MaxAge:       time.Duration(rapid.SampledFrom([]int{0, 1, 20, 500}).Draw(t, "age")) * time.Millisecond,
			MaxOvertaken: rapid.SampledFrom([]int{0, 1, 5, 100}).Draw(t, "overtaken"),
		}
	})
}

// A model is a pool told in the plainest way, against which Pool is tested.
type model struct {
	config  Config
	items   []arrival // in the order of arrival
	left    []int     // numbers of those that left
	filled  bool
	flushed int
	added   int
}

func (m *model) overdue(a arrival, now time.Time) bool {
	if m.config.MaxAge > 0 && now.Sub(a.time) >= m.config.MaxAge {
		return true
	}
	later := 0
	for _, number := range m.left {
		if number > a.number {
			later++
		}
	}
	return m.config.MaxOvertaken > 0 && later >= m.config.MaxOvertaken
}

func (m *model) ready(now time.Time) bool {
	return len(m.items) > 0 &&
		(m.filled || m.items[0].number < m.flushed || now.Sub(m.items[0].time) >= m.config.Linger)
}

func (m *model) cut(now time.Time) []arrival {
	var batch []arrival
	tokens := 0
	take := func(a arrival) bool {
		if len(batch) == m.config.Sentences || len(batch) > 0 && tokens+a.length > m.config.Tokens {
			return false
		}
		batch = append(batch, a)
		tokens += a.length
		m.left = append(m.left, a.number)
		m.items = slices.DeleteFunc(m.items, func(b arrival) bool { return b.number == a.number })
		return true
	}
	full := false
	for !full && len(m.items) > 0 && m.overdue(m.items[0], now) {
		full = !take(m.items[0])
	}
	order := slices.Clone(m.items)
	if m.config.Unsorted {
		for !full && len(m.items) > 0 {
			full = !take(m.items[0])
		}
		m.filled = m.filled && len(m.items) > m.config.Full/2
		return batch
	}
	slices.SortStableFunc(order, func(a, b arrival) int { return b.length - a.length })
	if len(batch) > 0 {
		start := batch[0].length
		shorter := slices.DeleteFunc(slices.Clone(order), func(a arrival) bool { return a.length > start })
		longer := slices.DeleteFunc(slices.Clone(m.items), func(a arrival) bool { return a.length <= start })
		slices.SortStableFunc(longer, func(a, b arrival) int { return a.length - b.length })
		order = append(shorter, longer...)
	}
	for _, a := range order {
		if full || !take(a) {
			break
		}
	}
	m.filled = m.filled && len(m.items) > m.config.Full/2
	return batch
}

func TestPoolAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := configs().Draw(t, "config")
		pool, err := NewPool[arrival](config)
		if err != nil {
			t.Fatal(err)
		}
		m := &model{config: config}
		now := time.Unix(1000, 0)
		add := func(t *rapid.T) {
			now = now.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "ms")) * time.Millisecond)
			a := arrival{m.added, rapid.IntRange(1, 60).Draw(t, "length"), now}
			pool.Add(a, a.length, now)
			m.items = append(m.items, a)
			m.added++
			m.filled = m.filled || len(m.items) >= config.Full
		}
		t.Repeat(map[string]func(*rapid.T){
			"add":  add,
			"more": add,
			"many": func(t *rapid.T) {
				for range rapid.IntRange(1, 30).Draw(t, "count") {
					add(t)
				}
			},
			"flush": func(*rapid.T) { pool.Flush(); m.flushed = m.added },
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "ms")) * time.Millisecond)
			},
			"cut": func(t *rapid.T) {
				got, want := pool.Cut(nil, now), m.cut(now)
				if !slices.Equal(got, want) {
					t.Fatalf("cut %v, want %v", got, want)
				}
			},
			"": func(t *rapid.T) {
				if got, want := pool.Ready(now), m.ready(now); got != want {
					t.Fatalf("ready is %v, want %v", got, want)
				}
				if deadline, ok := pool.Deadline(); ok != (len(m.items) > 0) || ok && pool.Ready(now) != !now.Before(deadline) {
					t.Fatalf("deadline %v, %v, but ready is %v", deadline, ok, pool.Ready(now))
				}
				tokens := 0
				for _, a := range m.items {
					tokens += a.length
				}
				if pool.Len() != len(m.items) || pool.Tokens() != tokens {
					t.Fatalf("holds %d items of %d tokens, want %d of %d", pool.Len(), pool.Tokens(), len(m.items), tokens)
				}
			},
		})
	})
}

func TestPoolGivesEveryItemOnceWithinBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := configs().Draw(t, "config")
		lengths := rapid.SliceOfN(rapid.IntRange(1, 10_000), 0, 300).Draw(t, "lengths")
		pool, err := NewPool[arrival](config)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(0, 0)
		seen := make([]int, len(lengths))
		check := func() {
			before := slices.Clone(seen)
			batch := pool.Cut(nil, now)
			tokens := 0
			for _, a := range batch {
				tokens += a.length
				seen[a.number]++
				overtaken := 0
				for _, n := range before[a.number:] {
					overtaken += n
				}
				if limit := config.MaxOvertaken; limit > 0 && overtaken > limit-1+config.Sentences {
					t.Fatalf("item %d was overtaken by %d, limit %d", a.number, overtaken, limit)
				}
			}
			if len(batch) == 0 || len(batch) > config.Sentences || len(batch) > 1 && tokens > config.Tokens {
				t.Fatalf("mini-batch of %d items with %d tokens under %+v", len(batch), tokens, config)
			}
		}
		for i, length := range lengths {
			pool.Add(arrival{i, length, now}, length, now)
			for pool.Len() >= config.Full {
				check()
			}
		}
		for pool.Len() > 0 {
			check()
		}
		if i := slices.IndexFunc(seen, func(n int) bool { return n != 1 }); i >= 0 {
			t.Fatalf("item %d left %d times", i, seen[i])
		}
	})
}

func TestPoolForgetsWhatHasLeft(t *testing.T) {
	pool, err := NewPool[int](Config{Tokens: 100, Sentences: 10, Full: 20})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	pool.Add(-1, 1, now) // the shortest waits for ever, as no limit is set
	var batch []int
	for i := range 100_000 {
		pool.Add(i, 50+i%7, now)
		if pool.Len() >= 20 {
			if batch = pool.Cut(batch[:0], now); slices.Contains(batch, -1) {
				t.Fatal("the shortest item went before longer ones")
			}
		}
	}
	if pool.arrived.count > 200 || len(pool.entries) > 40 {
		t.Errorf("%d tickets and %d places are kept for %d items", pool.arrived.count, len(pool.entries), pool.Len())
	}
}

func TestPoolAllocatesNothingInSteadyState(t *testing.T) {
	pool, err := NewPool[int](Config{Tokens: 1000, Sentences: 16, Full: 64, MaxOvertaken: 200})
	if err != nil {
		t.Fatal(err)
	}
	now, n, batch := time.Unix(0, 0), 0, make([]int, 0, 16)
	round := func() {
		for pool.Len() < 64 {
			pool.Add(n, 1+n*n%97, now)
			n++
		}
		batch = pool.Cut(batch[:0], now)
	}
	for range 1000 {
		round()
	}
	if allocations := testing.AllocsPerRun(1000, round); allocations > 0 {
		t.Errorf("%v allocations for a mini-batch", allocations)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Tokens: 1, Sentences: 1, Full: 1}
	for name, spoil := range map[string]func(*Config){
		"tokens":    func(c *Config) { c.Tokens = 0 },
		"sentences": func(c *Config) { c.Sentences = 0 },
		"full":      func(c *Config) { c.Full = 0 },
		"linger":    func(c *Config) { c.Linger = -1 },
		"age":       func(c *Config) { c.MaxAge = -1 },
		"overtaken": func(c *Config) { c.MaxOvertaken = -1 },
	} {
		bad := good
		spoil(&bad)
		if _, err := NewPool[int](bad); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := NewPool[int](good); err != nil {
		t.Error(err)
	}
	for _, share := range []float64{-0.1, 1.1} {
		if _, err := NewTopUp[int](10, share); !errors.Is(err, ErrConfig) {
			t.Errorf("share %v: error %v", share, err)
		}
	}
	if _, err := NewTopUp[int](0, 0.5); !errors.Is(err, ErrConfig) {
		t.Errorf("no slots: error %v", err)
	}
}

// TestTopUp plays a decoder whose sentences end at random.
func TestTopUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 64).Draw(t, "slots")
		share := rapid.SampledFrom([]float64{0, 0.25, 0.5, 1}).Draw(t, "share")
		queue, err := NewTopUp[[2]int](slots, share)
		if err != nil {
			t.Fatal(err)
		}
		total := rapid.IntRange(0, 200).Draw(t, "total")
		pushed, started, needed, free := 0, 0, 0, slots
		var active []int
		for started < total || len(active) > 0 {
			for pushed < total && queue.Hungry(free) {
				n := rapid.IntRange(1, min(slots, 8)).Draw(t, "need")
				queue.Push([2]int{pushed, n}, n, 1)
				pushed++
				needed += n
			}
			if due := queue.Due(free); due != (float64(free) >= max(float64(int(share*float64(slots))), 1) || free == slots) {
				t.Fatalf("due is %v with %d of %d free", due, free, slots)
			}
			if queue.Due(free) {
				for {
					item, ok := queue.Next(free)
					if !ok {
						break
					}
					if item[0] != started || item[1] > free {
						t.Fatalf("item %v came when %d was next and %d slots were free", item, started, free)
					}
					started++
					needed -= item[1]
					free -= item[1]
					active = append(active, item[1])
				}
			}
			if queue.Len() != pushed-started || queue.Hungry(needed) || !queue.Hungry(needed+1) {
				t.Fatalf("%d wait, want %d", queue.Len(), pushed-started)
			}
			if len(active) == 0 && started < total {
				continue
			}
			if len(active) > 0 {
				i := rapid.IntRange(0, len(active)-1).Draw(t, "ended")
				free += active[i]
				active = slices.Delete(active, i, i+1)
			}
		}
	})
}

// The next mini-batch is encoded ahead while less waits than all slots could take, as long as there is memory for it beside all that is not done.
func TestRoomAhead(t *testing.T) {
	const slots, memory, miniBatch = 4, 20, 6
	queue, err := NewTopUp[string](slots, 0.25)
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, want int) {
		t.Helper()
		if have := queue.RoomAhead(memory, miniBatch); have != want {
			t.Errorf("%s: room for %d pieces, want %d", when, have, want)
		}
	}
	check("at first", memory)
	queue.Push("two hypotheses", 2, 8)
	queue.Push("one", 1, 6)
	check("three slots are waited for", 6)
	queue.Push("another", 1, 0)
	check("all slots are waited for", 0)
	if _, ok := queue.Next(slots); !ok {
		t.Fatal("nothing waits")
	}
	check("what is decoded needs its memory", 6)
	queue.Push("a long one", 1, 1)
	check("no memory for a mini-batch", 0)
	queue.Done(8)
	check("the first is done", 13)
	if encoded := queue.Encoded(); encoded != 7 {
		t.Errorf("%d pieces are encoded, want 7", encoded)
	}
	if room := queue.RoomAhead(0, miniBatch); room != 0 {
		t.Errorf("a device that does not encode ahead has room for %d pieces", room)
	}
}
