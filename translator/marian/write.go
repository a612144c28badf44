package marian

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/sluice-mt/sluice/internal/wholefile"
)

// sorted returns the tensors in the order in which Marian writes them, by name, after checking that each can be written.
func (f *File) sorted() ([]*Tensor, error) {
	tensors := slices.SortedFunc(slices.Values(f.Tensors), func(a, b *Tensor) int { return cmp.Compare(a.Name, b.Name) })
	for i, t := range tensors {
		if err := t.writable(); err != nil {
			return nil, err
		}
		if i > 0 && tensors[i-1].Name == t.Name {
			return nil, problemf(t.Name, nowhere, "", "is there twice")
		}
	}
	return tensors, nil
}

func (t *Tensor) writable() error {
	if name, err := tensorName(t.Name, nowhere); err != nil {
		return err
	} else if name != t.Name || name == ConfigName {
		return problemf(t.Name, nowhere, "", "is not a name that a tensor can have in a file")
	}
	if len(t.Shape) > maxRank {
		return problemf(t.Name, nowhere, "", "has %d dimensions", len(t.Shape))
	}
	for _, d := range t.Shape {
		if d > math.MaxInt32 {
			return problemf(t.Name, nowhere, "", "has the shape %v, beyond what the format can say", t.Shape)
		}
	}
	return t.check()
}

// configTensor wraps the description as the tensor that both formats store it in: with one NUL after it, and with more to
// fill a block if padded. It is nil if there is no description.
func configTensor(config []byte, padded bool) (*Tensor, error) {
	if config == nil {
		return nil, nil
	}
	size := len(config) + 1
	if padded {
		size = roundUp(size, binBlock)
	}
	data := make([]byte, size)
	copy(data, config)
	t := &Tensor{Name: ConfigName, Shape: []int{size}, Type: Int8, Data: data, Offset: nowhere}
	_, err := configOf(t)
	return t, err
}

// printedAgain returns the description as it looks after mainline's marian-conv has parsed and printed it: training puts the
// brackets of an empty list on a line of their own, the converter behind the key.
func printedAgain(config []byte) []byte {
	return bytes.ReplaceAll(config, []byte(":\n  []\n"), []byte(": []\n"))
}

func roundUp(n, block int) int { return (n + block - 1) / block * block }

// writeFile writes a file so that under its name there is, at any moment, what was there before or all of the new content:
// into a file without a name, flushed to the disk and then named.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := wholefile.Create(path)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return withPath(errors.Join(err, f.Discard()), path)
	}
	if err := f.Publish(); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}
