package gpumodel

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// Ensembles, samples drawn from the whole vocabulary and beams with noise look at the scores of all tokens. They stay on the device: each model's
// Stepper computes its own in its own stream, some rows at a time; then the first one's stream adds up the log-probabilities, and takes the best
// tokens or draws one (gpukernels.Joined). What it has taken or drawn is what the search goes on with: nobody computes it once more. All Steppers
// guess by it how they go on, and run the next step ahead, as each does that is alone.
//
// Searches of a single model that look at its best tokens alone may be beside such. The output layer chooses for them as it does elsewhere, in the
// place where the others' choices are going to be.
//
// Streams wait for each other by events: the first one for all scores of some rows; the others, before they write the scores of more rows, for
// the first to have read those; and before they guess, for what is chosen.

// A joint is the search.Joint of Steppers on one device.
type joint struct {
	steppers []*Stepper
	weights  []float32
	together int // rows whose scores there is room for

	mostChoices                               int // of a row that there is room for
	scores, sums, normalisers, choices, parts buffer
	lists                                     feed
	scored                                    []*cuda.Event // when the scores of a Stepper are there
	taken                                     *cuda.Event   // when scores have been read
	done                                      *cuda.Event   // when chosen and shares have been written
	chosen                                    []gpukernels.Choice
	shares                                    []float32 // parts, as the processor reads them

	// Lists of a call.
	lots, weightBits, setOfRow, starts, forbidden, places []int32
	next                                                  []*turn
}

// jointlyScored is how many rows are looked at together: so many that all of a device has work.
const jointlyScored = 256

// Join returns the Joint of this Stepper and others, which takes the place of the one that there was. It is nil if they are not all on one
// device.
func (s *Stepper) Join(others []search.Stepper, weights []float32) search.Joint {
	j := &joint{steppers: []*Stepper{s}, weights: slices.Clone(weights), together: jointlyScored}
	for _, other := range others {
		o, ok := other.(*Stepper)
		if !ok || o.w.device != s.w.device || o.w.vocabulary != s.w.vocabulary {
			return nil
		}
		j.steppers = append(j.steppers, o)
	}
	if s.w.vocabulary > gpukernels.MostJoined {
		return nil
	}
	if s.joint != nil {
		s.do(s.joint.close)
	}
	s.joint = j
	return j
}

// Foresee says what the search is going to make of the next answers.
func (j *joint) Foresee(f search.Foresight) {
	for _, s := range j.steppers {
		s.Foresee(f)
	}
}

// Choose stores the best tokens of rows of the last Step, or those that are drawn.
func (j *joint) Choose(rows []int32, k int, banned [][]search.Token, lots []search.Lot, out []search.Scored, parts []float32) {
	if len(rows) == 0 || k == 0 {
		return
	}
	first := j.steppers[0]
	if j.failed() == nil {
		first.do(func() error { return j.choose(rows, k, banned, lots) })
	}
	if j.failed() != nil {
		for i := range out[:len(rows)*k] {
			out[i] = search.Scored{Token: first.firstToken(rows[i/k]), Score: nan}
		}
		return
	}
	copy(parts, j.shares[:len(rows)*k*len(j.steppers)])
	for i, c := range j.chosen[:len(rows)*k] {
		out[i] = search.Scored{Token: c.Token, Score: c.Score}
		if lots[i/k].Alone && c.Token >= 0 {
			out[i].Score = parts[i]
		}
		if c.Score != c.Score {
			out[i].Token = first.firstToken(rows[i/k])
		}
	}
}

// failed is the first failure of a Stepper.
func (j *joint) failed() error {
	for _, s := range j.steppers {
		if s.err != nil {
			return s.err
		}
	}
	return nil
}

// choose asks the device for the choices, runs the next step ahead if it is known how the rows go on, and waits for the choices.
func (j *joint) choose(rows []int32, k int, banned [][]search.Token, lots []search.Lot) error {
	if err := j.reserve(k); err != nil {
		return err
	}
	for _, s := range j.steppers {
		s.forgetAhead()
	}
	if err := j.ask(rows, k, banned, lots); err != nil {
		return err
	}
	next, err := j.runAhead(rows, k)
	if err != nil {
		return err
	}
	if err := j.steppers[0].wait(j.done.Synchronize); err != nil {
		return err
	}
	for i, t := range next {
		if t == nil {
			continue
		}
		if err := j.steppers[i].readAhead(t, k); err != nil {
			return err
		}
	}
	return nil
}

// ask lets the device choose, and copy what it has chosen.
func (j *joint) ask(rows []int32, k int, banned [][]search.Token, lots []search.Lot) error {
	lists, err := j.feed(rows, banned, lots)
	if err != nil {
		return err
	}
	s, models := j.steppers[0], len(j.steppers)
	if slices.ContainsFunc(lots, isAlone) {
		if err := j.chooseAlone(rows, k, banned); err != nil {
			return err
		}
	}
	scored := false
	for first, count := 0, 0; first < len(rows); first += count {
		count = j.alike(lots[first:])
		of := gpukernels.Joined{Scores: j.scores.at, Weights: lists[1], Models: models, Rows: count, N: s.w.vocabulary,
			Candidates: s.candidates.at, SetOfRow: cuda.Offset[int32](lists[2], first), Words: s.w.words(),
			ForbiddenStarts: cuda.Offset[int32](lists[3], first), Forbidden: lists[4], Normalisers: j.normalisers.at, Sums: j.sums.at,
			Lots: cuda.Offset[gpukernels.Lot](lists[0], first), Count: k, Result: cuda.Offset[gpukernels.Choice](j.choices.at, first*k),
			Parts: cuda.Offset[float32](j.parts.at, first*k*models)}
		kernels := s.w.device.kernels
		if !lots[first].Alone {
			if err := cmp.Or(j.score(rows[first:first+count], scored), kernels.JoinModels(s.stream, of)); err != nil {
				return err
			}
			scored = true
		}
		if err := cmp.Or(kernels.ChooseJoined(s.stream, of), s.stream.Record(j.taken)); err != nil {
			return err
		}
	}
	return cmp.Or(cuda.CopyOut(s.stream, j.chosen[:len(rows)*k], j.choices.at),
		cuda.CopyOut(s.stream, j.shares[:len(rows)*k*models], j.parts.at), s.stream.Record(j.done))
}

func isAlone(l search.Lot) bool { return l.Alone }

// alike is how many rows from the first on are looked at together: all of them alone, or none.
func (j *joint) alike(lots []search.Lot) int {
	n := 1
	for n < min(len(lots), j.together) && lots[n].Alone == lots[0].Alone {
		n++
	}
	return n
}

// chooseAlone lets the output layer of the only model choose for all rows. Those that are not alone choose once more.
func (j *joint) chooseAlone(rows []int32, k int, banned [][]search.Token) error {
	s := j.steppers[0]
	o, err := s.outputOf(rows, s.withEarly(rows, banned), wish{k, true})
	if err != nil {
		return err
	}
	return s.outputTime.Around(s.stream, func() error { return s.multiplyOut(rows, o, j.choices.at) })
}

// score lets all Steppers compute the scores of rows; again says that the scores of others are still being read.
func (j *joint) score(rows []int32, again bool) error {
	n := j.steppers[0].w.vocabulary
	for i, s := range j.steppers {
		if again {
			if err := s.stream.Wait(j.taken); err != nil {
				return err
			}
		}
		to := cuda.Offset[float32](j.scores.at, i*len(rows)*n)
		for first := 0; first < len(rows); {
			count, at := s.following(rows[first:]), &s.rows[rows[first]]
			if err := s.scoresOf(s.turnMatrix(at.turn, at.place, count), cuda.Offset[float32](to, first*n)); err != nil {
				return err
			}
			first += count
		}
		if err := cmp.Or(s.stream.Record(j.scored[i]), j.steppers[0].stream.Wait(j.scored[i])); err != nil {
			return err
		}
	}
	return nil
}

// runAhead asks all Steppers for the next step of the rows of the last one, of which the given ones have chosen, if it is known how they go on.
func (j *joint) runAhead(rows []int32, k int) ([]*turn, error) {
	j.next = j.next[:0]
	if slices.ContainsFunc(j.steppers, func(s *Stepper) bool { return !s.foresees() }) {
		return nil, nil
	}
	j.places = append(j.places[:0], make([]int32, len(j.steppers[0].rows))...)
	for i, row := range rows {
		j.places[row] = int32(i * k)
	}
	for _, s := range j.steppers {
		if err := s.stream.Wait(j.done); err != nil {
			return nil, err
		}
		t, err := s.runAhead(answers{choices: j.choices.at, places: j.places, count: k}, wish{})
		if err != nil {
			return nil, err
		}
		j.next = append(j.next, t)
	}
	return j.next, nil
}

// feed brings to the device how rows choose: their lots, the weights of all models, the set of each row's candidates, where its list of forbidden
// tokens begins, and the lists.
func (j *joint) feed(rows []int32, banned [][]search.Token, lots []search.Lot) ([]cuda.Pointer, error) {
	s := j.steppers[0]
	j.lots, j.weightBits, j.setOfRow = j.lots[:0], j.weightBits[:0], j.setOfRow[:0]
	j.starts, j.forbidden = append(j.starts[:0], 0), j.forbidden[:0]
	for _, weight := range j.weights {
		j.weightBits = append(j.weightBits, int32(math.Float32bits(weight)))
	}
	for i, row := range rows {
		j.lots = appendLot(j.lots, &lots[i])
		j.setOfRow = append(j.setOfRow, s.setOf(s.rows[row].context))
		for _, model := range j.steppers {
			j.forbidden = append(j.forbidden, model.w.suppressed...)
			if token := model.early(&model.rows[row]); token != search.NoToken {
				j.forbidden = append(j.forbidden, token)
			}
		}
		if banned != nil {
			j.forbidden = append(j.forbidden, banned[i]...)
		}
		j.starts = append(j.starts, int32(len(j.forbidden)))
	}
	return j.lists.put(s.w.device.context, s.stream, j.lots, j.weightBits, j.setOfRow, j.starts, j.forbidden)
}

// lotMethods are what the device calls the methods.
var lotMethods = map[search.Method]gpukernels.LotMethod{search.NoSampling: gpukernels.LotBest, search.Full: gpukernels.LotFull,
	search.Nucleus: gpukernels.LotNucleus, search.Epsilon: gpukernels.LotEpsilon, search.TopK: gpukernels.LotFew, search.Gumbel: gpukernels.LotNoisy}

// appendLot appends a gpukernels.Lot, in numbers of 32 bits.
func appendLot(to []int32, lot *search.Lot) []int32 {
	bits, bits32 := math.Float64bits(lot.Chance), func(x float32) int32 { return int32(math.Float32bits(x)) }
	inverse, method := min(float32(lot.InverseTemperature), math.MaxFloat32), lotMethods[lot.Method]
	if lot.Alone {
		method = gpukernels.LotGiven
	}
	return append(to, int32(bits), int32(bits>>32), int32(lot.Key), int32(lot.Key>>32), bits32(inverse), bits32(lot.Limit), int32(method), int32(lot.K))
}

// jointBytes is what a row that is looked at together with others takes: the scores of each model, and their sums; nothing of one model that does
// not need them.
func (w *Weights) jointBytes(by Sharing) int {
	if by.Models == 1 && !by.Joint {
		return 0
	}
	return 4 * (by.Models + 1) * w.vocabulary
}

// reserve makes room for so many choices of each row. Those that there were are lost.
func (j *joint) reserve(k int) error {
	if k <= j.mostChoices {
		return nil
	}
	s, models := j.steppers[0], len(j.steppers)
	c, rows, together := s.w.device.context, s.turnSize, min(s.turnSize, j.together)
	if err := cmp.Or(j.open(c), j.synchronise(), j.freeChosen(c)); err != nil {
		return err
	}
	scores := 4 * together * s.w.vocabulary
	if err := errors.Join(j.scores.reserve(c, models*scores), j.sums.reserve(c, scores), j.normalisers.reserve(c, 4*together*models),
		j.choices.reserve(c, 8*rows*k), j.parts.reserve(c, 4*rows*k*models)); err != nil {
		return err
	}
	var err error
	if j.chosen, err = cuda.AllocHost[gpukernels.Choice](c, rows*k); err != nil {
		return err
	}
	if j.shares, err = cuda.AllocHost[float32](c, rows*k*models); err != nil {
		return err
	}
	j.mostChoices = k
	return nil
}

// open makes the events, the first time.
func (j *joint) open(c *cuda.Context) (err error) {
	if j.done != nil {
		return nil
	}
	for range j.steppers {
		e, err := c.Event()
		if err != nil {
			return err
		}
		j.scored = append(j.scored, e)
	}
	if j.taken, err = c.Event(); err != nil {
		return err
	}
	j.done, err = c.Event()
	return err
}

// synchronise waits until no Stepper's stream uses what the joint has on the device.
func (j *joint) synchronise() error {
	for _, s := range j.steppers {
		if s.stream == nil { // of a Stepper that is closed
			continue
		}
		if err := s.stream.Synchronize(); err != nil {
			return err
		}
	}
	return nil
}

func (j *joint) freeChosen(c *cuda.Context) error {
	chosen, shares := j.chosen, j.shares
	j.chosen, j.shares = nil, nil
	return errors.Join(freeHost(c, chosen), freeHost(c, shares))
}

// close frees what the joint has on the device.
func (j *joint) close() error {
	c := j.steppers[0].w.device.context
	failed := []error{j.synchronise(), j.lists.close(c), c.Free(j.lists.device.at), j.freeChosen(c)}
	for _, b := range []*buffer{&j.scores, &j.sums, &j.normalisers, &j.choices, &j.parts} {
		failed = append(failed, c.Free(b.at))
		*b = buffer{}
	}
	for _, e := range append(j.scored, j.taken, j.done) {
		if e != nil {
			failed = append(failed, e.Close())
		}
	}
	j.scored, j.taken, j.done, j.lists, j.mostChoices = nil, nil, nil, feed{}, 0
	return errors.Join(failed...)
}
