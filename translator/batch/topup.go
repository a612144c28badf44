package batch

import "fmt"

// A TopUp is the queue between encoder and decoder: encoded sentences wait in it until enough slots of the decoder are free.
// It decides when the slots are filled again. Refilling every slot as it becomes free would mix few new sentences with many
// old ones at every step; waiting until a share of the slots is free lets them start together (Hoang et al., "Improving
// machine translation efficiency", refill a batch when it is half empty).
type TopUp[T any] struct {
	slots     int
	threshold int
	waiting   []waiting[T] // from head on
	head      int
	needed    int // slots that the waiting need together
	encoded   int // source pieces of the sentences that are encoded and not done
}

type waiting[T any] struct {
	item  T
	slots int
}

// ProcessorTopUp is the share of free slots at which those of a processor are best filled again.
const ProcessorTopUp = 0.5

// NewTopUp returns an empty queue for a decoder with that many slots. They are filled again when the given share of them is
// free; 0 means always, 1 means only when the decoder is empty.
func NewTopUp[T any](slots int, share float64) (*TopUp[T], error) {
	if slots < 1 {
		return nil, fmt.Errorf("%w: a decoder of %d slots, but it must have at least 1", ErrConfig, slots)
	}
	if !(share >= 0 && share <= 1) {
		return nil, fmt.Errorf("%w: the decoder is refilled when a share of %v is free, but it must be from 0 to 1", ErrConfig, share)
	}
	return &TopUp[T]{slots: slots, threshold: max(int(share*float64(slots)), 1)}, nil
}

// Len is the number of sentences that wait.
func (q *TopUp[T]) Len() int { return len(q.waiting) - q.head }

// Push puts an encoded sentence, which needs that many slots and came from that many source pieces, at the end of the queue.
func (q *TopUp[T]) Push(item T, slots, pieces int) {
	if len(q.waiting) == cap(q.waiting) && 2*q.head >= len(q.waiting) {
		n := copy(q.waiting, q.waiting[q.head:])
		clear(q.waiting[n:])
		q.waiting, q.head = q.waiting[:n], 0
	}
	q.waiting = append(q.waiting, waiting[T]{item, slots})
	q.needed += slots
	q.encoded += pieces
}

// Done says that a sentence that came from that many source pieces has left the decoder, or the queue, for good.
func (q *TopUp[T]) Done(pieces int) { q.encoded -= pieces }

// Encoded is how many source pieces the sentences have that are encoded and not done.
func (q *TopUp[T]) Encoded() int { return q.encoded }

// RoomAhead is for how many source pieces a device should encode the next mini-batch beside its steps, before slots wait for it; 0 if it should not. It
// should if less waits than all slots could take, since sentences of a mini-batch are of like length and many may end at once, and if there is memory for
// a mini-batch beside what is encoded and not done. memory and miniBatch are in source pieces.
func (q *TopUp[T]) RoomAhead(memory, miniBatch int) int {
	room := memory - q.encoded
	if room < miniBatch || !q.Hungry(q.slots) {
		return 0
	}
	return room
}

// Due reports whether, with that many slots free, it is time to fill them.
func (q *TopUp[T]) Due(free int) bool {
	return free >= q.threshold || free == q.slots
}

// Hungry reports whether the queue cannot fill that many free slots, so that more sentences should be encoded.
func (q *TopUp[T]) Hungry(free int) bool { return q.needed < free }

// Next removes the first waiting sentence, if its slots are among the free ones.
func (q *TopUp[T]) Next(free int) (item T, ok bool) {
	if q.Len() == 0 || q.waiting[q.head].slots > free {
		return item, false
	}
	first := q.waiting[q.head]
	q.waiting[q.head] = waiting[T]{}
	q.head++
	q.needed -= first.slots
	if q.head == len(q.waiting) {
		q.waiting, q.head = q.waiting[:0], 0
	}
	return first.item, true
}
