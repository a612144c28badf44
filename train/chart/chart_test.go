package chart

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func sample() *Chart {
	return &Chart{
		Title: "Loss & <more>", X: "update", Y: "nats",
		Lines: []Series{
			{Name: "training", Points: []Point{{0, 9}, {100, 5}, {200, math.NaN()}, {300, 3}, {400, 2.9}}},
			{Name: "validation", Points: []Point{{200, 4}}},
		},
		Dots: []Series{{Points: []Point{{150, 6}, {390, 7}}, Labels: []string{"a", "b<c"}}},
	}
}

// texts returns the words of an SVG, which must be well-formed.
func texts(t testing.TB, svg string) []string {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	var words []string
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return words
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if data, ok := token.(xml.CharData); ok && strings.TrimSpace(string(data)) != "" {
			words = append(words, string(data))
		}
	}
}

func TestSVG(t *testing.T) {
	svg := sample().SVG()
	all := strings.Join(texts(t, svg), "\n")
	for _, want := range []string{"Loss & <more>", "update", "nats", "training", "validation", "b<c", "100", "400"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in the chart", want)
		}
	}
	if strings.Contains(svg, "NaN") {
		t.Error("a number that is not finite has a place")
	}
	if svg != sample().SVG() {
		t.Error("the same chart looks different")
	}
}

// TestPNG wants colours where the SVG has lines, and white beside them.
func TestPNG(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WritePNG(&b); err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if size := picture.Bounds(); size.Dx() != Width*Scale || size.Dy() != Height*Scale {
		t.Errorf("the picture has %d×%d pixels", size.Dx(), size.Dy())
	}
	x, y, _ := sample().axes()
	at := Point{x.place(50), y.place(7)} // halfway along the first piece
	if r, g, b, _ := picture.At(int(at.X*Scale), int(at.Y*Scale)).RGBA(); r > 0x4000 || g>>8 < 0x60 || g>>8 > 0x98 || b>>8 < 0xa0 || b>>8 > 0xd0 {
		t.Errorf("the line has the colour %x %x %x, want %s", r>>8, g>>8, b>>8, colours[0])
	}
	if r, g, b, _ := picture.At(Width*Scale-2, 2).RGBA(); r&g&b != 0xffff {
		t.Errorf("the corner has the colour %x %x %x", r, g, b)
	}
}

func TestEmpty(t *testing.T) {
	c := &Chart{Title: "Nothing", Lines: []Series{{Points: []Point{{1, math.Inf(1)}}}}}
	if !strings.Contains(strings.Join(texts(t, c.SVG()), " "), "nothing was measured") {
		t.Error("an empty chart does not say so")
	}
	if err := c.WritePNG(io.Discard); err != nil {
		t.Error(err)
	}
}

// TestAxes wants every point inside the axes, and a few ticks on each of them, whatever the numbers are.
func TestAxes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Float64Range(-1e12, 1e12)
		c := &Chart{LogY: rapid.Bool().Draw(t, "log")}
		s := Series{Name: rapid.String().Draw(t, "name")}
		for range rapid.IntRange(1, 5).Draw(t, "points") {
			s.Points = append(s.Points, Point{number.Draw(t, "x"), number.Draw(t, "y")})
		}
		c.Lines = []Series{s}
		c.SVG()
		x, y, ok := c.axes()
		if !ok {
			return
		}
		for _, p := range s.Points {
			if !c.drawable(p) {
				continue
			}
			if at := x.place(p.X); at < left-0.5 || at > Width-right+0.5 {
				t.Fatalf("%v is at the pixel %v", p.X, at)
			}
			if at := y.place(p.Y); at < top-0.5 || at > Height-bottom+0.5 {
				t.Fatalf("%v is at the pixel %v", p.Y, at)
			}
		}
		if n := len(x.ticks(8)); n < 2 || n > 20 {
			t.Fatalf("%d ticks from %v to %v", n, x.low, x.high)
		}
	})
}
