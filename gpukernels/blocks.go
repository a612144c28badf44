package gpukernels

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// A Block is what a block of a kernel has.
type Block struct {
	Kernel  string
	Threads int
	Shared  int // dynamic shared memory in bytes
	Least   int // 10 times the compute capability that it needs
}

var targetOfProgram = regexp.MustCompile(`(?m)^\.target sm_(\d+)$`)

var threadsOfEntry = regexp.MustCompile(`(?s)\.entry (\w+)\(.*?\.maxntid (\d+), 1, 1\n`)

// Blocks lists the kernels by their names: for those who ask how many blocks fit on a multiprocessor.
func Blocks() ([]Block, error) {
	var all []Block
	sources := maps.Clone(sources)
	maps.Copy(sources, trainingSources)
	for _, products := range []Products{Int8, FP8} {
		sources[products.String()] = products.kernels()
	}
	for source, kernels := range sources {
		ptx, err := programs.ReadFile("ptx/" + source + ".ptx")
		if err != nil {
			return nil, err
		}
		target := targetOfProgram.FindSubmatch(ptx)
		if target == nil {
			return nil, fmt.Errorf("%s.ptx does not say what device it is for", source)
		}
		least, err := strconv.Atoi(string(target[1]))
		if err != nil {
			return nil, fmt.Errorf("%s.ptx: %w", source, err)
		}
		found := threadsOfEntry.FindAllStringSubmatch(string(ptx), -1)
		if len(found) != len(kernels) {
			return nil, fmt.Errorf("%s.ptx says of %d kernels how many threads a block has, not of %d", source, len(found), len(kernels))
		}
		for _, entry := range found {
			threads, err := strconv.Atoi(entry[2])
			if err != nil {
				return nil, fmt.Errorf("%s.ptx, kernel %s: %w", source, entry[1], err)
			}
			all = append(all, Block{entry[1], threads, kernels[entry[1]], least})
		}
	}
	slices.SortFunc(all, func(x, y Block) int { return cmp.Compare(x.Kernel, y.Kernel) })
	return all, nil
}
