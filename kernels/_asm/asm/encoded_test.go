package asm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/kernels/_asm/llvmtest"
)

// An encoded instruction is one that is written as bytes, since Go's assembler does not know it.
type encoded struct {
	text  string // for llvm-mc
	bytes []byte
}

var (
	vexForm = regexp.MustCompile(`// VEX 66 0F38 (50|52): Y(\d+), Y(\d+), Y(\d+)\n\s+LONG \$(0x\w+)\n\s+BYTE \$(0x\w+)\n`)
	bf16    = regexp.MustCompile(`// VDPBF16PS Z(\d+), Z(\d+), Z(\d+)\n\s+LONG \$(0x\w+)\n\s+WORD \$(0x\w+)\n`)
)

// encodedIn finds the instructions of a file that are written as bytes.
func encodedIn(t *testing.T, source string) (found []encoded) {
	t.Helper()
	number := func(text string) uint64 {
		n, err := strconv.ParseUint(text, 0, 32)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	names := map[string]string{"50": "vpdpbusd", "52": "vpdpwssd"}
	for _, m := range vexForm.FindAllStringSubmatch(source, -1) {
		written := append(binary.LittleEndian.AppendUint32(nil, uint32(number(m[5]))), byte(number(m[6])))
		found = append(found, encoded{fmt.Sprintf("{vex} %s %%ymm%s, %%ymm%s, %%ymm%s", names[m[1]], m[2], m[3], m[4]), written})
	}
	for _, m := range bf16.FindAllStringSubmatch(source, -1) {
		written := binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint32(nil, uint32(number(m[4]))), uint16(number(m[5])))
		found = append(found, encoded{fmt.Sprintf("vdpbf16ps %%zmm%s, %%zmm%s, %%zmm%s", m[1], m[2], m[3]), written})
	}
	return found
}

// TestBytesAreTheInstructions compares every instruction of the committed assembly that is written as bytes with what llvm-mc makes of it:
// no processor at hand may have it.
func TestBytesAreTheInstructions(t *testing.T) {
	committed, err := filepath.Glob("../../*_amd64.s")
	if err != nil || len(committed) == 0 {
		t.Fatalf("no assembly: %v", err)
	}
	var all []encoded
	for _, name := range committed {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := encodedIn(t, string(content))
		if lines := strings.Count(string(content), "\tLONG $"); lines != len(found) {
			t.Errorf("%s: %d instructions are written as bytes, %d of them are understood here", name, lines, len(found))
		}
		all = append(all, found...)
	}
	var instructions []string
	for _, e := range all {
		instructions = append(instructions, e.text)
	}
	for i, want := range llvmtest.Encode(t, "x86_64", "+avxvnni,+avx512bf16", instructions) {
		if !bytes.Equal(all[i].bytes, want) {
			t.Errorf("%s is %x, not %x", all[i].text, want, all[i].bytes)
		}
	}
}
