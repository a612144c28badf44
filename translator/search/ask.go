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
	d.bans = d.bans[:0]
	foreseen := d.chooseModes()
	for _, b := range d.active {
		if len(b.live) > 0 {
			d.addRows(b, foreseen && d.topK > 0)
		}
	}
	if foreseen && len(d.best.rows)+len(d.top.rows) > 0 {
		d.foresee()
	}
	if len(d.best.rows) > 0 {
		banned := d.best.prepare(1)
		d.steppers[0].Best(d.best.rows, banned, d.best.answers)
	}
	if len(d.top.rows) > 0 {
		banned := d.top.prepare(d.topK)
		d.steppers[0].Top(d.top.rows, d.topK, banned, d.top.answers)
	}
}

// chooseModes gives each sentence its mode. It says whether a Stepper that goes ahead can be told how all of them go on.
func (d *Decoder) chooseModes() bool {
	d.topK = 0
	foreseen := d.foreseer != nil
	for _, b := range d.active {
		if len(b.live) == 0 {
			continue
		}
		b.mode = d.modeOf(b)
		foreseen = foreseen && b.mode != modeFull
		if b.mode == modeTop {
			d.topK = max(d.topK, d.topWanted(b))
		}
	}
	return foreseen
}

// foresee tells the Stepper what extend is going to do.
func (d *Decoder) foresee() {
	f := &d.foresight
	*f = Foresight{d.weights[0], f.Prospects[:0], f.Ranks[:0], f.Chances[:0]}
	for _, b := range d.active {
		if len(b.live) == 0 {
			continue
		}
		p := Prospect{Rows: len(b.live), Ends: b.length+1 >= b.limit, Width: b.width(), Given: NoToken}
		draws := b.mode == modeTop && b.options.Sampling.independent()
		switch {
		case b.mode == modeForced:
			p.Given = b.sentence.Prefix[b.length]
		case draws:
			p.Kept, p.InverseTemperature = d.topWanted(b), b.options.Sampling.inverseTemperature()
		}
		f.Prospects = append(f.Prospects, p)
		for _, h := range b.live {
			f.Ranks = append(f.Ranks, b.trellis.rank(h.node))
			if draws {
				f.Chances = append(f.Chances, b.chance(h.number))
			}
		}
	}
	d.foreseer.Foresee(*f)
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

// addRows adds those of a sentence to a question, if its mode has one. If there is to be one question, who wants the best token alone is
// content with the first of several.
func (d *Decoder) addRows(b *beam, one bool) {
	switch {
	case b.mode == modeTop, b.mode == modeBest && one:
		b.question, b.answers = &d.top, d.topK
	case b.mode == modeBest:
		b.question, b.answers = &d.best, 1
	default:
		return
	}
	b.answer = len(b.question.rows) * b.answers
	for i := range b.live {
		b.question.add(b.firstRow+i, d.banned(b, i))
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
