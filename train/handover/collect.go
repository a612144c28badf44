package handover

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/train/recipe"
)

// maxLine is the longest line of an output, in bytes.
const maxLine = 1 << 20

// collect puts the outputs together. Each must have a translation, or a list of them, for every line of its part.
func (h *handed) collect(ctx context.Context) error {
	return recipe.WriteText(h.task.Output, func(out *bufio.Writer) error {
		for part := range h.parts() {
			if err := h.collectPart(ctx, out, part); err != nil {
				return err
			}
		}
		return nil
	})
}

func (h *handed) collectPart(ctx context.Context, out *bufio.Writer, part int) error {
	key := h.folder + "out/" + partName(part)
	r, err := h.Client.Open(ctx, h.Bucket, key, "")
	if err != nil {
		return err
	}
	defer r.Close()
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	lines, err := 0, error(nil)
	for scanner.Scan() && err == nil {
		line := scanner.Text()
		if h.task.NBest {
			line, lines, err = renumber(line, lines, part*h.Lines)
		} else {
			lines++
		}
		if err == nil {
			_, err = out.WriteString(line + "\n")
		}
	}
	if err == nil {
		err = scanner.Err()
	}
	if want := h.linesOf(part); err == nil && lines != want {
		err = fmt.Errorf("%w: it has translations of %d lines, of %d that were handed over", recipe.ErrFormat, lines, want)
	}
	if err != nil {
		return fmt.Errorf("%s: %w (if it is removed, workers make it again)", s3client.URI(h.Bucket, key), err)
	}
	return nil
}

// renumber gives an entry of an n-best list the number that it has in the whole text. seen lines had entries before; it returns
// how many have one now.
func renumber(line string, seen, before int) (string, int, error) {
	number, rest, found := strings.Cut(line, " ||| ")
	id, err := strconv.Atoi(number)
	if err != nil || !found || id != seen && id != seen-1 || id < 0 {
		return "", seen, fmt.Errorf("%w: %q is no entry of line %d or its successor", recipe.ErrFormat, line, seen)
	}
	return strconv.Itoa(id+before) + " ||| " + rest, id + 1, nil
}
