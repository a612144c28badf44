package marian

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// names.txt beside each reference model lists its tensors as another program saw them: name, shape, type.
func TestReferenceModelsHoldWhatTheirListSays(t *testing.T) {
	lists, err := filepath.Glob(filepath.Join(sharedtest.Path(t, "models", "reference"), "*", "names.txt"))
	if err != nil || len(lists) == 0 {
		t.Fatalf("no lists of names: %v", err)
	}
	for _, list := range lists {
		folder := filepath.Dir(list)
		f := open(t, filepath.Join(folder, "model.npz"))
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		want := make(map[string]bool)
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ConfigName) {
				want[strings.TrimSpace(line)] = true
			}
		}
		for _, tensor := range f.Tensors {
			var shape []string
			for _, d := range tensor.Shape {
				shape = append(shape, strconv.Itoa(d))
			}
			line := fmt.Sprintf("%s\t%s\t%s", tensor.Name, strings.Join(shape, "x"), tensor.Type)
			if !want[line] {
				t.Errorf("%s: %q is not in the list", folder, line)
			}
			delete(want, line)
		}
		for line := range want {
			t.Errorf("%s: no %q", folder, line)
		}
		yml, err := os.ReadFile(filepath.Join(folder, "model.yml"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(f.Config)) != strings.TrimSpace(string(yml)) {
			t.Errorf("%s: the description differs from model.yml", folder)
		}
	}
}

// The quantised demo model was made from the float one, so that every weight must lie within half a step.
func TestQuantisedModelIsCloseToItsOrigin(t *testing.T) {
	float := open(t, sharedtest.Path(t, "models", "ende-tiny", "model.npz"))
	quantised := open(t, sharedtest.Path(t, "models", "ende-tiny", "model.intgemm.alphas.bin"))
	if !slices.Equal(float.Config, quantised.Config) {
		t.Error("descriptions differ")
	}
	for _, origin := range float.Tensors {
		tensor := quantised.Tensor(origin.Name)
		if tensor == nil || !slices.Equal(tensor.Shape, origin.Shape) {
			t.Fatalf("%v became %v", origin, tensor)
		}
		want, err := origin.Float32()
		if err != nil {
			t.Fatal(err)
		}
		got, err := tensor.Float32()
		if err != nil {
			t.Fatal(err)
		}
		tolerance := 0.0
		if tensor.Type == Intgemm8 {
			m, err := tensor.Multiplier()
			if err != nil {
				t.Fatal(err)
			}
			tolerance = 0.5001 / float64(m)
		}
		for i := range want {
			if math.Abs(float64(got[i]-want[i])) > tolerance {
				t.Fatalf("%v: element %d is %v, was %v", tensor, i, got[i], want[i])
			}
		}
	}
	for _, name := range []string{"Wemb_QuantMultA", "none_QuantMultA", "encoder_l1_self_Wq_QuantMultA"} {
		alpha := quantised.Tensor(name)
		if alpha == nil {
			t.Fatalf("no %s", name)
		}
		if v, err := alpha.Scalar(); err != nil || v < 1 || v > 1000 {
			t.Errorf("%s = %v, %v", name, v, err)
		}
	}
}

func TestInt8IsInLogicalOrder(t *testing.T) {
	f := open(t, sharedtest.Path(t, "models", "ende-tiny", "model.intgemm.alphas.bin"))
	for _, name := range []string{"Wemb", "decoder_l1_ffn_W1", "decoder_l1_ffn_W2"} {
		tensor := f.Tensor(name)
		values, multiplier, err := tensor.Int8()
		if err != nil {
			t.Fatal(err)
		}
		want, err := tensor.Float32()
		if err != nil {
			t.Fatal(err)
		}
		for i, q := range values {
			if float32(q)*(1/multiplier) != want[i] {
				t.Fatalf("%s: element %d is %d/%v, but Float32 says %v", name, i, q, multiplier, want[i])
			}
		}
	}
}

// Opening must cost what the directory costs, not what the data would.
func TestOpeningDoesNotReadTheData(t *testing.T) {
	for _, name := range []string{"model.intgemm.alphas.bin", "model.npz"} {
		path := sharedtest.Path(t, "models", "ende-tiny", name)
		best := time.Hour
		for range 5 {
			start := time.Now()
			f, err := Open(path)
			best = min(best, time.Since(start))
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: opened in %v", name, best)
		if best > 10*time.Millisecond {
			t.Errorf("%s took %v to open", name, best)
		}
	}
}
