// Package checkpoint keeps the state of a training run in files, so that a run that was interrupted at any moment, even in
// the middle of writing, continues as if it had not been.
//
// A checkpoint appears under its name only when all of it is on the disk: it is written to a temporary file, flushed and
// renamed. The last few are kept. A file is
//
//	8 bytes "sluicect", u32 version, u32 length of the state, the state (JSON),
//	u32 number of vectors, for each: u32 length of its name, the name, u64 elements,
//	the elements of all vectors (float32), u32 CRC-32C of everything before.
//
// All numbers are little-endian.
package checkpoint

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	magic   = "sluicect"
	version = 1

	maxState, maxName, maxVectors = 64 << 20, 1 << 10, 1 << 10 // far above what there is
)

// ErrNone is returned by Latest if there is no checkpoint.
var ErrNone = errors.New("there is no checkpoint")

// ErrDamaged is wrapped by the errors about files that are not what a run wrote.
var ErrDamaged = errors.New("the checkpoint is damaged")

// A Vector is a named list of numbers.
type Vector struct {
	Name   string
	Values []float32
}

// A Checkpoint is a state, in JSON, and vectors.
type Checkpoint struct {
	State   json.RawMessage
	Vectors []Vector
}

// Vector returns the values of the vector of that name; nil if there is none.
func (c *Checkpoint) Vector(name string) []float32 {
	for _, v := range c.Vectors {
		if v.Name == name {
			return v.Values
		}
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	prefix, suffix = "update-", ".checkpoint"
	digits         = 10
)

func name(update int) string { return fmt.Sprintf("%s%0*d%s", prefix, digits, update, suffix) }

// numbered returns the update in a checkpoint's name.
func numbered(file string) (update int, ok bool) {
	number, ok := strings.CutPrefix(file, prefix)
	if !ok {
		return 0, false
	}
	if number, ok = strings.CutSuffix(number, suffix); !ok {
		return 0, false
	}
	update, err := strconv.Atoi(number)
	return update, err == nil && update >= 0 && name(update) == file
}

// list returns the updates of the checkpoints in a folder, the latest first.
func list(folder string) ([]int, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var updates []int
	for _, e := range entries {
		if update, ok := numbered(e.Name()); ok {
			updates = append(updates, update)
		}
	}
	slices.Sort(updates)
	slices.Reverse(updates)
	return updates, nil
}

// Write adds a checkpoint to the folder, which is made if need be, and deletes all but the last keep ones and what
// interrupted runs left behind.
func Write(folder string, update int, c *Checkpoint, keep int) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return fmt.Errorf("writing a checkpoint: %w", err)
	}
	path := filepath.Join(folder, name(update))
	if err := writeFile(path, c); err != nil {
		return fmt.Errorf("writing the checkpoint %s: %w", path, err)
	}
	if err := prune(folder, keep); err != nil {
		return fmt.Errorf("deleting old checkpoints in %s: %w", folder, err)
	}
	return nil
}

func writeFile(path string, c *Checkpoint) error {
	temporary := fmt.Sprintf("%s.%08x%s", path, rand.Uint32(), temporarySuffix)
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	err = errors.Join(c.encode(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return syncFolder(filepath.Dir(path))
}

const temporarySuffix = ".tmp"

// syncFolder makes a rename durable. Some systems cannot open folders; there a rename is as durable as it gets.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, os.ErrInvalid) && !errors.Is(err, os.ErrPermission) {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// prune deletes old checkpoints and temporary files.
func prune(folder string, keep int) error {
	updates, err := list(folder)
	if err != nil {
		return err
	}
	var failures []error
	for _, update := range updates[min(max(keep, 1), len(updates)):] {
		failures = append(failures, os.Remove(filepath.Join(folder, name(update))))
	}
	left, err := filepath.Glob(filepath.Join(folder, prefix+"*"+suffix+".*"+temporarySuffix))
	failures = append(failures, err)
	for _, path := range left {
		failures = append(failures, os.Remove(path))
	}
	return errors.Join(failures...)
}

// encode writes the file's content.
func (c *Checkpoint) encode(w io.Writer) error {
	sum := crc32.New(castagnoli)
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<20)
	le := binary.LittleEndian
	head := append([]byte(magic), 0, 0, 0, 0)
	le.PutUint32(head[len(magic):], version)
	head = le.AppendUint32(head, uint32(len(c.State)))
	head = append(head, c.State...)
	head = le.AppendUint32(head, uint32(len(c.Vectors)))
	for _, v := range c.Vectors {
		head = le.AppendUint32(head, uint32(len(v.Name)))
		head = append(head, v.Name...)
		head = le.AppendUint64(head, uint64(len(v.Values)))
	}
	if _, err := out.Write(head); err != nil {
		return err
	}
	for _, v := range c.Vectors {
		if err := writeFloats(out, v.Values); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := w.Write(le.AppendUint32(nil, sum.Sum32()))
	return err
}

// floatChunk is how many numbers are converted at a time.
const floatChunk = 4096

func writeFloats(w io.Writer, values []float32) error {
	buffer := make([]byte, 0, 4*floatChunk)
	for len(values) > 0 {
		n := min(floatChunk, len(values))
		buffer = buffer[:0]
		for _, v := range values[:n] {
			buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(v))
		}
		if _, err := w.Write(buffer); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

// Latest returns the newest checkpoint in the folder that is whole. Damaged ones are passed over as long as an older one can
// be read; their errors are in skipped. Without any checkpoint the error is ErrNone.
func Latest(folder string) (c *Checkpoint, skipped, err error) {
	updates, err := list(folder)
	if err != nil {
		return nil, nil, fmt.Errorf("looking for checkpoints: %w", err)
	}
	if len(updates) == 0 {
		return nil, nil, ErrNone
	}
	for _, update := range updates {
		c, err := readFile(filepath.Join(folder, name(update)))
		if err == nil {
			return c, skipped, nil
		}
		skipped = errors.Join(skipped, err)
	}
	return nil, nil, skipped
}

func readFile(path string) (*Checkpoint, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a checkpoint: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading a checkpoint: %w", err)
	}
	c, err := decode(bufio.NewReaderSize(f, 1<<20), info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// A decoder reads no more than there is, whatever the lengths in the file say.
type decoder struct {
	r    io.Reader
	left int64 // bytes, the checksum left out
	sum  hash.Hash32
	err  error
}

func decode(r io.Reader, size int64) (*Checkpoint, error) {
	d := &decoder{r: r, left: size - 4, sum: crc32.New(castagnoli)}
	if string(d.bytes(len(magic))) != magic {
		d.fail("it does not begin as one")
	}
	if v := d.uint32(version, "version"); d.err == nil && v != version {
		d.fail("version %d", v)
	}
	c := &Checkpoint{State: d.bytes(int(d.uint32(maxState, "bytes of state")))}
	c.Vectors = d.vectors()
	for i := range c.Vectors {
		d.floats(c.Vectors[i].Values)
	}
	if d.err == nil && d.left != 0 {
		d.fail("%d bytes are left over", d.left)
	}
	sum := d.sum.Sum32()
	d.left = 4
	if stored := d.uint32(math.MaxUint32, "checksum"); d.err == nil && stored != sum {
		d.fail("the checksum is %08x, stored is %08x", sum, stored)
	}
	if d.err != nil {
		return nil, d.err
	}
	return c, nil
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
	}
}

// bytes returns the next n bytes; nil if there are not as many.
func (d *decoder) bytes(n int) []byte {
	if d.err != nil {
		return nil
	}
	if int64(n) > d.left {
		d.fail("it is cut short")
		return nil
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(d.r, b); err != nil {
		d.fail("%v", err)
		return nil
	}
	d.left -= int64(n)
	d.sum.Write(b)
	return b
}

func (d *decoder) uint32(limit uint32, what string) uint32 {
	b := d.bytes(4)
	if b == nil {
		return 0
	}
	v := binary.LittleEndian.Uint32(b)
	if v > limit {
		d.fail("%d %s", v, what)
		return 0
	}
	return v
}

// vectors reads names and lengths, and makes the vectors, whose elements follow: all of them have to be in the file.
func (d *decoder) vectors() []Vector {
	vectors := make([]Vector, d.uint32(maxVectors, "vectors"))
	lengths := make([]uint64, len(vectors))
	total := uint64(0)
	for i := range vectors {
		vectors[i].Name = string(d.bytes(int(d.uint32(maxName, "bytes of a name"))))
		if b := d.bytes(8); b != nil {
			lengths[i] = binary.LittleEndian.Uint64(b)
		}
		if lengths[i] > math.MaxInt64/8 || total+lengths[i] > uint64(max(d.left, 0))/4 {
			d.fail("it is cut short")
		}
		if d.err != nil {
			return nil
		}
		total += lengths[i]
	}
	for i := range vectors {
		vectors[i].Values = make([]float32, lengths[i])
	}
	return vectors
}

func (d *decoder) floats(values []float32) {
	for len(values) > 0 && d.err == nil {
		n := min(floatChunk, len(values))
		b := d.bytes(4 * n)
		for i := range len(b) / 4 {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		values = values[n:]
	}
}
