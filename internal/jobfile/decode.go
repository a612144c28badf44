package jobfile

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// A decoder fills structs from YAML nodes and collects what is wrong. The library's own decoder stops at a type error
// without its column, and knows neither variables nor lists of allowed words.
type decoder struct {
	lookup   func(string) (string, bool)
	problems Problems
	places   map[string]*yaml.Node // of every setting that the file has, by its path
}

func (d *decoder) problem(node *yaml.Node, path, format string, args ...any) {
	p := Problem{Path: path, Message: fmt.Sprintf(format, args...)}
	if node != nil {
		p.Line, p.Column = node.Line, node.Column
	}
	d.problems = append(d.problems, p)
}

// A setting is a field of a struct, those of embedded structs included.
type setting struct {
	name  string
	field reflect.StructField
	index []int
}

// settings lists the fields of a struct in their order.
func settings(t reflect.Type) []setting {
	var list []setting
	for i := range t.NumField() {
		field := t.Field(i)
		name := field.Tag.Get("yaml")
		if name == "" { // what is no setting
			continue
		}
		if name == ",inline" {
			for _, inner := range settings(field.Type) {
				inner.index = append([]int{i}, inner.index...)
				list = append(list, inner)
			}
			continue
		}
		list = append(list, setting{name, field, []int{i}})
	}
	return list
}

// mapping fills a struct.
func (d *decoder) mapping(node *yaml.Node, into reflect.Value, path string) {
	node = target(node)
	if isNull(node) {
		return // a key with nothing after it: all defaults
	}
	if node.Kind != yaml.MappingNode {
		d.problem(node, path, "expected settings as \"name: value\"")
		return
	}
	known := settings(into.Type())
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := slices.IndexFunc(known, func(s setting) bool { return s.name == key.Value })
		switch {
		case at < 0:
			d.problem(key, path, "unknown setting %q%s", key.Value, suggestion(key.Value, known))
		case seen[key.Value]:
			d.problem(key, path, "%q is set twice", key.Value)
		default:
			d.places[join(path, key.Value)] = value
			d.value(value, into.FieldByIndex(known[at].index), known[at].field, join(path, key.Value))
		}
		seen[key.Value] = true
	}
}

// target follows an alias.
func target(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// value fills one field.
func (d *decoder) value(node *yaml.Node, into reflect.Value, field reflect.StructField, path string) {
	node = target(node)
	switch into.Interface().(type) {
	case []Option:
		into.Set(reflect.ValueOf(d.options(node, path)))
		return
	case []string:
		list := d.list(node, path)
		if field.Tag.Get("yaml") == "brokers" { // which are often one variable
			list = strings.FieldsFunc(strings.Join(list, ","), func(r rune) bool { return r == ',' || r == ' ' })
		}
		if slices.Contains(list, "") {
			d.problem(node, path, "a value is empty")
		}
		into.Set(reflect.ValueOf(list))
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		d.mapping(node, into.Elem(), path)
	case reflect.Struct:
		d.mapping(node, into, path)
	case reflect.Slice:
		d.items(node, into, path)
	default:
		text, ok := d.scalar(node, path)
		if !ok {
			return
		}
		if err := setScalar(into, text); err != nil {
			d.problem(node, path, "%v", err)
		} else if words := strings.Fields(field.Tag.Get("oneof")); len(words) > 0 && !slices.Contains(words, text) {
			d.problem(node, path, "%q is none of %s", text, strings.Join(words, ", "))
		} else if into.IsZero() && hasDefault(field) {
			d.problem(node, path, "%s would count as the default, as if nothing were said: give more, or leave it out", text)
		}
	}
}

// hasDefault says whether a number that is left out is another than zero, by what the documentation says of it.
func hasDefault(field reflect.StructField) bool {
	switch field.Type.Kind() {
	case reflect.Int, reflect.Int64, reflect.Float64:
		_, number, _ := strings.Cut(field.Tag.Get("desc"), "Default ")
		return strings.IndexAny(number, "123456789") == len(number)-len(strings.TrimLeft(number, "0."))
	}
	return false
}

// scalar returns a value with its variables replaced.
func (d *decoder) scalar(node *yaml.Node, path string) (string, bool) {
	if node = target(node); node.Kind != yaml.ScalarNode || isNull(node) {
		d.problem(node, path, "expected one value")
		return "", false
	}
	text, err := interpolate(node.Value, d.lookup)
	if err != nil {
		d.problem(node, path, "%v", err)
		return "", false
	}
	return text, true
}

// list returns the values of a sequence, or the only one.
func (d *decoder) list(node *yaml.Node, path string) []string {
	items := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		items = node.Content
	}
	values := make([]string, 0, len(items))
	for _, item := range items {
		if text, ok := d.scalar(item, path); ok {
			values = append(values, text)
		}
	}
	return values
}

// items fills a slice of structs.
func (d *decoder) items(node *yaml.Node, into reflect.Value, path string) {
	if node.Kind != yaml.SequenceNode {
		d.problem(node, path, "expected a list: lines that begin with \"- \"")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content)))
	for i, item := range node.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.places[at] = item
		d.mapping(item, into.Index(i), at)
	}
}

// options returns the members of translate, which are checked by whoever knows them.
func (d *decoder) options(node *yaml.Node, path string) []Option {
	if node.Kind != yaml.MappingNode {
		d.problem(node, path, "expected options as \"name: value\"")
		return nil
	}
	list := d.ownOptions(node, path)
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Tag == mergeTag {
			list = d.merge(list, node.Content[i+1], path)
		}
	}
	return list
}

// mergeTag is that of the key "<<", which stands for the options of another mapping.
const mergeTag = "!!merge"

// ownOptions returns the options of a mapping, without those it takes from others.
func (d *decoder) ownOptions(node *yaml.Node, path string) []Option {
	var list []Option
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case key.Tag == mergeTag:
		case slices.ContainsFunc(list, func(o Option) bool { return o.Name == key.Value }):
			d.problem(key, path, "%q is set twice", key.Value)
		default:
			if at := join(path, key.Value); d.places[at] == nil { // what is merged stands behind what is set
				d.places[at] = value
			}
			list = append(list, Option{key.Value, d.list(target(value), join(path, key.Value)), value.Line, value.Column})
		}
	}
	return list
}

// maxMerges is how many mappings may take their options from one another: one that takes them from itself has no end.
const maxMerges = 100

// merge adds the options of a mapping that are not in the list, and of the mapping that it takes options from itself, and so on.
func (d *decoder) merge(list []Option, from *yaml.Node, path string) []Option {
	for merges := 0; from != nil; merges++ {
		node := target(from)
		if node.Kind != yaml.MappingNode || merges == maxMerges {
			d.problem(from, path, "<< takes the options of one other mapping, which must not take them from itself")
			return list
		}
		for _, option := range d.ownOptions(node, path) {
			if !slices.ContainsFunc(list, func(o Option) bool { return o.Name == option.Name }) {
				list = append(list, option)
			}
		}
		from = nil
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Tag == mergeTag {
				from = node.Content[i+1]
			}
		}
	}
	return list
}

// setScalar sets a field from text.
func setScalar(into reflect.Value, text string) (err error) {
	switch into.Interface().(type) {
	case string:
		into.SetString(text)
	case bool:
		var value bool
		if value, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		into.SetBool(value)
	case int:
		var value int64
		if value, err = strconv.ParseInt(text, 10, 32); err != nil || value < 0 {
			return fmt.Errorf("%q is not a number from 0 to %d", text, 1<<31-1)
		}
		into.SetInt(value)
	case float64:
		var value float64
		if value, err = strconv.ParseFloat(text, 64); err != nil || !(value >= 0 && value <= 1) {
			return fmt.Errorf("%q is not a number from 0 to 1", text)
		}
		into.SetFloat(value)
	case time.Duration:
		var value time.Duration
		if value, err = time.ParseDuration(text); err != nil || value < 0 {
			return fmt.Errorf("%q is not a duration such as 500ms, 10s or 5m", text)
		}
		into.SetInt(int64(value))
	case Size:
		var value Size
		if value, err = parseSize(text); err != nil {
			return err
		}
		into.SetInt(int64(value))
	default:
		panic(fmt.Sprintf("jobfile: a setting of type %v", into.Type()))
	}
	return nil
}

var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

func parseSize(text string) (Size, error) {
	number, unit := text, int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	value, err := strconv.ParseInt(number, 10, 64)
	if err != nil || value < 0 || value > (1<<62)/unit {
		return 0, fmt.Errorf("%q is not a size such as 64MiB or 10MB", text)
	}
	return Size(value * unit), nil
}

// interpolate replaces variables.
func interpolate(text string, lookup func(string) (string, bool)) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			out.WriteString(text)
			return out.String(), nil
		}
		if escaped, ok := strings.CutSuffix(before, "$"); ok {
			out.WriteString(escaped + "${")
			text = rest
			continue
		}
		out.WriteString(before)
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("${ without } ($${ stands for ${ itself)")
		}
		name, otherwise, optional := strings.Cut(name, ":-")
		value, ok := lookup(name)
		switch {
		case name == "" || strings.ContainsAny(name, " \t\n$"):
			return "", fmt.Errorf("${%s} does not name a variable", name)
		case ok && (value != "" || !optional):
			out.WriteString(value)
		case optional:
			out.WriteString(otherwise)
		default:
			return "", fmt.Errorf("the environment variable %s is not set (${%s:-text} gives a default)", name, name)
		}
		text = after
	}
}

// suggestion names the setting that was probably meant.
func suggestion(name string, known []setting) string {
	best, least := "", 3 // more differences than this are another word
	for _, s := range known {
		if n := differences(name, s.name); n < least {
			best, least = s.name, n
		}
	}
	if best == "" {
		names := make([]string, len(known))
		for i, s := range known {
			names[i] = s.name
		}
		return ": there are " + strings.Join(names, ", ")
	}
	return fmt.Sprintf(": did you mean %q?", best)
}

// differences is the edit distance.
func differences(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
