package gpunetwork

import (
	"fmt"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// A layout is how a network lies on a device. Kernels take widths that are multiples of 8. A network with others becomes a wider one, which has zeros
// where it is wider: in groups of columns with gaps behind them, a group for each head, or for each vector of those that stand side by side. What
// computes with zeros alone gives zeros, forward and backward, so that the gaps stay zeros. Norms and activations leave them out, dropout does not
// count them, and factors are those of the true widths.
type layout struct {
	network *network.Network // the true one
	stored  *network.Network // as it lies there; the same without gaps
	rows    [][]group        // of each parameter, nil without gaps
	columns [][]group
}

// A group is some that follow each other, of the same width.
type group struct {
	gpukernels.Spacing
	count int
}

// A width is one of an architecture's, in equal groups.
type width struct {
	of     []*int
	groups int
}

// averageWidth is the place of the network behind average attention among the widths of a transformer, where it is not as wide as the layers.
const averageWidth = 3

// widths are those of an architecture which may need gaps, in the order in which they stand side by side.
func widths(a *model.Architecture) []width {
	if a.Recurrence == nil {
		all := []width{{[]*int{&a.Dim}, a.Heads}, {[]*int{&a.EncoderStack.FFNDim}, 1}, {[]*int{&a.DecoderStack.FFNDim}, 1}}
		if a.AverageNetwork.Dim == a.Dim { // without a matrix between them
			all[0].of = append(all[0].of, &a.AverageNetwork.Dim)
			return all
		}
		return append(all, width{[]*int{&a.AverageNetwork.Dim}, 1})
	}
	r := a.Recurrence
	all := []width{{[]*int{&a.Dim}, 1}, {[]*int{&r.Dim}, 1}}
	if a.Dim == r.Dim { // as cells want it that read embeddings beside their states
		all = []width{{[]*int{&a.Dim, &r.Dim}, 1}}
	}
	if r.Devlin != nil {
		all = append(all, width{[]*int{&r.Devlin.Dim}, 1})
	}
	return all
}

// copyOf returns an architecture whose widths may be changed.
func copyOf(a *model.Architecture) *model.Architecture {
	other := *a
	if a.Recurrence != nil {
		r := *a.Recurrence
		if r.Devlin != nil {
			d := *r.Devlin
			r.Devlin = &d
		}
		other.Recurrence = &r
	}
	return &other
}

// spacing is that of the groups of a width.
func (w width) spacing() gpukernels.Spacing {
	each := *w.of[0] / w.groups
	return gpukernels.Spacing{Width: each, Stored: (each + 7) / 8 * 8}
}

// newLayout returns the layout of a network.
func newLayout(n *network.Network) (*layout, error) {
	l := &layout{network: n, stored: n}
	wider, spacings := widened(&n.Model.Architecture)
	if !slices.ContainsFunc(spacings, func(s gpukernels.Spacing) bool { return s.Stored > s.Width }) {
		return l, nil
	}
	var err error
	if l.stored, err = networkOf(wider); err != nil {
		return nil, err
	}
	l.rows, l.columns = make([][]group, len(n.Parameters)), make([][]group, len(n.Parameters))
	for i, of := range spacings {
		if err := l.count(i, of); err != nil {
			return nil, err
		}
	}
	return l, l.check()
}

// widened returns an architecture as it is stored, and the spacing of each of its widths.
func widened(a *model.Architecture) (*model.Architecture, []gpukernels.Spacing) {
	var spacings []gpukernels.Spacing
	wider := copyOf(a)
	for _, w := range widths(wider) {
		of := w.spacing()
		if len(spacings) == averageWidth && of.Stored == wider.Dim { // what differs must not become the same
			of.Stored += 8
		}
		for _, at := range w.of {
			*at = of.Stored * w.groups
		}
		spacings = append(spacings, of)
	}
	return wider, spacings
}

func networkOf(a *model.Architecture) (*network.Network, error) {
	m, err := a.New()
	if err != nil {
		return nil, err
	}
	return network.New(m)
}

// count finds how many groups of a width the rows and columns of each parameter have: as many as they are more if the groups have one element more.
func (l *layout) count(number int, of gpukernels.Spacing) error {
	more := copyOf(&l.network.Model.Architecture)
	w := widths(more)[number]
	for _, at := range w.of {
		*at += w.groups
	}
	other, err := networkOf(more)
	if err != nil {
		return err
	}
	for i := range l.network.Parameters {
		was, is := &l.network.Parameters[i], &other.Parameters[i]
		if n := is.Rows - was.Rows; n > 0 {
			l.rows[i] = append(l.rows[i], group{of, n})
		}
		if n := is.Cols - was.Cols; n > 0 {
			l.columns[i] = append(l.columns[i], group{of, n})
		}
	}
	return nil
}

// check compares what was counted with the parameters of both networks.
func (l *layout) check() error {
	if len(l.stored.Parameters) != len(l.network.Parameters) {
		return fmt.Errorf("gpunetwork: %d parameters with gaps for %d", len(l.stored.Parameters), len(l.network.Parameters))
	}
	fits := func(groups []group, width, stored int) bool {
		for _, g := range groups {
			width, stored = width-g.count*g.Width, stored-g.count*g.Stored
		}
		return width == stored && (width == 0 || len(groups) == 0)
	}
	for i, p := range l.network.Parameters {
		if stored := l.stored.Parameters[i]; !fits(l.rows[i], p.Rows, stored.Rows) || !fits(l.columns[i], p.Cols, stored.Cols) {
			return fmt.Errorf("gpunetwork: parameter %s of %d×%d does not lie in %d×%d", p.Name, p.Rows, p.Cols, stored.Rows, stored.Cols)
		}
	}
	return nil
}

// spaced says whether there are gaps.
func (l *layout) spaced() bool { return l.stored != l.network }

// tensor returns the stored parameter for one of the true network.
func (l *layout) tensor(t *marian.Tensor) *marian.Tensor {
	if number, ok := l.network.Number(t); ok {
		return l.stored.Model.Parameters()[number]
	}
	return t
}

// number is that of a stored parameter.
func (l *layout) number(t *marian.Tensor) int {
	number, ok := l.stored.Number(t)
	if !ok {
		panic("gpunetwork: a tensor that is no parameter")
	}
	return number
}

// rowsOf are the groups of a stored parameter's rows, which are those of the columns that meet them; nil without gaps.
func (l *layout) rowsOf(t *marian.Tensor) []group {
	if !l.spaced() {
		return nil
	}
	return l.rows[l.number(t)]
}

// spacing is that of a stored parameter's columns, which are of one width.
func (l *layout) spacing(t *marian.Tensor) gpukernels.Spacing {
	if !l.spaced() {
		return gpukernels.Spacing{}
	}
	if groups := l.columns[l.number(t)]; len(groups) > 0 {
		return groups[0].Spacing
	}
	return gpukernels.Spacing{}
}

// places returns where those of a width are stored.
func places(groups []group, width int) []int {
	var all []int
	at := 0
	for _, g := range groups {
		for range g.count {
			for i := range g.Width {
				all = append(all, at+i)
			}
			at += g.Stored
		}
	}
	for len(all) < width { // without groups
		all = append(all, len(all))
	}
	return all
}

// each visits the places of all numbers, in the true vector and in the stored one.
func (l *layout) each(visit func(at, stored int)) {
	for i, p := range l.network.Parameters {
		of := l.stored.Parameters[i]
		columns := places(l.columns[i], p.Cols)
		for row, placeOfRow := range places(l.rows[i], p.Rows) {
			for column, place := range columns {
				visit(p.Offset+row*p.Cols+column, of.Offset+placeOfRow*of.Cols+place)
			}
		}
	}
}

// spread returns a vector as it is stored.
func (l *layout) spread(vector []float32) []float32 {
	if !l.spaced() {
		return vector
	}
	stored := make([]float32, l.stored.Size())
	l.each(func(at, place int) { stored[place] = vector[at] })
	return stored
}

// collect fills a vector from one that is stored, which read brings.
func (l *layout) collect(vector []float32, read func(stored []float32) error) error {
	if !l.spaced() {
		return read(vector)
	}
	stored := make([]float32, l.stored.Size())
	if err := read(stored); err != nil {
		return err
	}
	clear(vector)
	l.each(func(at, place int) { vector[at] = stored[place] })
	return nil
}

// spreadRows returns rows as wide as embeddings, as they are stored.
func (l *layout) spreadRows(m *autodiff.Matrix[float32]) []float32 {
	of := l.spacing(l.stored.Model.TargetEmbedding)
	if of == (gpukernels.Spacing{}) {
		return m.Value
	}
	stored := make([]float32, 0, len(m.Value)/of.Width*of.Stored)
	for i := 0; i < len(m.Value); i += of.Width {
		stored = append(append(stored, m.Value[i:i+of.Width]...), make([]float32, of.Stored-of.Width)...)
	}
	return stored
}
