//go:build linux && (amd64 || arm64) && !nogpu

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

// The benchmark trains a small student on an emulated device, whose speed says nothing.
func TestBenchTraining(t *testing.T) {
	driver, err := cuda.Open(emulated.LibraryOfBFloat16(t, emulated.Sources(t)...))
	if err != nil {
		t.Fatal(err)
	}
	row, err := benchTraining(driver, 0, student{"toy", 1, 2, 32, 64, 2, 50}, cards()[0], 30, 1)
	if err != nil || !(row.PerSecond > 0) || !(row.Bound > 0) || row.Pieces != 30 {
		t.Fatalf("%+v, %v", row, err)
	}
	var out bytes.Buffer
	printTraining(&out, []trainingRow{row})
	if !strings.Contains(out.String(), "toy") {
		t.Errorf("the table is %s", out.String())
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
		output := s.outputProduct(trainingPieces)
		if most := trainingPieces * fast.tensor / (4 * output.operations()); fast.trainingRoofline(s, trainingPieces) > most {
			t.Errorf("%s is trained faster than its output layer", s.Name)
		}
	}
	if n := students()[0].parameters(); n < 15e6 || n > 18e6 {
		t.Errorf("the tiny student has %v parameters, want about 16 million", n)
	}
	var out bytes.Buffer
	if err := printRoofline(&out); err != nil || strings.Count(out.String(), "H200") != 4 {
		t.Errorf("the table has no row of training: %s, %v", out.String(), err)
	}
}
