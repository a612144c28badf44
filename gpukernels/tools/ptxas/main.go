// Command ptxas makes tables of what NVIDIA's assembler says of the kernels: registers, spills and shared memory, and how many warps of a
// multiprocessor they occupy.
//
//	go run ./gpukernels/tools/ptxas [-write] PAGE LOG...
//
// Each LOG is what ptxas -v wrote, in a file called DEVICE-RELEASE: sm_80-13.5. It fails if anything is spilled, or if the table of
// occupancy in PAGE is not what the logs of the last release give; -write puts it there.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/sluice-mt/sluice/gpukernels"
)

func main() {
	write := flag.Bool("write", false, "put the table of occupancy into the page")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: ptxas [-write] PAGE LOG...")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Args()[1:], *write); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(page string, files []string, write bool) error {
	var logs []log
	spilled := 0
	for _, file := range files {
		l, err := readLog(file)
		if err != nil {
			return err
		}
		l.print(os.Stdout)
		logs, spilled = append(logs, l), spilled+l.spilled()
	}
	if spilled > 0 {
		return fmt.Errorf("kernels spill %d bytes of registers", spilled)
	}
	blocks, err := gpukernels.Blocks()
	if err != nil {
		return err
	}
	table, err := occupancyTable(blocks, logs)
	if err != nil {
		return err
	}
	fmt.Println()
	fmt.Print(table)
	return keepTable(page, table, write)
}

// keepTable compares a table with that of a page, or puts it there.
func keepTable(page, table string, write bool) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	with, err := replaceTable(string(text), table)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	switch {
	case with == string(text):
		return nil
	case write:
		return os.WriteFile(page, []byte(with), 0o666)
	}
	return errors.New(page + " has another table of occupancy: run scripts/ptx.sh")
}
