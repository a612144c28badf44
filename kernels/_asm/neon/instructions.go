package neon

import "fmt"

// three are the instructions d = n op m on lanes, and their codes. Those marked update d instead.
var three = map[string]struct {
	code    uint32
	lanes   string // of d, n and m
	updates bool
}{
	"fadd": {0x4e20d400, "4s", false}, "fsub": {0x4ea0d400, "4s", false}, "fmul": {0x6e20dc00, "4s", false}, "fdiv": {0x6e20fc00, "4s", false},
	"fmax": {0x4e20f400, "4s", false}, "fmin": {0x4ea0f400, "4s", false}, "fmaxnm": {0x4e20c400, "4s", false},
	"fmla": {0x4e20cc00, "4s", true}, "fmls": {0x4ea0cc00, "4s", true},
	"fcmgt": {0x6ea0e400, "4s", false}, "fcmeq": {0x4e20e400, "4s", false}, "umax": {0x6ea06400, "4s", false}, "cmeq": {0x6ea08c00, "4s", false}, "cmtst": {0x4ea08c00, "4s", false},
	"add": {0x4ea08400, "4s", false}, "sub": {0x6ea08400, "4s", false}, "addp": {0x4ea0bc00, "4s", false},
	"zip1": {0x4e803800, "4s", false}, "zip2": {0x4e807800, "4s", false}, "uzp2": {0x4e805800, "4s", false}, "trn2": {0x4e806800, "4s", false},
	"and": {0x4e201c00, "16b", false}, "bic": {0x4e601c00, "16b", false}, "orr": {0x4ea01c00, "16b", false}, "eor": {0x6e201c00, "16b", false},
	"bit": {0x6ea01c00, "16b", true}, "bif": {0x6ee01c00, "16b", true},
}

// two are the instructions d = op n.
var two = map[string]uint32{
	"fneg": 0x6ea0f800, "fabs": 0x4ea0f800, "frintn": 0x4e218800, "fcvtns": 0x4e21a800, "scvtf": 0x4e21d800,
}

// Op writes d = n op m, lane by lane.
func (f *Func) Op(name string, d, n, m V) {
	op, ok := three[name]
	if !ok {
		panic("unknown instruction " + name)
	}
	f.word(op.code|uint32(m)<<16|uint32(n)<<5|uint32(d), "%[1]s v%[3]d.%[2]s, v%[4]d.%[2]s, v%[5]d.%[2]s", name, op.lanes, d, n, m)
}

// sizes are the codes of lanes.
var sizes = map[string]uint32{"16b": 0, "8h": 1, "4s": 2}

// OpOn is Op for an instruction on integers, on lanes of another size than the 32 bits that Op gives it.
func (f *Func) OpOn(lanes, name string, d, n, m V) {
	op, ok := three[name]
	size, known := sizes[lanes]
	if !ok || !known || op.lanes != "4s" {
		panic("unknown instruction " + name + " on " + lanes)
	}
	code := op.code&^(3<<22) | size<<22
	f.word(code|uint32(m)<<16|uint32(n)<<5|uint32(d), "%[1]s v%[3]d.%[2]s, v%[4]d.%[2]s, v%[5]d.%[2]s", name, lanes, d, n, m)
}

// Op2 writes d = op n, lane by lane.
func (f *Func) Op2(name string, d, n V) {
	code, ok := two[name]
	if !ok {
		panic("unknown instruction " + name)
	}
	f.word(code|uint32(n)<<5|uint32(d), "%s v%d.4s, v%d.4s", name, d, n)
}

// Move copies a register.
func (f *Func) Move(d, n V) {
	f.word(0x4ea01c00|uint32(n)<<16|uint32(n)<<5|uint32(d), "mov v%d.16b, v%d.16b", d, n)
}

// Zero sets a register to zeros.
func (f *Func) Zero(d V) { f.word(0x6f00e400|uint32(d), "movi v%d.2d, #0000000000000000", d) }

// SignBits sets all bytes to 0x80.
func (f *Func) SignBits(d V) { f.word(0x4f04e400|uint32(d), "movi v%d.16b, #128", d) }

// Dup puts the lower half of a general register into all lanes.
func (f *Func) Dup(d V, n R) { f.word(0x4e040c00|uint32(n)<<5|uint32(d), "dup v%d.4s, w%d", d, n) }

// DupLane puts one lane into all lanes.
func (f *Func) DupLane(d, n V, lane int) {
	f.word(0x4e000400|uint32(lane<<3|4)<<16|uint32(n)<<5|uint32(d), "dup v%d.4s, v%d.s[%d]", d, n, lane)
}

// lane is the code of a 32-bit lane as the index of an operand.
func lane(i int) uint32 { return uint32(i>>1<<11 | i&1<<21) }

// MulLane writes d = n·m[i].
func (f *Func) MulLane(d, n, m V, i int) {
	f.word(0x4f809000|lane(i)|uint32(m)<<16|uint32(n)<<5|uint32(d), "fmul v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)
}

// FMLALane writes d = d + n·m[i], fused.
func (f *Func) FMLALane(d, n, m V, i int) {
	f.word(0x4f801000|lane(i)|uint32(m)<<16|uint32(n)<<5|uint32(d), "fmla v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)
}

// SDOT adds to each lane of d the products of four signed bytes of n and m.
func (f *Func) SDOT(d, n, m V) {
	f.word(0x4e809400|uint32(m)<<16|uint32(n)<<5|uint32(d), "sdot v%d.4s, v%d.16b, v%d.16b", d, n, m)
}

// SDOTLane adds to each lane of d the products of four signed bytes of n with the i-th four of m.
func (f *Func) SDOTLane(d, n, m V, i int) {
	f.word(0x4f80e000|lane(i)|uint32(m)<<16|uint32(n)<<5|uint32(d), "sdot v%d.4s, v%d.16b, v%d.4b[%d]", d, n, m, i)
}

// SMMLA adds to d, a 2×2 matrix, the product of n, two rows of 8 signed bytes, with the transpose of m, another two.
func (f *Func) SMMLA(d, n, m V) {
	f.word(0x4e80a400|uint32(m)<<16|uint32(n)<<5|uint32(d), "smmla v%d.4s, v%d.16b, v%d.16b", d, n, m)
}

// SMULL multiplies the lower 8 signed bytes, or the upper ones.
func (f *Func) SMULL(d, n, m V, upper bool) {
	if upper {
		f.word(0x4e20c000|uint32(m)<<16|uint32(n)<<5|uint32(d), "smull2 v%d.8h, v%d.16b, v%d.16b", d, n, m)
		return
	}
	f.word(0x0e20c000|uint32(m)<<16|uint32(n)<<5|uint32(d), "smull v%d.8h, v%d.8b, v%d.8b", d, n, m)
}

// SMLAL adds to the lanes of d the products of the lower 4 signed words, or of the upper ones.
func (f *Func) SMLAL(d, n, m V, upper bool) {
	if upper {
		f.word(0x4e608000|uint32(m)<<16|uint32(n)<<5|uint32(d), "smlal2 v%d.4s, v%d.8h, v%d.8h", d, n, m)
		return
	}
	f.word(0x0e608000|uint32(m)<<16|uint32(n)<<5|uint32(d), "smlal v%d.4s, v%d.4h, v%d.4h", d, n, m)
}

// SADALP adds pairs of words of n to the lanes of d.
func (f *Func) SADALP(d, n V) {
	f.word(0x4e606800|uint32(n)<<5|uint32(d), "sadalp v%d.4s, v%d.8h", d, n)
}

// SADDLP writes sums of pairs of bytes of n to the words of d.
func (f *Func) SADDLP(d, n V) {
	f.word(0x4e202800|uint32(n)<<5|uint32(d), "saddlp v%d.8h, v%d.16b", d, n)
}

// ZipHalves writes the lower halves of n and m, or the upper ones, to d.
func (f *Func) ZipHalves(d, n, m V, upper bool) {
	code, name := uint32(0x4ec03800), "zip1"
	if upper {
		code, name = 0x4ec07800, "zip2"
	}
	f.word(code|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s v%d.2d, v%d.2d, v%d.2d", name, d, n, m)
}

// AddPair writes the sum of lanes 0 and 1 to lane 0.
func (f *Func) AddPair(d, n V) {
	f.word(0x7e30d800|uint32(n)<<5|uint32(d), "faddp s%d, v%d.2s", d, n)
}

// SumStripes adds the 16 lanes of registers 0 to 3 into lane 0 of register 0, in the tree 16 → 8 → 4 → 2 → 1.
func (f *Func) SumStripes() {
	f.Op("fadd", 0, 0, 2)
	f.Op("fadd", 1, 1, 3)
	f.Op("fadd", 0, 0, 1)
	f.ZipHalves(1, 0, 0, true)
	f.Op("fadd", 0, 0, 1)
	f.AddPair(0, 0)
}

// across are the instructions that reduce all lanes to lane 0.
var across = map[string]uint32{"fmaxnmv": 0x6e30c800, "fmaxv": 0x6e30f800, "umaxv": 0x6eb0a800, "addv": 0x4eb1b800}

// Across reduces all lanes to lane 0.
func (f *Func) Across(name string, d, n V) {
	f.word(across[name]|uint32(n)<<5|uint32(d), "%s s%d, v%d.4s", name, d, n)
}

// ShiftLeft, ShiftRight shift signed lanes.
func (f *Func) ShiftLeft(d, n V, by int) {
	f.word(0x4f005400|uint32(32+by)<<16|uint32(n)<<5|uint32(d), "shl v%d.4s, v%d.4s, #%d", d, n, by)
}

// ShiftRight shifts signed lanes.
func (f *Func) ShiftRight(d, n V, by int) {
	f.word(0x4f000400|uint32(64-by)<<16|uint32(n)<<5|uint32(d), "sshr v%d.4s, v%d.4s, #%d", d, n, by)
}

// ofHalf writes an instruction that is for the lower half of a register, or for the upper one, where its text is another and bit 30 is set.
func (f *Func) ofHalf(code uint32, upper bool, lower, higher string, d, n V) {
	text := lower
	if upper {
		code, text = code|1<<30, higher
	}
	f.word(code|uint32(n)<<5|uint32(d), text, d, n)
}

// WidenBytes writes the lower eight signed bytes of n, or the upper ones, to the words of d.
func (f *Func) WidenBytes(d, n V, upper bool) {
	f.ofHalf(0x0f08a400, upper, "sxtl v%d.8h, v%d.8b", "sxtl2 v%d.8h, v%d.16b", d, n)
}

// WidenWords writes the lower four signed words of n, or the upper ones, to the lanes of d.
func (f *Func) WidenWords(d, n V, upper bool) {
	f.ofHalf(0x0f10a400, upper, "sxtl v%d.4s, v%d.4h", "sxtl2 v%d.4s, v%d.8h", d, n)
}

// WidenHalves writes the lower four words of n, or the upper ones, to the upper halves of the lanes of d. The lower halves are zero.
func (f *Func) WidenHalves(d, n V, upper bool) {
	f.ofHalf(0x2e613800, upper, "shll v%d.4s, v%d.4h, #16", "shll2 v%d.4s, v%d.8h, #16", d, n)
}

// NarrowWords writes the lower halves of four lanes to the lower half of d, or to the upper one.
func (f *Func) NarrowWords(d, n V, upper bool) {
	f.ofHalf(0x0e612800, upper, "xtn v%d.4h, v%d.4s", "xtn2 v%d.8h, v%d.4s", d, n)
}

// NarrowBytes writes the lower halves of eight words to the lower half of d, or to the upper one.
func (f *Func) NarrowBytes(d, n V, upper bool) {
	f.ofHalf(0x0e212800, upper, "xtn v%d.8b, v%d.8h", "xtn2 v%d.16b, v%d.8h", d, n)
}

// Load loads 16 bytes, Store stores them, at a multiple of 16 bytes from a register.
func (f *Func) Load(d V, n R, offset int) { f.memory(0x3dc00000, "ldr", d, n, offset) }

// Store stores 16 bytes.
func (f *Func) Store(d V, n R, offset int) { f.memory(0x3d800000, "str", d, n, offset) }

func (f *Func) memory(code uint32, name string, d V, n R, offset int) {
	if offset%16 != 0 || offset < 0 || offset >= 1<<16 {
		panic(fmt.Sprintf("offset %d", offset))
	}
	address := fmt.Sprintf("[x%d]", n)
	if offset > 0 {
		address = fmt.Sprintf("[x%d, #%d]", n, offset)
	}
	f.word(code|uint32(offset/16)<<10|uint32(n)<<5|uint32(d), "%s q%d, %s", name, d, address)
}

// LoadNext loads 16 bytes and steps over them, StoreNext stores.
func (f *Func) LoadNext(d V, n R) {
	f.word(0x3cc00400|16<<12|uint32(n)<<5|uint32(d), "ldr q%d, [x%d], #16", d, n)
}

// StoreNext stores 16 bytes and steps over them.
func (f *Func) StoreNext(d V, n R) {
	f.word(0x3c800400|16<<12|uint32(n)<<5|uint32(d), "str q%d, [x%d], #16", d, n)
}

// LoadLane loads 32 bits into lane 0.
func (f *Func) LoadLane(d V, n R) { f.word(0xbd400000|uint32(n)<<5|uint32(d), "ldr s%d, [x%d]", d, n) }

// StoreLane stores lane 0.
func (f *Func) StoreLane(d V, n R) { f.word(0xbd000000|uint32(n)<<5|uint32(d), "str s%d, [x%d]", d, n) }

// LoadLaneNext loads 32 bits into lane 0 and steps over them.
func (f *Func) LoadLaneNext(d V, n R) {
	f.word(0xbc400400|4<<12|uint32(n)<<5|uint32(d), "ldr s%d, [x%d], #4", d, n)
}
