package cpumodel

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sluice-mt/sluice/internal/hugepage"
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// An output is the packed output layer: a table with a row for each token. Over the candidates of a sentence, chosen rows are
// multiplied; over the whole vocabulary, a packed matrix, which is made when it is first needed.
type output struct {
	names      []string
	dim, n     int
	bias       []float32
	multiplier float32 // of int8 activations; 0 if each row has its own

	float    *floatTable
	bfloat16 *bfloat16Table
	int8     *int8Table
	int16    func() *kernels.Int16Matrix // beside float, for the whole vocabulary in 16 bits
}

type floatTable struct {
	values []float32 // n × dim
	packed func() *kernels.Float32Matrix
}

type bfloat16Table struct {
	rows   *kernels.BFloat16Rows
	packed func() *kernels.BFloat16Matrix
}

type int8Table struct {
	rows   *kernels.Int8Rows
	packed func() *kernels.Int8Matrix
}

func (w *Weights) outputLayer(p *packer, m *model.Model) {
	o := &w.output
	o.dim, o.n, o.bias = m.Dim, m.TargetVocabulary, p.vector(m.Output.Bias)
	o.names = []string{m.Output.W.Name}
	o.multiplier = p.ofInt8(func() (float32, error) { return m.Output.Multiplier(p.alphas) })
	p.jobs = append(p.jobs, func() error {
		switch w.precision {
		case Float32:
			return o.packFloat32(&m.Output)
		case BFloat16:
			return o.packBFloat16(&m.Output)
		case Int16:
			return o.packInt16(&m.Output)
		}
		return o.packInt8(p, &m.Output)
	})
}

// rowMajor returns the elements of the output matrix as a table of n rows.
func (o *output) rowMajor(from *model.Output) ([]float32, error) {
	values, err := from.W.Float32()
	if err != nil {
		return nil, err
	}
	if !from.Columns {
		return ownedFloat32(from.W, values), nil
	}
	return transpose(values, o.dim, o.n), nil
}

func (o *output) packFloat32(from *model.Output) error {
	values, err := o.rowMajor(from)
	if err != nil {
		return err
	}
	o.float = &floatTable{values: values, packed: sync.OnceValue(func() *kernels.Float32Matrix {
		return kernels.PackFloat32(o.dim, o.n, transpose(values, o.n, o.dim))
	})}
	return nil
}

func (o *output) packBFloat16(from *model.Output) error {
	values, err := o.rowMajor(from)
	if err != nil {
		return err
	}
	rows := kernels.PackBFloat16Rows(o.n, o.dim, values)
	o.bfloat16 = &bfloat16Table{rows: rows, packed: sync.OnceValue(rows.Whole)}
	return nil
}

func (o *output) packInt8(p *packer, from *model.Output) error {
	values, scales, err := o.quantised(p, from)
	if err != nil {
		return err
	}
	rows := kernels.PackInt8Rows(o.n, o.dim, values, scales)
	o.int8 = &int8Table{rows: rows, packed: sync.OnceValue(rows.Whole)}
	return nil
}

// quantised returns the output matrix as a table of n rows of integers, and a scale for each row.
func (o *output) quantised(p *packer, from *model.Output) (values []int8, scales []float32, err error) {
	scales = make([]float32, o.n)
	if from.W.Type != marian.Intgemm8 {
		floats, err := o.rowMajor(from)
		if err != nil {
			return nil, nil, err
		}
		values = hugepage.Make[int8](o.n * o.dim)
		kernels.QuantizeTable(values, scales, floats, o.n, o.dim, p.saturation)
		return values, scales, nil
	}
	table := p.table(from.W)
	if table.err != nil {
		return nil, nil, table.err
	}
	for i := range scales {
		scales[i] = 1 / table.multiplier
	}
	if from.Columns {
		return transpose(table.values, o.dim, o.n), scales, nil
	}
	return table.values, scales, nil
}

// transpose returns the columns of a rows×columns matrix as rows.
func transpose[T int8 | int16 | float32](from []T, rows, columns int) []T {
	to := hugepage.Make[T](len(from))
	kernels.Transpose(to, from, rows, columns, columns)
	return to
}

// blockRows is how many rows are multiplied with the whole vocabulary together.
const blockRows = 16

// scores holds the scores of rows: those of one row over its candidates, and those of a block of rows over the vocabulary.
type scores struct {
	short []float32

	block      []float32
	first, end int // rows in the block
	normalised [blockRows]bool

	restore []replaced
}

// replaced is a score that was overwritten for a while.
type replaced struct {
	place int32
	score float32
}

func (c *scores) forget() { c.first, c.end = 0, 0 }

// raw returns the scores of a row before the softmax. following says how many of the next rows will be asked for, too.
func (s *Stepper) raw(row, following int) []float32 {
	o, c := &s.w.output, &s.scores
	if candidates := s.contexts[s.rows[row].context].candidates; len(candidates) > 0 {
		return s.short(row, candidates)
	}
	if row < c.first || row >= c.end || c.normalised[row-c.first] {
		s.fillBlock(row, min(row+1+following, row+blockRows))
	}
	i := row - c.first
	return c.block[i*o.n : (i+1)*o.n]
}

// short returns the scores of a row over its candidates.
func (s *Stepper) short(row int, candidates []search.Token) []float32 {
	o, dim := &s.w.output, s.w.dim
	s.stats.MACs += int64(len(candidates)) * int64(dim)
	if scores, ok := s.commonScores(row); ok {
		return scores
	}
	s.scores.short = grow(s.scores.short, len(candidates))
	w := chosenProduct{y: s.scores.short}
	switch {
	case o.float != nil:
		w.x, w.table, w.ids, w.bias = s.top[row*dim:(row+1)*dim], o.float.values, candidates, o.bias
	case o.bfloat16 != nil:
		w.x, w.rows, w.ids, w.bias = s.top[row*dim:(row+1)*dim], o.bfloat16.rows, candidates, o.bias
	default:
		w.bytes, w.scale, w.tokens = s.topBytes[row*kernels.Int8Stride(dim):], s.topScales[row], s.chosen(row)
	}
	s.mulChosen(&w)
	return s.scores.short
}

// fillBlock computes the scores of rows from first to end over the vocabulary.
func (s *Stepper) fillBlock(first, end int) {
	o, c, dim, n := &s.w.output, &s.scores, s.w.dim, end-first
	c.block = grow(c.block, n*o.n)
	c.first, c.end, c.normalised = first, end, [blockRows]bool{}
	s.stats.MACs += int64(n) * int64(dim) * int64(o.n)
	if o.int16 != nil {
		s.fillBlockInt16(first, n)
		return
	}
	m := multiplication{y: c.block, stride: o.n, rows: n, bias: o.bias}
	all := columns{end: o.n}
	switch {
	case o.float != nil:
		m.x, m.xStride = s.top[first*dim:], dim
		all.float = o.float.packed()
	case o.bfloat16 != nil:
		s.operand.set(s.top[first*dim:], n, dim)
		s.operand.round()
		m.halves, all.bfloat16 = s.operand.halves, o.bfloat16.packed()
	default:
		m.bytes, m.scales = s.topBytes[first*kernels.Int8Stride(dim):], s.topScales[first:]
		all.int8 = o.int8.packed()
	}
	s.mulBy(&m, &all, dim)
}

// dotTop computes the scores of a row over some tokens in 8 bits.
func (s *Stepper) dotTop(y []float32, row int, tokens *kernels.Int8Choice) {
	kernels.DotRowsInt8(y, s.topBytes[row*kernels.Int8Stride(s.w.dim):], s.topScales[row], tokens)
}

// mulRare computes the scores of rows of a sentence over some tokens in 8 bits, stride elements from row to row of y.
func (s *Stepper) mulRare(y []float32, stride, first, rows int, tokens *kernels.Int8Choice) {
	kernels.MulRowsInt8(y, stride, s.topBytes[first*kernels.Int8Stride(s.w.dim):], s.topScales[first:], rows, tokens)
}

// chosen returns the candidates of a row as rows of the table in 8 bits. It makes that choice when it is first needed.
func (s *Stepper) chosen(row int) *kernels.Int8Choice {
	c := &s.contexts[s.rows[row].context]
	of := &c.choice
	if !of.complete {
		s.w.output.choose(&of.all, c.candidates)
		of.complete = true
	}
	return &of.all
}

// choose makes some tokens the choice of rows of the table in 8 bits.
func (o *output) choose(c *kernels.Int8Choice, tokens []search.Token) {
	o.int8.rows.Choose(c, tokens, o.bias)
}

// mulTop computes y = top·w + bias in 8 bits for rows from first on, stride elements from row to row of y.
func (s *Stepper) mulTop(y []float32, stride, first, rows int, w *kernels.Int8Matrix, bias []float32) {
	kernels.MulInt8(y, stride, s.topBytes[first*kernels.Int8Stride(s.w.dim):], s.topScales[first:], rows, w, bias, kernels.None)
}

// normalisedScores returns the log-probabilities of a row's candidates, the suppressed ones -Inf, all NaN if one is not finite.
func (s *Stepper) normalisedScores(row, following int) []float32 {
	c, n := &s.scores, s.w.output.n
	candidates := s.contexts[s.rows[row].context].candidates
	if len(candidates) == 0 && row >= c.first && row < c.end && c.normalised[row-c.first] {
		return c.block[(row-c.first)*n : (row-c.first+1)*n]
	}
	y := s.raw(row, following)
	if s.broken(row, y) {
		for i := range y {
			y[i] = float32(math.NaN())
		}
	} else {
		kernels.LogSoftmax(y)
		for _, place := range s.suppressed(row) {
			y[place] = float32(math.Inf(-1))
		}
		if place, ok := s.placeOf(row, s.early(row)); ok {
			y[place] = float32(math.Inf(-1))
		}
	}
	if len(candidates) == 0 {
		c.normalised[row-c.first] = true
	}
	return y
}

// broken says whether a row or its scores hold a NaN or an infinity.
func (s *Stepper) broken(row int, y []float32) bool {
	return s.rows[row].broken || !finite(kernels.AbsMax(y))
}

// suppressed returns the places of the suppressed tokens among the scores of a row.
func (s *Stepper) suppressed(row int) []int32 {
	if c := &s.contexts[s.rows[row].context]; len(c.candidates) > 0 {
		return c.suppressed
	}
	return s.w.suppressed
}

// token returns the token at a place among the scores of a row.
func (s *Stepper) token(row, place int) search.Token {
	if candidates := s.contexts[s.rows[row].context].candidates; len(candidates) > 0 {
		return candidates[place]
	}
	return search.Token(place)
}

// forbid overwrites the scores at some places, until allow.
func (c *scores) forbid(y []float32, places []int32) {
	for _, place := range places {
		c.forbidOne(y, place)
	}
}

func (c *scores) forbidOne(y []float32, place int32) {
	c.restore = add(c.restore, replaced{place, y[place]})
	y[place] = float32(math.Inf(-1))
}

// allow puts back what forbid overwrote, the last first, as a place may have been overwritten twice.
func (c *scores) allow(y []float32) {
	for _, r := range slices.Backward(c.restore) {
		y[r.place] = r.score
	}
	c.restore = c.restore[:0]
}

// forbidBanned forbids tokens of a row.
func (s *Stepper) forbidBanned(row int, y []float32, banned []search.Token) {
	for _, token := range banned {
		if place, ok := s.placeOf(row, token); ok {
			s.scores.forbidOne(y, place)
		}
	}
}

// placeOf returns the place of a token among the scores of a row, false if it has none.
func (s *Stepper) placeOf(row int, token search.Token) (int32, bool) {
	if candidates := s.contexts[s.rows[row].context].candidates; len(candidates) > 0 {
		place, ok := slices.BinarySearch(candidates, token)
		return int32(place), ok
	}
	return token, token >= 0 && int(token) < s.w.output.n
}

// following returns how many of rows come right after rows[i], one by one, and have no candidates of their own.
func (s *Stepper) following(rows []int32, i int) int {
	n := 0
	for n+1 < blockRows && i+n+1 < len(rows) && rows[i+n+1] == rows[i]+int32(n)+1 &&
		len(s.contexts[s.rows[rows[i+n+1]].context].candidates) == 0 {
		n++
	}
	return n
}

func bannedOf(banned [][]search.Token, i int) []search.Token {
	if banned == nil {
		return nil
	}
	return banned[i]
}

// Best stores, for each of the given rows of the last Step, the allowed token with the highest unnormalised score.
func (s *Stepper) Best(rows []int32, banned [][]search.Token, out []search.Scored) {
	begin := time.Now()
	for i, r := range rows {
		row := int(r)
		if best, ok := s.bestOfMany(row, bannedOf(banned, i)); ok {
			out[i] = best
			continue
		}
		y := s.raw(row, s.following(rows, i))
		if s.broken(row, y) {
			out[i] = search.Scored{Token: s.token(row, 0), Score: float32(math.NaN())}
			continue
		}
		s.scores.forbid(y, s.suppressed(row))
		if place, ok := s.placeOf(row, s.early(row)); ok {
			s.scores.forbidOne(y, place)
		}
		s.forbidBanned(row, y, bannedOf(banned, i))
		place, score := kernels.ArgMax(y)
		s.scores.allow(y)
		out[i] = search.Scored{Token: s.token(row, place), Score: score}
		if math.IsInf(float64(score), -1) {
			out[i].Token = search.NoToken
		}
	}
	s.stats.OutputTime += time.Since(begin)
}

// Top stores, for each of the given rows, the k allowed tokens of highest log-probability, best first.
func (s *Stepper) Top(rows []int32, k int, banned [][]search.Token, out []search.Scored) {
	begin := time.Now()
	for i, r := range rows {
		row := int(r)
		y := s.normalisedScores(row, s.following(rows, i))
		best := out[i*k : (i+1)*k]
		if y[0] != y[0] && s.isBroken(y) {
			for j := range best {
				best[j] = search.Scored{Token: s.token(row, 0), Score: float32(math.NaN())}
			}
			continue
		}
		s.forbidBanned(row, y, bannedOf(banned, i))
		s.scores.top(y, best)
		s.scores.allow(y)
		for j := range best {
			if best[j].Token != search.NoToken {
				best[j].Token = s.token(row, int(best[j].Token))
			}
		}
	}
	s.stats.OutputTime += time.Since(begin)
}

// isBroken says whether normalised scores are those of a row that is not finite: all of them are NaN then.
func (s *Stepper) isBroken(y []float32) bool { return y[len(y)-1] != y[len(y)-1] }

// LogProbs returns the log-probability of every candidate of a row.
func (s *Stepper) LogProbs(row int32) []float32 {
	begin := time.Now()
	following := 0
	if len(s.contexts[s.rows[row].context].candidates) == 0 {
		for n := int(row) + 1; n < len(s.rows) && following+1 < blockRows && len(s.contexts[s.rows[n].context].candidates) == 0; n++ {
			following++
		}
	}
	y := s.normalisedScores(int(row), following)
	s.stats.OutputTime += time.Since(begin)
	return y
}

// fewBest is up to how many of the best are found one by one.
const fewBest = 16

// top stores the places of the best scores, best first, the smaller place where they are equal, and {NoToken, -Inf} where
// nothing is left that is allowed. It may forbid places.
func (c *scores) top(y []float32, best []search.Scored) {
	if len(best) > fewBest {
		manyBest(y, best)
		return
	}
	for i := range best {
		place, score := kernels.ArgMax(y)
		if math.IsInf(float64(score), -1) {
			best[i] = search.Scored{Token: search.NoToken, Score: score}
			continue
		}
		best[i] = search.Scored{Token: search.Token(place), Score: score}
		c.forbidOne(y, int32(place))
	}
}

// manyBest is top for many: it keeps the best so far in a heap whose root is the worst of them.
func manyBest(y []float32, best []search.Scored) {
	heap := best[:0]
	for place, score := range y {
		if math.IsInf(float64(score), -1) {
			continue
		}
		one := search.Scored{Token: search.Token(place), Score: score}
		if len(heap) < len(best) {
			heap = append(heap, one)
			siftUp(heap)
		} else if score > heap[0].Score { // an equal one comes later and loses
			heap[0] = one
			siftDown(heap)
		}
	}
	slices.SortFunc(heap, func(a, b search.Scored) int {
		if worse(a, b) {
			return 1
		}
		return -1
	})
	for i := len(heap); i < len(best); i++ {
		best[i] = search.Scored{Token: search.NoToken, Score: float32(math.Inf(-1))}
	}
}

// worse says whether a comes after b.
func worse(a, b search.Scored) bool {
	return a.Score < b.Score || a.Score == b.Score && a.Token > b.Token
}

func siftUp(heap []search.Scored) {
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !worse(heap[i], heap[parent]) {
			return
		}
		heap[i], heap[parent] = heap[parent], heap[i]
		i = parent
	}
}

func siftDown(heap []search.Scored) {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && worse(heap[child+1], heap[child]) {
			child++
		}
		if !worse(heap[child], heap[i]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
