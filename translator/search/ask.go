package search

// A mode is the way in which a sentence's next tokens are found.
type mode uint8

const (
	modeForced mode = iota // the prefix says
	modeBest               // Stepper.Best: greedy without scores
	modeTop                // Stepper.Top: beams and top-k sampling of one model
	modeFull               // Stepper.LogProbs: ensembles, and sampling that looks at all candidates
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
	d.topK, d.bans = 0, d.bans[:0]
	for _, b := range d.active {
		if len(b.live) == 0 {
			continue
		}
		b.mode = d.modeOf(b)
		switch b.mode {
		case modeBest:
			b.answer = len(d.best.rows)
			d.addRows(b, &d.best)
		case modeTop:
			b.answer = len(d.top.rows)
			d.addRows(b, &d.top)
			d.topK = max(d.topK, d.topWanted(b))
		}
	}
	if len(d.best.rows) > 0 {
		banned := d.best.prepare(1)
		d.steppers[0].Best(d.best.rows, banned, d.best.answers)
	}
	if len(d.top.rows) > 0 {
		banned := d.top.prepare(d.topK)
		if banned == nil && d.foreseer != nil {
			d.foresee()
		}
		d.steppers[0].Top(d.top.rows, d.topK, banned, d.top.answers)
	}
}

// foresee tells the Stepper what extendTop is going to do, unless there are samples to draw.
func (d *Decoder) foresee() {
	d.beams, d.ranks = d.beams[:0], d.ranks[:0]
	for _, b := range d.active {
		if len(b.live) == 0 || b.mode != modeTop {
			continue
		}
		if b.options.Sampling.independent() {
			return
		}
		width := b.width()
		if b.length+1 >= b.limit {
			width = 0
		}
		d.beams = append(d.beams, Beam{Rows: len(b.live), Width: width})
		for _, h := range b.live {
			d.ranks = append(d.ranks, b.trellis.rank(h.node))
		}
	}
	d.foreseer.Foresee(d.beams, d.ranks, d.weights[0])
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
	}
	return modeFull
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

func (d *Decoder) addRows(b *beam, q *question) {
	for i := range b.live {
		q.add(b.firstRow+i, d.banned(b, i))
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
