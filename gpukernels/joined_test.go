//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
)

// A joinedCase is what several models say about rows.
type joinedCase struct {
	rows, n    int
	scores     [][]float32 // of each model, one row after the other
	weights    []float32
	candidates [][]int32 // of each row; nil: all
	forbidden  [][]int32
	lots       []Lot
	count      int
	given      []Choice // of all rows, where some are given
}

func (r *rig) joinedCase(rows, n, models, count int) *joinedCase {
	c := &joinedCase{rows: rows, n: n, count: count, candidates: make([][]int32, rows), forbidden: make([][]int32, rows), lots: make([]Lot, rows)}
	for range models {
		c.scores, c.weights = append(c.scores, r.floats(rows*n, 3)), append(c.weights, 2*r.random.Float32()-0.5)
	}
	c.weights[0] = 1
	return c
}

// run returns the choices of all rows and their parts.
func (c *joinedCase) run(r *rig) ([]Choice, []float32) {
	r.t.Helper()
	starts, forbidden := []int32{0}, []int32{}
	for _, list := range c.forbidden {
		forbidden = append(forbidden, list...)
		starts = append(starts, int32(len(forbidden)))
	}
	of := outputCase{vocabulary: c.n, candidates: c.candidates}
	models := len(c.scores)
	j := Joined{Scores: in(r, slices.Concat(c.scores...)), Weights: in(r, c.weights), Models: models, Rows: c.rows, N: c.n,
		ForbiddenStarts: in(r, starts), Forbidden: in(r, append(forbidden, 0)), Normalisers: alloc[float32](r, c.rows*models),
		Sums: alloc[float32](r, c.rows*c.n), Lots: in(r, c.lots), Count: c.count, Result: alloc[Choice](r, c.rows*c.count),
		Parts: alloc[float32](r, c.rows*c.count*models)}
	j.Candidates, j.SetOfRow, j.Words = of.sets(r)
	if c.given != nil {
		j.Result = in(r, c.given)
	}
	must(r.t, r.kernels.JoinModels(r.stream, j))
	must(r.t, r.kernels.ChooseJoined(r.stream, j))
	return out[Choice](r, j.Result, c.rows*c.count), out[float32](r, j.Parts, c.rows*c.count*models)
}

// A joinedToken is one that a row may have: its log-probability by each model, the sum of them, and what it is chosen by.
type joinedToken struct {
	token int32
	sum   float64
	parts []float64
	rank  float64 // the sum, of noisy rows with noise and normalised
}

// gumbel is the variate of a token that translator/search adds to its log-probability.
func gumbel(key uint64, token int32) float64 {
	mix := func(z uint64) uint64 {
		z += 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	return -math.Log(-math.Log((float64(mix(key^mix(uint64(token)))>>11) + 0.5) / (1 << 53)))
}

// rank sets what tokens are chosen by.
func (l *Lot) rank(all []joinedToken) {
	total := 0.0
	for i := range all {
		t := &all[i]
		if t.rank = t.sum; l.Method == LotNoisy {
			t.rank = t.sum*float64(l.InverseTemperature) + gumbel(l.Key, t.token)
			total += math.Exp(t.rank)
		}
	}
	for i := range all {
		if l.Method == LotNoisy {
			all[i].rank -= math.Log(total)
		}
	}
}

// want lists the tokens that a row may have, ascending, in float64.
func (c *joinedCase) want(row int) []joinedToken {
	candidates := c.candidates[row]
	if candidates == nil {
		for token := range c.n {
			candidates = append(candidates, int32(token))
		}
	}
	all := make([]joinedToken, len(candidates))
	for i, token := range candidates {
		all[i].token = token
	}
	for m, scores := range c.scores {
		sum := 0.0
		for _, token := range candidates {
			sum += math.Exp(float64(scores[row*c.n+int(token)]))
		}
		for i, token := range candidates {
			part := float64(scores[row*c.n+int(token)]) - math.Log(sum)
			all[i].parts = append(all[i].parts, part)
			all[i].sum += float64(c.weights[m]) * part
		}
	}
	all = slices.DeleteFunc(all, func(t joinedToken) bool { return slices.Contains(c.forbidden[row], t.token) })
	c.lots[row].rank(all)
	return all
}

// support is what a row draws from, in the order in which chances count: that in which the processor goes through its tokens.
func (l *Lot) support(all []joinedToken) []joinedToken {
	total := 0.0
	for _, t := range all {
		total += math.Exp(t.sum)
	}
	switch l.Method {
	case LotEpsilon:
		best := slices.MaxFunc(all, func(x, y joinedToken) int { return cmp.Compare(x.sum, y.sum) }).sum
		return slices.DeleteFunc(all, func(t joinedToken) bool { return t.sum < min(best, math.Log(total*float64(l.Limit))) })
	case LotFew:
		slices.SortStableFunc(all, func(x, y joinedToken) int { return cmp.Compare(y.sum, x.sum) })
		return all[:min(len(all), int(l.Kept))]
	case LotNucleus:
		slices.SortStableFunc(all, func(x, y joinedToken) int { return cmp.Compare(y.sum, x.sum) })
		mass := 0.0
		for i, t := range all {
			if mass += math.Exp(t.sum); mass >= float64(l.Limit)*total {
				return all[:i+1]
			}
		}
	}
	return all
}

// check compares with the reference. What is drawn must be what the chance falls on, give or take a little.
func (c *joinedCase) check(r *rig, what string) {
	r.t.Helper()
	choices, parts := c.run(r)
	models := len(c.scores)
	for row := range c.rows {
		all, have, parts := c.want(row), choices[row*c.count:(row+1)*c.count], parts[row*c.count*models:(row+1)*c.count*models]
		if method := c.lots[row].Method; method == LotBest || method == LotNoisy {
			c.checkBest(r, fmt.Sprintf("%s, row %d", what, row), all, have, parts)
		} else {
			c.checkDrawn(r, fmt.Sprintf("%s, row %d, %+v", what, row, c.lots[row]), &c.lots[row], all, have, parts)
		}
	}
}

const joinedTolerance = 2e-5

func (c *joinedCase) checkBest(r *rig, what string, all []joinedToken, have []Choice, parts []float32) {
	r.t.Helper()
	slices.SortStableFunc(all, func(x, y joinedToken) int { return cmp.Compare(y.rank, x.rank) })
	for i, h := range have {
		if i >= len(all) {
			checkNone(r, what, h)
			continue
		}
		place := slices.IndexFunc(all, func(t joinedToken) bool { return t.token == h.Token })
		if place < 0 || math.Abs(all[place].rank-all[i].rank) > joinedTolerance {
			r.t.Fatalf("%s: choice %d is %v, want %v", what, i, h, all[i])
		}
		checkJoined(r, what, all[place], h, parts[i*len(c.scores):(i+1)*len(c.scores)])
	}
}

func checkNone(r *rig, what string, have Choice) {
	r.t.Helper()
	if have.Token != -1 || !math.IsInf(float64(have.Score), -1) {
		r.t.Fatalf("%s: a choice more is %v, want none", what, have)
	}
}

func checkJoined(r *rig, what string, want joinedToken, have Choice, parts []float32) {
	r.t.Helper()
	if !(math.Abs(float64(have.Score)-want.rank) <= joinedTolerance) {
		r.t.Fatalf("%s: token %d has %v, want %v", what, have.Token, have.Score, want.rank)
	}
	for m, part := range parts {
		if !(math.Abs(float64(part)-want.parts[m]) <= joinedTolerance) {
			r.t.Fatalf("%s: model %d gives token %d %v, want %v", what, m, have.Token, part, want.parts[m])
		}
	}
}

func (c *joinedCase) checkDrawn(r *rig, what string, lot *Lot, all []joinedToken, have []Choice, parts []float32) {
	r.t.Helper()
	for _, h := range have[1:] {
		checkNone(r, what, h)
	}
	if len(all) == 0 {
		checkNone(r, what, have[0])
		return
	}
	support := lot.support(all)
	best := slices.MaxFunc(support, func(x, y joinedToken) int { return cmp.Compare(x.sum, y.sum) }).sum
	odds, total := make([]float64, len(support)), 0.0
	for i, t := range support {
		odds[i] = math.Exp((t.sum - best) * float64(lot.InverseTemperature))
		total += odds[i]
	}
	before := 0.0
	for i, t := range support {
		if t.token == have[0].Token {
			if share := lot.Chance * total; share < before-joinedTolerance*total || share > before+odds[i]+joinedTolerance*total {
				r.t.Fatalf("%s: %d is drawn, which has %v to %v of %v, want %v", what, t.token, before, before+odds[i], total, share)
			}
			checkJoined(r, what, t, have[0], parts[:len(c.scores)])
			return
		}
		before += odds[i]
	}
	r.t.Fatalf("%s: %v is drawn, want one of %v", what, have[0], support)
}

// lot is one that rows draw with, of the method.
func (r *rig) lot(method LotMethod) Lot {
	l := Lot{Chance: []float64{r.random.Float64(), r.random.Float64(), 1 - 0x1p-54, 0x1p-54}[r.random.IntN(4)], Key: r.random.Uint64(),
		InverseTemperature: []float32{1, 1, 0.5, 3}[r.random.IntN(4)], Method: method, Kept: []int32{1, 3, 70, 5000}[r.random.IntN(4)]}
	if limits := map[LotMethod][]float32{LotNucleus: {0.001, 0.3, 0.9, 1}, LotEpsilon: {0.001, 0.02, 0.9}}[method]; limits != nil {
		l.Limit = limits[r.random.IntN(len(limits))]
	}
	return l
}

// choosingMethods is how many methods look at the sums.
const choosingMethods = LotGiven

// Rows of all methods beside each other, with candidates and forbidden tokens.
func TestJoined(t *testing.T) {
	r := newRig(t)
	shapes := [][4]int{{1, 1, 1, 1}, {9, 70, 2, 3}, {7, 300, 2, 23}, {12, 300, 1, 2}, {9, 1500, 3, 5}, {6, 700, 1, 300}, {6, 60, 2, 100}}
	if testing.Short() {
		shapes = shapes[:3]
	}
	for _, shape := range shapes {
		c := r.joinedCase(shape[0], shape[1], shape[2], shape[3])
		for row := range c.rows {
			c.lots[row] = r.lot(LotMethod(row) % choosingMethods)
			if row%3 == 1 {
				for token := row % 7; token < c.n; token += 1 + row {
					c.candidates[row] = append(c.candidates[row], int32(token))
				}
			}
			if all := c.want(row); row%2 == 1 {
				best := slices.MaxFunc(all, func(x, y joinedToken) int { return cmp.Compare(x.sum, y.sum) })
				c.forbidden[row] = []int32{best.token, int32(c.n - 1)}
			}
		}
		if last := c.rows - 1; last > 5 { // all that there is is forbidden
			c.candidates[last], c.forbidden[last] = []int32{3, 5}, []int32{5, 3}
			c.candidates[5], c.forbidden[5] = []int32{4, 6}, []int32{6}
		}
		c.check(r, fmt.Sprint(shape))
	}
}

// Chances fall on the right ones of equal tokens, which lie with several threads, and the best of them are the first, be they few or many.
func TestJoinedTies(t *testing.T) {
	r := newRig(t)
	for _, count := range []int{5, 13, 600, 700} {
		r.checkTies(count)
	}
}

func (r *rig) checkTies(count int) {
	r.t.Helper()
	const n = 600
	lots := []Lot{{Method: LotBest}}
	for _, method := range []LotMethod{LotFull, LotNucleus, LotEpsilon, LotFew} {
		for _, chance := range []float64{0.001, 0.3, 0.6, 0.999} {
			lots = append(lots, Lot{Chance: chance, InverseTemperature: 1, Method: method, Kept: 5,
				Limit: map[LotMethod]float32{LotNucleus: 0.745, LotEpsilon: 0.01}[method]})
		}
	}
	c := r.joinedCase(len(lots), n, 1, count)
	c.lots = lots
	equal := []int32{0, 7, 8, 9, 300, 301, 450, 599} // of 8, a nucleus of 3/4 has 6
	for i := range c.scores[0] {
		c.scores[0][i] = -50
		if slices.Contains(equal, int32(i%n)) {
			c.scores[0][i] = -3
		}
	}
	choices, _ := c.run(r)
	for row, lot := range lots {
		have := choices[row*c.count : (row+1)*c.count]
		if lot.Method == LotBest {
			want := slices.Clone(equal)
			for token := range int32(n) {
				if !slices.Contains(equal, token) {
					want = append(want, token)
				}
			}
			for want = append(want, slices.Repeat([]int32{-1}, max(0, count-n))...); len(have) > 0; have, want = have[1:], want[1:] {
				if have[0].Token != want[0] {
					r.t.Fatalf("%d choices: %d behind the first ones is %d, want %d", count, count-len(have), have[0].Token, want[0])
				}
			}
			continue
		}
		among := map[LotMethod]float64{LotFull: 8, LotNucleus: 6, LotEpsilon: 8, LotFew: 5}[lot.Method]
		if want := equal[int(lot.Chance*among)]; have[0].Token != want {
			r.t.Errorf("%+v draws %d, want %d", lot, have[0].Token, want)
		}
	}
}

// What is given stays, multiplied by the model's weight, and is not looked for in rows that choose beside it.
func TestJoinedOfGivenChoices(t *testing.T) {
	r := newRig(t)
	c := r.joinedCase(3, 300, 1, 20)
	c.weights[0] = 0.7
	c.lots[0], c.lots[1], c.lots[2] = r.lot(LotFull), r.lot(LotGiven), r.lot(LotNoisy)
	for i := range 19 {
		c.given = append(c.given, Choice{-r.random.Float32(), int32(3 * i)})
	}
	c.given = append(c.given, Choice{float32(math.Inf(-1)), -1})
	c.given = slices.Concat(c.given, c.given, c.given) // of all rows; two have others
	choices, parts := c.run(r)
	for i, given := range c.given[:c.count] {
		have, part := choices[c.count+i], parts[c.count+i]
		if want := (Choice{0.7 * given.Score, given.Token}); have != want || given.Token >= 0 && part != given.Score || given.Token < 0 && part != 0 {
			t.Errorf("choice %d is %v with the part %v, want %v of %v", i, have, part, want, given)
		}
	}
	for _, row := range []int{0, 2} {
		what, all, have, parts := fmt.Sprintf("row %d", row), c.want(row), choices[row*c.count:(row+1)*c.count], parts[row*c.count:(row+1)*c.count]
		if row == 0 {
			c.checkDrawn(r, what, &c.lots[row], all, have, parts)
		} else {
			c.checkBest(r, what, all, have, parts)
		}
	}
}

// Noise is that of translator/search, however small or large, of tokens that are all as good.
func TestJoinedNoise(t *testing.T) {
	r := newRig(t)
	const n = 30000
	c := r.joinedCase(1, n, 1, n)
	c.lots[0] = Lot{Key: 0x123456789abcdef, InverseTemperature: 1, Method: LotNoisy}
	clear(c.scores[0])
	choices, _ := c.run(r)
	want := c.want(0) // in the order of tokens
	for i, have := range choices {
		if rank := want[have.Token].rank; !(math.Abs(float64(have.Score)-rank) <= joinedTolerance) || i > 0 && have.Score > choices[i-1].Score {
			t.Fatalf("choice %d is %v behind %v, want the score %v", i, have, choices[max(i, 1)-1], rank)
		}
	}
}

// A score that is not finite spoils its own row, if the token is a candidate, whichever model it comes from.
func TestJoinedOfBrokenRows(t *testing.T) {
	r := newRig(t)
	c := r.joinedCase(8, 300, 2, 2)
	c.candidates[2], c.candidates[6] = []int32{1, 2, 3}, []int32{1, 2, 3}
	for row := range c.rows {
		c.lots[row] = r.lot(LotMethod(row) % choosingMethods)
		c.scores[row%2][row*c.n+200] = float32([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}[row%3])
	}
	c.scores[0][7*c.n+200], c.scores[1][7*c.n+200] = 0, 0
	c.forbidden[3] = []int32{200} // forbidden tokens count
	choices, _ := c.run(r)
	for row := range c.rows {
		whole := row == 2 || row == 6 || row == 7
		if have := choices[row*c.count].Score; (have == have) != whole {
			t.Errorf("row %d has the score %v, want NaN: %v", row, have, !whole)
		}
	}
}

// Weights may be so large that sums overflow: then nothing is drawn, in whichever way.
func TestJoinedOverflow(t *testing.T) {
	r := newRig(t)
	c := r.joinedCase(4, 300, 1, 2)
	c.weights[0] = -math.MaxFloat32
	for row := range c.rows {
		c.lots[row] = r.lot(LotMethod(row) % choosingMethods)
	}
	choices, parts := c.run(r)
	for i, choice := range choices {
		if choice.Score == choice.Score || choice.Token != -1 || parts[i] != 0 {
			t.Errorf("choice %d is %v, want none with a score that is no number", i, choice)
		}
	}
}

// What a row chooses does not hang on the rows beside it, to the last bit.
func TestJoinedOfARowIsItsOwn(t *testing.T) {
	r := newRig(t)
	c := r.joinedCase(9, 500, 2, 3)
	for row := range c.rows {
		c.lots[row] = r.lot(LotMethod(row) % choosingMethods)
	}
	choices, parts := c.run(r)
	for row := range c.rows {
		alone := &joinedCase{rows: 1, n: c.n, weights: c.weights, candidates: c.candidates[row : row+1], forbidden: c.forbidden[row : row+1],
			lots: c.lots[row : row+1], count: c.count}
		for _, scores := range c.scores {
			alone.scores = append(alone.scores, scores[row*c.n:(row+1)*c.n])
		}
		own, ownParts := alone.run(r)
		if !slices.Equal(own, choices[row*c.count:(row+1)*c.count]) || !slices.Equal(ownParts, parts[row*c.count*2:(row+1)*c.count*2]) {
			t.Errorf("row %d alone has %v, %v, want what it has among others", row, own, ownParts)
		}
	}
}

func TestJoinedRefuses(t *testing.T) {
	r := newRig(t)
	good := Joined{Models: 1, Rows: 1, N: 1, ForbiddenStarts: 1, Count: 1}
	for what, change := range map[string]func(*Joined){
		"no model":                    func(j *Joined) { j.Models = 0 },
		"too many tokens":             func(j *Joined) { j.N = MostJoined + 1 },
		"no list of forbidden tokens": func(j *Joined) { j.ForbiddenStarts = 0 },
		"candidates of nobody":        func(j *Joined) { j.Candidates = 1 },
	} {
		j := good
		change(&j)
		if r.kernels.JoinModels(r.stream, j) == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if r.kernels.ChooseJoined(r.stream, Joined{Rows: 1}) == nil {
		t.Error("no choices: no error")
	}
	must(t, r.kernels.JoinModels(r.stream, Joined{}))
	must(t, r.kernels.ChooseJoined(r.stream, Joined{}))
}

// Hard attention begins at the first token, moves on after some tokens, and stays at the last one.
func TestReadOn(t *testing.T) {
	r := newRig(t)
	const rows, states = 150, 300
	tokens, from, to, positions := make([]int32, rows), make([]int32, rows), make([]int32, rows), make([]int32, rows)
	firsts, counts, reads := make([]int32, rows), make([]int32, rows), make([]int32, states)
	for i := range reads {
		reads[i] = int32(i % 4)
	}
	wantReads, wantPlaces := slices.Clone(reads), slices.Repeat([]int32{-7}, rows+1)
	steps := []int32{2, 33}
	for i := range rows {
		tokens[i], from[i], to[i] = []int32{-1, 2, 33, 5}[i%4], int32(i*7%rows), int32(rows+i)
		positions[i], firsts[i], counts[i] = int32(i%3), int32(1000*i), int32(i%6)
		read := 0
		if positions[i] > 0 {
			read = int(reads[from[i]])
		}
		if slices.Contains(steps, tokens[i]) {
			read++
		}
		read = max(min(read, int(counts[i])-1), 0)
		wantReads[to[i]], wantPlaces[i] = int32(read), firsts[i]+int32(read)
		if counts[i] == 0 {
			wantPlaces[i] = -1
		}
	}
	of := Readings{Tokens: in(r, tokens), From: in(r, from), To: in(r, to), Positions: in(r, positions), Firsts: in(r, firsts),
		Counts: in(r, counts), Steps: in(r, steps), StepCount: len(steps), Reads: in(r, reads), Places: in(r, slices.Repeat([]int32{-7}, rows+1))}
	must(t, r.kernels.ReadOn(r.stream, of, rows))
	if have := out[int32](r, of.Reads, states); !slices.Equal(have, wantReads) {
		t.Errorf("tokens that are read %v, want %v", have, wantReads)
	}
	if have := out[int32](r, of.Places, rows+1); !slices.Equal(have, wantPlaces) {
		t.Errorf("rows of the memory %v, want %v", have, wantPlaces)
	}
	must(t, r.kernels.ReadOn(r.stream, Readings{}, 0))
}
