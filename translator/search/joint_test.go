package search

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// A fakeJoiner is a fakeStepper with a Joint, and a Picker.
type fakeJoiner struct {
	*fakeStepper
	joint     *fakeJoint
	questions [][]float32 // that are open, with their answers
	picked    int         // log-probabilities
}

func (f *fakeJoiner) AskLogProbs(starts []int32, tokens []Token) {
	if len(f.questions) == 2 || len(starts) != len(f.rows)+1 || int(starts[len(f.rows)]) != len(tokens) {
		panic("too many questions are open, or one that does not fit the rows")
	}
	var answer []float32
	for row := range f.rows {
		source, _ := f.row(int32(row))
		for _, token := range tokens[starts[row]:starts[row+1]] {
			answer = append(answer, f.LogProbs(int32(row))[candidateIndex(source.Candidates, token)])
		}
	}
	f.questions = append(f.questions, answer)
	f.picked += len(answer)
}

func (f *fakeJoiner) AnswerLogProbs(out []float32) {
	if copy(out, f.questions[0]) != len(f.questions[0]) {
		panic("an answer does not fit the question")
	}
	f.questions = f.questions[1:]
}

func (f *fakeJoiner) Join(others []Stepper, weights []float32) Joint {
	f.joint = &fakeJoint{steppers: []*fakeStepper{f.fakeStepper}, weights: weights}
	for _, other := range others {
		f.joint.steppers = append(f.joint.steppers, other.(*fakeJoiner).fakeStepper)
	}
	return f.joint
}

// A fakeJoint chooses as a Decoder does that looks at all scores, and checks what it was told before.
type fakeJoint struct {
	steppers  []*fakeStepper
	weights   []float32
	foresight *Foresight
	asked     int // rows
	foreseen  int // rows of questions of which the answers' use was told
	wrong     []any
}

func (f *fakeJoint) Foresee(foresight Foresight) {
	f.foresight = &foresight
}

func (f *fakeJoint) Choose(rows []int32, k int, banned [][]Token, lots []Lot, out []Scored, parts []float32) {
	if len(lots) != len(rows) || len(out) != len(rows)*k || len(parts) != len(out)*len(f.steppers) || banned != nil && len(banned) != len(rows) {
		panic("lots, answers, parts or bans do not fit the rows")
	}
	f.asked += len(rows)
	for i, row := range rows {
		var own []Token
		if banned != nil {
			own = banned[i]
		}
		f.choose(row, own, &lots[i], out[i*k:(i+1)*k], parts[i*k*len(f.steppers):(i+1)*k*len(f.steppers)])
	}
	if f.foresight != nil {
		f.check(rows, k, lots)
	}
	f.foresight = nil
}

func (f *fakeJoint) choose(row int32, banned []Token, lot *Lot, out []Scored, parts []float32) {
	if lot.Alone {
		f.steppers[0].Top([]int32{row}, len(out), [][]Token{banned}, out)
		return
	}
	source, _ := f.steppers[0].row(row)
	s := scores{candidates: source.Candidates}
	for m, stepper := range f.steppers {
		s.models = append(s.models, stepper.LogProbs(row))
		if m == 0 {
			s.sum = make([]float32, len(s.models[0]))
		}
		if !addWeighted(s.sum, s.models[m], f.weights[m]) {
			for i := range out {
				out[i] = Scored{NoToken, float32(math.NaN())}
			}
			return
		}
	}
	for _, token := range banned {
		if index := candidateIndex(s.candidates, token); index >= 0 {
			s.sum[index] = negativeInfinity
		}
	}
	for i := range out {
		out[i] = Scored{NoToken, negativeInfinity}
	}
	for i, index := range f.picked(&s, lot, len(out)) {
		if out[i] = (Scored{s.token(index), s.sum[index]}); lot.Method == Gumbel {
			out[i].Score = s.noisy[index] - float32(logSumExp(s.noisy))
		}
		copy(parts[i*len(f.steppers):], s.appendModels(nil, index))
	}
}

// picked are the best candidates, or the one that a row draws.
func (f *fakeJoint) picked(s *scores, lot *Lot, k int) []int32 {
	switch lot.Method {
	case NoSampling:
		return largest(nil, s.sum, k)
	case Gumbel:
		s.addNoise(lot.Key, lot.InverseTemperature)
		return largest(nil, s.noisy, k)
	}
	picked := s.support(nil, &Sampling{Method: lot.Method, K: lot.K, P: lot.Limit, Epsilon: lot.Limit})
	if len(picked) == 0 {
		return nil
	}
	highest := negativeInfinity
	for _, index := range picked {
		highest = max(highest, s.sum[index])
	}
	var all []float64
	for _, index := range picked {
		all = append(all, odds(float64(s.sum[index]-highest)*lot.InverseTemperature))
	}
	return []int32{picked[draw(all, lot.Chance)]}
}

// check notes what does not fit of what was told: it must be about all rows of the step, and about those that draw as about rows alone.
func (f *fakeJoint) check(rows []int32, k int, lots []Lot) {
	all := len(f.steppers[0].rows)
	told, draws, asked := 0, 0, 0
	for _, p := range f.foresight.Prospects {
		for range p.Rows {
			if p.Given != NoToken {
				continue
			}
			if int(rows[asked]) != told {
				f.wrong = append(f.wrong, *f.foresight)
			}
			if method := lots[asked].Method; method != NoSampling && method != Gumbel && (p.Rows != 1 || p.Width != 1 || p.Kept != 0) || p.Kept > k {
				f.wrong = append(f.wrong, p)
			}
			asked, told = asked+1, told+1
		}
		if p.Given != NoToken {
			told += p.Rows
		}
		if p.Kept > 0 {
			draws += p.Rows
		}
	}
	if told != all || asked != len(rows) || len(f.foresight.Ranks) != all || len(f.foresight.Chances) != draws || f.foresight.Weight != 1 {
		f.wrong = append(f.wrong, *f.foresight)
	}
	f.foreseen += len(rows)
}

// anySampling is any method with a number that suits it.
func anySampling(t *rapid.T) Sampling {
	return rapid.SampledFrom([]Sampling{{}, {}, {Method: Full}, {Method: Full, Temperature: 0.5}, {Method: TopK, K: 3, Temperature: 2},
		{Method: TopK, K: 100}, {Method: Nucleus, P: 0.7}, {Method: Nucleus, P: 0.9, Temperature: 0.7}, {Method: Epsilon, Epsilon: 0.05},
		{Method: Gumbel}, {Method: Gumbel, Temperature: 2}}).Draw(t, "sampling")
}

// A Joint gives what looking at all log-probabilities gives, for ensembles and single models, whatever is mixed in a step, and so do Pickers for
// prefixes. It is always told how searches go on.
func TestJoint(t *testing.T) {
	asked, foreseen, picked := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTrial(t)
		for _, s := range tr.sentences {
			s.Options.Sampling = anySampling(t)
		}
		want := tr.decode(t, tr.sentences, 64, 3, 1)
		var joiners []*fakeJoiner
		tr.wrap = func(f *fakeStepper) Stepper {
			joiners = append(joiners, &fakeJoiner{fakeStepper: f})
			return joiners[len(joiners)-1]
		}
		have := tr.decode(t, tr.sentences, 64, 3, 1)
		for i, s := range tr.sentences {
			have, want := have[s], want[s]
			if have.Flags != want.Flags || !reflect.DeepEqual(have.Hypotheses, want.Hypotheses) {
				t.Fatalf("sentence %d, %+v: %+v, want %+v", i, s.Options, have, want)
			}
		}
		joint := joiners[0].joint
		if len(joint.wrong) > 0 {
			t.Fatalf("wrong foresight: %+v", joint.wrong[0])
		}
		asked, foreseen = asked+joint.asked, foreseen+joint.foreseen
		for _, j := range joiners {
			picked += j.picked
			if len(j.questions) > 0 {
				t.Fatalf("%d questions are still open", len(j.questions))
			}
		}
	})
	if asked == 0 || foreseen != asked {
		t.Errorf("%d rows were asked for, of %d it was told how they go on: want some, and all", asked, foreseen)
	}
	if picked == 0 {
		t.Error("no prefix was asked about")
	}
}

// Who has a Joint and Pickers never asks for all log-probabilities of a model.
func TestJointLooksAtNothing(t *testing.T) {
	for _, test := range []struct {
		sampling Sampling
		models   int
		beam     int
	}{
		{Sampling{}, 2, 2}, {Sampling{}, 2, 80}, {Sampling{Method: Full}, 1, 2}, {Sampling{Method: TopK, K: 3}, 2, 2}, {Sampling{Method: TopK, K: 80}, 2, 2},
		{Sampling{Method: Nucleus, P: 0.5}, 2, 2}, {Sampling{Method: Epsilon, Epsilon: 0.1}, 1, 2}, {Sampling{Method: Gumbel}, 1, 2},
	} {
		var steppers []Stepper
		var joiners []*fakeJoiner
		looked := 0
		for range test.models {
			model := &fakeModel{seed: 3, vocabulary: 100}
			joiners = append(joiners, &fakeJoiner{fakeStepper: newFakeStepper(model, 200)})
			steppers = append(steppers, &lookedAt{joiners[len(joiners)-1], &looked})
		}
		d, err := NewDecoder(steppers, nil, end)
		if err != nil {
			t.Fatal(err)
		}
		source := Source{Tokens: []Token{2, 3, end}}
		s := &Sentence{Source: source, Options: Options{Beam: test.beam, NBest: 2, MaxLengthFactor: 2, Sampling: test.sampling}}
		forced := &Sentence{Source: source, Prefix: []Token{5, 7}, Options: s.Options}
		d.Encode([]*Sentence{s, forced})
		d.Start(s)
		d.Start(forced)
		for done := 0; done < 2; done += len(d.Step()) {
		}
		if looked > 0 {
			t.Errorf("%+v, %d models: %d rows of log-probabilities were asked for, want none", test.sampling, test.models, looked)
		}
		for i, j := range joiners {
			if i == 0 && j.joint.asked == 0 || j.picked == 0 {
				t.Errorf("%+v, model %d of %d: nothing was asked of the Joint, or of the Picker, want something", test.sampling, i, test.models)
			}
		}
	}
}

// The next step may begin at once where the tokens of all rows are given: nothing else is waited for to tell it.
func TestGivenTokensAreForeseen(t *testing.T) {
	for _, models := range []int{1, 2} {
		var steppers []Stepper
		var joiners []*fakeJoiner
		for range models {
			joiners = append(joiners, &fakeJoiner{fakeStepper: newFakeStepper(&fakeModel{seed: 3, vocabulary: 100}, 8)})
			steppers = append(steppers, joiners[len(joiners)-1])
		}
		told := &foreseeing{fakeJoiner: joiners[0]}
		steppers[0] = told
		d, err := NewDecoder(steppers, nil, end)
		if err != nil {
			t.Fatal(err)
		}
		s := &Sentence{Source: Source{Tokens: []Token{2, 3, end}}, Prefix: []Token{5, 7}, Options: Options{Beam: 2, NBest: 2, MaxLengthFactor: 2}}
		d.Encode([]*Sentence{s})
		d.Start(s)
		for step, want := range s.Prefix {
			d.Step()
			f := told.foresight
			if models > 1 {
				f = *joiners[0].joint.foresight
			}
			if len(f.Prospects) != 1 || f.Prospects[0].Given != want {
				t.Errorf("%d models, step %d: it is told %+v, want the token %d", models, step, f, want)
			}
		}
	}
}

// foreseeing keeps what is foreseen.
type foreseeing struct {
	*fakeJoiner
	foresight Foresight
}

func (f *foreseeing) Foresee(foresight Foresight) { f.foresight = foresight }

// lookedAt counts how often somebody wants all log-probabilities of a row.
type lookedAt struct {
	*fakeJoiner
	count *int
}

func (l *lookedAt) Join(others []Stepper, weights []float32) Joint {
	var joiners []Stepper
	for _, other := range others {
		joiners = append(joiners, other.(*lookedAt).fakeJoiner)
	}
	return l.fakeJoiner.Join(joiners, weights)
}

func (l *lookedAt) LogProbs(row int32) []float32 {
	*l.count++
	return l.fakeJoiner.LogProbs(row)
}
