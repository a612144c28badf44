package batch

// A ticket names an item: its place, and its arrival, by which a ticket for an earlier item in the same place is told apart.
type ticket struct {
	place   int32
	arrival int64
}

// A ring is a first-in first-out queue of tickets.
type ring struct {
	tickets []ticket // its length is a power of two, or 0
	head    int
	count   int
}

func (r *ring) push(t ticket) {
	if r.count == len(r.tickets) {
		grown := make([]ticket, max(2*len(r.tickets), 4))
		for i := range r.count {
			grown[i] = r.tickets[(r.head+i)&(len(r.tickets)-1)]
		}
		r.tickets, r.head = grown, 0
	}
	r.tickets[(r.head+r.count)&(len(r.tickets)-1)] = t
	r.count++
}

func (r *ring) first() ticket { return r.tickets[r.head] }

func (r *ring) pop() ticket {
	t := r.tickets[r.head]
	r.head = (r.head + 1) & (len(r.tickets) - 1)
	r.count--
	return t
}
