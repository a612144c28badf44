package pieces

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// TestRulesAreTheOriginals compares all rules with those compiled into the original. They may differ in characters that only
// one of the two Unicode versions knows.
func TestRulesAreTheOriginals(t *testing.T) {
	program := sharedtest.Program(t, "spm_normalize")
	names := []string{"nmt_nfkc", "nfkc_cf"} // the others are made of the same parts
	if testing.Short() {
		names = ruleNames[:1]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "rules.tsv")
			output, err := exec.Command(program, "--normalization_rule_name="+name, "--decompile", "--output="+path).CombinedOutput()
			if err != nil {
				t.Fatalf("spm_normalize: %v\n%s", err, output)
			}
			want := readRules(t, path)
			got, err := NamedRules(name)
			if err != nil {
				t.Fatal(err)
			}
			compareRules(t, got, want)
		})
	}
}

func compareRules(t *testing.T, got, want Rules) {
	t.Helper()
	// Characters that only one of the two changes are those that the other does not know.
	recent := func(text string) bool {
		for _, r := range text {
			_, ours := got[string(r)]
			_, theirs := want[string(r)]
			if ours != theirs || !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.C) {
				return true
			}
		}
		return false
	}
	same := 0
	for from, to := range want {
		switch mine, ok := got[from]; {
		case ok && mine == to:
			same++
		case ok:
			t.Errorf("%+q becomes %+q, not %+q", from, mine, to)
		case !recent(from + to):
			t.Errorf("the rule from %+q to %+q is missing", from, to)
		}
	}
	for from, to := range got {
		if _, ok := want[from]; !ok && !recent(from+to) {
			t.Errorf("there is a rule from %+q to %+q", from, to)
		}
	}
	if same < len(want)*99/100 || len(got) > len(want)*101/100 {
		t.Errorf("of %d rules the original has %d, of %d", len(got), same, len(want))
	}
}

// readRules reads the original's table of rules: code points, a tab, code points, a tab, a comment.
func readRules(t *testing.T, path string) Rules {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rules := Rules{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(line, "\t")
		if len(fields) >= 2 {
			rules[fromCodePoints(t, fields[0])] = fromCodePoints(t, fields[1])
		}
	}
	return rules
}

func fromCodePoints(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	for field := range strings.FieldsSeq(text) {
		r, err := strconv.ParseUint(field, 16, 21)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteRune(rune(r))
	}
	return b.String()
}

func TestUnknownRules(t *testing.T) {
	if _, err := NamedRules("nfd"); err == nil || !strings.Contains(err.Error(), "nmt_nfkc") {
		t.Errorf("rules without a name: %v", err)
	}
	if rules, err := NamedRules("identity"); err != nil || len(rules) != 0 {
		t.Errorf("%d rules change nothing, %v", len(rules), err)
	}
}
