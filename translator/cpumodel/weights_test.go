package cpumodel

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

const ssruLines = "transformer-decoder-autoreg: rnn\ndec-cell: ssru"

// quantised returns a copy of a model whose matrices are stored as intgemm8.
func quantised(t *testing.T, m *model.Model, description string) *model.Model {
	file := &marian.File{Config: []byte(description)}
	for _, p := range m.Parameters() {
		if rows, columns := p.Matrix(); rows > 1 {
			p = intgemm8(t, p, rows, columns)
		}
		file.Tensors = append(file.Tensors, p)
	}
	again, err := model.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// intgemm8 stores a matrix as browsermt does.
func intgemm8(t *testing.T, p *marian.Tensor, rows, columns int) *marian.Tensor {
	values, err := p.Float32()
	if err != nil {
		t.Fatal(err)
	}
	largest := float32(0)
	for _, v := range values {
		largest = max(largest, v, -v)
	}
	multiplier := 127 / largest
	q := &marian.Tensor{Name: p.Name, Shape: p.Shape, Type: marian.Intgemm8, Data: make([]byte, rows*columns, rows*columns+4)}
	for i := range rows {
		for j := range columns {
			at := i*columns + j
			if q.Transposed() {
				at = j*rows + i
			}
			q.Data[at] = byte(int8(math.RoundToEven(float64(values[i*columns+j] * multiplier))))
		}
	}
	q.Data = binary.LittleEndian.AppendUint32(q.Data, math.Float32bits(multiplier))
	return q
}

// TestStoredInt8 runs a model that is stored quantised, in int8 and, its weights widened, in float32: they differ by the
// rounding of activations only.
func TestStoredInt8(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 13))
	m := quantised(t, synthesise(t, describe(ssruLines), false, random), describe(ssruLines))
	float, int8 := pack(t, m, Float32, Options{}), pack(t, m, Int8, Options{})
	giveAlphas(m)
	fixed := pack(t, m, Int8, Options{})
	ignoring := pack(t, m, Int8, Options{IgnoreAlphas: true})
	for range 10 {
		source := search.Source{Tokens: randomTokens(random, 5, m.SourceVocabulary)}
		tokens := append([]search.Token{search.NoToken}, randomTokens(random, 4, m.TargetVocabulary)...)
		want := replay(float.NewStepper(1), source, tokens)
		got := replay(int8.NewStepper(1), source, tokens)
		other := replay(fixed.NewStepper(1), source, tokens)
		for i := range want {
			if abs(float64(got[i]-want[i])) > 0.2 || abs(float64(other[i]-want[i])) > 0.5 {
				t.Fatalf("log-probabilities are %v, with fixed multipliers %v, want about %v", got, other, want)
			}
		}
		if slices.Equal(got, want) || slices.Equal(got, other) {
			t.Error("int8 gives exactly the numbers of another arithmetic")
		}
		if !sameBits(got, replay(ignoring.NewStepper(1), source, tokens)) {
			t.Error("multipliers of the model were not ignored")
		}
	}
}

// TestMergedProducts checks that matrices whose activations have different multipliers are not quantised alike.
func TestMergedProducts(t *testing.T) {
	random := rand.New(rand.NewPCG(14, 14))
	m := synthesise(t, describe(""), false, random)
	giveAlphas(m)
	w := pack(t, m, Int8, Options{})
	if parts := len(w.encoder[0].qkv.parts); parts != 1 {
		t.Errorf("products with one multiplier are in %d parts", parts)
	}
	binary.LittleEndian.PutUint32(m.Alphas["encoder_l1_self_Wk"].Data, math.Float32bits(15))
	split := pack(t, m, Int8, Options{})
	parts := split.encoder[0].qkv.parts
	if len(parts) != 3 || parts[1].multiplier != 15 || parts[1].first != m.Dim || parts[2].first != 2*m.Dim {
		t.Errorf("products with three multipliers are in the parts %+v", parts)
	}
	source := search.Source{Tokens: randomTokens(random, 5, m.SourceVocabulary)}
	a, b := replay(w.NewStepper(1), source, []search.Token{-1}), replay(split.NewStepper(1), source, []search.Token{-1})
	if sameBits(a, b) {
		t.Error("the multiplier of a merged product makes no difference")
	}
	for i := range a {
		if abs(float64(a[i]-b[i])) > 0.5 {
			t.Errorf("log-probabilities %v and %v", a, b)
		}
	}
}

// TestObserve checks that every matrix is told of once for each call, with the largest input.
func TestObserve(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 15))
	m := synthesise(t, describe(ssruLines), false, random)
	for _, precision := range precisions {
		s := pack(t, m, precision, Options{}).NewStepper(1)
		seen := map[string]int{}
		s.Observe(func(name string, largest float32) {
			seen[name]++
			if !(largest > 0) {
				t.Errorf("the largest input of %s is %v", name, largest)
			}
		})
		replay(s, search.Source{Tokens: randomTokens(random, 4, 19)}, []search.Token{-1, 3, 4})
		for _, p := range m.Parameters() {
			rows, _ := p.Matrix()
			want := 3
			switch {
			case rows == 1 || strings.HasSuffix(p.Name, "Wemb"):
				want = 0
			case strings.HasPrefix(p.Name, "encoder") || strings.HasSuffix(p.Name, "context_Wk") || strings.HasSuffix(p.Name, "context_Wv"):
				want = 1
			}
			if seen[p.Name] != want {
				t.Errorf("%v: %s was seen %d times, want %d", precision, p.Name, seen[p.Name], want)
			}
		}
		s.Observe(nil)
	}
}

// TestHiddenLayersInBytes checks that hidden layers whose results are rounded to bytes straight away, for the multiplier of the next layer,
// give the bits of those whose results are stored in float32 first, which they are while they are observed.
func TestHiddenLayersInBytes(t *testing.T) {
	for _, c := range []struct {
		lines string
		bytes bool
	}{
		{"transformer-ffn-activation: relu", true},
		{"transformer-ffn-activation: relu\ntransformer-ffn-depth: 3", true},
		{"transformer-ffn-activation: swish", false},
	} {
		random := rand.New(rand.NewPCG(17, 17))
		m := synthesise(t, describe(c.lines), false, random)
		giveAlphas(m)
		w := pack(t, m, Int8, Options{})
		layers := w.encoder[0].ffn.layers
		if got := inBytes(layers[0], w.encoder[0].ffn.activation) && layers[1].multiplierOfBytes() == 20; got != c.bytes {
			t.Errorf("%q: results in bytes: %v, want %v", c.lines, got, c.bytes)
		}
		source := search.Source{Tokens: randomTokens(random, 30, m.SourceVocabulary)}
		tokens := append([]search.Token{search.NoToken}, randomTokens(random, 4, m.TargetVocabulary)...)
		observed := w.NewStepper(1)
		observed.Observe(func(string, float32) {})
		if got, want := replay(w.NewStepper(1), source, tokens), replay(observed, source, tokens); !sameBits(got, want) {
			t.Errorf("%q: log-probabilities %v, while they are observed %v", c.lines, got, want)
		}
	}
}

// TestFeedForwardOnEveryProcessor packs and translates with each implementation of the kernels. Some pack the second matrix of a feed-forward
// sublayer for results of a ReLU, which those of other activations are not.
func TestFeedForwardOnEveryProcessor(t *testing.T) {
	for _, lines := range []string{"relu", "relu\ntransformer-ffn-depth: 3", "swish", "swish\ntransformer-ffn-depth: 3", "gelu"} {
		random := rand.New(rand.NewPCG(18, 18))
		m := synthesise(t, describe("transformer-dim-ffn: 48\ntransformer-ffn-activation: "+lines), false, random)
		source := search.Source{Tokens: randomTokens(random, 30, m.SourceVocabulary)}
		tokens := append([]search.Token{search.NoToken}, randomTokens(random, 4, m.TargetVocabulary)...)
		var want []float32
		cputest.Each(t, func(t *testing.T) {
			got := replay(pack(t, m, Int8, Options{}).NewStepper(1), source, tokens)
			if want == nil {
				want = got
			}
			if !sameBits(got, want) {
				t.Errorf("%q: log-probabilities %v, with the first implementation %v", lines, got, want)
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	m := synthesise(t, describe(""), false, rand.New(rand.NewPCG(16, 16)))
	if _, err := Load(m, 0, Options{}); !errors.Is(err, ErrPrecision) {
		t.Errorf("no precision: %v", err)
	}
	for _, token := range []search.Token{-1, 23} {
		if _, err := Load(m, Float32, Options{Suppress: []search.Token{token}}); err == nil {
			t.Errorf("token %d was suppressed", token)
		}
	}
	giveAlphas(m)
	binary.LittleEndian.PutUint32(m.Alphas["encoder_l1_ffn_W1"].Data, math.Float32bits(-1))
	if _, err := Load(m, Int8, Options{}); err == nil || !strings.Contains(err.Error(), "encoder_l1_ffn_W1_QuantMultA") {
		t.Errorf("a negative multiplier: %v", err)
	}
	if _, err := Load(m, Float32, Options{}); err != nil {
		t.Errorf("a negative multiplier that is not needed: %v", err)
	}
	m.Encoder[0].Self.Q.W.Data = m.Encoder[0].Self.Q.W.Data[1:]
	if _, err := Load(m, Float32, Options{}); err == nil || !strings.Contains(err.Error(), "encoder_l1_self_Wq") {
		t.Errorf("a short tensor: %v", err)
	}
}

// TestPositions compares with the formula, beyond those computed at load too.
func TestPositions(t *testing.T) {
	m := synthesise(t, describe(""), false, rand.New(rand.NewPCG(17, 17)))
	s := pack(t, m, Float32, Options{}).NewStepper(1)
	for _, position := range []int{0, 1, readyPositions - 1, readyPositions + 3, readyPositions, 3000} {
		want := make(vec, m.Dim)
		for i := range m.Dim / 2 {
			angle := float64(position) * math.Exp(-float64(i)*math.Log(10000)/float64(m.Dim/2-1))
			want[i], want[m.Dim/2+i] = math.Sin(angle), math.Cos(angle)
		}
		compareVectors(t, "position", s.position(position), want, 1e-3)
	}
}
