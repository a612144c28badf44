//go:build linux && (amd64 || arm64) && !nogpu

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/model"
)

// toys are small models of all kinds.
func toys() []architecture {
	return []architecture{
		student{"toy", 1, 2, 32, 64, 2, 50, ofSSRUs}, student{"attentive-toy", 1, 2, 32, 64, 2, 50, ofAttention},
		student{"averaging-toy", 1, 2, 32, 64, 2, 50, ofAverages},
		recurrentModel{"recurrent-toy", "nematus", model.NematusGRUCell, 3, 1, 1, 32, 48, 50},
		recurrentModel{"deep-toy", "s2s", model.LSTMCell, 4, 2, 3, 32, 48, 50},
	}
}

// The benchmark measures all kinds of models on an emulated device, whose speed says nothing, and prints what it measured.
func TestBenchGPU(t *testing.T) {
	t.Setenv(driverVariable, emulated.LibraryOfBFloat16(t, emulated.Unwatched, emulated.Sources(t)...))
	b := gpuBench{known: toys(), sizes: namesOf(toys()), streams: []int{1, 2}, slots: []int{1}, beams: []int{1, 2}, sentences: 2, spread: usualSpread, precision: "bfloat16",
		asJSON: true, work: gpuWork{tokens: 2 * modelLength, rows: 5, rounds: 1, copies: 2, pieces: 30, updates: 1}}
	var out, messages bytes.Buffer
	if err := b.run(t.Context(), &out, &messages); err != nil {
		t.Fatalf("%v %s", err, &messages)
	}
	var report gpuReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != 4*len(toys()) || len(report.Training) != 3 || report.PeaksKnown {
		t.Fatalf("%s", &out)
	}
	alone, emulating := 0, 0
	for _, row := range report.Rows {
		if row.Slots != row.Beam {
			t.Errorf("a sentence at a time takes %d slots of a beam of %d", row.Slots, row.Beam)
		}
		for _, share := range []float64{row.Encode, row.Step, row.Output, row.Busy} {
			if !(share > 0 && share <= 1.001) { // of the times of two clocks
				t.Errorf("a share of %v in %+v", share, row)
			}
		}
		if sum := (row.Encode + row.Step + row.Output) * float64(row.Streams); row.Busy > sum*1.001 || row.Busy < sum/float64(2*row.Streams)*0.999 {
			t.Errorf("the device is busy for %v of the time, in %v of which its streams have work: %+v", row.Busy, sum, row)
		}
		if !(row.Words > 0) || math.Abs(row.PerSecond/row.Words-piecesOfWord) > 1e-6 || !(row.OfStep > 0) || row.Bound != 0 {
			t.Errorf("%+v", row)
		}
		if !(row.Host > 0) {
			t.Errorf("the processor has no part of a step: %+v", row)
		}
		if row.Streams == 1 {
			alone++
			if row.Host < row.OfStep/2 {
				emulating++
			}
		}
	}
	// It emulates while somebody waits for it. Of a machine that is busy, the processor's part may be long, but seldom.
	if 2*emulating < alone {
		t.Errorf("of %d measurements of one stream alone, %d have a small part of the processor: %+v", alone, emulating, report.Rows)
	}
	kernels := map[string]bool{}
	for _, k := range report.Kernels {
		kernels[k.Model+" "+k.Kernel] = true
		if !(k.Microseconds > 0) || !(k.Bound > 0) || k.By != "memory" {
			t.Errorf("%+v", k)
		}
	}
	for _, name := range []string{"toy decoder: SSRU", "toy encoder: attention", "toy decoder: attention", "toy output layer, the best of each row",
		"attentive-toy decoder: attention to the words", "averaging-toy decoder: average", "recurrent-toy decoder: cells", "deep-toy encoder: cells",
		"deep-toy decoder: attention", "toy decoder: gates"} {
		if !kernels[name] {
			t.Errorf("there is no %s among %v", name, kernels)
		}
	}
	for _, row := range report.Training {
		if !(row.PerSecond > 0) || row.Pieces != 30 {
			t.Errorf("%+v", row)
		}
		// It emulates while somebody waits for it, and is busy then.
		if !(row.Busy > 0.5 && row.Busy <= 1) || !(row.Host > 0) || row.Host > row.OfUpdate/2 {
			t.Errorf("the device is busy for %v of the time, %v µs of an update, of which the processor has a part of %v µs", row.Busy, row.OfUpdate, row.Host)
		}
	}
	checkTrainingKernels(t, report.TrainingKernels)
	out.Reset()
	if err := report.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`(?m)^The peaks of this card are not known: `, `(?m)^ +attentive-toy +decoder: attention to the words +5 +13 +32 +[0-9.]+ +2, cached +- +- +- +0\.0 +memory *$`,
		`(?m)^ +toy +2 +2 +2 +[0-9,]+ +[0-9,]+( +[0-9]+ %){4}( +[0-9]+){2} +- *$`, `(?m)^ +averaging-toy +30 +[0-9,]+ +[0-9]+ % +[0-9]+ +[0-9]+ +- *$`,
		`(?m)^ +toy +encoder: feed-forward, up, gradient of the weights +32 +64 +30 +[0-9.]+ +2, cached +- +- +- +0\.0 +memory *$`,
		`(?m)^ +toy +update: Adam +1 +20032 +- +[0-9.]+ +2, cached +- +- +- +[0-9.]+ +memory *$`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%s is not in\n%s", want, &out)
		}
	}
}

// A benchmark that is interrupted ends behind what it is measuring, and prints what it has.
func TestBenchGPUInterrupted(t *testing.T) {
	t.Setenv(driverVariable, emulated.LibraryOfBFloat16(t, emulated.Unwatched, emulated.Sources(t)...))
	ctx, interrupt := context.WithCancelCause(t.Context())
	b := gpuBench{known: toys(), sizes: namesOf(toys()), streams: []int{1}, slots: []int{1}, beams: []int{1}, sentences: 1, precision: "bfloat16",
		work: gpuWork{tokens: modelLength, rows: 2, rounds: 1, copies: 1, pieces: 30, updates: 1, passes: passes{count: 1 << 30, limit: time.Hour}}}
	time.AfterFunc(3*time.Second, func() { interrupt(errors.New("a signal was received")) }) // passes would go on for an hour
	var out, messages bytes.Buffer
	err := b.run(ctx, &out, &messages)
	if exitCode(err) != exitInterrupted || !strings.Contains(err.Error(), "a signal was received") || !regexp.MustCompile(`(?m)^ +toy +encoder: feed-forward, up `).MatchString(out.String()) {
		t.Errorf("%v: %s%s", err, &messages, &out)
	}
}

// What was measured before something fails is printed. What there is no memory for is named and left out, and the rest is measured.
func TestBenchGPUFails(t *testing.T) {
	library := emulated.LibraryOfBFloat16(t, emulated.Unwatched, emulated.Sources(t)...)
	t.Setenv(driverVariable, library)
	set := emulated.Setting(t, library)
	defer set("fault", "")
	const kernel, trained = " toy encoder: feed-forward, up ", " toy update: Adam "
	for _, c := range []struct {
		fault, named string
		fails        bool
		printed      []string
	}{
		{"cuMemAlloc:60:2", "toy: not all of its translation, kernel by kernel, was measured", false, []string{kernel, trained}},
		{"cuMemAlloc:180:2", "toy: not all of its training was measured", false, []string{kernel, trained}},
		{"cuMemAlloc:180:700", "", true, []string{kernel}},
	} {
		known := toys()[:1]
		b := gpuBench{known: known, sizes: namesOf(known), streams: []int{1}, slots: []int{1}, beams: []int{1}, sentences: 1, precision: "bfloat16",
			work: gpuWork{tokens: modelLength, rows: 2, rounds: 1, copies: 1, pieces: 30, updates: 1}}
		var out, messages bytes.Buffer
		set("fault", c.fault)
		err := b.run(t.Context(), &out, &messages)
		set("fault", "")
		if c.fails != (err != nil) || !strings.Contains(messages.String(), c.named) || c.named == "" && messages.Len() > 0 {
			t.Errorf("%s: %v, %q", c.fault, err, &messages)
		}
		words := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " ")
		for _, want := range c.printed {
			if !strings.Contains(words, want) {
				t.Errorf("%s: there is no %s in\n%s", c.fault, want, &out)
			}
		}
	}
}

// checkTrainingKernels looks at what was measured of the three students among the toys.
func checkTrainingKernels(t *testing.T, rows []kernelRow) {
	t.Helper()
	if len(rows) != 3*16 { // each has four shapes of products in three orders, two passes over the output layer and two kernels of an update
		t.Fatalf("%d kernels of training: %+v", len(rows), rows)
	}
	bounds := map[string]float64{}
	for _, k := range rows {
		bounds[k.Model+" "+k.Kernel] = k.Bound
		if !(k.Microseconds > 0) || !(k.Bound > 0) || k.By != "memory" {
			t.Errorf("%+v", k)
		}
	}
	for _, model := range []string{"toy", "attentive-toy", "averaging-toy"} {
		if ratio := bounds[model+" update: Adam"] / bounds[model+" update: squares of the gradient"]; math.Abs(ratio-10.5) > 1e-9 {
			t.Errorf("%s: Adam moves %v times as much as the squares read, want 42 bytes of a parameter beside 4", model, ratio)
		}
	}
}

// Kernels of training are bounded by what they move and multiply: products by three matrices each, of which gradients of weights are float32 that
// are read, too.
func TestTrainingKernels(t *testing.T) {
	type work struct {
		m, n, k           int
		bytes, operations float64
	}
	want := map[string]work{
		"encoder: feed-forward, up":                          {30, 64, 32, 9856, 122880},
		"encoder: feed-forward, up, gradient of the input":   {30, 32, 64, 9856, 122880},
		"encoder: feed-forward, up, gradient of the weights": {32, 64, 30, 22144, 122880},
		"output layer: loss of some words":                   {30, 50, 32, 17120, 96000},
		"output layer: gradients of some words":              {30, 50, 32, 46600, 288000},
		"update: squares of the gradient":                    {1, 20032, 0, 80128, 0},
		"update: Adam":                                       {1, 20032, 0, 841344, 0},
	}
	for _, k := range toys()[0].(student).trainingKernels(30) {
		if w, listed := want[k.what]; listed && w != (work{k.m, k.n, k.k, k.bytes, k.operations}) {
			t.Errorf("%s: %+v, want %+v", k.what, k, w)
		}
		delete(want, k.what)
	}
	if len(want) > 0 {
		t.Errorf("there is no %v", want)
	}
	big := students()[2]
	loss := big.size().lossKernels(trainingPieces)[0]
	if words := gpukernels.LossChunk(trainingPieces, big.Vocabulary); loss.n != words || words >= big.Vocabulary {
		t.Errorf("the loss is of %d words, want %d at a time", loss.n, words)
	}
}

// Kernels of 8 bits are timed with quantising their rows.
func TestBenchKernelsOfBytes(t *testing.T) {
	driver, err := cuda.Open(emulated.Library(t, emulated.Unwatched, emulated.Sources(t)...))
	if err != nil {
		t.Fatal(err)
	}
	b := gpuBench{onGPU: gpukernels.Arithmetic{Products: gpukernels.Int8}, work: gpuWork{tokens: modelLength, rows: 3, rounds: 1, copies: 1}}
	for _, a := range toys() {
		rows, err := b.timeKernels(driver, a, cards()[0].in(b.onGPU))
		if err != nil || len(rows) < 10 {
			t.Fatalf("%s: %+v, %v", a.size().Name, rows, err)
		}
		for _, row := range rows {
			if !(row.Microseconds > 0) || !(row.Bound > 0) {
				t.Errorf("%+v", row)
			}
		}
	}
}

// Where the card's peaks are known, what was measured is compared with them.
func TestBenchBeside(t *testing.T) {
	driver, err := cuda.Open(emulated.LibraryOfBFloat16(t, emulated.Unwatched, emulated.Sources(t)...))
	if err != nil {
		t.Fatal(err)
	}
	toy := toys()[0].(student)
	row, err := benchTraining(driver, 0, toy, cards()[0], 30, 1)
	if err != nil || !(row.Bound > 0) || row.Reached != row.PerSecond/row.Bound {
		t.Fatalf("%+v, %v", row, err)
	}
	as := gpukernels.Arithmetic{Stored: gpukernels.BFloat16}
	device, err := gpumodel.OpenFor(driver, 0, as)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	work := gpuWork{passes: passes{count: 3, limit: time.Hour}}
	rows, err := (&gpuBench{streams: []int{1}, slots: []int{2}, beams: []int{1}, sentences: 2, work: work}).measure(t.Context(), device, toy, cards()[0])
	if err != nil || len(rows) != 1 || rows[0].Bound != cards()[0].roofline(toy, 2, 1) || rows[0].Reached != rows[0].PerSecond/rows[0].Bound {
		t.Fatalf("%+v, %v", rows, err)
	}
	// What is told is one pass of the three: neither stream of a worker has more work than there is time.
	if row := rows[0]; row.Passes != 3 || row.Encode > 1.001 || row.Step+row.Output > 1.001 {
		t.Errorf("%+v", row)
	}
}

// Where the number of streams is left open, the load is the one that the engine finds by throughput; with a number of slots, if that was said.
func TestBenchLoad(t *testing.T) {
	driver, err := cuda.Open(emulated.Library(t, emulated.Unwatched, emulated.Sources(t)...))
	if err != nil {
		t.Fatal(err)
	}
	device, err := gpumodel.Open(driver, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	b := gpuBench{streams: []int{0, 3}, slots: []int{1}, beams: []int{2}, sentences: 2, work: gpuWork{loads: 10 * time.Second}}
	rows, err := b.measure(t.Context(), device, toys()[0], card{})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%+v, %v", rows, err)
	}
	if found := rows[0]; !found.Measured || !(gpuLoad{found.Streams, found.Slots}).possible(2) || !strings.HasPrefix(found.streams(), "found: ") {
		t.Errorf("%+v", found)
	}
	if said := rows[1]; said.Measured || said.Streams != 3 || said.Slots != 2 || said.streams() != "3" {
		t.Errorf("%+v", said)
	}
	b.streams, b.work.loads = []int{0}, time.Nanosecond
	if rows, err = b.measure(t.Context(), device, toys()[0], card{}); err != nil || rows[0].Measured || rows[0].Streams != usualStreams {
		t.Errorf("without time: %+v, %v", rows, err)
	}
}

// A kernel goes over as many copies of its operands as exceed the second-level cache, each as often as the others, and as the memory and the bound
// for them allow.
func TestCopiesOfOperands(t *testing.T) {
	driver, err := cuda.Open(emulated.Library(t, emulated.Unwatched, emulated.Sources(t)...))
	if err != nil {
		t.Fatal(err)
	}
	const operands = 1 << 10
	for _, c := range []struct {
		cache, most, want int
		cached            bool
	}{{10 * operands, 256, 11, false}, {10*operands + 1, 256, 12, false}, {10 * operands, 11, 11, false}, {10 * operands, 10, 10, true}, {0, 256, 1, false}, {1 << 40, 1 << 40, 0, true}} {
		b := gpuBench{work: gpuWork{rounds: 3}}
		err := b.withRig(driver, gpukernels.Arithmetic{}, func(r *kernelRig) error {
			r.cache, r.most = c.cache, c.most
			var row kernelRow
			size, made, ran := operands, 0, map[int]int{}
			if c.want == 0 { // bounded by half of the memory, of which that is a fifth
				size, c.want = 200<<20, 3
			}
			err := r.time(&row, func(r *kernelRig) func() error {
				number := made
				made++
				fill(r, size, make([]byte, size))
				return func() error { ran[number]++; return nil }
			})
			if row.Copies != c.want || made != c.want || row.Cached != c.cached || len(ran) != c.want || ran[c.want-1] < 1 || len(r.memory) > 0 {
				t.Errorf("%+v: %d copies were made, of which these ran: %v; %+v", c, made, ran, row)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Products are shown beside those of cuBLASLt, where the library is.
func TestBenchProducts(t *testing.T) {
	at := emulated.Library(t, emulated.Unwatched, emulated.Sources(t)...)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	driver, err := cuda.Open(at)
	must(err)
	context, err := driver.Context(0)
	must(err)
	release, err := context.Bind()
	must(err)
	defer release()
	kernels, err := gpukernels.Load(driver, 0, context, gpukernels.Arithmetic{})
	must(err)
	defer kernels.Close()
	for library, want := range map[string]string{at: `toy +up +5 +16 +8 +1\.0 +1 +[0-9.]+ +[0-9.]+ +[0-9.]+ +0\.0`, "/nowhere/libcublasLt.so.12": `1\.0 +1 +- +- +- +0\.0`} {
		t.Setenv(blasVariable, library)
		beside, err := newBLASTimer(context, func(blas *cuda.BLAS) (*gpukernels.Chooser, error) {
			return gpukernels.NewChooser(context, kernels, blas, gpukernels.Float16, gpukernels.LibraryProducts, nil, 0)
		})
		must(err)
		row := kernelRow{Model: "toy", Kernel: "up", M: 5, N: 16, K: 8, Microseconds: 1, Copies: 1, Bound: 0.01, By: "memory"}
		must(beside.time(productShape{"up", 5, 16, 8}, &row))
		must(beside.close())
		var out bytes.Buffer
		must((&gpuReport{Kernels: []kernelRow{row}}).print(&out))
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%s: %s", library, out.String())
		}
	}
}

// So are the products of training, and nothing else of it.
func TestBenchTrainingProducts(t *testing.T) {
	at := emulated.LibraryOfBFloat16(t, emulated.Unwatched, emulated.Sources(t)...)
	t.Setenv(blasVariable, at)
	driver, err := cuda.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	b := gpuBench{work: gpuWork{rounds: 1, pieces: 30}}
	rows, err := b.timeTraining(driver, toys()[0].(student), cards()[0])
	if err != nil {
		t.Fatal(err)
	}
	beside := 0
	for _, row := range rows {
		product := !strings.HasPrefix(row.Kernel, "output layer") && !strings.HasPrefix(row.Kernel, "update")
		if product != (row.Library > 0) || product != (row.SameBits > 0) {
			t.Errorf("%+v", row)
		}
		if product {
			beside++
		}
	}
	if beside != 12 { // four shapes in three orders
		t.Errorf("%d products beside those of cuBLASLt", beside)
	}
}

// Training is bounded as a better card is faster, a larger student slower, and never faster than its products at the peak.
func TestTrainingRoofline(t *testing.T) {
	slow, fast := cardNamed(t, "L4"), cardNamed(t, "B200")
	for i, s := range students() {
		if slow.trainingRoofline(s, trainingPieces) >= fast.trainingRoofline(s, trainingPieces) ||
			fast.trainingRoofline(s, 1024) >= fast.trainingRoofline(s, trainingPieces) {
			t.Errorf("%s: the bounds contradict each other", s.Name)
		}
		if i > 0 && fast.trainingRoofline(s, trainingPieces) >= fast.trainingRoofline(students()[i-1], trainingPieces) {
			t.Errorf("%s is faster than a smaller student", s.Name)
		}
		output := s.size().outputProduct(trainingPieces)
		if most := trainingPieces * fast.tensor / (4 * output.operations()); fast.trainingRoofline(s, trainingPieces) > most {
			t.Errorf("%s is trained faster than its output layer", s.Name)
		}
	}
	if n := students()[0].parameters(); n < 15e6 || n > 18e6 {
		t.Errorf("the tiny student has %v parameters, want about 16 million", n)
	}
	var out bytes.Buffer
	if err := printRoofline(&out, gpukernels.Arithmetic{}); err != nil || strings.Count(out.String(), "H200") != 5 {
		t.Errorf("the table has no row of training: %s, %v", out.String(), err)
	}
}
