package main

import (
	"strings"
	"testing"
)

func TestInterpolate(t *testing.T) {
	variables := map[string]string{"A": "x", "B": "${A}/y", "LOOP": "${LOOP}", "EMPTY": ""}
	lookup := func(name string) (string, bool) { value, ok := variables[name]; return value, ok }
	for _, c := range []struct{ text, want, err string }{
		{"plain", "plain", ""}, {"${A}", "x", ""}, {"/${A}/${B}.npz", "/x/x/y.npz", ""}, {"${EMPTY}a", "a", ""}, {"$A", "$A", ""},
		{"-", "-", ""}, {"stdin", "stdin", ""}, {"stdout", "stdout", ""},
		{"${A", "", "without }"}, {"${C}", "", `"C" in "${C}" is not set`}, {"${}", "", "is not set"}, {"${LOOP}", "", "without end"},
	} {
		got, err := interpolate(c.text, lookup)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: got %q, %v, want %q, %q", c.text, got, err, c.want, c.err)
		}
	}
}
