package search

import "slices"

// A mode is the way in which a sentence's next tokens are found.
type mode uint8

const (
	modeForced mode = iota // the prefix says
	modeBest               // Stepper.Best: greedy without scores
	modeTop                // Stepper.Top: beams and top-k sampling of one model
	modeJoint              // Joint.Choose: ensembles, and sampling that looks at all candidates
	modeFull               // Stepper.LogProbs: the same where there is no Joint, and what a Joint does not do
)

// A question is put to the Stepper for the rows of many sentences at once.
type question struct {
	rows    []int32
	banned  [][]Token
	banning bool
	answers []Scored
}

func (q *question) reset() {
	clear(q.banned)
	q.rows, q.banned, q.banning = q.rows[:0], q.banned[:0], false
}

func (q *question) add(row int, banned []Token) {
	q.rows = append(q.rows, int32(row))
	q.banned = append(q.banned, banned)
	q.banning = q.banning || len(banned) > 0
}

// prepare makes room for k answers a row and returns what to pass on as banned.
func (q *question) prepare(k int) [][]Token {
	n := len(q.rows) * k
	if cap(q.answers) < n {
		q.answers = make([]Scored, n)
	}
	q.answers = q.answers[:n]
	if q.banning {
		return q.banned
	}
	return nil
}

// ask puts one question for all rows in each of the modes that allow it.
func (d *Decoder) ask() {
	d.best.reset()
	d.top.reset()
	d.joined.reset()
	d.bans, d.lots = d.bans[:0], d.lots[:0]
	single, joint := d.chooseModes()
	for _, b := range d.active {
		if len(b.live) > 0 {
			d.addRows(b, single && d.foreseer != nil && d.topK > 0)
		}
	}
	switch {
	case single && d.foreseer != nil && len(d.best.rows)+len(d.top.rows) > 0:
		d.foresee(d.foreseer, d.weights[0])
	case joint && len(d.joined.rows) > 0:
		d.foresee(d.joint, 1) // sums have their weights already
	}
	if len(d.best.rows) > 0 {
		banned := d.best.prepare(1)
		d.steppers[0].Best(d.best.rows, banned, d.best.answers)
	}
	if len(d.top.rows) > 0 {
		banned := d.top.prepare(d.topK)
		d.steppers[0].Top(d.top.rows, d.topK, banned, d.top.answers)
	}
	if n := len(d.joined.rows); n > 0 {
		banned := d.joined.prepare(d.joinedK)
		parts := n * d.joinedK * len(d.steppers)
		d.parts = slices.Grow(d.parts[:0], parts)[:parts]
		d.joint.Choose(d.joined.rows, d.joinedK, banned, d.lots, d.joined.answers, d.parts)
	}
}

// chooseModes gives each sentence its mode. It says whether all are for a single Stepper that chooses, and whether all are for the Joint, so that it
// can be told how they go on.
func (d *Decoder) chooseModes() (single, joint bool) {
	d.topK, d.joinedK = 0, 0
	single, joint = true, true
	for _, b := range d.active {
		if len(b.live) == 0 {
			continue
		}
		b.mode = d.modeOf(b)
		switch b.mode {
		case modeTop:
			d.topK = max(d.topK, d.topWanted(b))
		case modeJoint:
			d.joinedK = max(d.joinedK, d.jointlyWanted(b))
		}
		single = single && b.mode != modeFull && b.mode != modeJoint
		joint = joint && (b.mode == modeForced || b.mode == modeJoint)
	}
	return single, joint
}

// foresee tells a Stepper, or the Joint, what extend is going to do.
func (d *Decoder) foresee(foreseer Foreseer, weight float32) {
	f := &d.foresight
	*f = Foresight{weight, f.Prospects[:0], f.Ranks[:0], f.Chances[:0]}
	for _, b := range d.active {
		if len(b.live) == 0 {
			continue
		}
		p := Prospect{Rows: len(b.live), Ends: b.length+1 >= b.limit, Width: b.width(), Given: NoToken}
		draws, prospects := b.mode != modeForced && b.options.Sampling.independent() && !b.options.Sampling.FromAll(), 1
		switch {
		case b.mode == modeForced:
			p.Given = b.sentence.Prefix[b.length]
		case draws:
			p.Kept, p.InverseTemperature = d.topWanted(b), b.options.Sampling.inverseTemperature()
		case b.options.Sampling.FromAll(): // the answer is what was drawn
			p.Rows, p.Width, prospects = 1, 1, len(b.live)
		}
		for range prospects {
			f.Prospects = append(f.Prospects, p)
		}
		for _, h := range b.live {
			f.Ranks = append(f.Ranks, b.trellis.rank(h.node))
			if draws {
				f.Chances = append(f.Chances, b.chance(h.number))
			}
		}
	}
	foreseer.Foresee(*f)
}

func (d *Decoder) modeOf(b *beam) mode {
	method := b.options.Sampling.Method
	single := len(d.steppers) == 1 && d.weights[0] > 0
	switch {
	case b.forced():
		return modeForced
	case single && !b.options.scored():
		return modeBest
	case single && (method == NoSampling || method == TopK):
		return modeTop
	case d.joint != nil && method != Gumbel && d.jointlyWanted(b) <= mostJoint:
		return modeJoint
	}
	return modeFull
}

// mostJoint is how many answers a row a Joint is asked for at most.
const mostJoint = 64

// jointlyWanted is the number of answers a row that the sentence needs of the Joint.
func (d *Decoder) jointlyWanted(b *beam) int {
	if b.options.Sampling.FromAll() {
		return 1
	}
	return d.topWanted(b)
}

// topWanted is the number of answers a row that the sentence needs of Top.
func (d *Decoder) topWanted(b *beam) int {
	if b.options.Sampling.Method == TopK {
		return min(b.options.Sampling.K, d.candidates(b))
	}
	return min(b.width(), d.candidates(b))
}

// candidates is the number of tokens that the sentence chooses from.
func (d *Decoder) candidates(b *beam) int {
	if n := len(b.sentence.Source.Candidates); n > 0 {
		return n
	}
	return d.steppers[0].Vocabulary()
}

// addRows adds those of a sentence to a question, if its mode has one. If there is to be one question, who wants the best token alone is
// content with the first of several.
func (d *Decoder) addRows(b *beam, one bool) {
	switch {
	case b.mode == modeTop, b.mode == modeBest && one:
		b.question, b.answers = &d.top, d.topK
	case b.mode == modeBest:
		b.question, b.answers = &d.best, 1
	case b.mode == modeJoint:
		b.question, b.answers = &d.joined, d.joinedK
		d.addLots(b)
	default:
		return
	}
	b.answer = len(b.question.rows) * b.answers
	for i := range b.live {
		b.question.add(b.firstRow+i, d.banned(b, i))
	}
}

// addLots says how the rows of a sentence draw, if they draw from all candidates.
func (d *Decoder) addLots(b *beam) {
	for _, h := range b.live {
		var lot Lot
		if s := &b.options.Sampling; s.FromAll() {
			lot = Lot{s.Method, s.limit(), s.inverseTemperature(), b.chance(h.number)}
		}
		d.lots = append(d.lots, lot)
	}
}

// banned lists the tokens that hypothesis i must not go on with. The list is valid during the step.
func (d *Decoder) banned(b *beam, i int) []Token {
	n := b.options.NoRepeat
	if n == 0 || b.length < n-1 {
		return nil
	}
	if cap(d.history) < b.length {
		d.history = make([]Token, 2*b.length)
	}
	history := d.history[:b.length]
	b.trellis.tokens(b.live[i].node, history)
	start := len(d.bans)
	d.bans = banned(d.bans, history, n)
	return d.bans[start:len(d.bans):len(d.bans)]
}
