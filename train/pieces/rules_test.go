package pieces

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/vocab"
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

func readRules(t *testing.T, path string) Rules {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rules, err := ReadRules(file)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestReadRules(t *testing.T) {
	rules, err := ReadRules(strings.NewReader("41 30A\tE5\t# a comment\n1F600\t\n42\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Rules{"A\u030a": "å", "\U0001f600": "", "B": ""}); !maps.Equal(rules, want) {
		t.Errorf("%q, want %q", rules, want)
	}
	for table, says := range map[string]string{
		"41\t42\nG1\t42": "line 2", "\t41": "line 1: nothing", "0\t41": `"0"`, "D800": "D800", "110000": "110000", "41\t-1": "-1", "FFFFFFFFFF": "FFFF",
		"41\t42\n" + strings.Repeat("0", 1<<17): "line 2: it has more than 65536 bytes",
	} {
		if rules, err := ReadRules(strings.NewReader(table)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %q, %v", table, rules, err)
		}
	}
}

// FuzzReadRules: what can be read can be compiled, or is refused with a reason.
func FuzzReadRules(f *testing.F) {
	f.Add("41 30A\tE5\t# a comment\n1F600\t\n42\n")
	f.Fuzz(func(t *testing.T, table string) {
		rules, err := ReadRules(strings.NewReader(table))
		if err != nil {
			return
		}
		if _, err := vocab.CompileRules(rules); err != nil && !strings.Contains(err.Error(), "rule") {
			t.Error(err)
		}
	})
}

func TestUnknownRules(t *testing.T) {
	if _, err := NamedRules("nfd"); err == nil || !strings.Contains(err.Error(), "nmt_nfkc") {
		t.Errorf("rules without a name: %v", err)
	}
	if rules, err := NamedRules("identity"); err != nil || len(rules) != 0 {
		t.Errorf("%d rules change nothing, %v", len(rules), err)
	}
}
