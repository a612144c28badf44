package search

import "slices"

// A beam is the search for one sentence.
type beam struct {
	sentence  *Sentence
	options   *Options
	models    int // of the ensemble
	trellis   trellis
	mode      mode
	question  *question // where the mode asks all rows at once,
	answers   int       // how many there are for each row,
	answer    int       // and the index of row live[0]'s first one
	given     int       // index of the token that a prefix gives row live[0], among those that are asked about
	key       uint64    // of the sentence's random numbers
	limit     int       // largest length
	length    int       // tokens of every live hypothesis
	live      []hypothesis
	moved     []hypothesis // the next live
	spare     []Slot       // slots of this sentence without a hypothesis, until the beam has been filled
	final     []final
	firstRow  int // row of live[0] in the current step
	nonFinite bool
	fanned    bool // whether live holds all hypotheses it is going to hold
}

// A hypothesis is an unfinished one.
type hypothesis struct {
	slot      Slot
	node      int32 // its last token; -1 at the start
	attention int32 // row of weights of the current step; -1 without
	number    int   // of an independent sample
}

// A final is an ended hypothesis.
type final struct {
	node     int32
	length   int
	number   int     // of an independent sample
	score    float32 // normalised, as given to the caller
	rank     float32 // normalised, what the list is sorted by
	finished bool
}

// An expansion is a way to go on from live hypothesis row. Its log-probabilities stand in Decoder.logProbs.
type expansion struct {
	row      int
	token    Token
	score    float32 // weighted log-probability of the token, then of the hypothesis with it
	rank     float32 // the same with noise
	logProbs int     // index of model 0's
}

func (b *beam) start(s *Sentence, models int) {
	b.sentence, b.options, b.models = s, &s.Options, models
	if !b.options.scored() {
		models = 0
	}
	b.trellis.reset(models, max(len(s.Source.Tokens), 1))
	b.key = sentenceKey(b.options.Seed, s.Seed)
	b.limit = b.options.lengthCap(len(s.Source.Tokens), len(s.Prefix))
	b.length, b.nonFinite, b.fanned = 0, false, false
	b.live, b.spare, b.final = b.live[:0], b.spare[:0], b.final[:0]
}

// seed makes the first hypothesis, or all independent samples, out of spare slots.
func (b *beam) seed() {
	count := 1
	if b.options.Sampling.independent() {
		count = len(b.spare)
		b.fanned = true
	}
	for i, slot := range b.spare[:count] {
		b.live = append(b.live, hypothesis{slot: slot, node: -1, attention: -1, number: i})
	}
	b.spare = append(b.spare[:0], b.spare[count:]...)
}

// forced says whether the next token is given.
func (b *beam) forced() bool { return b.length < len(b.sentence.Prefix) }

// width is the number of hypotheses that the next step keeps, ended ones included.
func (b *beam) width() int {
	if b.fanned {
		return len(b.live)
	}
	return b.options.Beam
}

// fail ends the search without a translation.
func (b *beam) fail() {
	b.nonFinite = true
	for _, h := range b.live {
		b.spare = append(b.spare, h.slot)
	}
	b.live = b.live[:0]
}

// strand ends the search because no hypothesis can go on: none of the tokens that the model may generate is allowed.
func (b *beam) strand() {
	if b.length == 0 {
		b.fail()
		return
	}
	for _, h := range b.live {
		b.finish(h.node, h.number, false)
		b.spare = append(b.spare, h.slot)
	}
	b.live = b.live[:0]
}

// place makes the expansions the sentence's hypotheses: ended ones become final, the others stay live, as far as possible in
// the slots of the hypotheses they go on from. Slots that become free are returned to the Decoder.
func (d *Decoder) place(b *beam, chosen []expansion) {
	b.length++
	b.moved = b.moved[:0]
	for _, e := range chosen {
		parent := b.live[e.row]
		var logProbs []float32
		if b.trellis.models > 0 {
			logProbs = d.logProbs[e.logProbs : e.logProbs+b.trellis.models]
		}
		id := b.trellis.add(node{token: e.token, parent: parent.node, attention: parent.attention, score: e.score, rank: e.rank}, logProbs)
		finished := e.token == d.end
		if finished || b.length >= b.limit {
			b.finish(id, parent.number, finished)
			continue
		}
		b.moved = append(b.moved, hypothesis{slot: parent.slot, node: id, attention: -1, number: parent.number})
	}
	if b.decided() {
		b.moved = b.moved[:0]
	}
	d.assignSlots(b)
}

// decided says whether the search may end because all open hypotheses, which are in moved, are far below the best that has ended.
func (b *beam) decided() bool {
	o := b.options
	if o.StopBelow == 0 || b.trellis.models == 0 || len(b.moved) == 0 || len(b.final) == 0 || o.Sampling.independent() {
		return false
	}
	best := negativeInfinity
	for _, f := range b.final {
		best = max(best, f.rank)
	}
	enough := float32(best*o.divisor(b.length)) - o.StopBelow
	for _, h := range b.moved {
		if !(o.penalised(b.trellis.rank(h.node), b.length) < enough) {
			return false
		}
	}
	return true
}

// finish ends a hypothesis.
func (b *beam) finish(id int32, number int, finished bool) {
	f := final{node: id, length: b.length, number: number, finished: finished}
	if b.trellis.models > 0 {
		f.score = b.options.total(b.trellis.score(id), b.length)
		f.rank = b.options.total(b.trellis.rank(id), b.length)
	}
	b.final = append(b.final, f)
}

// assignSlots gives each hypothesis in moved, which names the slot of its parent, a slot of its own and makes moved live. The
// first child of a parent stays where it is, the others copy from there.
func (d *Decoder) assignSlots(b *beam) {
	for i := range b.live {
		slot := b.live[i].slot
		if !slices.ContainsFunc(b.moved, func(h hypothesis) bool { return h.slot == slot }) {
			b.spare = append(b.spare, slot)
		}
	}
	for i := range b.moved {
		parent := b.moved[i].slot
		if !slices.ContainsFunc(b.moved[:i], func(h hypothesis) bool { return h.slot == parent }) {
			continue
		}
		slot := b.spare[len(b.spare)-1]
		b.spare = b.spare[:len(b.spare)-1]
		d.dst, d.src = append(d.dst, slot), append(d.src, parent)
		b.moved[i].slot = slot
	}
	b.live, b.moved = b.moved, b.live
	if b.fanned {
		d.free = append(d.free, b.spare...)
		b.spare = b.spare[:0]
	}
}

// result sorts the final hypotheses and builds what the caller gets.
func (b *beam) result(found *found, end Token) Result {
	result := Result{Sentence: b.sentence}
	switch {
	case b.nonFinite:
		result.Flags = NonFinite
		return result
	case b.sentence.empty():
		result.Hypotheses = found.emptyTranslations(b.options, b.models, end)
		return result
	}
	if b.options.Sampling.independent() {
		slices.SortStableFunc(b.final, func(x, y final) int { return x.number - y.number })
	} else {
		slices.SortStableFunc(b.final, byRank)
	}
	n := min(len(b.final), b.options.hypotheses())
	result.Hypotheses = found.list(n)
	for i, f := range b.final[:n] {
		h := b.trellis.hypothesis(f.node, f.length, b.options, found)
		h.Score, h.Finished = f.score, f.finished
		result.Hypotheses[i] = h
	}
	result.Flags = b.flags(&result.Hypotheses[0])
	return result
}

// byRank sorts higher ranks first.
func byRank(x, y final) int {
	switch {
	case x.rank > y.rank:
		return -1
	case x.rank < y.rank:
		return 1
	}
	return 0
}

func (b *beam) flags(best *Hypothesis) Flags {
	var flags Flags
	tokens := best.Tokens
	if best.Finished {
		tokens = tokens[:len(tokens)-1]
	} else {
		flags |= Unfinished
	}
	source := b.sentence.Source.Tokens
	if Repeats(tokens) && !Repeats(source[:len(source)-1]) {
		flags |= Repetition
	}
	return flags
}

// emptyTranslations answers an empty source as Marian does: with nothing but ends of sentence, all certain, so that only the
// word penalty is left of the score.
func (f *found) emptyTranslations(options *Options, models int, end Token) []Hypothesis {
	hypotheses := f.list(min(options.hypotheses(), options.slots()))
	for i := range hypotheses {
		h := Hypothesis{Tokens: f.tokens(1), Finished: true}
		h.Tokens[0] = end
		if options.scored() {
			h.ModelScores = f.modelScores(models)
			h.Score = options.total(0, 1)
		}
		if options.WordScores {
			h.WordScores = []float32{0}
		}
		if options.Align {
			h.Alignment = [][]float32{{1}}
		}
		hypotheses[i] = h
	}
	return hypotheses
}
