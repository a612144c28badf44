// Package chart draws curves and points, the same as SVG and as PNG.
//
// A chart is laid out once, as a list of lines, discs and words on a canvas; two canvases write them down. What comes out depends on
// the chart alone.
package chart

import (
	"math"
	"slices"
	"strconv"
)

// A Chart is curves or points over two axes.
type Chart struct {
	Title string
	X, Y  string // what the axes show, with units
	LogY  bool   // only of positive numbers: others are left out
	Lines []Series
	Dots  []Series // every point has a label, if the series has labels
}

// A Series is what has one colour.
type Series struct {
	Name   string // in the legend; "" for none
	Points []Point
	Labels []string // of points; nil for none
	Thin   bool     // a line that only connects
}

// A Point is a place. Those that are not finite are left out.
type Point struct{ X, Y float64 }

// Width and Height are the size of a chart, in pixels of SVG.
const (
	Width  = 640
	Height = 360
)

// The place of what lies around the axes.
const (
	left, right, top, bottom = 64, 24, 62, 48
	titleSize, textSize      = 15, 11
)

// colours are told apart by most people who see colours differently (Okabe and Ito 2008), the darker ones first.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"}

const (
	ink   = "#222222"
	faint = "#dddddd"
	grey  = "#666666"
)

// An anchor is the point of a text that lies at its place.
type anchor string

const (
	start  anchor = "start"
	middle anchor = "middle"
	end    anchor = "end"
)

// A canvas is drawn on, from the top left corner.
type canvas interface {
	line(points []Point, width float64, colour string)
	disc(at Point, radius float64, colour, label string)
	text(at Point, size float64, from anchor, colour, words string)
}

// An axis maps numbers to a range of pixels.
type axis struct {
	low, high float64 // of the numbers, or of their logarithms
	from, to  float64 // of the pixels
	log       bool
}

func (a *axis) place(v float64) float64 {
	if a.log {
		v = math.Log10(v)
	}
	return a.from + (v-a.low)/(a.high-a.low)*(a.to-a.from)
}

// drawable says whether a point has a place in the chart.
func (c *Chart) drawable(p Point) bool {
	finite := !math.IsNaN(p.X-p.X) && !math.IsNaN(p.Y-p.Y)
	return finite && (!c.LogY || p.Y > 0)
}

// series returns lines and dots together.
func (c *Chart) series() []Series { return slices.Concat(c.Lines, c.Dots) }

// axes returns axes that hold all points; ok is false if there is none.
func (c *Chart) axes() (x, y axis, ok bool) {
	x = axis{low: math.Inf(1), high: math.Inf(-1), from: left, to: Width - right}
	y = axis{low: math.Inf(1), high: math.Inf(-1), from: Height - bottom, to: top, log: c.LogY}
	for _, s := range c.series() {
		for _, p := range s.Points {
			if !c.drawable(p) {
				continue
			}
			x.low, x.high = min(x.low, p.X), max(x.high, p.X)
			v := p.Y
			if c.LogY {
				v = math.Log10(v)
			}
			y.low, y.high = min(y.low, v), max(y.high, v)
		}
	}
	if x.low > x.high {
		return x, y, false
	}
	x.widen(len(c.Dots) > 0)
	y.widen(true)
	if len(c.Dots) > 0 {
		y.widen(true) // for the labels
	}
	return x, y, true
}

// widen makes the range of an axis one that has a length and, if asked for, a margin.
func (a *axis) widen(margin bool) {
	if length := a.high - a.low; length <= 1e-12*math.Max(math.Abs(a.low), math.Abs(a.high)) {
		half := math.Max(math.Abs(a.low)*0.1, 0.5)
		a.low, a.high = a.low-half, a.high+half
	} else if margin {
		a.low, a.high = a.low-length*0.06, a.high+length*0.06
	}
}

// ticks returns about n round numbers on the axis.
func (a *axis) ticks(n int) []float64 {
	if a.log {
		return a.logTicks()
	}
	step := roundStep((a.high - a.low) / float64(n))
	var out []float64
	for i := math.Ceil(a.low / step); i*step <= a.high && len(out) <= 4*n; i++ {
		out = append(out, i*step)
	}
	return out
}

// roundStep returns a number that is 1, 2 or 5 times a power of ten, at least as large as the given one.
func roundStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= least*(1-1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// logTicks returns powers of ten, with the 2 and 5 between them where there are few.
func (a *axis) logTicks() []float64 {
	var out []float64
	few := a.high-a.low < 3
	stride := max(1, int((a.high-a.low)/8))
	for e := int(math.Floor(a.low)); float64(e) <= a.high; e += stride {
		for _, factor := range []float64{1, 2, 5} {
			v := factor * math.Pow(10, float64(e))
			if l := math.Log10(v); l >= a.low && l <= a.high && (factor == 1 || few) {
				out = append(out, v)
			}
		}
	}
	return out
}

// number writes the number at a tick.
func number(v float64) string {
	if v == 0 {
		return "0" // not -0
	}
	if math.Abs(v) >= 1e6 || math.Abs(v) < 1e-3 {
		return strconv.FormatFloat(v, 'e', -1, 32)
	}
	return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
}
