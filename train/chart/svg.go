package chart

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// SVG returns the chart as an element that can stand in a file of its own or in HTML.
func (c *Chart) SVG() string {
	s := new(svg)
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`font-family="Go, Arial, Helvetica, sans-serif" role="img"><title>%s</title>`+"\n"+
		`<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", Width, Height, Width, Height, escaped(c.Title), Width, Height)
	c.draw(s)
	s.WriteString("</svg>\n")
	return s.String()
}

// svg is a canvas of elements.
type svg struct{ strings.Builder }

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // into memory
	return b.String()
}

func (s *svg) line(points []Point, width float64, colour string) {
	fmt.Fprintf(s, `<polyline fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round" points="`, colour, width)
	for i, p := range points {
		if i > 0 {
			s.WriteByte(' ')
		}
		fmt.Fprintf(s, "%.1f,%.1f", p.X, p.Y)
	}
	s.WriteString(`"/>` + "\n")
}

func (s *svg) disc(at Point, radius float64, colour, label string) {
	fmt.Fprintf(s, `<circle cx="%.1f" cy="%.1f" r="%g" fill="%s">`, at.X, at.Y, radius, colour)
	if label != "" {
		fmt.Fprintf(s, "<title>%s</title>", escaped(label))
	}
	s.WriteString("</circle>\n")
}

func (s *svg) text(at Point, size float64, from anchor, colour, words string) {
	if words == "" {
		return
	}
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" font-size="%g" text-anchor="%s" fill="%s">%s</text>`+"\n",
		at.X, at.Y, size, from, colour, escaped(words))
}
