package jobfile

import (
	"reflect"
	"strings"
	"testing"
)

// What is left out of these settings is the number that stands there, and 0 is refused: it cannot be told from nothing.
type defaults struct {
	None    int     `yaml:"none" desc:"A number."`
	Zero    int     `yaml:"zero" desc:"A number. Default 0: any."`
	Word    string  `yaml:"word" desc:"A word. Default 0."`
	Count   int     `yaml:"count" desc:"A number. Default 3."`
	Share   float64 `yaml:"share" desc:"A share. Default 0.2."`
	Percent float64 `yaml:"percent" desc:"A share. Default 0.05, which is little."`
	Bytes   Size    `yaml:"bytes" desc:"A size. Default 16MiB."`
}

func TestZeroIsNotTheDefault(t *testing.T) {
	for text, refused := range map[string]bool{
		"none: 0": false, "zero: 0": false, "word: 0": false, "count: 0": true, "share: 0": true, "share: 0.0": true, "percent: 0": true, "bytes: 0MiB": true,
		"count: 1": false, "share: 0.1": false, "bytes: 1": false,
	} {
		err := Decode([]byte(text), nil, new(defaults), func(Report) {})
		if refused != (err != nil) || refused && !strings.Contains(err.Error(), "would count as the default") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The settings of a job that a default is set for are all among those that refuse 0.
func TestDefaultsOfJobs(t *testing.T) {
	j := new(Job)
	j.setDefaults()
	var look func(v reflect.Value)
	look = func(v reflect.Value) {
		for _, s := range settings(v.Type()) {
			field := v.FieldByIndex(s.index)
			switch field.Kind() {
			case reflect.Struct:
				look(field)
			case reflect.Int, reflect.Int64, reflect.Float64:
				if !field.IsZero() && !hasDefault(s.field) {
					t.Errorf("%s: 0 would count as %v, which its description does not say", s.name, field)
				}
			}
		}
	}
	look(reflect.ValueOf(j).Elem())
}
