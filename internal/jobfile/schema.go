package jobfile

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// Schema returns the JSON Schema of job files, which editors use to complete and to check them. It is made from the same
// descriptions that Parse goes by.
func Schema() ([]byte, error) {
	return SchemaOf(reflect.TypeFor[Job](), "sluice job", "name", "source", "sink", "translate")
}

// SchemaOf returns the JSON Schema of files that Decode reads into structs of a type.
func SchemaOf(t reflect.Type, title string, required ...string) ([]byte, error) {
	schema := object(t)
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = title
	schema["required"] = required
	text, err := json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}

func object(t reflect.Type) map[string]any {
	properties := map[string]any{}
	for _, s := range settings(t) {
		property := property(s.field.Type)
		property["description"] = s.field.Tag.Get("desc")
		if words := strings.Fields(s.field.Tag.Get("oneof")); len(words) > 0 {
			property["enum"] = words
		}
		properties[s.name] = property
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

// A variable may stand for any value, so that every scalar may also be a string that holds one.
const variable = `\$\{`

func property(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[[]Option]():
		scalar := map[string]any{"type": []string{"string", "number", "boolean"}}
		return map[string]any{"type": "object", "additionalProperties": map[string]any{
			"anyOf": []any{scalar, map[string]any{"type": "array", "items": scalar}},
		}}
	case reflect.TypeFor[[]string]():
		text := map[string]any{"type": "string"}
		return map[string]any{"anyOf": []any{text, map[string]any{"type": "array", "items": text}}}
	case reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$|` + variable}
	case reflect.TypeFor[Size]():
		return map[string]any{"type": []string{"string", "integer"}, "pattern": `^[0-9]+ *([kKMGT]i?)?B?$|` + variable}
	}
	switch t.Kind() {
	case reflect.Pointer:
		schema := object(t.Elem())
		schema["type"] = []string{"object", "null"}
		return schema
	case reflect.Struct:
		return object(t)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": object(t.Elem())}
	case reflect.Bool:
		return map[string]any{"type": []string{"boolean", "string"}, "pattern": variable}
	case reflect.Int:
		return map[string]any{"type": []string{"integer", "string"}, "pattern": variable, "minimum": 0}
	case reflect.Float64:
		return map[string]any{"type": []string{"number", "string"}, "pattern": variable, "minimum": 0, "maximum": 1}
	}
	return map[string]any{"type": "string"}
}
