//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// An outputCase is an output layer on this machine.
type outputCase struct {
	rows, length, vocabulary int
	x, table                 []number
	ofX, ofTable             operand // what is multiplied in place of x and table; nil: those
	bias                     []float32
	columns                  []int32   // nil: all tokens
	room                     int       // columns that the grid is for, where the device has their number; 0: as many as there are
	candidates               [][]int32 // of each row; nil: all
	forbidden                [][]int32
	count                    int
	normalised               bool
}

func (r *rig) outputCase(rows, length, vocabulary, count int) *outputCase {
	return &outputCase{rows: rows, length: length, vocabulary: vocabulary, x: r.halves(rows*length, 1), table: r.halves(vocabulary*length, 1),
		bias: r.floats(vocabulary, 1), forbidden: make([][]int32, rows), count: count}
}

// want returns the choices of a row in float64, all that are allowed, best first.
func (c *outputCase) want(row int) []Choice {
	tokens := c.columns
	if tokens == nil {
		for token := range c.vocabulary {
			tokens = append(tokens, int32(token))
		}
	}
	var all []Choice
	sum := 0.0
	for _, token := range tokens {
		if c.candidates != nil && c.candidates[row] != nil && !slices.Contains(c.candidates[row], token) {
			continue
		}
		score := float64(c.bias[token])
		for i := range c.length {
			if c.ofX == nil {
				score += float64(c.x[row*c.length+i].Float32()) * float64(c.table[int(token)*c.length+i].Float32())
			} else {
				score += c.ofX.at(row, i) * c.ofTable.at(int(token), i)
			}
		}
		sum += math.Exp(score)
		if !slices.Contains(c.forbidden[row], token) {
			all = append(all, Choice{float32(score), token})
		}
	}
	slices.SortFunc(all, func(a, b Choice) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Token, b.Token)) })
	if c.normalised {
		for i := range all {
			all[i].Score -= float32(math.Log(sum))
		}
	}
	return all
}

func (c *outputCase) run(r *rig, t tiling, name string) []Choice {
	r.t.Helper()
	starts, forbidden := []int32{0}, []int32{}
	for _, list := range c.forbidden {
		forbidden = append(forbidden, list...)
		starts = append(starts, int32(len(forbidden)))
	}
	o := Output{X: Matrix{At: in(r, c.x), Rows: c.rows, Columns: c.length}, Table: in(r, c.table), Bias: in(r, c.bias), Columns: c.vocabulary,
		ForbiddenStarts: in(r, starts), Forbidden: in(r, append(forbidden, 0)), Count: c.count, Normalised: c.normalised}
	if c.ofX != nil {
		x, table := c.ofX.on(r), c.ofTable.on(r)
		o.X.At, o.XScales, o.Table, o.TableScales = x.At, x.Scales, table.At, table.Scales
	}
	if c.columns != nil {
		o.Tokens, o.Columns = in(r, c.columns), len(c.columns)
	}
	if c.candidates != nil {
		o.Candidates, o.SetOfRow, o.Words = c.sets(r)
	}
	if c.room > 0 {
		o.ColumnCount, o.Columns = in(r, []int32{int32(o.Columns)}), c.room
	}
	o.Scratch = in(r, slices.Repeat([]Choice{{1e30, 0}}, OutputScratch(c.rows, o.Columns, c.count)/8)) // the best, if anybody looked there
	o.Result = alloc[Choice](r, c.rows*c.count)
	must(r.t, r.kernels.output(r.stream, o, t, name))
	return out[Choice](r, o.Result, c.rows*c.count)
}

// sets puts the candidates of all rows on the device as sets of bits.
func (c *outputCase) sets(r *rig) (sets, ofRow cuda.Pointer, words int) {
	words = (c.vocabulary + 31) / 32
	var bits []uint32
	var numbers []int32
	for _, list := range c.candidates {
		if list == nil {
			numbers = append(numbers, -1)
			continue
		}
		set := make([]uint32, words)
		for _, token := range list {
			set[token/32] |= 1 << (token % 32)
		}
		numbers = append(numbers, int32(len(bits)/words))
		bits = append(bits, set...)
	}
	return in(r, append(bits, 0)), in(r, numbers), words
}

// outputKernels are the ways to do it.
var outputKernels = []struct {
	tiling tiling
	name   string
}{{middle, "output_64"}, {small, "output_16"}}

// check compares with the reference: tokens must be the same where scores are clearly apart.
func (c *outputCase) check(r *rig, what string) {
	r.t.Helper()
	for _, kernel := range outputKernels {
		have := c.run(r, kernel.tiling, kernel.name)
		for row := range c.rows {
			want := c.want(row)
			for i, h := range have[row*c.count : (row+1)*c.count] {
				if i >= len(want) {
					if h.Token != -1 || !math.IsInf(float64(h.Score), -1) {
						r.t.Fatalf("%s, %s: row %d, choice %d is %v, though there are only %d tokens", what, kernel.name, row, i, h, len(want))
					}
					continue
				}
				if math.Abs(float64(h.Score-want[i].Score)) > 1e-3 {
					r.t.Fatalf("%s, %s: row %d, choice %d is %v, want %v", what, kernel.name, row, i, h, want[i])
				}
				if h.Token != want[i].Token && !tied(want, i) {
					r.t.Fatalf("%s, %s: row %d, choice %d is %v, want %v", what, kernel.name, row, i, h, want[i])
				}
			}
		}
	}
}

// tied says whether a choice has nearly the score of one beside it.
func tied(all []Choice, i int) bool {
	return i > 0 && all[i-1].Score-all[i].Score < 1e-3 || i+1 < len(all) && all[i].Score-all[i+1].Score < 1e-3
}

func TestOutput(t *testing.T) {
	r := newRig(t)
	shapes := [][4]int{{1, 8, 1, 1}, {3, 40, 63, 1}, {17, 32, 64, 3}, {70, 64, 200, 1}, {5, 64, 130, 16}, {2, 16, 5, 8}}
	if testing.Short() {
		shapes = shapes[:3]
	}
	for i, shape := range shapes {
		c := r.outputCase(shape[0], shape[1], shape[2], shape[3])
		c.normalised = i%2 == 1
		c.check(r, fmt.Sprint(shape))
	}
}

// Rows with candidates of their own, with tokens that they must not choose, and with both.
func TestOutputOfCandidates(t *testing.T) {
	r := newRig(t)
	c := r.outputCase(20, 32, 150, 4)
	c.candidates = make([][]int32, c.rows)
	for row := range c.rows {
		if row%3 != 0 {
			for token := row % 7; token < c.vocabulary; token += 1 + row*3 {
				c.candidates[row] = append(c.candidates[row], int32(token))
			}
		}
		if row%2 == 0 {
			for _, choice := range c.want(row)[:1] {
				c.forbidden[row] = []int32{149, choice.Token, 77}
			}
		}
	}
	if !testing.Short() {
		c.check(r, "scores")
		c.normalised = true
		c.check(r, "log-probabilities")
	}
	c.columns = []int32{0, 1, 5, 9, 33, 64, 65, 66, 100, 101, 120, 121, 149}
	c.candidates[1] = []int32{2, 3} // none of the columns
	c.check(r, "a list of columns")
}

// Where the device has the number of columns, a grid for more of them gives the same bits.
func TestOutputOfCountedColumns(t *testing.T) { newRig(t).compareCounted((*outputCase).asStored) }

func (c *outputCase) asStored() *outputCase { return c }

// compareCounted compares what operands of a kind give in the room for more columns: lists of them, and all tokens up to one.
func (r *rig) compareCounted(as func(*outputCase) *outputCase) {
	r.t.Helper()
	c := r.outputCase(20, 48, 150, 3)
	c.forbidden[4] = []int32{1, 33}
	c = as(c)
	lists := [][]int32{numbersUpTo(65), {0, 1, 5, 9, 33, 64, 65, 66, 100, 101, 120, 121, 149}, {2}, numbersUpTo(64), numbersUpTo(128), nil}
	if testing.Short() {
		lists = lists[:2]
	}
	for _, c.columns = range lists {
		for _, c.normalised = range []bool{false, true} {
			for _, kernel := range outputKernels {
				c.room = 0
				want := c.run(r, kernel.tiling, kernel.name)
				for _, c.room = range []int{150, 300} {
					if have := c.run(r, kernel.tiling, kernel.name); !slices.Equal(have, want) {
						r.t.Fatalf("%s, %d columns with room for %d: %v, want %v", kernel.name, len(c.columns), c.room, have, want)
					}
				}
			}
		}
	}
}

// numbersUpTo lists the numbers below n.
func numbersUpTo(n int32) (numbers []int32) {
	for i := range n {
		numbers = append(numbers, i)
	}
	return numbers
}

// Equal scores: the smaller token wins, within a tile and between tiles.
func TestOutputTies(t *testing.T) {
	r := newRig(t)
	c := r.outputCase(2, 16, 200, 5)
	for i := range c.table {
		c.table[i] = c.table[i%c.length]
	}
	for i := range c.bias {
		c.bias[i] = 0
	}
	for _, token := range []int{190, 130, 131, 70} {
		c.bias[token] = 1
	}
	for _, kernel := range outputKernels {
		var have []int32
		for _, choice := range c.run(r, kernel.tiling, kernel.name) {
			have = append(have, choice.Token)
		}
		if want := []int32{70, 130, 131, 190, 0}; !slices.Equal(have[:5], want) || !slices.Equal(have[5:], want) {
			t.Errorf("%s: %v, want %v twice", kernel.name, have, want)
		}
	}
}

// A NaN or an infinity spoils its own row, and only if the token is a candidate.
func TestOutputOfBrokenRows(t *testing.T) {
	r := newRig(t)
	c := r.outputCase(4, 16, 100, 2)
	c.candidates = [][]int32{nil, nil, {1, 2, 3}, {1, 99}}
	c.x[1*c.length+3] = numberOf(float32(math.NaN()))
	c.bias[99] = float32(math.Inf(1))
	for _, kernel := range outputKernels {
		for i, choice := range c.run(r, kernel.tiling, kernel.name) {
			if broken, want := choice.Score != choice.Score, i/c.count != 2; broken != want {
				t.Errorf("%s: row %d has the score %v, want NaN: %v", kernel.name, i/c.count, choice.Score, want)
			}
		}
	}
}

// Rows begin with choices from anywhere, with guesses, or with what they have. Those of broken rows are none.
func TestBeginRows(t *testing.T) {
	r := newRig(t)
	nan, infinite := float32(math.NaN()), float32(math.Inf(-1))
	choices := []Choice{{1, 7}, {nan, math.MaxInt32}, {-3, 0}, {infinite, -1}, {2, 50}}
	guesses := []Guess{{1, 30}, {0, -1}, {2, 8}}
	places := append([]int32{4, -1, 1, 3, 0, -1, 2, -1, 4, -1}, slices.Repeat([]int32{4}, 203)...)
	guessed := append([]int32{-1, -1, -1, -1, -1, 2, -1, 1, -1, 0}, slices.Repeat([]int32{-1}, 203)...)
	rows := len(places)
	tokens, from := slices.Repeat([]int32{-9}, rows+1), slices.Repeat([]int32{1}, rows+1)
	wantTokens := append(append([]int32{50, -9, -1, -1, 7, 8, 0, -1, 50, 30}, slices.Repeat([]int32{50}, 203)...), -9)
	wantFrom := slices.Clone(from)
	wantFrom[5], wantFrom[7], wantFrom[9] = 2, 0, 1
	const capacity = 70
	words := make([]int32, (3+rows)*capacity) // rows begin with the states 0, 1 and 2
	for i := range words {
		words[i] = int32(i)
	}
	wantWords := slices.Clone(words)
	var to, positions []int32
	for row := range rows {
		to, positions = append(to, int32(3+row)), append(positions, int32(row*13%(capacity+1)))
		copy(wantWords[(3+row)*capacity:], words[int(wantFrom[row])*capacity:][:positions[row]])
	}
	for _, kept := range []bool{true, false} {
		b := Beginnings{Tokens: in(r, tokens), From: in(r, from), Choices: in(r, choices), Places: in(r, places), Guesses: in(r, guesses),
			Guessed: in(r, guessed), To: in(r, to), Positions: in(r, positions), Capacity: capacity}
		at := in(r, words)
		if b.Words = at; !kept {
			b.Words, wantWords = 0, words
		}
		must(t, r.kernels.BeginRows(r.stream, b, rows))
		if have := out[int32](r, b.Tokens, len(tokens)); !slices.Equal(have, wantTokens) {
			t.Errorf("tokens %v, want %v", have, wantTokens)
		}
		if have := out[int32](r, b.From, len(from)); !slices.Equal(have, wantFrom) {
			t.Errorf("states %v, want %v", have, wantFrom)
		}
		if have := out[int32](r, at, len(words)); !slices.Equal(have, wantWords) {
			t.Errorf("words %v, want %v", have, wantWords)
		}
	}
	must(t, r.kernels.BeginRows(r.stream, Beginnings{}, 0))
}

// beamsCase are sentences with any number of rows, guesses and choices, and many ties.
type beamsCase struct {
	choices                 []Choice
	places, states          []int32
	ranks                   []float32
	firstRows, firstGuesses []int32
	count                   int
	weight                  float32
}

func (r *rig) beamsCase(sentences, count int) *beamsCase {
	c := &beamsCase{count: count, weight: 0.7, firstRows: []int32{0}, firstGuesses: []int32{0}}
	for range sentences {
		c.firstRows = append(c.firstRows, c.firstRows[len(c.firstRows)-1]+1+r.random.Int32N(6))
		c.firstGuesses = append(c.firstGuesses, c.firstGuesses[len(c.firstGuesses)-1]+r.random.Int32N(7))
	}
	rows := int(c.firstRows[sentences])
	for _, row := range r.random.Perm(rows + 1)[:rows] { // rows lie anywhere, and not all choices are of rows
		c.places = append(c.places, int32(row*count))
		c.states = append(c.states, r.random.Int32N(1000))
		c.ranks = append(c.ranks, -float32(r.random.IntN(3))-0.1)
	}
	c.choices = make([]Choice, (rows+1)*count)
	for i := range c.choices {
		c.choices[i] = Choice{-float32(i%count) - float32(r.random.IntN(3))/3, int32(i)}
		switch r.random.IntN(20) {
		case 0:
			c.choices[i].Score = float32(math.NaN())
		case 1:
			c.choices[i] = Choice{float32(math.Inf(-1)), -1}
		}
	}
	return c
}

// want is what the processor selects.
func (c *beamsCase) want() []Guess {
	var guesses []Guess
	for sentence := range len(c.firstRows) - 1 {
		type way struct {
			rank  float32
			guess Guess
		}
		var ways []way
		for row := c.firstRows[sentence]; row < c.firstRows[sentence+1]; row++ {
			for _, choice := range c.choices[c.places[row]:][:c.count] {
				rank := c.ranks[row] + float32(c.weight*choice.Score)
				if rank == rank && choice.Token >= 0 {
					ways = append(ways, way{rank, Guess{c.states[row], choice.Token}})
				}
			}
		}
		slices.SortStableFunc(ways, func(x, y way) int { return cmp.Compare(y.rank, x.rank) })
		for i := range int(c.firstGuesses[sentence+1] - c.firstGuesses[sentence]) {
			if i < len(ways) {
				guesses = append(guesses, ways[i].guess)
			} else {
				guesses = append(guesses, Guess{c.states[c.firstRows[sentence]], -1})
			}
		}
	}
	return guesses
}

// Some rows are asked for some tokens each, one for none and one with a score that is not finite.
func TestPickLogProbabilities(t *testing.T) {
	r := newRig(t)
	for _, n := range []int{1, 70, 128, 1000} {
		const rows = 5
		scores := make([]float32, rows*n)
		for i := range scores {
			scores[i] = 40 * (r.random.Float32() - 0.5)
		}
		c := outputCase{vocabulary: n, candidates: make([][]int32, rows)}
		for token := int32(0); token < int32(n); token += 3 {
			c.candidates[3] = append(c.candidates[3], token)
		}
		starts, tokens := []int32{0}, []int32(nil)
		var want []float64
		for row, count := range []int{3, 0, 1, 200, 2} {
			of := scores[row*n : (row+1)*n]
			largest, sum := float64(slices.Max(of)), 0.0
			for token, s := range of {
				if c.candidates[row] == nil || token%3 == 0 {
					sum += math.Exp(float64(s) - largest)
				}
			}
			for range count {
				token := r.random.Int32N(int32(n))
				if c.candidates[row] != nil {
					token -= token % 3
				}
				tokens, want = append(tokens, token), append(want, float64(of[token])-largest-math.Log(sum))
			}
			starts = append(starts, int32(len(tokens)))
		}
		scores[2*n+n/2] = float32(math.Inf(1))
		want[3] = math.NaN()
		if n > 1 { // no candidate
			scores[3*n+1] = float32(math.NaN())
		}
		p := Picking{Scores: in(r, scores), Rows: rows, N: n, Starts: in(r, starts), Tokens: in(r, tokens), Result: alloc[float32](r, len(tokens))}
		p.Candidates, p.SetOfRow, p.Words = c.sets(r)
		must(t, r.kernels.PickLogProbabilities(r.stream, p))
		for i, have := range out[float32](r, p.Result, len(tokens)) {
			if want[i] != want[i] && have == have || want[i] == want[i] && !(math.Abs(float64(have)-want[i]) <= 1e-4) {
				t.Fatalf("of %d scores, token %d has the log-probability %v, want %v", n, tokens[i], have, want[i])
			}
		}
	}
	must(t, r.kernels.PickLogProbabilities(r.stream, Picking{}))
	if r.kernels.PickLogProbabilities(r.stream, Picking{Rows: 1, Candidates: 1}) == nil {
		t.Error("candidates of nobody: no error")
	}
}

// Beams are guessed as the search takes them, ties and all.
func TestGuessBeams(t *testing.T) {
	r := newRig(t)
	for _, sentences := range []int{1, 2, 4, 5, 40} {
		for _, count := range []int{1, 2, 6, 33} {
			c := r.beamsCase(sentences, count)
			want := c.want()
			b := Beams{Choices: in(r, c.choices), Places: in(r, c.places), Ranks: in(r, c.ranks), States: in(r, c.states), Count: count,
				Weight: c.weight, FirstRows: in(r, c.firstRows), FirstGuesses: in(r, c.firstGuesses), Sentences: sentences,
				Guesses: in(r, append(make([]Guess, len(want)), Guess{-5, -5}))}
			must(t, r.kernels.GuessBeams(r.stream, b))
			if have := out[Guess](r, b.Guesses, len(want)+1); !slices.Equal(have, append(want, Guess{-5, -5})) {
				t.Errorf("%d sentences, %d choices: %v, want %v", sentences, count, have, want)
			}
		}
	}
	must(t, r.kernels.GuessBeams(r.stream, Beams{}))
	if err := r.kernels.GuessBeams(r.stream, Beams{Sentences: 1}); err == nil {
		t.Error("no choices are taken, want an error")
	}
}

// drawn is the token that the processor draws, as translator/search does.
func drawn(choices []Choice, d Draw, weight float32) int32 {
	var odds []float64
	total := 0.0
	for _, c := range choices[d.Place:][:d.Kept] {
		x := 0.0
		if c.Score > float32(math.Inf(-1)) {
			x = math.Exp(float64(float32(weight*c.Score)-float32(weight*choices[d.Place].Score)) * d.InverseTemperature)
		}
		odds, total = append(odds, x), total+x
	}
	token, sum := int32(-1), 0.0
	for i, x := range odds {
		if sum += x; x > 0 {
			token = choices[int(d.Place)+i].Token
			if sum > d.Chance*total {
				break
			}
		}
	}
	return token
}

// Samples are guessed as the search draws them: with any chance, one that only the last token reaches included, of any number of choices, some of
// which are no tokens or not kept.
func TestDrawTokens(t *testing.T) {
	r := newRig(t)
	numbers := []int{1, 4, 5, 130}
	if testing.Short() {
		numbers = []int{5}
	}
	for _, rows := range numbers {
		for _, count := range []int{1, 5, 32, 70} {
			weight := float32(0.7)
			choices, draws := make([]Choice, (rows+1)*count), make([]Draw, rows)
			for i := range choices {
				choices[i] = Choice{-float32(i%count)/4 - float32(r.random.IntN(3))/16, int32(i)}
			}
			want := slices.Repeat([]Guess{{-5, -5}}, rows+2)
			for i, row := range r.random.Perm(rows + 1)[:rows] {
				own := choices[row*count:][:count]
				for end := r.random.IntN(2 * count); end < count; end++ {
					own[end] = Choice{float32(math.Inf(-1)), -1}
				}
				if i == 3 {
					for n := range own {
						own[n].Score = float32(math.NaN())
					}
				}
				draws[i] = Draw{[]float64{r.random.Float64(), 1 - 0x1p-53, 0x1p-54}[i%7%3], []float64{1, 0.5, 3, 700}[i%4], int32(row * count),
					1 + r.random.Int32N(int32(count)), r.random.Int32N(1000), int32((i + 1) % rows)}
				want[draws[i].Guess] = Guess{draws[i].State, drawn(choices, draws[i], weight)}
			}
			guesses := in(r, slices.Repeat([]Guess{{-5, -5}}, len(want)))
			must(t, r.kernels.DrawTokens(r.stream, in(r, choices), in(r, draws), guesses, rows, weight))
			if have := out[Guess](r, guesses, len(want)); !slices.Equal(have, want) {
				t.Errorf("%d rows, %d choices: %v, want %v", rows, count, have, want)
			}
		}
	}
	must(t, r.kernels.DrawTokens(r.stream, 0, 0, 0, 0, 1))
}

// A row's choices have the same bits in both tilings and with any rows around it.
func TestOutputOfARowIsItsOwn(t *testing.T) {
	r := newRig(t)
	c := r.outputCase(40, 72, 333, 3)
	c.normalised = true
	want := c.run(r, middle, "output_64")
	if !slices.Equal(c.run(r, small, "output_16"), want) {
		t.Error("the tilings differ")
	}
	for _, row := range []int{0, 17, 39} {
		alone := *c
		alone.rows, alone.x, alone.forbidden = 1, c.x[row*c.length:(row+1)*c.length], c.forbidden[:1]
		if !slices.Equal(alone.run(r, small, "output_16"), want[row*c.count:(row+1)*c.count]) {
			t.Errorf("row %d alone differs", row)
		}
	}
}

func TestScores(t *testing.T) {
	r := newRig(t)
	c := r.outputCase(19, 40, 70, 70)
	result := alloc[float32](r, c.rows*c.vocabulary)
	must(t, r.kernels.Scores(r.stream, Matrix{At: in(r, c.x), Rows: c.rows, Columns: c.length}, in(r, c.table), in(r, c.bias), result, c.vocabulary))
	have := out[float32](r, result, c.rows*c.vocabulary)
	for row := range c.rows {
		for _, want := range c.want(row) {
			if got := have[row*c.vocabulary+int(want.Token)]; math.Abs(float64(got-want.Score)) > 1e-4 {
				t.Fatalf("row %d, token %d: %v, want %v", row, want.Token, got, want.Score)
			}
		}
	}
}

func TestOutputRefuses(t *testing.T) {
	r := newRig(t)
	good := Output{X: Matrix{1, 2, 16, 0}, Table: 1, Bias: 1, Columns: 5, ForbiddenStarts: 1, Count: 1}
	for i, spoil := range []func(o *Output){
		func(o *Output) { o.X.Columns = 12 }, func(o *Output) { o.Count = 0 }, func(o *Output) { o.Columns = 0 },
		func(o *Output) { o.ForbiddenStarts = 0 }, func(o *Output) { o.Candidates = 1 },
	} {
		o := good
		spoil(&o)
		if err := r.kernels.Output(r.stream, o); err == nil {
			t.Errorf("case %d was launched", i)
		}
	}
	good.X.Rows = 0
	must(t, r.kernels.Output(r.stream, good))
}
