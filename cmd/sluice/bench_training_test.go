//go:build linux && (amd64 || arm64) && !nogpu

package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/translator/gpumodel"
)

// The benchmark trains a small student on an emulated device, whose speed says nothing.
func TestBenchTraining(t *testing.T) {
	driver, err := cuda.Open(emulated.LibraryOfBFloat16(t, emulated.Unwatched, emulated.Sources(t)...))
	if err != nil {
		t.Fatal(err)
	}
	row, err := benchTraining(driver, 0, student{"toy", 1, 2, 32, 64, 2, 50, ofSSRUs}, cards()[0], 30, 1)
	if err != nil || !(row.PerSecond > 0) || !(row.Bound > 0) || row.Pieces != 30 {
		t.Fatalf("%+v, %v", row, err)
	}
	var out bytes.Buffer
	printTraining(&out, []trainingRow{row})
	if !strings.Contains(out.String(), "toy") {
		t.Errorf("the table is %s", out.String())
	}
}

// The benchmark translates with all kinds of models.
func TestBenchKinds(t *testing.T) {
	driver, err := cuda.Open(emulated.Library(t, emulated.Unwatched, emulated.Sources(t)...))
	if err != nil {
		t.Fatal(err)
	}
	device, err := gpumodel.Open(driver, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	b := gpuBench{streams: []int{1}, slots: []int{2}, beams: []int{1, 2}, sentences: 2}
	for _, a := range []architecture{
		student{"toy with attention", 1, 2, 32, 64, 2, 50, ofAttention}, student{"toy with averages", 1, 2, 32, 64, 2, 50, ofAverages},
		recurrentModel{"toy of one layer", "nematus", "gru-nematus", 3, 1, 1, 32, 48, 50}, recurrentModel{"deep toy", "s2s", "lstm", 4, 2, 3, 32, 48, 50},
	} {
		name := a.size().Name
		rows, err := b.measure(device, a, cards()[0])
		if err != nil || len(rows) != 2 {
			t.Fatalf("%s: %+v, %v", name, rows, err)
		}
		for _, row := range rows {
			if row.Model != name || !(row.PerSecond > 0) || !(row.Bound > 0) || !(row.Step > 0) {
				t.Errorf("%+v", row)
			}
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
	for library, want := range map[string]string{at: `toy +up +5 +16 +8 +1\.0 +[0-9.]+ +[0-9.]+ +0\.0`, "/nowhere/libcublasLt.so.12": `1\.0 +- +- +0\.0`} {
		t.Setenv(blasVariable, library)
		beside, err := newBLASTimer(context, kernels, gpukernels.Float16)
		must(err)
		row := kernelRow{Model: "toy", Product: "up", M: 5, N: 16, K: 8, Microseconds: 1}
		must(beside.time(productShape{"up", 5, 16, 8}, &row))
		must(beside.close())
		var out bytes.Buffer
		must((&gpuReport{Kernels: []kernelRow{row}}).print(&out))
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%s: %s", library, out.String())
		}
	}
}

// Training is bounded as a better card is faster, a larger student slower, and never faster than its products at the peak.
func TestTrainingRoofline(t *testing.T) {
	slow, fast := cards()[3], cards()[7] // L4, B200
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
	if err := printRoofline(&out, gpukernels.Arithmetic{}); err != nil || strings.Count(out.String(), "H200") != 4 {
		t.Errorf("the table has no row of training: %s, %v", out.String(), err)
	}
}
