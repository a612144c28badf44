package pieces

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ReadRules reads a table of rules in the form of the original: on each line the code points of the left side in hexadecimal,
// separated by spaces, a tab, and those of the right side, which may be empty. Anything behind another tab is a comment.
func ReadRules(r io.Reader) (Rules, error) {
	rules := Rules{}
	lines := bufio.NewScanner(r)
	number := 1
	for ; lines.Scan(); number++ {
		fields := strings.Split(lines.Text(), "\t")
		from, err := parseCodePoints(fields[0])
		if err == nil && from == "" {
			err = fmt.Errorf("nothing is to be replaced")
		}
		to := ""
		if err == nil && len(fields) > 1 {
			to, err = parseCodePoints(fields[1])
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		rules[from] = to
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: it has more than %d bytes, but a line is one rule: code points in hexadecimal, a tab, and what they become", number, bufio.MaxScanTokenSize)
	} else if err != nil {
		return nil, fmt.Errorf("line %d: %w", number, err)
	}
	return rules, nil
}

func parseCodePoints(text string) (string, error) {
	var b strings.Builder
	for field := range strings.FieldsSeq(text) {
		code, err := strconv.ParseUint(field, 16, 32)
		if err != nil || code == 0 || code > utf8.MaxRune || !utf8.ValidRune(rune(code)) {
			return "", fmt.Errorf("%q is not the code point of a character in hexadecimal", field)
		}
		b.WriteRune(rune(code))
	}
	return b.String(), nil
}
