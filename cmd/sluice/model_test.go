package main

import (
	"context"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/marian"
)

// firstLines writes the first lines of a text into a file of its own.
func firstLines(t *testing.T, path string, n int) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	out := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(out, []byte(strings.Join(lines[:min(n, len(lines))], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

func openFile(t *testing.T, path string) *marian.File {
	t.Helper()
	file, err := marian.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return file
}

func alphasOf(t *testing.T, file *marian.File) map[string]float64 {
	t.Helper()
	alphas := make(map[string]float64)
	for _, tensor := range file.Tensors {
		if tensor.IsAlpha() {
			values, err := tensor.Float32()
			if err != nil {
				t.Fatal(err)
			}
			alphas[tensor.Name] = float64(values[0])
		}
	}
	return alphas
}

// The alphas of the demo model were found by another program, from other batches of a text that is not known: the same
// weights have alphas, and they are of the same size.
func TestCalibrationLikeThePublishedAlphas(t *testing.T) {
	lines, most, typical := 400, 0.25, 0.10
	if testing.Short() {
		lines, most = 150, 0.35
	}
	out := filepath.Join(t.TempDir(), "model.bin")
	text := firstLines(t, sharedtest.Path(t, "data/dev.en"), lines)
	err := convertModel(context.Background(), sharedtest.Path(t, "models/ende-tiny/model.npz"), out,
		convertFlags{family: "browsermt", as: "int8", calibrate: text, batch: defaultCalibrationBatch})
	if err != nil {
		t.Fatal(err)
	}
	got := alphasOf(t, openFile(t, out))
	want := alphasOf(t, openFile(t, sharedtest.Path(t, "models/ende-tiny/model.intgemm.alphas.bin")))
	if g, w := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(g, w) {
		t.Fatalf("alphas for\n%v\nwant\n%v", g, w)
	}
	var differences []float64
	for name, alpha := range want {
		difference := math.Abs(got[name]/alpha - 1)
		differences = append(differences, difference)
		t.Logf("%-40s %8.3f %8.3f %+6.2f %%", name, got[name], alpha, 100*(got[name]/alpha-1))
		if difference > most {
			t.Errorf("%s is %.3f, %.1f %% from %.3f", name, got[name], 100*difference, alpha)
		}
	}
	slices.Sort(differences)
	if median := differences[len(differences)/2]; median > typical {
		t.Errorf("the median of the differences is %.1f %%", 100*median)
	}
}

// tensorsOf returns the data of all tensors by name.
func tensorsOf(file *marian.File) map[string]string {
	data := make(map[string]string)
	for _, tensor := range file.Tensors {
		data[tensor.Name] = tensor.Type.String() + string(tensor.Data)
	}
	return data
}

func TestConvertingThereAndBack(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	convert := func(in, out string, f convertFlags) {
		t.Helper()
		if f.family == "" {
			f.family = "browsermt"
		}
		if err := convertModel(context.Background(), in, out, f); err != nil {
			t.Fatal(err)
		}
	}
	original := sharedtest.Path(t, "models/ende-tiny/model.npz")
	convert(original, path("1.npz"), convertFlags{as: "float32"})
	convert(path("1.npz"), path("2.bin"), convertFlags{})
	convert(path("2.bin"), path("3.npz"), convertFlags{})
	first, err := os.ReadFile(path("1.npz"))
	if err != nil {
		t.Fatal(err)
	}
	last, err := os.ReadFile(path("3.npz"))
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != string(last) {
		t.Error("npz to bin to npz gives other bytes")
	}
	convert(path("1.npz"), path("4.npz"), convertFlags{as: "float16"})
	if !maps.Equal(tensorsOf(openFile(t, path("4.npz"))), tensorsOf(openFile(t, original))) {
		t.Error("float16 to float32 to float16 gives other tensors")
	}
}

// The weights of the demo model are those of the float model, quantised by Marian's rule.
func TestQuantisingGivesThePublishedWeights(t *testing.T) {
	out := filepath.Join(t.TempDir(), "model.bin")
	err := convertModel(context.Background(), sharedtest.Path(t, "models/ende-tiny/model.npz"), out,
		convertFlags{family: "browsermt", as: "int8"})
	if err != nil {
		t.Fatal(err)
	}
	got := tensorsOf(openFile(t, out))
	for name, data := range tensorsOf(openFile(t, sharedtest.Path(t, "models/ende-tiny/model.intgemm.alphas.bin"))) {
		if !strings.HasSuffix(name, marian.AlphaSuffix) && got[name] != data {
			t.Errorf("%s differs", name)
		}
	}
}

func TestVerifyFindsWhatIsWrong(t *testing.T) {
	model, err := os.ReadFile(filepath.Join(sharedtest.Root(), "models", "ende-tiny", "model.intgemm.alphas.bin"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.bin")
	check := func(data []byte, want string) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		result, err := verifyModel(path)
		if err == nil {
			err = result.err()
		}
		if code := exitCode(err); code != exitModel {
			t.Fatalf("exit code %d, want %d: %v", code, exitModel, err)
		}
		if all := result.text() + err.Error(); !strings.Contains(all, want) {
			t.Errorf("says %q, nothing of %q", all, want)
		}
	}
	check(model[:len(model)/2], "")
	renamed := strings.Replace(string(model), "encoder_l1_self_Wq\x00", "encoder_l1_self_Wx\x00", 1)
	check([]byte(renamed), "parameter encoder_l1_self_Wq is missing; expected 256×256")
	bias := openFile(t, filepath.Join(sharedtest.Root(), "models", "ende-tiny", "model.intgemm.alphas.bin")).Tensor("decoder_ff_logit_out_b")
	broken := slices.Clone(model)
	copy(broken[bias.Offset:], "\x00\x00\xc0\x7f") // not a number
	check(broken, "decoder_ff_logit_out_b: holds elements that are infinite or not a number; copy or download the model again")
}

func TestMoments(t *testing.T) {
	values := []float64{3, 1, 4, 1, 5, 9, 2, 6}
	var m moments
	mean := 0.0
	for _, v := range values {
		m.add(v)
		mean += v / float64(len(values))
	}
	variance := 0.0
	for _, v := range values {
		variance += (v - mean) * (v - mean) / float64(len(values))
	}
	if math.Abs(m.mean-mean) > 1e-12 || math.Abs(m.deviation()-math.Sqrt(variance)) > 1e-12 {
		t.Errorf("mean %v, deviation %v; want %v, %v", m.mean, m.deviation(), mean, math.Sqrt(variance))
	}
}
