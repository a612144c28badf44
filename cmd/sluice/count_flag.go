package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// Bounds of what flags count: beyond them a machine can only run out of memory.
const (
	mostWorkers         = 1 << 12
	mostSlots           = 1 << 16
	mostMiniBatch       = 1 << 20 // sentences, and mini-batches of a maxi-batch
	mostMiniBatchPieces = 1 << 24
)

// A countFlag is a number from 0, which mostly lets it be chosen for this machine, to a bound.
type countFlag struct {
	value *int
	most  int
}

// countVar defines a countFlag whose default is 0.
func countVar(flags *pflag.FlagSet, value *int, name string, most int, usage string) {
	*value = 0
	flags.Var(countFlag{value, most}, name, usage)
}

func (f countFlag) String() string {
	if f.value == nil { // as pflag asks when it looks for zero values
		return "0"
	}
	return strconv.Itoa(*f.value)
}

func (f countFlag) Type() string { return "int" }

func (f countFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > f.most {
		return fmt.Errorf("want a whole number from 0 to %d", f.most)
	}
	*f.value = n
	return nil
}
