package shortlist

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/sluice-mt/sluice/internal/binread"
	"github.com/sluice-mt/sluice/internal/compress"
)

// ErrUnsupported is wrapped by the error for a file of a kind that is known, but not read here.
var ErrUnsupported = errors.New("not supported")

// maxBytes bounds the size of a binary shortlist. The largest in use have a few megabytes.
const maxBytes = 1 << 30

// Options say how a shortlist is opened.
type Options struct {
	// Parameters of the choice from a text file. A binary file was made with its own, which it keeps.
	Parameters
	// Shared says that source and target have one vocabulary. The source pieces are then candidates too.
	Shared bool
	// Source and Target are the vocabularies. A binary file can be opened without them, to look at it.
	Source, Target Vocabulary
	// SkipChecksum leaves the checksum of a binary file unverified. Everything else is checked nevertheless.
	SkipChecksum bool
}

// A LineError says what is wrong with a line of a text file.
type LineError struct {
	Line    int // from 1
	Problem string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// Open reads the shortlist in a file, text or binary, compressed or not.
func Open(path string, options Options) (*Shortlist, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	list, err := Read(file, options)
	if err != nil {
		return nil, fmt.Errorf("shortlist %s: %w", path, err)
	}
	return list, nil
}

// Read reads a shortlist as Open does.
func Read(r io.Reader, options Options) (*Shortlist, error) {
	if err := options.Check(); err != nil {
		return nil, err
	}
	if o := options; o.Shared && o.Source != nil && o.Target != nil && o.Source.Size() != o.Target.Size() {
		return nil, fmt.Errorf("a vocabulary that is shared cannot have %d pieces in the source and %d in the target", o.Source.Size(), o.Target.Size())
	}
	plain, err := compress.NewReader(r)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	buffered := bufio.NewReaderSize(plain, lineLimit)
	head, err := buffered.Peek(512)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if err := refuse(head); err != nil {
		return nil, err
	}
	if isBinary(head) {
		data, err := binread.ReadAll(buffered, maxBytes)
		if err != nil {
			return nil, err
		}
		return decode(data, options)
	}
	return readText(buffered, options)
}

func isBinary(head []byte) bool {
	return len(head) >= 8 && binary.LittleEndian.Uint64(head) == magic
}

// quicksand begins Microsoft's shortlists, which Marian reads through a library that is not public.
const quicksand = 1234567890

// refuse names the formats that someone may well give, but that are not read, and says what to do.
func refuse(head []byte) error {
	switch {
	case len(head) == 0:
		return fmt.Errorf("the file is empty")
	case isBinary(head):
		return nil
	case len(head) >= 4 && binary.LittleEndian.Uint32(head) == quicksand:
		return fmt.Errorf("a Quicksand shortlist is %w: build one from word alignments (sluice shortlist build), or use the text file lex.s2t of the same model", ErrUnsupported)
	case len(head) >= 8 && binary.BigEndian.Uint64(head) == magic:
		return fmt.Errorf("a shortlist in big-endian byte order is %w: write it anew on a little-endian machine", ErrUnsupported)
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return fmt.Errorf("a zip archive or .npz model is %w as a shortlist: give the file lex.s2t or its binary form", ErrUnsupported)
	case bytes.IndexByte(head, 0) >= 0:
		return fmt.Errorf("a file that is neither text (target source probability) nor begins like Marian's binary shortlists is %w", ErrUnsupported)
	}
	return nil
}

// sizes checks that the vocabularies can be numbered by what is stored.
func (o Options) sizes() (sources, targets int, err error) {
	var missing []string
	if o.Source == nil {
		missing = append(missing, "source")
	}
	if o.Target == nil {
		missing = append(missing, "target")
	}
	if missing != nil {
		return 0, 0, fmt.Errorf("the text form holds pieces, not ids: it needs the %s vocabulary", strings.Join(missing, " and the "))
	}
	sources, targets = o.Source.Size(), o.Target.Size()
	if sources < 1 || targets < 1 || sources >= math.MaxInt32 || targets >= math.MaxInt32 {
		return 0, 0, fmt.Errorf("vocabularies of %d and %d pieces cannot be used", sources, targets)
	}
	return sources, targets, nil
}
