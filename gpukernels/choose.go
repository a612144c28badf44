package gpukernels

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A ProductTuning remembers what was measured on a kind of device: by kind of product and number of rows the name of the fastest algorithm, or
// "own". It can be kept as JSON. Only what the library offers and what gives the same bits is ever taken, so that no text in it can do harm.
type ProductTuning map[string]string

const ownName = "own"

// key is what a class of rows of a kind of product is remembered by.
func (k ProductKind) key(stored Storage, class int) string {
	return fmt.Sprintf("%v %v, %d rows", stored, k, rowClasses[class])
}

const (
	offered      = 8    // algorithms that the library is asked for
	tried        = 3    // of those with the right bits that are measured
	timedRounds  = 5    // of each
	timedInRound = 4    // products, one after the other
	gain         = 1.03 // how much faster than the kernels here an algorithm must be
)

// A Chooser chooses algorithms of cuBLASLt for kinds of products. It has a device to itself while it measures.
type Chooser struct {
	kernels  *Kernels
	training *Training // in place of kernels
	blas     *cuda.BLAS
	context  *cuda.Context
	stream   *cuda.Stream
	stored   Storage
	events   [2]*cuda.Event

	way     Multiplication
	tuning  ProductTuning
	left    time.Duration // for measurements
	changed bool
}

// NewChooser returns a Chooser for the device of a context, which is bound. It adds to the tuning what it measures, for about as long as is given.
func NewChooser(c *cuda.Context, k *Kernels, b *cuda.BLAS, stored Storage, way Multiplication, tuning ProductTuning, d time.Duration) (*Chooser, error) {
	return (&Chooser{kernels: k, blas: b, context: c, stored: stored, way: way, tuning: tuning, left: d}).open()
}

// NewTrainingChooser is NewChooser for products of training.
func NewTrainingChooser(c *cuda.Context, t *Training, b *cuda.BLAS, way Multiplication, tuning ProductTuning, d time.Duration) (*Chooser, error) {
	return (&Chooser{training: t, blas: b, context: c, stored: t.kernels.stored, way: way, tuning: tuning, left: d}).open()
}

// open returns the Chooser with what the device's clock needs.
func (c *Chooser) open() (_ *Chooser, err error) {
	if c.stream, err = c.context.Stream(); err != nil {
		return nil, err
	}
	for i := range c.events {
		if c.events[i], err = c.context.Event(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Close gives back what the Chooser holds.
func (c *Chooser) Close() error {
	failed := []error{c.stream.Close()}
	for _, e := range c.events {
		if e != nil {
			failed = append(failed, e.Close())
		}
	}
	return errors.Join(failed...)
}

// Choose returns the algorithms for a kind of product: none where the kernels here are to be taken.
func (c *Chooser) Choose(kind ProductKind) (Algorithms, error) {
	var chosen Algorithms
	rows := c.rows(kind)
	if rows == 0 || kind.N%8 != 0 || kind.K%8 != 0 {
		return chosen, nil
	}
	p, err := c.openProbe(kind, rows)
	if err != nil {
		return chosen, fmt.Errorf("choose how to multiply with %v weights: %w", kind, err)
	}
	if c.way == LibraryProducts {
		chosen, err = c.offeredFirst(p)
	} else {
		chosen, err = c.fastest(p)
	}
	return chosen, cmp.Or(err, p.close())
}

// rows is how many rows have to be looked at for a kind of product: none where the kernels here are known to be the fastest.
func (c *Chooser) rows(kind ProductKind) int {
	switch c.way {
	case OwnProducts:
		return 0
	case LibraryProducts:
		return slices.Max(invariantRows)
	}
	for class, rows := range slices.Backward(rowClasses[:]) {
		if known := c.tuning[kind.key(c.stored, class)]; known != ownName && (known != "" || c.left > 0) {
			return rows
		}
	}
	return 0
}

// offeredFirst returns the first algorithm that the library offers whose bits are the same for every number of rows, for all of them.
func (c *Chooser) offeredFirst(p *probe) (Algorithms, error) {
	var chosen Algorithms
	all, err := c.algorithms(p, rowClasses[2])
	if err != nil {
		return chosen, err
	}
	for i := range all {
		ok, err := p.invariant(&all[i])
		if err != nil {
			return chosen, err
		}
		if ok {
			for class := range chosen {
				chosen[class] = &all[i]
			}
			break
		}
	}
	return chosen, nil
}

// invariantRows are numbers of rows for which an algorithm has to give the same.
var invariantRows = []int{1, 2, 7, 8, 16, 24, 33, 64, 100, 136, 256, 520, 1030}

// invariant says whether an algorithm computes products, and a row has the same bits whatever rows are around it, and however many.
func (p *probe) invariant(a *cuda.BLASAlgorithm) (bool, error) {
	if ok, err := p.attempt(a, probePeriod); !ok {
		return false, err
	}
	rows, err := p.read(0, probePeriod)
	if err != nil || !p.resembles(rows, p.want) {
		return false, err
	}
	return p.gives(a, rows, invariantRows...)
}

// algorithms are those that the library offers for a number of rows, without those that divide sums.
func (c *Chooser) algorithms(p *probe, rows int) ([]cuda.BLASAlgorithm, error) {
	all, err := p.blas.Algorithms(rows, offered, mostWorkspace)
	return slices.DeleteFunc(all, func(a cuda.BLASAlgorithm) bool { return a.Divided() }), err
}

// fastest returns for each class of rows what is known, or else measured, to be the fastest of what has the bits of the kernels here.
func (c *Chooser) fastest(p *probe) (chosen Algorithms, err error) {
	for class := range rowClasses {
		if chosen[class], err = c.fastestOf(p, class); err != nil {
			return chosen, err
		}
	}
	return chosen, nil
}

// ChooseFor is Choose for a number of rows, which products of training are chosen for: the first algorithm that the library offers may be another one
// for each class of rows then, since nothing has to be the same for all numbers of them.
func (c *Chooser) ChooseFor(kind ProductKind, rows int) (chosen *cuda.BLASAlgorithm, err error) {
	class := classOf(rows)
	known := c.tuning[kind.key(c.stored, class)]
	if c.way == OwnProducts || c.way == MeasuredProducts && (known == ownName || known == "" && c.left <= 0) {
		return nil, nil
	}
	p, err := c.openProbe(kind, rowClasses[class])
	if err != nil {
		return nil, fmt.Errorf("choose how to multiply %v: %w", kind, err)
	}
	if c.way == LibraryProducts {
		chosen, err = c.firstNear(p, class)
	} else {
		chosen, err = c.fastestOf(p, class)
	}
	return chosen, cmp.Or(err, p.close())
}

// firstNear returns the first algorithm that the library offers for a class of rows and that computes products.
func (c *Chooser) firstNear(p *probe, class int) (*cuda.BLASAlgorithm, error) {
	all, err := c.algorithms(p, min(rowClasses[class], p.rows))
	if err != nil {
		return nil, err
	}
	for i := range all {
		if ok, err := p.isNear(&all[i], countsOf(class)...); ok || err != nil {
			return &all[i], err
		}
	}
	return nil, nil
}

func (c *Chooser) fastestOf(p *probe, class int) (*cuda.BLASAlgorithm, error) {
	key, rows := p.kind.key(c.stored, class), rowClasses[class]
	known := c.tuning[key]
	if known == ownName || known == "" && c.left <= 0 || rows > p.rows {
		return nil, nil
	}
	begin := time.Now()
	all, err := c.algorithms(p, rows)
	if err != nil {
		return nil, err
	}
	if known != "" {
		named := slices.DeleteFunc(slices.Clone(all), func(a cuda.BLASAlgorithm) bool { return a.String() != known })
		if right, err := p.right(named, class); err != nil || len(right) > 0 {
			return cmp.Or(right...), err
		}
	}
	right, err := p.right(all, class)
	if err != nil {
		return nil, err
	}
	best, enough, err := c.measure(p, right, rows)
	c.left -= time.Since(begin)
	if err != nil || !enough {
		return nil, err
	}
	c.tuning[key], c.changed = ownName, true
	if best != nil {
		c.tuning[key] = best.String()
	}
	return best, nil
}

// right returns the first of some algorithms that have the bits of the kernels here for a class of rows.
func (p *probe) right(all []cuda.BLASAlgorithm, class int) ([]*cuda.BLASAlgorithm, error) {
	var right []*cuda.BLASAlgorithm
	for i := range all {
		ok, err := p.gives(&all[i], p.want, countsOf(class)...)
		if err != nil {
			return nil, err
		}
		if ok {
			right = append(right, &all[i])
		}
		if len(right) == tried {
			break
		}
	}
	return right, nil
}

// countsOf are the numbers of rows of a class at which algorithms have to show their bits.
func countsOf(class int) []int {
	least := 1
	if class > 0 {
		least = rowClasses[class-1] + 1
	}
	most := rowClasses[class]
	return []int{least, (least+most)/2 | 1, most}
}

// measure returns the fastest of some algorithms, nil if that are the kernels here. enough says whether there was time to find out.
func (c *Chooser) measure(p *probe, all []*cuda.BLASAlgorithm, rows int) (best *cuda.BLASAlgorithm, enough bool, err error) {
	if len(all) == 0 {
		return nil, true, nil
	}
	variants := append([]*cuda.BLASAlgorithm{nil}, all...)
	took := make([][]time.Duration, len(variants))
	if time.Duration(rows*timedInRound*(timedRounds+1)*len(variants))*p.rowTime > c.left {
		return nil, false, nil
	}
	deadline := time.Now().Add(c.left)
	for round := range timedRounds + 1 {
		for turn := range variants {
			if round > 0 && time.Now().After(deadline) {
				return nil, false, nil
			}
			i := (round + turn) % len(variants) // what disturbs one disturbs the others
			d, err := c.time(p, variants[i], rows)
			if err != nil {
				return nil, false, err
			}
			if round > 0 { // the first is a warm-up
				took[i] = append(took[i], d)
			}
		}
	}
	fastest := 0
	for i := range variants {
		slices.Sort(took[i])
		if middle := len(took[i]) / 2; took[i][middle] < took[fastest][middle] {
			fastest = i
		}
	}
	middle := timedRounds / 2
	p.rowTime = took[0][middle] / time.Duration(rows*timedInRound)
	if float64(took[0][middle]) < gain*float64(took[fastest][middle]) {
		fastest = 0
	}
	return variants[fastest], true, nil
}

// time runs a product some times, by the device's clock.
func (c *Chooser) time(p *probe, a *cuda.BLASAlgorithm, rows int) (time.Duration, error) {
	if err := c.stream.Record(c.events[0]); err != nil {
		return 0, err
	}
	for range timedInRound {
		if err := p.run(a, rows); err != nil {
			return 0, err
		}
	}
	if err := cmp.Or(c.stream.Record(c.events[1]), c.events[1].Synchronize()); err != nil {
		return 0, err
	}
	return c.events[1].Since(c.events[0])
}

// ProductTimes is how long a product takes, by the device's clock: 0 where nothing computes it so.
type ProductTimes struct {
	Own      time.Duration
	SameBits time.Duration // the fastest algorithm of cuBLASLt with the bits of the kernels here
	Library  time.Duration // the one that LibraryProducts takes
}

// Times measures a kind of product for a number of rows.
func (c *Chooser) Times(kind ProductKind, rows int) (t ProductTimes, err error) {
	room := rows
	if kind.Training { // the library's algorithm is chosen for a class of rows
		room = max(rows, rowClasses[classOf(rows)])
	}
	p, err := c.openProbe(kind, room)
	if err != nil {
		return t, fmt.Errorf("measure products with %v weights: %w", kind, err)
	}
	defer func() { err = cmp.Or(err, p.close()) }()
	if rows > p.rows {
		return t, nil
	}
	if t.Own, err = c.shortest(p, nil, rows); err != nil || kind.N%8 != 0 || kind.K%8 != 0 {
		return t, err
	}
	all, err := c.algorithms(p, rows)
	if err != nil {
		return t, err
	}
	for i := range all {
		ok, err := p.gives(&all[i], p.want, rows)
		if err != nil {
			return t, err
		}
		if !ok {
			continue
		}
		took, err := c.shortest(p, &all[i], rows)
		if err != nil {
			return t, err
		}
		if t.SameBits == 0 || took < t.SameBits {
			t.SameBits = took
		}
	}
	taken, err := c.taken(p, rows)
	if err != nil || taken == nil {
		return t, err
	}
	t.Library, err = c.shortest(p, taken, rows)
	return t, err
}

// taken returns the algorithm that LibraryProducts takes for a number of rows, nil if there is none.
func (c *Chooser) taken(p *probe, rows int) (*cuda.BLASAlgorithm, error) {
	if p.kind.Training {
		return c.firstNear(p, classOf(rows))
	}
	chosen, err := c.offeredFirst(p)
	return chosen[0], err
}

// shortest returns the shortest time of a product in some rounds.
func (c *Chooser) shortest(p *probe, a *cuda.BLASAlgorithm, rows int) (time.Duration, error) {
	best := time.Duration(math.MaxInt64)
	for range timedRounds {
		took, err := c.time(p, a, rows)
		if err != nil {
			return 0, err
		}
		best = min(best, took/timedInRound)
	}
	return best, nil
}

// Changed says whether something was measured that the tuning did not know before.
func (c *Chooser) Changed() bool { return c.changed }
