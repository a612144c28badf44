package chart

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"strconv"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// Scale is how many pixels of a PNG are one of SVG.
const Scale = 2

// WritePNG writes the chart as pixels.
func (c *Chart) WritePNG(w io.Writer) error {
	p := &pixels{image: image.NewRGBA(image.Rect(0, 0, Width*Scale, Height*Scale))}
	draw.Draw(p.image, p.image.Bounds(), image.White, image.Point{}, draw.Src)
	c.draw(p)
	if p.err != nil {
		return fmt.Errorf("drawing a chart: %w", p.err)
	}
	return png.Encode(w, p.image)
}

// pixels is a canvas of pixels.
type pixels struct {
	image *image.RGBA
	err   error
}

// fill draws what the path encloses.
func (p *pixels) fill(colour string, path func(*vector.Rasterizer)) {
	r := vector.NewRasterizer(Width*Scale, Height*Scale)
	path(r)
	r.Draw(p.image, p.image.Bounds(), image.NewUniform(parseColour(colour)), image.Point{})
}

// parseColour reads #rrggbb.
func parseColour(text string) color.RGBA {
	v, _ := strconv.ParseUint(text[1:], 16, 32) // the colours are ours
	return color.RGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 255}
}

// line draws each piece as a rectangle, with discs where pieces meet.
func (p *pixels) line(points []Point, width float64, colour string) {
	half := width / 2
	p.fill(colour, func(r *vector.Rasterizer) {
		for i := 1; i < len(points); i++ {
			a, b := points[i-1], points[i]
			length := math.Hypot(b.X-a.X, b.Y-a.Y)
			if length == 0 {
				continue
			}
			dx, dy := -(b.Y-a.Y)/length*half, (b.X-a.X)/length*half
			polygon(r, Point{a.X + dx, a.Y + dy}, Point{b.X + dx, b.Y + dy}, Point{b.X - dx, b.Y - dy}, Point{a.X - dx, a.Y - dy})
			if i > 1 {
				circle(r, a, half)
			}
		}
	})
}

func (p *pixels) disc(at Point, radius float64, colour, _ string) {
	p.fill(colour, func(r *vector.Rasterizer) { circle(r, at, radius) })
}

// polygon adds a closed path. All paths turn the same way, so that where they overlap they do not cancel each other.
func polygon(r *vector.Rasterizer, points ...Point) {
	for i, p := range points {
		x, y := float32(p.X*Scale), float32(p.Y*Scale)
		if i == 0 {
			r.MoveTo(x, y)
		} else {
			r.LineTo(x, y)
		}
	}
	r.ClosePath()
}

func circle(r *vector.Rasterizer, at Point, radius float64) {
	const corners = 24
	var points [corners]Point
	for i := range points {
		sin, cos := math.Sincos(-2 * math.Pi * float64(i) / corners)
		points[i] = Point{at.X + radius*cos, at.Y + radius*sin}
	}
	polygon(r, points[:]...)
}

func (p *pixels) text(at Point, size float64, from anchor, colour, words string) {
	face, err := faceOf(size * Scale)
	if err != nil {
		p.err = err
		return
	}
	width := textWidth(words, size)
	switch from {
	case middle:
		at.X -= width / 2
	case end:
		at.X -= width
	}
	d := font.Drawer{Dst: p.image, Src: image.NewUniform(parseColour(colour)), Face: face,
		Dot: fixed.Point26_6{X: fixed.Int26_6(at.X * Scale * 64), Y: fixed.Int26_6(at.Y * Scale * 64)}}
	d.DrawString(words)
}

var parsedFont = sync.OnceValues(func() (*opentype.Font, error) { return opentype.Parse(goregular.TTF) })

func faceOf(pixels float64) (font.Face, error) {
	f, err := parsedFont()
	if err != nil {
		return nil, err
	}
	return opentype.NewFace(f, &opentype.FaceOptions{Size: pixels, DPI: 72, Hinting: font.HintingNone})
}

// textWidth returns how wide a text is. Where the font cannot be read it guesses.
func textWidth(words string, size float64) float64 {
	face, err := faceOf(size * Scale)
	if err != nil {
		return float64(len(words)) * size / 2
	}
	return float64(font.MeasureString(face, words)) / 64 / Scale
}
