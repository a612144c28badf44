package cuda

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// An entry is what the PTX says of a kernel.
type entry struct {
	parameters []string // the type of each: u64, u32, f32
}

// errPTX means that a text is no PTX that this package can launch.
var errPTX = errors.New("no PTX with kernels")

var (
	entryStart = regexp.MustCompile(`\.entry\s+([A-Za-z_$][\w$]*)\s*\(`)
	parameter  = regexp.MustCompile(`\.param\s+\.([usf]\d+)\s+[\w$]+`)
)

// parseEntries finds the kernels of a PTX and the types of their parameters.
func parseEntries(ptx string) (map[string]entry, error) {
	entries := map[string]entry{}
	for _, at := range entryStart.FindAllStringSubmatchIndex(ptx, -1) {
		name, rest := ptx[at[2]:at[3]], ptx[at[1]:]
		list, _, ok := strings.Cut(rest, ")")
		if !ok {
			return nil, fmt.Errorf("%w: the parameters of %s do not end", errPTX, name)
		}
		var e entry
		declared := parameter.FindAllStringSubmatch(list, -1)
		if len(declared) != strings.Count(list, ".param") {
			return nil, fmt.Errorf("%w: %s has a parameter that is neither a number nor an address", errPTX, name)
		}
		for _, p := range declared {
			e.parameters = append(e.parameters, p[1])
		}
		entries[name] = e
	}
	if len(entries) == 0 {
		return nil, errPTX
	}
	return entries, nil
}
