package jobfile

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// A Setting is one setting of a job as it is in force, for people to read.
type Setting struct {
	Path  string `json:"path"` // such as source.kafka.topics
	Value string `json:"value"`
}

// hidden stands in the place of a secret.
const hidden = "(hidden)"

// Settings lists what is in force, defaults included, in the order of the schema. What is empty is left out. Secrets are hidden, and so
// are names and passwords inside addresses.
func (j *Job) Settings() []Setting {
	return describe(nil, "", reflect.ValueOf(*j))
}

// describe appends the settings of a struct.
func describe(list []Setting, path string, of reflect.Value) []Setting {
	for _, s := range settings(of.Type()) {
		value, at := of.FieldByIndex(s.index), join(path, s.name)
		if options, ok := value.Interface().([]Option); ok {
			for _, option := range options {
				list = append(list, Setting{join(at, option.Name), withoutLogins(option.Values)})
			}
			continue
		}
		switch {
		case value.Kind() == reflect.Pointer && !value.IsNil():
			list = describe(list, at, value.Elem())
		case value.Kind() == reflect.Struct:
			list = describe(list, at, value)
		case value.IsZero():
		case s.field.Tag.Get("secret") != "":
			list = append(list, Setting{at, hidden})
		default:
			list = append(list, Setting{at, plain(value)})
		}
	}
	return list
}

func plain(value reflect.Value) string {
	switch v := value.Interface().(type) {
	case []string:
		return withoutLogins(v)
	case string:
		return withoutLogin(v)
	case Size:
		return v.inUnits()
	case time.Duration:
		return v.String()
	}
	return fmt.Sprint(value.Interface())
}

func withoutLogins(values []string) string {
	out := make([]string, len(values))
	for i, value := range values {
		out[i] = withoutLogin(value)
	}
	return strings.Join(out, " ")
}

// withoutLogin hides what an address says of who asks: name and password, and its query, which may hold a signature.
func withoutLogin(value string) string {
	scheme, _, isAddress := strings.Cut(value, "://")
	if !isAddress || strings.ContainsAny(scheme, " /") {
		return value
	}
	address, err := url.Parse(value)
	if err != nil {
		return scheme + "://" + hidden // nobody knows what it holds
	}
	if address.User == nil && (address.RawQuery == "" || scheme == "s3") {
		return value
	}
	shown := scheme + "://"
	if address.User != nil {
		shown += hidden + "@"
	}
	shown += address.Host + address.EscapedPath()
	if address.RawQuery != "" {
		shown += "?" + hidden
	}
	return shown
}

// inUnits gives the size in the largest unit that it is a whole number of. It is no String method: outputs remember sizes as
// numbers, and must not seem to be made with another one.
func (s Size) inUnits() string {
	for _, u := range []struct {
		name  string
		bytes Size
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if s >= u.bytes && s%u.bytes == 0 {
			return fmt.Sprint(int64(s/u.bytes), u.name)
		}
	}
	return fmt.Sprint(int64(s))
}
