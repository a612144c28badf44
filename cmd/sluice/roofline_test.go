package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/model"
)

// cardNamed is a card of the list.
func cardNamed(t *testing.T, name string) card {
	t.Helper()
	for _, c := range cards() {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("there is no card %q", name)
	return card{}
}

// A device has the peaks of the card that its whole name says, and those of no other.
func TestCardOf(t *testing.T) {
	for device, want := range map[string]string{
		"NVIDIA A100-SXM4-80GB": "A100 SXM 80GB", "NVIDIA A100 80GB PCIe": "A100 PCIe 80GB", "NVIDIA A100-SXM4-40GB": "A100 40GB",
		"NVIDIA A100-PCIE-40GB": "A100 40GB", "A100-PCIE-40GB": "A100 40GB", "NVIDIA L4": "L4", "NVIDIA L40": "L40", "NVIDIA L40S": "L40S",
		"NVIDIA H100 PCIe": "H100 PCIe", "NVIDIA H100 80GB HBM3": "H100 SXM", "NVIDIA H200": "H200", "NVIDIA B200": "B200",
		"NVIDIA L40G": "", "NVIDIA H100 NVL": "", "NVIDIA H200 NVL": "", "NVIDIA GH200 480GB": "", "NVIDIA GB200": "", "NVIDIA A100X": "",
		"NVIDIA A10": "", "NVIDIA A10G": "", "NVIDIA A800-SXM4-80GB": "", "NVIDIA H800": "", "NVIDIA GeForce RTX 4090": "",
		"NVIDIA A100-SXM4-40GB MIG 1g.5gb": "", "NVIDIA H100 80GB HBM3 MIG 1g.10gb": "", "GRID A100-40C": "", "": "",
	} {
		have := cardOf(cuda.Properties{Name: device, MemoryClock: 1000e3, MemoryBus: 256})
		if want == "" {
			if have.tensor != 0 || have.bandwidth != 64e9 {
				t.Errorf("%s is not in the list and has the peaks of %+v", device, have)
			}
		} else if have.name != want {
			t.Errorf("%s has the peaks of %s, want %s", device, have.name, want)
		}
	}
	// Of a card that tells nothing of its memory there are no bounds, and no infinite ones, which no report could hold.
	if seconds, by := cardOf(cuda.Properties{Name: "NVIDIA A10"}).slower(1e6, 1e6); seconds != 0 || by != "" {
		t.Errorf("nothing is known, and %v seconds are bounded by %q", seconds, by)
	}
	// Memory is what tells these apart.
	for name, want := range map[string]float64{"A100 SXM 80GB": 2039e9, "A100 PCIe 80GB": 1935e9, "A100 40GB": 1555e9, "L40": 864e9, "L4": 300e9} {
		if have := cardNamed(t, name).bandwidth; have != want {
			t.Errorf("%s: %v bytes a second, want %v", name, have, want)
		}
	}
}

// More of anything is never slower on a better card, and the table says that it is no measurement.
func TestRoofline(t *testing.T) {
	slow, fast := cardNamed(t, "L4"), cardNamed(t, "B200")
	firstOfKind := []string{"tiny", "tiny-self", "base-average", "nematus"} // behind the largest of another kind
	for i, a := range architectures() {
		if slow.roofline(a, 512, 1) >= fast.roofline(a, 512, 1) || fast.roofline(a, 1, 1) >= fast.roofline(a, 512, 1) ||
			fast.roofline(a, 512, 4) >= fast.roofline(a, 512, 1) {
			t.Errorf("%s: the bounds contradict each other", a.size().Name)
		}
		before := architectures()[max(i-1, 0)]
		if i > 0 && !slices.Contains(firstOfKind, a.size().Name) && fast.roofline(a, 512, 1) >= fast.roofline(before, 512, 1) {
			t.Errorf("%s is faster than the smaller %s", a.size().Name, before.size().Name)
		}
	}
	if seconds, by := slow.bound(productShape{"", 1, 1000, 1000}); by != "memory" || seconds < 2e6/slow.bandwidth {
		t.Errorf("a product of one row takes %v, held up by %s", seconds, by)
	}
	inBytes := gpukernels.Arithmetic{Products: gpukernels.Int8}
	if large := students()[3]; slow.in(inBytes).roofline(large, 512, 1) <= slow.roofline(large, 512, 1) {
		t.Error("products in 8 bits do not help a slow card with a large student")
	}
	if tiny := students()[0]; fast.in(inBytes).roofline(tiny, 1, 1) >= fast.roofline(tiny, 1, 1) {
		t.Error("one row of a tiny student takes no longer with more kernels")
	}
	inFP8 := gpukernels.Arithmetic{Products: gpukernels.FP8}
	if large := students()[3]; slow.in(inFP8).roofline(large, 512, 1) != slow.in(inBytes).roofline(large, 512, 1) ||
		fast.in(inFP8).roofline(large, 512, 1) >= fast.in(inBytes).roofline(large, 512, 1) {
		t.Error("products in fp8 are not those of integers on a card that has them, or as fast on one that has not")
	}
	if table := rooflineTable(t, inFP8); strings.Count(table, "A100") != 3 { // those of training
		t.Errorf("cards without fp8 are in its table: %s", table)
	}
	t.Setenv(driverVariable, t.TempDir()+"/libcuda.so")
	command, out, messages := newBenchGPUCommand(), new(bytes.Buffer), new(bytes.Buffer)
	command.SetOut(out)
	command.SetErr(messages)
	command.SetArgs(nil)
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(messages.String(), "nothing was measured") || !strings.HasPrefix(out.String(), "A model, not a measurement") {
		t.Errorf("without a GPU: %s%s", messages, out)
	}
}

// A decoder with self-attention reads more with every word, and so is never faster than one of SSRUs.
func TestGrowingCache(t *testing.T) {
	slow := cardNamed(t, "L4") // which is short of bandwidth
	for i, s := range students() {
		self := attentiveStudents()[i]
		if self.Dim != s.Dim || slow.roofline(self, 512, 1) >= slow.roofline(s, 512, 1) {
			t.Errorf("%s is not slower than %s", self.Name, s.Name)
		}
		if more := self.autoregressiveBytes(512, 20) - self.autoregressiveBytes(512, 10); more != 512*10*2*2*float64(s.Dim) {
			t.Errorf("%s reads %v bytes more for ten words more", self.Name, more)
		}
		// All of a long sentence's bytes are in the mean of the steps where memory is all that counts.
		slow.tensor, slow.bandwidth = 1e30, 1
		words, products := modelLength/2.0+0.5+1, slow.sum(self.stepProducts(512))
		want := 2 * (products + self.attentionBytes(512, modelLength) + 512*words*4*float64(s.Dim))
		if have := self.stepBound(slow, 512); math.Abs(have-want) > 1e-6*want {
			t.Errorf("%s: a step moves %v bytes, want %v", self.Name, have, want)
		}
		slow = cardNamed(t, "L4")
	}
}

// matrixElements are the elements of all matrices of a model.
func matrixElements(t *testing.T, description string) int {
	t.Helper()
	m, err := model.New([]byte(description))
	if err != nil {
		t.Fatal(err)
	}
	elements := 0
	for _, parameter := range m.Parameters() {
		if rows, columns := parameter.Matrix(); rows > 1 && columns > 1 {
			elements += rows * columns
		}
	}
	return elements
}

// rooflineTable is what the command prints.
func rooflineTable(t *testing.T, as gpukernels.Arithmetic) string {
	t.Helper()
	var table bytes.Buffer
	if err := printRoofline(&table, as); err != nil {
		t.Fatal(err)
	}
	return table.String()
}

// The products of a student have all elements of its matrices.
func TestStudentProducts(t *testing.T) {
	for _, s := range slices.Concat(students(), attentiveStudents()) {
		want := matrixElements(t, s.description())
		if have := s.parameters(); have != float64(want) {
			t.Errorf("%s: products with %v elements, want %d", s.Name, have, want)
		}
	}
}

// The products of a recurrent model have all elements of its matrices.
func TestRecurrentProducts(t *testing.T) {
	for _, r := range recurrentModels() {
		want := matrixElements(t, r.description())
		elements := func(p productShape) int { return p.n * p.k }
		have := r.Vocabulary*r.Dim + 2*r.State*r.State + elements(r.contextProduct(1)) // embeddings, and what the decoder begins with
		have += 2 * (elements(r.firstInput(1)) + (r.Encoder-1)*elements(r.laterInput(1)) + r.Encoder*elements(r.state(1)))
		for _, p := range r.baseProducts(1) {
			have += elements(p)
		}
		for _, p := range r.highProducts(1) {
			have += (r.Decoder - 1) * elements(p)
		}
		if have != want {
			t.Errorf("%s: products with %d elements, want %d", r.Name, have, want)
		}
	}
}

// What BENCHMARKS.md says of cards is what the command prints.
func TestRooflineInBenchmarks(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(sharedtest.Root(), "BENCHMARKS.md"))
	if err != nil {
		t.Fatal(err)
	}
	table := rooflineTable(t, gpukernels.Arithmetic{})
	const mark = "<!-- roofline: sluice bench gpu --roofline -->\n```text\n"
	_, rest, found := strings.Cut(string(page), mark)
	if there, _, _ := strings.Cut(rest, "```"); !found || there != table {
		t.Errorf("BENCHMARKS.md has\n%s\nand the command prints\n%s", there, table)
	}
}
