package marian

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// EightBitsAuto is the choice of rows in 8 bits that AutomaticRows makes.
const EightBitsAuto = "auto"

// RowsIn8Bits tells which matrices of a model in 4 bits shall have rows in 8 bits, and how many of their first ones. choice is
// EightBitsAuto, or names of matrices, separated by commas, in which * stands for anything. NAME:ROWS has that many rows in 8 bits,
// or all there are, and NAME alone all of them; the last word that fits a name counts. "" and "none" choose nothing. Of tensors,
// which are all those of a model, only names and shapes are looked at.
func RowsIn8Bits(choice string, tensors []*Tensor) (map[string]int, error) {
	switch choice {
	case EightBitsAuto:
		return AutomaticRows(tensors), nil
	case "", "none":
		return nil, nil
	}
	chosen := make(map[string]int)
	for word := range strings.SplitSeq(choice, ",") {
		pattern, count, limited := strings.Cut(strings.TrimSpace(word), ":")
		most, err := strconv.ParseUint(cmp.Or(count, "0"), 10, 31)
		if err != nil || limited && count == "" {
			return nil, fmt.Errorf("%q: want NAME:ROWS, such as Wemb:2000", word)
		}
		found := false
		for _, t := range tensors {
			fits, err := path.Match(pattern, t.Name)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", word, err)
			}
			rows, _ := t.Matrix()
			if !fits || rows == 1 || t.IsAlpha() {
				continue
			}
			found = true
			if limited {
				rows = min(rows, int(most))
			}
			chosen[t.Name] = rows
		}
		if !found {
			return nil, fmt.Errorf("%q: the model has no matrix of that name", word)
		}
	}
	return chosen, nil
}

// descriptionRoom is what AutomaticRows leaves for the description of a model.
const descriptionRoom = 2048

// smallerBy is how many times larger a model is in float32 than with AutomaticRows.
const smallerBy = 7

// AutomaticRows returns as many rows in 8 bits for each table of vectors (embeddings and output layers) as leave the file a seventh
// of the size that it has in float32. Vocabularies begin with the pieces that are used most, and nothing else that takes as few
// bytes brings back as much of what 4 bits lose.
func AutomaticRows(tensors []*Tensor) map[string]int {
	tables := make(map[string]int) // their rows
	most := 0
	for _, t := range tensors {
		if rows, _ := t.Matrix(); rows > 1 && IsTable(t.Name) {
			tables[t.Name] = rows
			most = max(most, rows)
		}
	}
	budget := binSize(tensors, func(t *Tensor) int { return 4 * t.Elements() })/smallerBy - descriptionRoom
	fits := sort.Search(most, func(rows int) bool { // one row less than the first number that is too large
		return binSize(tensors, func(t *Tensor) int { return sizeIn4Bits(t, min(rows+1, tables[t.Name])) }) > budget
	})
	for name, rows := range tables {
		if tables[name] = min(fits, rows); fits == 0 {
			delete(tables, name)
		}
	}
	return tables
}

// IsTable tells whether a matrix of that name is a table of vectors, one for each word, as embeddings and output layers are.
func IsTable(name string) bool {
	return strings.Contains(name, "Wemb") && !strings.HasSuffix(name, AlphaSuffix) || strings.HasSuffix(name, "_Wt")
}

// sizeIn4Bits returns how many bytes the data of a tensor take in 4 bits, with rows in 8 bits.
func sizeIn4Bits(t *Tensor, eight int) int {
	rows, cols := t.Matrix()
	switch {
	case rows == 1:
		return 4 * cols
	case eight == 0:
		return int(logBlocksBytes(uint64(rows * cols)))
	}
	return int(mixedBytes(uint64(rows), uint64(cols), uint64(eight)))
}

// binSize returns how long a .bin file is, without its description and alphas, if data takes so many bytes for each tensor.
func binSize(tensors []*Tensor, data func(*Tensor) int) int {
	stored := slices.DeleteFunc(slices.Clone(tensors), (*Tensor).IsAlpha)
	size := len(binHead(stored, Browsermt))
	for _, t := range stored {
		size += roundUp(data(t), binBlock)
	}
	return size
}
