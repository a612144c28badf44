package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/translator/vocab"
)

func newInspectVocabCommand() *cobra.Command {
	var text string
	var list, asJSON bool
	input, output := newGroup("Input options"), newGroup("Output options")
	input.flags.StringVar(&text, "text", "", "text to say of into how many pieces it is divided")
	output.flags.BoolVar(&list, "pieces", false, "print id and piece of all pieces instead")
	output.flags.BoolVar(&asJSON, "json", false, "print JSON")
	command := &cobra.Command{
		Use:   "inspect FILE [--text FILE | --pieces] [--json]",
		Short: "Say what a vocabulary holds, and how well it suits a text",
		Args:  exactArguments(1, "one vocabulary"),
		RunE: func(command *cobra.Command, arguments []string) error {
			v, err := openVocabulary(arguments[0])
			if err != nil {
				return err
			}
			if list {
				return writePieces(command.OutOrStdout(), v)
			}
			report, err := inspectVocabulary(command.Context(), arguments[0], v, text)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(command.OutOrStdout(), report)
			}
			return writeOutput(command.OutOrStdout(), report.text())
		},
	}
	addGroups(command, input, output)
	return command
}

func writePieces(w io.Writer, v vocab.Vocabulary) error {
	return writeTo(w, "-", func(w io.Writer) error {
		for id := range int32(v.Size()) {
			if _, err := fmt.Fprintf(w, "%d\t%s\n", id, v.Piece(id)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A vocabReport is what "sluice vocab inspect" tells.
type vocabReport struct {
	Path        string      `json:"path"`
	Bytes       int64       `json:"bytes"`
	Fingerprint string      `json:"fingerprint"`
	Pieces      int         `json:"pieces"`
	EOS         int32       `json:"eos"`
	Unk         int32       `json:"unk"`
	Control     int         `json:"control"`
	BytePieces  int         `json:"byte_pieces"`
	Text        *textPieces `json:"text,omitempty"`
}

// textPieces say into what a text is divided.
type textPieces struct {
	Path       string  `json:"path"`
	Sentences  int64   `json:"sentences"`
	Words      int64   `json:"words"`
	Pieces     int64   `json:"pieces"`
	Used       int     `json:"used_pieces"`      // distinct ones
	Unknown    int64   `json:"unknown"`          // occurrences of the unknown piece
	Bytes      int64   `json:"bytes"`            // occurrences of byte pieces
	PerLine    float64 `json:"per_sentence"`     // mean number of pieces
	PerWord    float64 `json:"per_word"`         // mean number of pieces
	Characters float64 `json:"characters"`       // mean length of a piece in the text
	Longest    int     `json:"longest_sentence"` // in pieces
}

func inspectVocabulary(ctx context.Context, path string, v vocab.Vocabulary, text string) (*vocabReport, error) {
	r := &vocabReport{Path: path, Bytes: fileSize(path), Fingerprint: v.Fingerprint(), Pieces: v.Size(), EOS: v.EOS(), Unk: v.Unk()}
	isByte := make([]bool, v.Size())
	for c := range 256 {
		if id, ok := v.ID(fmt.Sprintf("<0x%02X>", c)); ok {
			isByte[id] = true
			r.BytePieces++
		}
	}
	for id := range int32(v.Size()) {
		if v.IsControl(id) {
			r.Control++
		}
	}
	if text == "" {
		return r, nil
	}
	counted, err := countPieces(ctx, v, isByte, text)
	r.Text = counted
	return r, err
}

// countPieces divides a text and counts.
func countPieces(ctx context.Context, v vocab.Vocabulary, isByte []bool, path string) (*textPieces, error) {
	counted := &textPieces{Path: path}
	used := make([]bool, v.Size())
	characters := int64(0)
	var ids []int32
	err := eachLine(path, func(line string) error {
		if ctx.Err() != nil {
			return errInterrupted
		}
		ids = v.Encode(line, ids[:0])
		counted.Sentences++
		counted.Words += int64(len(strings.Fields(line)))
		counted.Pieces += int64(len(ids))
		counted.Longest = max(counted.Longest, len(ids))
		characters += int64(len([]rune(line)))
		for _, id := range ids {
			if !used[id] {
				used[id] = true
				counted.Used++
			}
			if isByte[id] {
				counted.Bytes++
			}
			if id == v.Unk() {
				counted.Unknown++
			}
		}
		return nil
	})
	counted.PerLine = float64(counted.Pieces) / float64(max(1, counted.Sentences))
	counted.PerWord = float64(counted.Pieces) / float64(max(1, counted.Words))
	counted.Characters = float64(characters) / float64(max(1, counted.Pieces))
	return counted, err
}

// text is the report for people.
func (r *vocabReport) text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "vocabulary\t%s, %s bytes\n", r.Path, grouped(r.Bytes))
	fmt.Fprintf(w, "pieces\t%s, %d of them control symbols and %d bytes\n", grouped(int64(r.Pieces)), r.Control, r.BytePieces)
	fmt.Fprintf(w, "end of sentence\t%d\n", r.EOS)
	fmt.Fprintf(w, "unknown\t%d\n", r.Unk)
	fmt.Fprintf(w, "fingerprint\t%s\n", r.Fingerprint)
	if t := r.Text; t != nil {
		fmt.Fprintf(w, "text\t%s: %s sentences, %s words, %s pieces\n", t.Path, grouped(t.Sentences), grouped(t.Words), grouped(t.Pieces))
		fmt.Fprintf(w, "pieces per sentence\t%.2f, %d at most\n", t.PerLine, t.Longest)
		fmt.Fprintf(w, "pieces per word\t%.3f\n", t.PerWord)
		fmt.Fprintf(w, "characters per piece\t%.3f\n", t.Characters)
		fmt.Fprintf(w, "pieces in use\t%s, %.1f %%\n", grouped(int64(t.Used)), 100*float64(t.Used)/float64(r.Pieces))
		fmt.Fprintf(w, "without a piece\t%s unknown, %s bytes\n", grouped(t.Unknown), grouped(t.Bytes))
	}
	_ = w.Flush() // into memory
	return b.String()
}

// A pieceFormat says how pieces stand in a text.
type pieceFormat string

const (
	asPieces pieceFormat = "piece"
	asIDs    pieceFormat = "id"
)

func (f pieceFormat) check(option string) error {
	if f != asPieces && f != asIDs {
		return usageErrorf("--%s %s: want piece or id", option, f)
	}
	return nil
}

// eachOutputLine writes what f makes of each line of a text.
func eachOutputLine(ctx context.Context, path string, stdout io.Writer, f func(w *bufio.Writer, number int, line string) error) error {
	w := bufio.NewWriterSize(stdout, 1<<16)
	number := 0
	err := eachLine(path, func(line string) error {
		if ctx.Err() != nil {
			return errInterrupted
		}
		number++
		return f(w, number, line)
	})
	if flushErr := w.Flush(); flushErr != nil && err == nil {
		err = outputError{flushErr}
	}
	return err
}
