package neon

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/sluice-mt/sluice/kernels/_asm/llvmtest"
)

// everything is a file with each instruction once or more.
func everything() *File {
	file := &File{}
	f := file.Func("f", "x *float32", "")
	for name := range three {
		f.Op(name, 1, 22, 13)
		f.Op(name, 31, 0, 30)
	}
	for _, name := range []string{"uzp2", "trn2", "zip1", "zip2", "add", "cmeq"} {
		f.OpOn("16b", name, 1, 22, 13)
		f.OpOn("8h", name, 31, 0, 30)
	}
	for name := range two {
		f.Op2(name, 17, 30)
	}
	for name := range across {
		f.Across(name, 17, 30)
	}
	for i := range 4 {
		f.DupLane(1, 22, i)
		f.MulLane(1, 22, 13, i)
		f.FMLALane(1, 22, 13, i)
		f.SDOTLane(31, 22, 29, i)
	}
	for _, upper := range []bool{false, true} {
		f.SMULL(3, 29, 7, upper)
		f.SMLAL(3, 29, 7, upper)
		f.ZipHalves(3, 29, 7, upper)
		f.WidenHalves(3, 29, upper)
		f.WidenBytes(3, 29, upper)
		f.WidenWords(29, 3, upper)
		f.NarrowWords(3, 29, upper)
		f.NarrowBytes(29, 3, upper)
	}
	f.Move(5, 26)
	f.Zero(21)
	f.SignBits(10)
	f.Dup(9, 16)
	f.SDOT(1, 22, 13)
	f.SMMLA(1, 22, 13)
	f.SADALP(1, 22)
	f.SADDLP(1, 22)
	f.AddPair(1, 22)
	f.ShiftLeft(2, 28, 23)
	f.ShiftRight(2, 28, 1)
	f.Load(2, 19, 0)
	f.Load(2, 19, 4080)
	f.Store(30, 1, 48)
	f.LoadNext(2, 19)
	f.StoreNext(30, 1)
	f.LoadLane(2, 19)
	f.StoreLane(30, 1)
	f.LoadLaneNext(2, 19)
	return file
}

func TestWordsSayWhatIsWrittenBesideThem(t *testing.T) {
	text := everything().code.String()
	committed, err := filepath.Glob("../../*_arm64.s")
	if err != nil || len(committed) == 0 {
		t.Fatalf("no assembly: %v", err)
	}
	for _, name := range committed {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text += string(content)
	}
	lines := regexp.MustCompile(`WORD \$0x(\w+) // (.*)`).FindAllStringSubmatch(text, -1)
	var instructions []string
	for _, l := range lines {
		instructions = append(instructions, l[2])
	}
	for i, encoded := range llvmtest.Encode(t, "aarch64", "+dotprod,+i8mm", instructions) {
		l, want := lines[i], binary.LittleEndian.Uint32(encoded)
		if got, err := hex.DecodeString(l[1]); err != nil || binary.BigEndian.Uint32(got) != want {
			t.Errorf("%s is %08x, not %s", l[2], want, l[1])
		}
	}
}
