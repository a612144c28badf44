package main

import (
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/search"
)

// demoEngine opens the demo model as "sluice translate" does.
func demoEngine(t *testing.T) *engineParts {
	t.Helper()
	folder := filepath.Join(sharedtest.Root(), "models", "ende-tiny")
	m := modelFlags{
		models: []string{filepath.Join(folder, "model.intgemm.alphas.bin")}, vocabs: []string{filepath.Join(folder, "vocab.spm")},
		precision: "auto",
	}
	s := searchFlags{beamSize: 1, maxLength: 1000, maxLengthFactor: 3}
	parts, err := buildEngine(t.Context(), &m, &s, &batchFlags{maxiBatchSort: "src"}, 1, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(parts.models.close)
	return parts
}

// TestSteppersAtOnce makes Steppers as workers do that take over from a GPU while float32's is made: all of them are counted.
func TestSteppersAtOnce(t *testing.T) {
	models := demoEngine(t).models
	const goroutines, each = 8, 20
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range each {
				models.NewSteppers(1)
			}
		})
	}
	all.Wait()
	if len(models.steppers) != goroutines*each {
		t.Errorf("%d of %d Steppers were counted", len(models.steppers), goroutines*each)
	}
}

// TestIngredients changes every option of the search, one by one: each has to be among what a checkpoint is compared by.
func TestIngredients(t *testing.T) {
	parts := demoEngine(t)
	before, err := parts.ingredients()
	if err != nil {
		t.Fatal(err)
	}
	options := reflect.TypeFor[search.Options]()
	for i := range options.NumField() {
		saved := parts.config.Search
		change(reflect.ValueOf(&parts.config.Search).Elem().Field(i))
		after, err := parts.ingredients()
		if err != nil {
			t.Fatal(err)
		}
		if maps.Equal(before, after) {
			t.Errorf("%s is not among the ingredients of a translation", options.Field(i).Name)
		}
		parts.config.Search = saved
	}
}

// change gives a field another value than it has.
func change(field reflect.Value) {
	switch field.Kind() {
	case reflect.Int:
		field.SetInt(field.Int() + 1)
	case reflect.Uint8, reflect.Uint64:
		field.SetUint(field.Uint() + 1)
	case reflect.Float32:
		field.SetFloat(field.Float() + 1)
	case reflect.Bool:
		field.SetBool(!field.Bool())
	case reflect.Struct:
		for i := range field.NumField() {
			change(field.Field(i))
		}
	}
}
