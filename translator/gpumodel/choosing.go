package gpumodel

import (
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// The output layer chooses for all rows of a turn within a graph: that of the step, where it is known beforehand what will be asked, and else one of
// its own. What it needs to know of the rows lies behind the lists of the step, so that one copy brings both. The columns that it multiplies, if they
// are not the whole vocabulary, are the same for many steps: they stay on the device, with their number in front, which the kernels read.

// A wish is how many of the best tokens of each row are wanted, 0 for none, and whether with log-probabilities.
type wish struct {
	count      int
	normalised bool
}

// A choosing is how the output layer chooses in a graph. Nothing is chosen in the zero value.
type choosing struct {
	wish
	columns   int // that there is room for; 0: the whole vocabulary is multiplied
	forbidden int // tokens that there is room for in the lists of those that are forbidden
}

// What there is room for at least, if there is anything.
const (
	fewestColumns   = 512
	fewestForbidden = 64
)

// choiceLists is how many numbers a turn has for the choices of so many rows, in which so many tokens are forbidden: the set of each row's candidates,
// where its list of forbidden tokens begins and ends, and the lists.
func choiceLists(rows, forbidden int) int { return rows + rows + 1 + forbidden }

// prepareChoices does what a captured choice cannot do: it makes room, brings the columns to the device, and fills in the lists of a turn for rows, of
// which those behind the last one of the turn belong to nobody. banned says what is forbidden in the others, if anything is but what always is.
//
// The device may still be reading lists of the turn for what was asked before, the choices of which are nobody's then. Whatever it reads of both, it
// is within the lists.
func (s *Stepper) prepareChoices(t *turn, rows int, want wish, banned [][]search.Token) (choosing, error) {
	if want.count == 0 {
		return choosing{}, nil
	}
	c := choosing{wish: want}
	s.asked = s.asked[:0]
	for i := range t.rows {
		s.asked = append(s.asked, t.rows[i].context)
	}
	columns := s.columns(s.asked, want.normalised)
	if err := s.feedColumns(columns); err != nil {
		return c, err
	}
	c.columns = min(roomFor(len(columns), fewestColumns), s.mostColumns())
	s.listAllowed(s.asked, banned)
	c.forbidden = roomFor(len(s.forbidden)+(rows-len(t.rows))*len(s.w.suppressed), fewestForbidden) // the same for all that are padded to as many
	if err := s.reserveLists(t, s.w.numbersOfRow()*rows+choiceLists(rows, c.forbidden)); err != nil {
		return c, err
	}
	lists := t.feed.host[s.w.numbersOfRow()*rows:]
	sets, starts := lists[:rows], lists[rows:2*rows+1]
	copy(lists[2*rows+1:], s.forbidden)
	copy(sets, s.setOfRow)
	copy(starts, s.starts)
	for i := len(t.rows); i < rows; i++ {
		sets[i], starts[i+1] = -1, starts[i]
	}
	most := s.w.vocabulary
	if c.columns > 0 {
		most = s.mostColumns()
	}
	return c, s.room(&s.scratch, gpukernels.OutputScratch(s.turnSize, most, want.count)) // of all rows, so that it stays where it is
}

// chooseForTurn puts the choices for rows of a turn into the stream, behind the copy of its lists.
func (s *Stepper) chooseForTurn(t *turn, rows int, c choosing) error {
	at := func(i int) cuda.Pointer { return cuda.Offset[int32](t.feed.device.at, s.w.numbersOfRow()*rows+i) }
	o := s.outputLayer(at(0), at(rows), at(2*rows+1), c.wish)
	if c.columns > 0 {
		o.Columns, o.ColumnCount, o.Tokens = c.columns, s.columnCount(), s.columnTokens()
	}
	o.X = s.turnMatrix(t, 0, rows)
	o.Result = cuda.Offset[gpukernels.Choice](s.turnChoices.at, t.number*s.turnSize*s.mostChoices)
	if err := s.chooseFrom(o); err != nil {
		return err
	}
	return cuda.CopyOut(s.stream, t.chosen[:rows*c.count], o.Result)
}

// openLists makes room for the lists of a turn: those of a step, of what is chosen behind it, and of guesses.
func (s *Stepper) openLists(t *turn, rows int) error {
	forbidden := roomFor(rows*len(s.w.suppressed), fewestForbidden)
	if err := t.feed.reserve(s.w.device.context, s.w.numbersOfRow()*rows+choiceLists(rows, forbidden)); err != nil {
		return err
	}
	return t.ways.reserve(s.w.device.context, numbersOfWays(rows))
}

// reserveLists makes room for so many numbers in the lists of a turn. Those that there were are lost: the device has to be done with them.
func (s *Stepper) reserveLists(t *turn, n int) error {
	if n > len(t.feed.host) {
		if err := s.stream.Synchronize(); err != nil {
			return err
		}
	}
	return t.feed.reserve(s.w.device.context, n)
}

// mostColumns is how many columns are multiplied at most where it is not the whole vocabulary.
func (s *Stepper) mostColumns() int { return s.w.vocabulary / 2 }

// feedColumns brings a list of columns to the device, unless it is there.
func (s *Stepper) feedColumns(columns []int32) error {
	f := &s.columnFeed
	if len(columns) == 0 || slices.Equal(columns, s.fedColumns) {
		return nil
	}
	if len(f.host) == 0 {
		if err := f.reserve(s.w.device.context, 1+s.mostColumns()); err != nil {
			return err
		}
	}
	if err := s.wait(f.read.Synchronize); err != nil {
		return err
	}
	s.fedColumns = append(s.fedColumns[:0], columns...)
	f.host[0] = int32(len(columns))
	copy(f.host[1:], columns)
	if err := cuda.CopyIn(s.stream, f.device.at, f.host[:1+len(columns)]); err != nil {
		return err
	}
	return s.stream.Record(f.read)
}

// columnCount is where the device has the number of the columns, and columnTokens where it has their tokens.
func (s *Stepper) columnCount() cuda.Pointer  { return s.columnFeed.device.at }
func (s *Stepper) columnTokens() cuda.Pointer { return cuda.Offset[int32](s.columnFeed.device.at, 1) }
