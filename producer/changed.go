package producer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// A ChangedError says that an output cannot be continued, or passed over, because it was begun with something else.
type ChangedError struct {
	Output  string
	Changes []string
}

// Error names every change.
func (e *ChangedError) Error() string {
	text := e.Output + " was begun under other circumstances"
	for i, change := range e.Changes {
		if i == 0 {
			text += ": "
		} else {
			text += "; "
		}
		text += change
	}
	return text + ". Restore them to go on, or overwrite it to begin afresh"
}

// MadeWithChanges says what differs between two sets of options, by name.
func MadeWithChanges(old, now map[string]string) []string {
	names := slices.Sorted(maps.Keys(now))
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if _, both := now[name]; !both {
			names = append(names, name)
		}
	}
	var changes []string
	for _, name := range names {
		if old[name] != now[name] {
			changes = append(changes, fmt.Sprintf("%s was %s and is now %s", name, shown(old[name]), shown(now[name])))
		}
	}
	return changes
}

// mostValue is how long a value may be that is stored where there is little room.
const mostValue = 64

// ShortMadeWith returns options as they are stored where there is little room: long values as hashes, which can be
// compared still.
func ShortMadeWith(values map[string]string) map[string]string {
	short := make(map[string]string, len(values))
	for name, value := range values {
		if len(value) > mostValue {
			value = Hashed(value)
		}
		short[name] = value
	}
	return short
}

// Hashed stands for data that is too long to be stored.
func Hashed(data string) string {
	sum := sha256.Sum256([]byte(data))
	return "sha256:" + hex.EncodeToString(sum[:16])
}

func shown(value string) string {
	if value == "" {
		return "not set"
	}
	return value
}
