package shortlist

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/sluice-mt/sluice/internal/binread"
)

// The binary form begins with six uint64: magic, checksum, first, best, number of offsets, number of ids. The offsets
// (uint64) and the ids (uint32) follow. All is little-endian.
const (
	magic         = 0xF11A48D5013417F5
	headerSize    = 48
	checkedFrom   = 16 // the checksum covers what comes after magic and checksum
	checksumTerm  = 0x9e3779b9
	offsetsInFile = 4 // position of the number of offsets among the header's numbers
)

// checksum mixes all complete uint64 of data, as Marian does. An odd number of ids leaves the last of them uncovered.
func checksum(data []byte) uint64 {
	var h uint64
	for ; len(data) >= 8; data = data[8:] {
		h ^= binary.LittleEndian.Uint64(data) + checksumTerm + h<<6 + h>>2
	}
	return h
}

// decode reads the binary form. The Shortlist aliases data.
func decode(data []byte, options Options) (*Shortlist, error) {
	r := binread.NewReader(data)
	var header [6]uint64
	for i, what := range [...]string{"magic number", "checksum", "first", "best", "number of offsets", "number of ids"} {
		v, err := r.Uint64(what)
		if err != nil {
			return nil, err
		}
		header[i] = v
	}
	list := &Shortlist{shared: options.Shared}
	if err := list.readSizes(r, header, options); err != nil {
		return nil, err
	}
	if sum := checksum(data[checkedFrom:]); !options.SkipChecksum && sum != header[1] {
		return nil, binread.Errorf(8, "checksum", "is %#x, but the data give %#x: the file is damaged, fetch or make it anew", header[1], sum)
	}
	if err := list.checkOffsets(); err != nil {
		return nil, err
	}
	return list, list.checkIDs(options)
}

// readSizes takes first, best, offsets and ids, and checks that the file is exactly as long as they say.
func (s *Shortlist) readSizes(r *binread.Reader, header [6]uint64, options Options) error {
	for i, what := range []string{"first", "best"} {
		if v := header[2+i]; v > math.MaxInt32 {
			return binread.Errorf(int64(16+8*i), what, "is %d, which no vocabulary reaches", v)
		}
	}
	s.params = Parameters{First: int(header[2]), Best: int(header[3])}
	offsetBytes, fits := binread.Product(header[offsetsInFile], 8)
	idBytes, idsFit := binread.Product(header[5], 4)
	remaining := uint64(r.Remaining())
	switch {
	case header[offsetsInFile] < 2:
		return binread.Errorf(32, "number of offsets", "is %d, but two is the least", header[offsetsInFile])
	case !fits || offsetBytes > remaining || !idsFit || idBytes > remaining-offsetBytes:
		return binread.Errorf(32, "sizes", "%d offsets and %d ids do not fit into the %d bytes that follow: the file is cut short or damaged",
			header[offsetsInFile], header[5], remaining)
	case offsetBytes+idBytes < remaining:
		return binread.Errorf(headerSize+int64(offsetBytes+idBytes), "end", "%d bytes follow that nothing accounts for", remaining-offsetBytes-idBytes)
	}
	if v := options.Source; v != nil && header[offsetsInFile] != uint64(v.Size())+1 {
		return binread.Errorf(32, "number of offsets", "is %d, made for a source vocabulary of %d pieces, but this one has %d: use the shortlist of the same model",
			header[offsetsInFile], header[offsetsInFile]-1, v.Size())
	}
	var err error
	if s.offsets, err = r.Bytes(offsetBytes, "offsets"); err != nil {
		return err
	}
	s.ids, err = r.Bytes(idBytes, "ids")
	return err
}

func (s *Shortlist) checkOffsets() error {
	entries := uint64(s.Entries())
	last := uint64(0)
	for i := range len(s.offsets) / 8 {
		v := binary.LittleEndian.Uint64(s.offsets[8*i:])
		if v < last || v > entries || i == 0 && v != 0 {
			return binread.Errorf(headerSize+int64(8*i), fmt.Sprintf("offset %d", i), "is %d, but must be between %d and %d", v, last, entries)
		}
		last = v
	}
	if last != entries {
		return binread.Errorf(headerSize+int64(len(s.offsets)-8), "last offset", "is %d, but there are %d ids", last, entries)
	}
	return nil
}

func (s *Shortlist) checkIDs(options Options) error {
	limit := uint32(math.MaxInt32)
	if options.Target != nil {
		limit = uint32(options.Target.Size())
	}
	largest := uint32(0)
	for i := range s.Entries() {
		id := binary.LittleEndian.Uint32(s.ids[4*i:])
		if id >= limit {
			return binread.Errorf(headerSize+int64(len(s.offsets)+4*i), fmt.Sprintf("id %d", i), "is %d, but the target vocabulary ends before %d", id, limit)
		}
		largest = max(largest, id)
	}
	s.targets = int(largest) + 1
	if options.Target != nil {
		s.targets = options.Target.Size()
	}
	return nil
}

// WriteTo writes the binary form. The last source piece gets one entry, id 0, if it has none, since Marian's readers
// want every offset but the last below the number of ids.
func (s *Shortlist) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(s.encode())
	return int64(n), err
}

func (s *Shortlist) encode() []byte {
	offsets, ids := s.offsets, s.ids
	if s.lastIsEmpty() {
		ids = append(bytes.Clone(ids), 0, 0, 0, 0)
		offsets = bytes.Clone(offsets)
		binary.LittleEndian.PutUint64(offsets[len(offsets)-8:], uint64(len(ids)/4))
	}
	data := make([]byte, 0, headerSize+len(offsets)+len(ids))
	for _, v := range []uint64{magic, 0, uint64(s.params.First), uint64(s.params.Best), uint64(len(offsets) / 8), uint64(len(ids) / 4)} {
		data = binary.LittleEndian.AppendUint64(data, v)
	}
	data = append(append(data, offsets...), ids...)
	binary.LittleEndian.PutUint64(data[8:], checksum(data[checkedFrom:]))
	return data
}

func (s *Shortlist) lastIsEmpty() bool {
	from, to := s.bounds(s.Sources() - 1)
	return from == to
}
