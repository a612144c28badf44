package marian

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
)

// maxDeflate is a little more than the most that deflate can shrink data (1032:1).
const maxDeflate = 1040

// An npzReader reads the members of an archive and watches over what they may take.
type npzReader struct {
	data    []byte
	unpack  int64 // bytes that compressed members may still unpack to
	members []member
	ranges  []byteRange
}

// A byteRange is the part of the file that a member occupies.
type byteRange struct {
	name       string
	start, end int64
}

// parseNPZ reads an archive. Stored members alias data, compressed ones are unpacked, to limit bytes in all. The checksums
// of stored members are left to File.Verify, because checking them means reading the whole file.
func parseNPZ(data []byte, limit int64) (*File, error) {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, &Error{Offset: nowhere, Problem: "the .npz archive has no readable directory", Err: err,
			Remedy: remedyDamaged}
	}
	r := npzReader{data: data, unpack: limit}
	var c collector
	for _, entry := range archive.File {
		t, err := r.tensor(entry)
		if err != nil {
			return nil, err
		}
		if err := c.add(t); err != nil {
			return nil, err
		}
	}
	if err := r.checkOverlap(); err != nil {
		return nil, err
	}
	if len(c.tensors) == 0 {
		return nil, problemf("", nowhere, "give the .npz that Marian wrote", "the archive holds no tensors")
	}
	f := newFile("", NPZ, c.config, c.tensors)
	f.members = r.members
	return f, nil
}

func (r *npzReader) tensor(entry *zip.File) (*Tensor, error) {
	base, ok := strings.CutSuffix(entry.Name, ".npy")
	if !ok {
		return nil, problemf("", nowhere, "give the .npz that Marian wrote",
			"the archive holds %q, which is not a NumPy array", shorten(entry.Name))
	}
	name, err := tensorName(base, nowhere)
	if err != nil {
		return nil, err
	}
	if entry.Flags&1 != 0 {
		return nil, problemf(name, nowhere, "write it without a password", "is encrypted in the archive")
	}
	raw, at, err := r.raw(entry, name)
	if err != nil {
		return nil, err
	}
	switch entry.Method {
	case zip.Store:
		if entry.CompressedSize64 != entry.UncompressedSize64 {
			return nil, problemf(name, at, remedyDamaged, "is stored plainly, but with two different sizes")
		}
		r.members = append(r.members, member{name: name, data: raw, crc: entry.CRC32})
		return parseNPY(name, raw, at)
	case zip.Deflate:
		unpacked, err := r.inflate(entry, name, at)
		if err != nil {
			return nil, err
		}
		t, err := parseNPY(name, unpacked, 0)
		if err != nil {
			return nil, withOffset(err, at)
		}
		return t, nil
	}
	return nil, problemf(name, at, "write the archive with numpy.savez or numpy.savez_compressed",
		"is compressed with method %d of the zip format", entry.Method)
}

// withOffset gives an error inside a compressed member the place where the member begins.
func withOffset(err error, at int64) error {
	e := *located(err)
	e.Offset = at
	return &e
}

// raw returns the bytes of a member as they are in the file, and where they begin.
func (r *npzReader) raw(entry *zip.File, name string) (data []byte, at int64, err error) {
	at, err = entry.DataOffset()
	if err != nil {
		return nil, 0, &Error{Tensor: name, Offset: nowhere, Problem: "cannot be found in the archive", Err: err,
			Remedy: remedyDamaged}
	}
	size := int64(len(r.data))
	if at < 0 || at > size || entry.CompressedSize64 > uint64(size-at) {
		return nil, 0, problemf(name, at, remedyDamaged, "has %d bytes of data, but the file ends at byte %d",
			entry.CompressedSize64, size)
	}
	end := at + int64(entry.CompressedSize64)
	r.ranges = append(r.ranges, byteRange{name: name, start: at, end: end})
	return r.data[at:end:end], at, nil
}

// inflate unpacks a member. Its size is what the directory says, within what deflate can do and what is still allowed.
func (r *npzReader) inflate(entry *zip.File, name string, at int64) ([]byte, error) {
	size := entry.UncompressedSize64
	if size/maxDeflate > entry.CompressedSize64 {
		return nil, problemf(name, at, remedyDamaged, "claims to unpack from %d to %d bytes", entry.CompressedSize64, size)
	}
	if size > uint64(r.unpack) {
		return nil, problemf(name, at, "this is not a model as Marian writes it; unpack the archive yourself if you trust it",
			"unpacks to %d bytes, which is more than is accepted of a file of this size", size)
	}
	r.unpack -= int64(size)
	stream, err := entry.Open()
	if err == nil {
		data := make([]byte, size)
		_, err = io.ReadFull(stream, data)
		if err == nil {
			err = expectEnd(stream) // the reader compares the checksum when it meets the end
		}
		if err = errors.Join(err, stream.Close()); err == nil {
			return data, nil
		}
	}
	return nil, &Error{Tensor: name, Offset: at, Problem: "cannot be unpacked", Err: err, Remedy: remedyDamaged}
}

func expectEnd(r io.Reader) error {
	var one [1]byte
	n, err := io.ReadFull(r, one[:])
	switch {
	case n > 0:
		return errors.New("it is longer than the directory says")
	case err == io.EOF:
		return nil
	}
	return err
}

// checkOverlap refuses members that share bytes: no writer makes them, and they let a small file pose as a large model.
func (r *npzReader) checkOverlap() error {
	slices.SortFunc(r.ranges, func(a, b byteRange) int {
		if a.start != b.start {
			return int(min(1, max(-1, a.start-b.start)))
		}
		return int(min(1, max(-1, a.end-b.end)))
	})
	for i := 1; i < len(r.ranges); i++ {
		before, this := r.ranges[i-1], r.ranges[i]
		if this.start < before.end {
			return problemf(this.name, this.start, remedyDamaged, "shares its bytes with tensor %q", before.name)
		}
	}
	return nil
}
