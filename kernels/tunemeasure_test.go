package kernels

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// A testClock stands still but for products of timedMatrix.
type testClock struct{ time.Time }

func (c *testClock) now() time.Time { return c.Time }

// A timedMatrix has no weights. Its products take as long as a processor with so many multiply-accumulates a second would need, on a clock of
// their own: a fifth more two panels at a time, a tenth less in low blocks, a fifth less with weights that are not fetched, and with lists
// three times as long for each activation that is something.
type timedMatrix struct {
	Matrix
	kind  string
	k, n  int
	rate  float64
	clock *testClock

	double               int
	unfetched, lowBlocks bool
	share                *nonzeroShare
}

func (m *timedMatrix) bytes() int            { return m.k * m.n }
func (m *timedMatrix) size() (k, n int)      { return m.k, m.n }
func (m *timedMatrix) shape() string         { return fmt.Sprintf("%s %dx%d", m.kind, m.k, m.n) }
func (m *timedMatrix) hasDouble() bool       { return true }
func (m *timedMatrix) from() *int            { return &m.double }
func (m *timedMatrix) listed() *nonzeroShare { return m.share }
func (m *timedMatrix) part(first, end int) Matrix {
	return &timedMatrix{kind: m.kind, k: m.k, n: end - first, rate: m.rate, clock: m.clock}
}

func (m *timedMatrix) leaves() *bool {
	if m.kind != "int8" {
		return nil
	}
	return &m.unfetched
}

func (m *timedMatrix) low() *bool {
	if m.kind != "int8" {
		return nil
	}
	return &m.lowBlocks
}

func (m *timedMatrix) multiply(in *tuningInput, rows, _ int) {
	seconds := float64(rows*m.k*m.n) / m.rate
	if m.double == 1 {
		seconds *= 1.2
	}
	if m.lowBlocks {
		seconds *= 0.9
	}
	if m.unfetched {
		seconds *= 0.8
	}
	if m.share != nil && *m.share == alwaysListed {
		something := 0
		for _, b := range in.bytes {
			if b > int8Zero {
				something++
			}
		}
		seconds *= 3 * float64(something) / float64(len(in.bytes))
	}
	m.clock.Time = m.clock.Add(time.Duration(seconds * float64(time.Second)))
}

// timedModel returns the matrices of a transformer with six layers of some width.
func timedModel(kind string, dim, ffn int, rate float64, clock *testClock) []Matrix {
	var matrices []Matrix
	for range 6 {
		for _, size := range [][2]int{{dim, 3 * dim}, {dim, dim}, {dim, ffn}, {ffn, dim}} {
			m := &timedMatrix{kind: kind, k: size[0], n: size[1], rate: rate, clock: clock}
			if kind == "int8" && m.k == ffn {
				m.share = new(nonzeroShare)
			}
			matrices = append(matrices, m)
		}
	}
	return matrices
}

const testedTime = 200 * time.Millisecond

// timedTune returns how long a Tune takes on the clock.
func timedTune(tuning Tuning, clock *testClock, matrices []Matrix) time.Duration {
	start := clock.now()
	tuning.tune(clock.now, testedTime, matrices)
	return clock.now().Sub(start)
}

// checkTimed reports what a tuning has found that is not so, of a shape with lists, too.
func checkTimed(t *testing.T, tuning Tuning, matrices []Matrix) {
	t.Helper()
	for _, m := range matrices {
		for key, want := range map[string]int{m.shape(): never, fewOf(m): 1, lowOf(m): 1} {
			if got, known := tuning[key]; known && got != want {
				t.Errorf("%s: %d, want %d", key, got, want)
			}
		}
		if got, known := tuning[nonzeroOf(m)]; known && (got < 300 || got > 330) { // 0.95/3
			t.Errorf("%s: %d in a thousand", nonzeroOf(m), got)
		}
	}
}

// Models of all usual sizes are tuned at once within the time, on a processor that does so many multiply-accumulates a second.
func TestTuningOfModels(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		dim, ffn   int
		rate       float64
	}{
		{"small int8", "int8", 256, 1536, 200e9},
		{"small int8, busy", "int8", 256, 1536, 40e9},
		{"base int8", "int8", 512, 2048, 200e9},
		{"base int8, busy", "int8", 512, 2048, 70e9},
		{"base int16", "int16", 512, 2048, 100e9},
		{"base float32", "float32", 512, 2048, 50e9},
		{"base float32, busy", "float32", 512, 2048, 25e9},
		{"large int8", "int8", 1024, 4096, 200e9},
		{"large float32", "float32", 1024, 4096, 50e9},
	} {
		clock := new(testClock)
		matrices, tuning := timedModel(c.kind, c.dim, c.ffn, c.rate, clock), Tuning{}
		took := timedTune(tuning, clock, matrices)
		if !tuning.Knows(matrices...) {
			t.Errorf("%s: knows only %v", c.name, tuning)
		}
		if took > testedTime*11/10 {
			t.Errorf("%s: took %v, of %v", c.name, took, testedTime)
		}
		for key := range tuning {
			if strings.HasSuffix(key, ", attempts") {
				t.Errorf("%s: %s, although all is known", c.name, key)
			}
		}
		checkTimed(t, tuning, matrices)
		if took := timedTune(tuning, clock, matrices); took != 0 {
			t.Errorf("%s: what is known took %v", c.name, took)
		}
	}
}

// Where the time is too short for all shapes, those with most weights are known first, and the others after further starts. Nothing is said of
// what was not measured often enough.
func TestTuningOfSlowModels(t *testing.T) {
	clock := new(testClock)
	matrices, tuning := timedModel("int8", 1024, 4096, 40e9, clock), Tuning{}
	for start := 1; !tuning.Knows(matrices...); start++ {
		if took := timedTune(tuning, clock, matrices); took > testedTime*12/10 {
			t.Errorf("start %d took %v, of %v", start, took, testedTime)
		}
		checkTimed(t, tuning, matrices)
		if _, small := tuning["int8 1024x1024"]; start == 1 && small {
			t.Errorf("all is known at once: %v", tuning)
		}
		if _, large := tuning["int8 1024x4096"]; !large {
			t.Errorf("after start %d the widest is not known: %v", start, tuning)
		}
	}
	for key, found := range tuning {
		if found == 0 || strings.HasSuffix(key, ", attempts") {
			t.Errorf("%s: %d, although there was time for all", key, found)
		}
	}
}

// On a processor that is too slow for any shape nothing is said at first, and the rule is kept after some starts, which take no longer than others.
func TestTuningGivesUp(t *testing.T) {
	clock := new(testClock)
	matrices, tuning := timedModel("int8", 1024, 4096, 1e9, clock), Tuning{}
	unknown := slices.Sorted(maps.Keys(tuning.unknown(matrices)))
	for start := 1; start < tunedAttempts; start++ {
		took := timedTune(tuning, clock, matrices)
		if most := testedTime + 500*time.Millisecond; took > most { // 48 rows of a matrix, with both lists and without
			t.Errorf("start %d took %v, want %v at most", start, took, most)
		}
		for _, key := range unknown {
			if found, known := tuning[key]; known {
				t.Errorf("after start %d, %s: %d", start, key, found)
			}
			if attempts := tuning[attemptsOf(key)]; attempts != start {
				t.Errorf("%s: %d attempts after start %d", key, attempts, start)
			}
		}
	}
	timedTune(tuning, clock, matrices)
	if known := slices.Sorted(maps.Keys(tuning)); !slices.Equal(known, unknown) {
		t.Errorf("after %d starts it knows %q, want %q", tunedAttempts, known, unknown)
	}
	for key, found := range tuning {
		if found != 0 {
			t.Errorf("%s: %d was not measured", key, found)
		}
	}
}

// What is known is not found out anew together with what is not, nor taken for an attempt.
func TestTuningKeepsWhatIsKnown(t *testing.T) {
	clock := new(testClock)
	m := &timedMatrix{kind: "int8", k: 256, n: 256, rate: 200e9, clock: clock}
	tuning := Tuning{m.shape(): 19, fewOf(m): 0}
	timedTune(tuning, clock, []Matrix{m})
	if want := (Tuning{m.shape(): 19, fewOf(m): 0, lowOf(m): 1}); !maps.Equal(tuning, want) {
		t.Errorf("knows %v, want %v", tuning, want)
	}
	if m.double != 19 || m.unfetched || !m.lowBlocks {
		t.Errorf("two panels from %d rows on, weights unfetched: %v, low blocks: %v", m.double, m.unfetched, m.lowBlocks)
	}
}

// The parts of a matrix that are measured have the products that the whole has there.
func TestPartsOfMatrices(t *testing.T) {
	r := source(5)
	const k, n, rows, column, columns = 70, 2*tunedColumns + 40, 3, tunedColumns, tunedColumns
	eight, sixteen := PackInt8(k, n, int8s(r, k*n), normals(r, n)), PackInt16(k, n, int16s(r, k*n, 1000), normals(r, n))
	for _, whole := range []Matrix{eight, sixteen, PackFloat32(k, n, normals(r, k*n))} {
		if !whole.hasDouble() {
			continue
		}
		input := newTuningInput([]*tunedShape{{whole: whole}})
		input.bytes, input.words, input.floats, input.scales = uint8s(r, rows*Int8Stride(k)), int16s(r, rows*Int16Stride(k), 1000), normals(r, rows*k), normals(r, rows)
		input.y = make([]float32, rows*n)
		whole.multiply(input, rows, n)
		want := slices.Clone(input.y)
		clear(input.y)
		whole.part(column, column+columns).multiply(input, rows, n)
		for i := range rows {
			if !slices.Equal(float32Bits(input.y[i*n:][:columns]), float32Bits(want[i*n+column:][:columns])) {
				t.Errorf("%s: row %d of a part differs", whole.shape(), i)
			}
		}
	}
}

// Parts are measured without lists, which the whole goes by.
func TestPartsHaveNoLists(t *testing.T) {
	w := PackInt8Rectified(128, 128, make([]int8, 128*128), make([]float32, 128))
	if w.hasDouble() && w.part(0, 64).listed() != nil {
		t.Error("a part goes by lists")
	}
}

// All parts of a shape have their turns, and are as wide.
func TestPiecesOfAShape(t *testing.T) {
	var matrices []Matrix
	for range 2 * tunedMatrices {
		matrices = append(matrices, &timedMatrix{kind: "int8", k: 64, n: 3*tunedColumns + 32, rate: 1e9, clock: new(testClock)})
	}
	s := tunedShapesOf(matrices, Matrix.hasDouble)[0]
	s.cut(tunedColumns)
	if len(s.pieces) != 3*tunedMatrices {
		t.Fatalf("%d pieces, want 3 of each of %d matrices", len(s.pieces), tunedMatrices)
	}
	for _, m := range s.pieces {
		if _, n := m.size(); n != tunedColumns {
			t.Errorf("a piece has %d columns", n)
		}
	}
	multiplied := make(map[Matrix]bool)
	trial := tunedTrial{100 * mostTunedRows, []*tuningInput{nil}, func(m Matrix, _ int) bool { multiplied[m] = true; return true }}
	for range s.pieces {
		s.multiply(trial, 0)
	}
	if len(multiplied) != len(s.pieces) {
		t.Errorf("%d of %d pieces were multiplied, one at a time", len(multiplied), len(s.pieces))
	}
}
