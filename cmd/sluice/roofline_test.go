package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels"
)

// More of anything is never slower on a better card, and the table says that it is no measurement.
func TestRoofline(t *testing.T) {
	slow, fast := cards()[3], cards()[7] // L4, B200
	for i, s := range students() {
		if slow.roofline(s, 512, 1) >= fast.roofline(s, 512, 1) || fast.roofline(s, 1, 1) >= fast.roofline(s, 512, 1) ||
			fast.roofline(s, 512, 4) >= fast.roofline(s, 512, 1) {
			t.Errorf("%s: the bounds contradict each other", s.Name)
		}
		if i > 0 && fast.roofline(s, 512, 1) >= fast.roofline(students()[i-1], 512, 1) {
			t.Errorf("%s is faster than a smaller student", s.Name)
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
	var table bytes.Buffer
	if err := printRoofline(&table, inFP8); err != nil || strings.Count(table.String(), "A100") != 2 { // those of training
		t.Errorf("cards without fp8 are in its table: %s, %v", table.String(), err)
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
