package cpumodel

import (
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu"
	"github.com/sluice-mt/sluice/translator/search"
)

// Two Steppers that work in turns on one goroutine get their memory from the same places, more closely together than those of two workers. Even so
// no line that one of them writes in one step after another may hold anything of the other's, nor may the line beside. (What is written once for a
// sentence, as the list of its candidates, is not worth the memory.) What belongs to neither is the weights and the sentences.
func TestSteppersShareNoLines(t *testing.T) {
	for _, c := range subjects(t, 12) {
		common := make(memory)
		common.add("", reflect.ValueOf(c.weights), nil)
		common.add("", reflect.ValueOf(c.sources), nil)
		of := [2]stepping{{Stepper: c.weights.NewStepper(12)}, {Stepper: c.weights.NewStepper(12)}}
		for sentences := range c.sources { // buffers grow little by little
			for i := range of {
				of[i].begin(c.sources[:sentences+1])
				of[i].steps(4)
				of[i].end()
			}
		}
		var written [2]map[uintptr]string
		for i := range of {
			of[i].begin(c.sources)
			of[i].steps(4)
			before := memoryOf(of[i].Stepper, common)
			content := before.copy()
			of[i].steps(3)
			written[i] = before.changed(content)
		}
		for i := range of {
			if len(written[i]) < 10 {
				t.Errorf("%s: steps of a Stepper write only %d pairs of lines", c.name, len(written[i]))
			}
			for line, name := range memoryOf(of[1-i].Stepper, common).lines() {
				if writer, both := written[i][line]; both {
					t.Errorf("%s: steps write to %s of one Stepper, another has %s in the same %d bytes at %#x", c.name, writer, name, cpu.LinePair, line*cpu.LinePair)
				}
			}
		}
	}
}

// stepping is a Stepper with sentences.
type stepping struct {
	*Stepper
	contexts []search.Context
	slots    []search.Slot
	tokens   []search.Token // the last ones
}

func (s *stepping) begin(sources []search.Source) {
	s.contexts = make([]search.Context, len(sources))
	s.slots = make([]search.Slot, min(len(sources), s.Slots()))
	s.tokens = make([]search.Token, len(s.slots))
	s.Encode(sources, s.contexts)
	for i := range s.slots {
		s.slots[i], s.tokens[i] = search.Slot(i), search.NoToken
		s.Begin(s.slots[i], s.contexts[i])
	}
}

// steps makes some steps of the decoder with all that search asks for.
func (s *stepping) steps(n int) {
	rows, best, top := make([]int32, len(s.slots)), make([]search.Scored, len(s.slots)), make([]search.Scored, 2*len(s.slots))
	for i := range rows {
		rows[i] = int32(i)
	}
	for range n {
		s.Step(s.slots, s.tokens, true)
		s.Best(rows, nil, best)
		s.Top(rows, 2, nil, top)
		for i := range rows {
			s.LogProbs(int32(i))
			s.Attention(int32(i))
			s.tokens[i] = best[i].Token
		}
		s.Reorder(s.slots, s.slots)
	}
}

func (s *stepping) end() {
	for _, context := range s.contexts {
		s.Release(context)
	}
}

func memoryOf(s *Stepper, but memory) memory {
	m := make(memory)
	m.add("Stepper", reflect.ValueOf(s), but)
	return m
}

// memory is pieces of memory by where they begin.
type memory map[uintptr]piece

type piece struct {
	name  string
	start unsafe.Pointer
	size  uintptr
}

// add adds what a value refers to, however far away, but what is in other memory already.
func (m memory) add(name string, v reflect.Value, but memory) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && m.take(name, v.UnsafePointer(), v.Type().Elem().Size(), but) {
			m.add(name, v.Elem(), but)
		}
	case reflect.Slice:
		whole := v
		if v.Cap() > 0 {
			whole = v.Slice(0, v.Cap())
		}
		if m.take(name, v.UnsafePointer(), uintptr(v.Cap())*v.Type().Elem().Size(), but) && refers(v.Type().Elem()) {
			for i := range whole.Len() {
				m.add(name+"[]", whole.Index(i), but)
			}
		}
	case reflect.Array:
		if refers(v.Type().Elem()) {
			for i := range v.Len() {
				m.add(name+"[]", v.Index(i), but)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			m.add(name+"."+v.Type().Field(i).Name, v.Field(i), but)
		}
	case reflect.Interface:
		m.add(name, v.Elem(), but)
	case reflect.Map:
		for _, key := range v.MapKeys() {
			m.add(name+"[]", v.MapIndex(key), but)
		}
	}
}

// take notes a piece, and returns false if there is none, or if it is known, here or elsewhere.
func (m memory) take(name string, start unsafe.Pointer, size uintptr, but memory) bool {
	at := uintptr(start)
	if known := m[at]; at == 0 || size == 0 || known.size >= size || but[at].size >= size {
		return false
	}
	m[at] = piece{name, start, size}
	return true
}

// refers reports whether values of a type can refer to other memory.
func refers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Interface, reflect.Map:
		return true
	case reflect.Array:
		return refers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if refers(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// bytes returns a piece of memory.
func (p piece) bytes() []byte { return unsafe.Slice((*byte)(p.start), p.size) }

// copy returns what is in each piece.
func (m memory) copy() map[uintptr][]byte {
	content := make(map[uintptr][]byte)
	for at, p := range m {
		content[at] = slices.Clone(p.bytes())
	}
	return content
}

// changed returns the numbers of the pairs of lines in which something is not what it was.
func (m memory) changed(content map[uintptr][]byte) map[uintptr]string {
	lines := make(map[uintptr]string)
	for at, p := range m {
		was := content[at]
		for i, b := range p.bytes() {
			if b != was[i] {
				lines[(at+uintptr(i))/cpu.LinePair] = p.name
			}
		}
	}
	return lines
}

// lines returns the numbers of the pairs of lines that the pieces are in.
func (m memory) lines() map[uintptr]string {
	lines := make(map[uintptr]string)
	for at, p := range m {
		for line := at / cpu.LinePair; line <= (at+p.size-1)/cpu.LinePair; line++ {
			lines[line] = p.name
		}
	}
	return lines
}
