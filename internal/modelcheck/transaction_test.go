package modelcheck

import (
	"fmt"
	"strings"
	"testing"
)

// The protocol from topic to topic, for one partition. Two workers both believe to have it, now or later: the group that
// divides the partitions is not trusted at all. They may crash, or wait for an answer that never comes, between any two steps;
// a batch may arrive late; the broker may give up a transaction; and it makes the outcome of a transaction visible some time
// after it has said that it is decided.
//
//	init     InitProducerID: takes the transactional id over. What another has open is aborted, what is decided is completed
//	fetch    OffsetFetch: where the partition continues
//	produce  one or two records into the transaction
//	offset   TxnOffsetCommit: the offset behind them, in the same transaction
//	end      EndTxn(commit)
type transaction struct {
	visible string // what a reader of committed records sees
	offset  int8   // what the group has stored

	// Of a transactional id; the second is used by a broken variant only.
	pending [2]string
	next    [2]int8 // offset in the transaction, -1 for none
	open    [2]bool
	decided [2]bool // to be committed, and not visible yet

	workers  [2]transactor
	late     packet // a batch on its way that nobody waits for any more
	troubles int8   // that may still come
}

type transactor struct {
	phase    byte // of the steps above, what comes next: i, f, p, o, e
	current  bool // its epoch is the present one of the transactional id
	position int8
	count    int8 // records in the transaction
	unknown  bool // whether the batch has arrived
}

type packet struct {
	records string
	current bool // its epoch is the present one
	there   bool
}

const sourceRecords = 4

// A variant is the protocol with one of its rules broken.
type variant struct {
	fetchFirst bool // the offset is fetched before the id is taken over
	endUnsure  bool // the transaction is ended although the batch was not acknowledged
	idOfWorker bool // each worker has a transactional id of its own
	noOffset   bool // the offset is stored outside of the transaction, after it
}

func records(from, count int8) string {
	var b strings.Builder
	for i := range count {
		b.WriteByte(byte('0' + from + i))
	}
	return b.String()
}

func (v variant) initial() transaction {
	s := transaction{next: [2]int8{-1, -1}, troubles: 3}
	for i := range s.workers {
		s.workers[i].phase = v.first()
	}
	return s
}

// first is the phase in which a worker begins.
func (v variant) first() byte {
	if v.fetchFirst {
		return 'f'
	}
	return 'i'
}

func (v variant) id(worker int) int {
	if v.idOfWorker {
		return worker
	}
	return 0
}

// complete makes a decided transaction visible.
func (s *transaction) complete(id int) {
	s.visible += s.pending[id]
	if s.next[id] >= 0 {
		s.offset = s.next[id]
	}
	s.forget(id)
}

func (s *transaction) forget(id int) {
	s.pending[id], s.next[id], s.open[id], s.decided[id] = "", -1, false, false
}

// fence raises the epoch of a transactional id. All that counts of an epoch is whether it is the present one.
func (v variant) fence(s *transaction, id int) {
	for i := range s.workers {
		if v.id(i) == id {
			s.workers[i].current = false
		}
	}
	s.late.current = false
}

func (v variant) next(s transaction) []Step[transaction] {
	var steps []Step[transaction]
	add := func(name string, change func(*transaction)) {
		to := s
		change(&to)
		steps = append(steps, Step[transaction]{name, to})
	}
	for id := range 2 {
		if s.decided[id] {
			add("the broker writes its markers", func(to *transaction) { to.complete(id) })
		}
		if s.open[id] && !s.decided[id] && s.troubles > 0 {
			add("the broker gives the transaction up", func(to *transaction) { to.forget(id); v.fence(to, id); to.troubles-- })
		}
	}
	if s.late.there {
		add("the late batch arrives", func(to *transaction) { to.late = packet{}; to.arriveLate(s.late) })
	}
	for i := range s.workers {
		v.worker(s, i, add)
	}
	return steps
}

// arriveLate is what a broker does with a batch that nobody waits for: it takes it if the epoch is the present one. If its
// transaction has just been decided it becomes part of it, without having been added.
func (s *transaction) arriveLate(p packet) {
	if !p.current {
		return
	}
	if s.open[0] || s.decided[0] {
		s.pending[0] += p.records
		s.open[0] = true
		return
	}
	s.visible += p.records
}

// worker lists what a worker may do, and what may happen to it.
func (v variant) worker(s transaction, i int, add func(string, func(*transaction))) {
	w, id := s.workers[i], v.id(i)
	name := func(step string) string { return fmt.Sprintf("worker %d: %s", i+1, step) }
	step := func(what string, change func(to *transaction, w *transactor)) {
		add(name(what), func(to *transaction) { change(to, &to.workers[i]) })
	}
	restart := func(w *transactor) { *w = transactor{phase: v.first()} }
	if s.troubles > 0 {
		step("crashes", func(to *transaction, w *transactor) { restart(w); to.troubles-- })
	}
	fenced := !w.current
	switch w.phase {
	case 'i':
		step("init", func(to *transaction, w *transactor) {
			if to.decided[id] {
				to.complete(id)
			}
			to.forget(id)
			v.fence(to, id)
			w.current = true
			w.phase = map[bool]byte{false: 'f', true: 'p'}[v.fetchFirst]
		})
	case 'f':
		step("fetch", func(to *transaction, w *transactor) {
			w.position = to.offset
			w.phase = map[bool]byte{false: 'p', true: 'i'}[v.fetchFirst]
		})
	case 'p':
		v.produce(s, w, fenced, id, step)
	case 'o':
		step("offset", func(to *transaction, w *transactor) {
			if fenced {
				restart(w)
				return
			}
			if !v.noOffset {
				to.next[id] = w.position + w.count
			}
			w.phase = 'e'
		})
	case 'e':
		v.end(s, w, fenced, id, step)
	case 'c':
		step("stores the offset", func(to *transaction, w *transactor) { to.offset = w.position; w.phase = 'p' })
	}
}

func (v variant) produce(s transaction, w transactor, fenced bool, id int, step func(string, func(*transaction, *transactor))) {
	if s.decided[id] && !fenced {
		return // CONCURRENT_TRANSACTIONS: tried again until the markers are written
	}
	for count := int8(1); count <= 2 && w.position+count <= sourceRecords; count++ {
		batch := records(w.position, count)
		step(fmt.Sprintf("produce %s", batch), func(to *transaction, w *transactor) {
			if fenced {
				*w = transactor{phase: v.first()}
				return
			}
			to.pending[id] += batch
			to.open[id] = true
			w.count, w.phase = count, 'o'
		})
		if s.troubles == 0 || s.late.there || fenced || v.idOfWorker {
			continue
		}
		step(fmt.Sprintf("produce %s, which is late", batch), func(to *transaction, w *transactor) {
			to.late = packet{batch, true, true}
			to.troubles--
			to.open[id] = true // AddPartitionsToTxn has come through
			if v.endUnsure {
				w.count, w.phase, w.unknown = count, 'o', true
				return
			}
			*w = transactor{phase: v.first()} // the outcome is not known: init, and ask
		})
	}
}

func (v variant) end(s transaction, w transactor, fenced bool, id int, step func(string, func(*transaction, *transactor))) {
	step("end", func(to *transaction, w *transactor) {
		if fenced {
			*w = transactor{phase: v.first()}
			return
		}
		to.decided[id] = true
		w.position += w.count
		w.count, w.phase = 0, 'p'
		if v.noOffset {
			w.phase = 'c'
		}
	})
	if s.troubles > 0 && !fenced {
		step("end, and no answer comes", func(to *transaction, w *transactor) {
			to.decided[id] = true
			to.troubles--
			*w = transactor{phase: v.first()}
		})
	}
}

func checkTransaction(s transaction) error {
	if want := records(0, int8(len(s.visible))); s.visible != want {
		return fmt.Errorf("a reader sees the records %q", s.visible)
	}
	return nil
}

func doneTransaction(s transaction) bool {
	return s.visible == records(0, sourceRecords) && s.offset == sourceRecords
}

func TestTransactions(t *testing.T) {
	v := variant{}
	states, err := Model[transaction]{Initial: v.initial(), Next: v.next, Check: checkTransaction, Goal: doneTransaction}.Explore(5_000_000)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states", states)
	if states < 1000 {
		t.Error("that is too few to mean anything")
	}
}

// Each rule is needed: without it the check fails.
func TestRulesOfTransactionsAreNeeded(t *testing.T) {
	for name, v := range map[string]variant{
		"fetch before init":                     {fetchFirst: true},
		"end although a batch is not confirmed": {endUnsure: true},
		"a transactional id for each worker":    {idOfWorker: true},
		"the offset outside of the transaction": {noOffset: true},
	} {
		_, err := Model[transaction]{Initial: v.initial(), Next: v.next, Check: checkTransaction}.Explore(5_000_000)
		if err == nil {
			t.Errorf("%s: no violation was found", name)
			continue
		}
		t.Logf("%s: %v", name, err)
	}
}
