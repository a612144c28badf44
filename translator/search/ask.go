package search

import "slices"

// A mode is the way in which a sentence's next tokens are found.
type mode uint8

const (
	modeForced mode = iota // the prefix says
	modeBest               // Stepper.Best: greedy without scores
	modeTop                // Stepper.Top: beams and top-k sampling of one model
	modeJoint              // Joint.Choose: ensembles, and sampling and noise that look at all candidates
	modeFull               // Stepper.LogProbs: the same where there is no Joint
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

// ask puts one question for all rows in each of the modes that allow it. Where a Joint is asked, it is asked about all, so that it can be told
// how all of them go on.
func (d *Decoder) ask() {
	d.best.reset()
	d.top.reset()
	d.joined.reset()
	d.bans, d.lots = d.bans[:0], d.lots[:0]
	together := d.chooseModes()
	for _, b := range d.active {
		if len(b.live) > 0 {
			d.addRows(b, together)
		}
	}
	d.askForGiven()
	switch {
	case len(d.rowSlots) == 0:
	case together == &d.joined:
		d.foresee(d.joint, 1) // sums have their weights already
	case together == &d.top && d.foreseer != nil:
		d.foresee(d.foreseer, d.weights[0])
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
	d.readGiven()
}

// chooseModes gives each sentence its mode. It returns the question that is to be for all of them: that for the Joint, or that for a single
// Stepper; nil if there is none, since somebody looks at all log-probabilities.
func (d *Decoder) chooseModes() (together *question) {
	d.topK, d.joinedK = 0, 0
	single, full := d.alone(), false
	for _, b := range d.active {
		if len(b.live) == 0 {
			continue
		}
		b.mode = d.modeOf(b)
		wanted := 0
		switch b.mode {
		case modeBest:
			wanted = 1
		case modeTop:
			wanted = d.topWanted(b)
			d.topK = max(d.topK, wanted)
		case modeJoint:
			wanted, single = d.jointlyWanted(b), false
		case modeFull:
			full = true
		}
		d.joinedK = max(d.joinedK, wanted)
	}
	switch {
	case full:
		return nil
	case single:
		return &d.top
	case d.joint != nil:
		return &d.joined
	}
	return nil
}

// alone says whether there is one model, whose best tokens are those of the search.
func (d *Decoder) alone() bool { return len(d.steppers) == 1 && d.weights[0] > 0 }

// foresee tells a Stepper, or the Joint, what extend is going to do.
func (d *Decoder) foresee(foreseer Foreseer, weight float32) {
	f := &d.foresight
	*f = Foresight{weight, f.Prospects[:0], f.Ranks[:0], f.Chances[:0]}
	for _, b := range d.active {
		if len(b.live) == 0 {
			continue
		}
		p := Prospect{Rows: len(b.live), Ends: b.length+1 >= b.limit, Width: b.width(), Given: NoToken}
		draws, prospects := b.mode == modeTop && b.options.Sampling.independent(), 1
		switch {
		case b.mode == modeForced:
			p.Given = b.sentence.Prefix[b.length]
		case draws:
			p.Kept, p.InverseTemperature = d.topWanted(b), b.options.Sampling.inverseTemperature()
		case b.options.Sampling.independent(): // the answer is what was drawn
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
	switch {
	case b.forced():
		return modeForced
	case d.alone() && !b.options.scored():
		return modeBest
	case d.alone() && (method == NoSampling || method == TopK):
		return modeTop
	case d.joint != nil:
		return modeJoint
	}
	return modeFull
}

// jointlyWanted is the number of answers a row that the sentence needs of the Joint, which draws samples by itself.
func (d *Decoder) jointlyWanted(b *beam) int {
	if b.options.Sampling.independent() {
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

// addRows adds those of a sentence to a question, if its mode has one. If there is to be one question for all, who wants the best token alone is
// content with the first of several.
func (d *Decoder) addRows(b *beam, together *question) {
	switch {
	case b.mode == modeForced, b.mode == modeFull:
		return
	case together == &d.joined:
		b.question, b.answers = &d.joined, d.joinedK
		d.addLots(b)
	case b.mode == modeTop, d.topK > 0 && together == &d.top && d.foreseer != nil:
		b.question, b.answers = &d.top, d.topK
	default:
		b.question, b.answers = &d.best, 1
	}
	b.answer = len(b.question.rows) * b.answers
	for i := range b.live {
		b.question.add(b.firstRow+i, d.banned(b, i))
	}
}

// addLots says how the Joint is to choose for the rows of a sentence.
func (d *Decoder) addLots(b *beam) {
	for i, h := range b.live {
		s := &b.options.Sampling
		lot := Lot{Alone: b.mode != modeJoint}
		switch {
		case lot.Alone || s.Method == NoSampling:
		case s.Method == Gumbel:
			lot.Method, lot.InverseTemperature, lot.Key = s.Method, s.inverseTemperature(), stepKey(b.key, b.length, i)
		default:
			lot.Method, lot.Limit, lot.K = s.Method, s.limit(), d.topWanted(b)
			lot.InverseTemperature, lot.Chance = s.inverseTemperature(), b.chance(h.number)
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
