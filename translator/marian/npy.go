package marian

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/sluice-mt/sluice/internal/binread"
)

// An .npy array is "\x93NUMPY", two version bytes, the length of the header (uint16 in version 1, uint32 later), the header
// as a Python dictionary of three keys, and the data.
const (
	npyMagic     = "\x93NUMPY"
	maxNPYHeader = 64 << 10
)

const remedyNPY = "write the array with numpy.save as a plain C-ordered number array"

// parseNPY reads an array. The result aliases data; at is where data begins in the file.
func parseNPY(name string, data []byte, at int64) (*Tensor, error) {
	r := binread.NewReader(data)
	header, err := readNPYHeader(r)
	if err != nil {
		return nil, inMember(err, name, at)
	}
	p := npyParser{text: header}
	if err := p.dictionary(); err != nil {
		return nil, problemf(name, at, remedyNPY, "the NumPy header %q: %v", shorten(header), err)
	}
	typ, problem := npyType(p.descr)
	if problem != "" {
		return nil, problemf(name, at, remedyNPY, "%s", problem)
	}
	if p.fortranOrder {
		return nil, problemf(name, at, "save numpy.ascontiguousarray of it", "is stored in Fortran order")
	}
	need, ok := storedBytes(p.shape, typ)
	if !ok || need != uint64(r.Remaining()) {
		return nil, problemf(name, at+r.Offset(), remedyDamaged, "has %d bytes of data, which is not %s of shape %v",
			r.Remaining(), typ, p.shape)
	}
	t := &Tensor{Name: name, Shape: p.shape, Type: typ, Offset: at + r.Offset()}
	t.Data, err = r.Bytes(need, "data")
	return t, err
}

// inMember moves an error that was found inside a member of an archive to its place in the file.
func inMember(err error, name string, at int64) error {
	e := *located(err)
	e.Tensor = name
	e.Offset += at
	return &e
}

func readNPYHeader(r *binread.Reader) (string, error) {
	magic, err := r.Bytes(uint64(len(npyMagic)), "NumPy magic")
	if err != nil {
		return "", err
	}
	if !bytes.Equal(magic, []byte(npyMagic)) {
		return "", problemf("", 0, "give the .npz that Marian wrote", "is not a NumPy array")
	}
	version, err := r.Uint16("NumPy format version")
	if err != nil {
		return "", err
	}
	var length uint32
	switch version { // the major version comes first, that is in the low byte
	case 1:
		var short uint16
		short, err = r.Uint16("length of the NumPy header")
		length = uint32(short)
	case 2, 3:
		length, err = r.Uint32("length of the NumPy header")
	default:
		return "", problemf("", 6, remedyNPY, "has the unknown NumPy format version %d.%d", version&0xff, version>>8)
	}
	if err != nil {
		return "", err
	}
	if length > maxNPYHeader {
		return "", problemf("", 8, remedyDamaged, "has a NumPy header of %d bytes", length)
	}
	header, err := r.Bytes(uint64(length), "NumPy header")
	return string(header), err
}

// npyType translates NumPy's description of a type. As Marian does, it takes signed numbers of 8 bytes for unsigned ones.
func npyType(descr string) (t Type, problem string) {
	order, kind := descr[:min(1, len(descr))], descr[min(1, len(descr)):]
	switch order {
	case "<", "|":
	case ">":
		return Invalid, "is stored with the high byte first (" + descr + ")"
	default:
		return Invalid, "has the type " + strconv.Quote(shorten(descr))
	}
	types := map[string]Type{"f2": Float16, "f4": Float32, "f8": Float64, "i1": Int8, "i2": Int16, "i4": Int32,
		"i8": Uint64, "u1": Uint8, "u2": Uint16, "u4": Uint32, "u8": Uint64}
	if t, ok := types[kind]; ok {
		return t, ""
	}
	switch {
	case strings.HasPrefix(kind, "O"):
		return Invalid, "holds pickled Python objects, not numbers"
	case kind == "b1":
		return Invalid, "holds truth values, not numbers"
	case strings.HasPrefix(kind, "c"):
		return Invalid, "holds complex numbers"
	}
	return Invalid, "has the type " + strconv.Quote(shorten(descr)) + ", which no Marian model uses"
}

func shorten(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
