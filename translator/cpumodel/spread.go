package cpumodel

import (
	"time"

	"github.com/sluice-mt/sluice/internal/crew"
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/search"
)

// While fewer sentences are translated than there are cores, several cores work on one (see Stepper.Spread).
//
// In the decoder they share products by columns: each core always has the same columns of a matrix, so that its own caches hold its
// part of the weights, which is what a product of a few rows spends its time on. In the encoder they share the rows of a layer, with all
// that is done to them but for the keys and values, which attention wants of all rows.
//
// Nobody else's sum is touched by either, so that the bits are those of one core. How many cores are fastest, and for how small products
// they are, is measured while they work: see tryout.

// MostCores is how many cores work on one sentence at most. What they share takes some ten microseconds, and handing a part over takes
// a good part of one.
const MostCores = 8

// A spreading is what a Stepper needs to work with several cores.
type spreading struct {
	cores int // that may be used
	crew  *crew.Crew
	ways  []spreadWay // that are tried for steps
	parts []int       // and for layers of the encoder
	layer int         // parts of its last layer
	hands []*Stepper  // of the helpers, for the rows that they have in the encoder

	step      spreadWay // of the current step
	stepClass *tryout   // nil before the first
	stepTime  time.Duration

	steps  tryouts
	layers tryouts

	cuts    map[cutKey][]columns
	columns columnsWork
	chosen  chosenWork
}

// A spreadWay is how products are shared.
type spreadWay struct {
	cores int
	least int // bytes of weights that each core must have
}

// spreadWays are those that are tried for the decoder: alone, and for each number of cores with parts of products that are large for all that
// is handed over, and of small ones.
var spreadWays = [...]spreadWay{{1, 0}, {2, 96 << 10}, {2, 24 << 10}, {4, 96 << 10}, {4, 24 << 10}, {8, 96 << 10}, {8, 24 << 10}}

// spreadParts are the numbers of cores that are tried for the encoder.
var spreadParts = [...]int{1, 2, 4, 8}

// Spread says how many cores the passes that follow may use. Close ends what it starts.
func (s *Stepper) Spread(cores int) {
	for _, encoder := range s.further {
		encoder.Spread(cores)
	}
	cores = min(cores, MostCores)
	if s.spread == nil {
		if cores < 2 {
			return
		}
		s.spread = &spreading{crew: crew.New(), cuts: make(map[cutKey][]columns), ways: spreadWays[:], parts: spreadParts[:]}
	}
	s.spread.cores = cores
}

// Close ends the goroutines that Spread has started. The Stepper must not be used any more.
func (s *Stepper) Close() error {
	for _, encoder := range s.further {
		encoder.Close()
	}
	if s.spread != nil {
		s.spread.crew.Close()
		s.spread = nil
	}
	return nil
}

// beginStep chooses how the products of a step of some rows are shared, and tells what the last step took.
func (s *Stepper) beginStep(rows int) {
	p := s.spread
	if p == nil {
		return
	}
	took := s.stats.StepTime + s.stats.OutputTime
	if p.stepClass != nil {
		p.stepClass.record(took - p.stepTime)
	}
	p.stepTime = took
	s.endStep()
	if p.cores < 2 || s.observe != nil || rows == 0 {
		return
	}
	ways := 1
	for ways < len(p.ways) && p.ways[ways].cores <= p.cores {
		ways++
	}
	p.stepClass = p.steps.of(p.cores, rows)
	p.step = p.ways[p.stepClass.next(ways)]
}

// endStep has products that follow done by one core.
func (s *Stepper) endStep() {
	if p := s.spread; p != nil {
		p.stepClass, p.step = nil, spreadWays[0]
	}
}

// share returns how many parts a product with so many bytes of weights is to be cut into in this step.
func (p *spreading) share(bytes int) int {
	if p == nil || p.step.cores < 2 {
		return 1
	}
	return max(1, min(p.step.cores, bytes/p.step.least))
}

// A cutKey is a matrix that is cut into so many parts.
type cutKey struct {
	matrix kernels.Matrix
	parts  int
}

// columns are some columns of a matrix, which is of one of the four kinds.
type columns struct {
	first, end int
	float      *kernels.Float32Matrix
	bfloat16   *kernels.BFloat16Matrix
	int16      *kernels.Int16Matrix
	int8       *kernels.Int8Matrix
}

// cut returns a matrix of n columns in parts, some of which may be empty. It remembers them.
func (p *spreading) cut(matrix kernels.Matrix, n, parts int) []columns {
	key := cutKey{matrix, parts}
	if cut, ok := p.cuts[key]; ok {
		return cut
	}
	const unit = 64
	units, cut := (n+unit-1)/unit, make([]columns, parts)
	for i := range cut {
		c := &cut[i]
		c.first, c.end = min(units*i/parts*unit, n), min(units*(i+1)/parts*unit, n)
		switch m := matrix.(type) {
		case *kernels.Float32Matrix:
			of := m.Columns(c.first, c.end)
			c.float = &of
		case *kernels.BFloat16Matrix:
			of := m.Columns(c.first, c.end)
			c.bfloat16 = &of
		case *kernels.Int16Matrix:
			of := m.Columns(c.first, c.end)
			c.int16 = &of
		case *kernels.Int8Matrix:
			of := m.Columns(c.first, c.end)
			c.int8 = &of
		}
	}
	p.cuts[key] = cut
	return cut
}

// A multiplication is a product of rows with a matrix, in the form that the matrix wants.
type multiplication struct {
	y          []float32
	stride     int // of y
	x          []float32
	xStride    int
	halves     []uint16
	words      []int16
	bytes      []uint8
	scales     []float32 // of words or bytes
	rows       int
	bias       []float32
	activation kernels.Activation
}

// with computes the columns of the result that c has of the matrix, and returns how many multiply-accumulates were left out.
func (m *multiplication) with(c *columns) (leftOut int) {
	if c.first == c.end {
		return 0
	}
	y, bias := m.y[c.first:], m.bias
	if bias != nil {
		bias = bias[c.first:c.end]
	}
	switch {
	case c.float != nil:
		kernels.MulFloat32(y, m.stride, m.x, m.xStride, m.rows, c.float, bias, m.activation)
	case c.bfloat16 != nil:
		kernels.MulBFloat16(y, m.stride, m.halves, m.rows, c.bfloat16, bias, m.activation)
	case c.int16 != nil:
		kernels.MulInt16(y, m.stride, m.words, m.scales, m.rows, c.int16, bias, m.activation)
	default:
		return kernels.MulInt8(y, m.stride, m.bytes, m.scales, m.rows, c.int8, bias, m.activation)
	}
	return 0
}

// columnsWork is a product that is shared by columns.
type columnsWork struct {
	multiplication
	cut     []columns
	leftOut [MostCores]int // by the parts
}

// Part computes the columns of a part.
func (w *columnsWork) Part(part, _ int) { w.leftOut[part] = w.with(&w.cut[part]) }

// mulBy computes a product with a matrix of k rows, all of whose columns are given, by as many cores as are worth it. It returns how many
// multiply-accumulates were left out.
func (s *Stepper) mulBy(m *multiplication, all *columns, k int) (leftOut int) {
	matrix, bytes := all.matrix(k)
	parts := s.spread.share(bytes)
	if parts < 2 {
		return m.with(all)
	}
	p := s.spread
	p.columns.multiplication, p.columns.cut = *m, p.cut(matrix, all.end, parts)
	p.crew.Do(&p.columns, parts)
	for _, n := range p.columns.leftOut[:parts] {
		leftOut += n
	}
	return leftOut
}

// matrix returns the matrix of which these are all columns, and how many bytes of weights it has.
func (c *columns) matrix(k int) (kernels.Matrix, int) {
	switch {
	case c.float != nil:
		return c.float, 4 * k * c.end
	case c.bfloat16 != nil:
		return c.bfloat16, 2 * k * c.end
	case c.int16 != nil:
		return c.int16, 2 * k * c.end
	}
	return c.int8, k * c.end
}

// chosenProduct is a product of a row with chosen rows of the output layer.
type chosenProduct struct {
	y []float32

	// In 8 bits:
	bytes  []uint8
	scale  float32
	tokens *kernels.Int8Choice

	// With activations in float32, and a table of that or of bfloat16:
	x, table, bias []float32
	rows           *kernels.BFloat16Rows
	ids            []search.Token
}

// of computes the scores of the chosen rows from first to end, which are not those of a choice in 8 bits.
func (w *chosenProduct) of(first, end int) {
	if w.rows != nil {
		kernels.DotRowsBFloat16(w.y[first:end], w.x, w.rows, w.ids[first:end], w.bias)
		return
	}
	kernels.DotRowsFloat32(w.y[first:end], w.x, w.table, len(w.x), w.ids[first:end], w.bias)
}

// weights is how many bytes of them the product reads.
func (w *chosenProduct) weights(dim int) int {
	switch elements := len(w.y) * dim; {
	case w.tokens != nil:
		return elements
	case w.rows != nil:
		return 2 * elements
	default:
		return 4 * elements
	}
}

// chosenWork is such a product, whose chosen rows are shared.
type chosenWork struct {
	chosenProduct
	parts [MostCores]kernels.Int8Choice
}

// Part multiplies with a part of the chosen rows.
func (w *chosenWork) Part(part, parts int) {
	const unit = 16
	n := len(w.y)
	units := (n + unit - 1) / unit
	first, end := min(units*part/parts*unit, n), min(units*(part+1)/parts*unit, n)
	if w.tokens == nil {
		w.of(first, end)
		return
	}
	w.parts[part] = w.tokens.Range(first, end)
	kernels.DotRowsInt8(w.y[first:end], w.bytes, w.scale, &w.parts[part])
}

// mulChosen computes a product with chosen rows, by as many cores as are worth it.
func (s *Stepper) mulChosen(m *chosenProduct) {
	parts, p := s.spread.share(m.weights(s.w.dim)), s.spread
	switch {
	case parts > 1:
		p.chosen.chosenProduct = *m
		p.crew.Do(&p.chosen, parts)
		p.chosen.chosenProduct = chosenProduct{}
	case m.tokens != nil:
		kernels.DotRowsInt8(m.y, m.bytes, m.scale, m.tokens)
	default:
		m.of(0, len(m.y))
	}
}

// A rowsDoing does something to rows from first to end, with the buffers of a hand.
type rowsDoing = func(w *rowsWork, hand *Stepper, first, end int)

// rowsWork is a part of a layer of the encoder, done to rows that are shared.
type rowsWork struct {
	s       *Stepper
	do      rowsDoing
	layer   *encoderLayer
	x       []float32
	sources []search.Source // of all rows
	rows    int
}

// Part does the rows of a part, with a Stepper of its own.
func (w *rowsWork) Part(part, parts int) {
	hand := w.s
	if part > 0 {
		hand = w.s.spread.hands[part-1]
	}
	if first, end := w.rows*part/parts, w.rows*(part+1)/parts; first < end {
		w.do(w, hand, first, end)
	}
}

// doRows does something to the rows that are in s.layerRows, in so many parts.
func (s *Stepper) doRows(do rowsDoing, parts int) {
	w := &s.layerRows
	w.do = do
	if parts < 2 {
		w.Part(0, 1)
		return
	}
	p := s.spread
	for len(p.hands) < parts-1 {
		p.hands = append(p.hands, s.w.NewStepper(0))
	}
	for _, hand := range p.hands[:parts-1] {
		hand.reserve(0, (w.rows+parts-1)/parts)
	}
	p.crew.Do(w, parts)
	for _, hand := range p.hands[:parts-1] {
		s.stats.takeOver(&hand.stats)
	}
}

// layerParts chooses in how many parts a layer of the encoder is done for some rows, and returns whom to tell how long it took.
func (s *Stepper) layerParts(rows int) (parts int, told *tryout) {
	p := s.spread
	if p == nil {
		return 1, nil
	}
	if p.layer = 1; p.cores < 2 || s.observe != nil || rows < 2 {
		return 1, nil
	}
	told = p.layers.of(p.cores, rows)
	ways := 1
	for ways < len(p.parts) && p.parts[ways] <= p.cores {
		ways++
	}
	p.layer = p.parts[told.next(ways)]
	return p.layer, told
}

// lastLayer returns in how many parts the last layer of the encoder was done.
func (p *spreading) lastLayer() int {
	if p == nil {
		return 1
	}
	return p.layer
}
