package translator

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// What all workers count in must not be in lines with what they read: the line would go from core to core at each step.
func TestCountersAreAlone(t *testing.T) {
	engine := reflect.TypeFor[Engine]()
	counts, _ := engine.FieldByName("counters")
	first, end := counts.Offset+unsafe.Offsetof(counters{}.sentences), counts.Offset+unsafe.Offsetof(counters{}.idle)+unsafe.Sizeof(counters{}.idle)
	for i := range engine.NumField() {
		f := engine.Field(i)
		if f.Name == "counters" {
			continue
		}
		if f.Offset+f.Type.Size()+cpu.LinePair > first && f.Offset < end+cpu.LinePair {
			t.Errorf("Engine.%s is at %d to %d, less than %d bytes from the counters at %d to %d", f.Name, f.Offset, f.Offset+f.Type.Size(), cpu.LinePair, first, end)
		}
	}
}
