package chart

// draw puts the chart on a canvas.
func (c *Chart) draw(on canvas) {
	on.text(Point{left, 22}, titleSize, start, ink, c.Title)
	x, y, ok := c.axes()
	if !ok {
		on.text(Point{Width / 2, Height / 2}, textSize, middle, grey, "nothing was measured")
		return
	}
	c.drawAxes(on, &x, &y)
	next := 0
	legend := legend{on: on, at: Point{left, 40}}
	for _, s := range c.Lines {
		colour := colours[next%len(colours)]
		width := 1.8
		if s.Thin {
			width, colour = 1, grey
		} else {
			next++
		}
		for _, part := range c.parts(s.Points, &x, &y) {
			on.line(part, width, colour)
			if len(part) == 1 {
				on.disc(part[0], 3, colour, "")
			}
		}
		legend.add(s.Name, colour)
	}
	for _, s := range c.Dots {
		colour := colours[next%len(colours)]
		next++
		c.drawDots(on, &s, colour, &x, &y)
		legend.add(s.Name, colour)
	}
}

func (c *Chart) drawAxes(on canvas, x, y *axis) {
	for _, v := range y.ticks(6) {
		at := y.place(v)
		on.line([]Point{{left, at}, {Width - right, at}}, 1, faint)
		on.text(Point{left - 7, at + 4}, textSize, end, grey, number(v))
	}
	for _, v := range x.ticks(8) {
		at := x.place(v)
		on.line([]Point{{at, Height - bottom}, {at, Height - bottom + 5}}, 1, grey)
		on.text(Point{at, Height - bottom + 18}, textSize, middle, grey, number(v))
	}
	on.line([]Point{{left, Height - bottom}, {Width - right, Height - bottom}}, 1, grey)
	on.text(Point{(left + Width - right) / 2, Height - 10}, textSize, middle, ink, c.X)
	on.text(Point{left, top - 4}, textSize, start, ink, c.Y)
}

// parts returns the places of the points, divided where points are left out.
func (c *Chart) parts(points []Point, x, y *axis) [][]Point {
	var all [][]Point
	var part []Point
	for _, p := range points {
		if c.drawable(p) {
			part = append(part, Point{x.place(p.X), y.place(p.Y)})
			continue
		}
		if part != nil {
			all = append(all, part)
		}
		part = nil
	}
	if part != nil {
		all = append(all, part)
	}
	return all
}

func (c *Chart) drawDots(on canvas, s *Series, colour string, x, y *axis) {
	var taken []box
	var places []Point
	var labels []string
	for i, p := range s.Points {
		if !c.drawable(p) {
			continue
		}
		at, label := Point{x.place(p.X), y.place(p.Y)}, ""
		if i < len(s.Labels) {
			label = s.Labels[i]
		}
		on.disc(at, dotRadius, colour, label)
		taken = append(taken, box{at.X - dotRadius, at.Y - dotRadius, at.X + dotRadius, at.Y + dotRadius})
		places, labels = append(places, at), append(labels, label)
	}
	for i, at := range places {
		taken = append(taken, placeLabel(on, at, labels[i], taken))
	}
}

const dotRadius = 5

// A box is what a label or a dot covers.
type box struct{ left, top, right, bottom float64 }

func (b box) meets(other box) bool {
	return b.left < other.right && other.left < b.right && b.top < other.bottom && other.top < b.bottom
}

// placeLabel writes a label above its dot or, where something is already, below or beside it. It returns the place.
func placeLabel(on canvas, at Point, label string, taken []box) box {
	width := textWidth(label, textSize)
	candidates := []Point{ // the left end of the base line
		{at.X - width/2, at.Y - 10}, {at.X - width/2, at.Y + 18}, {at.X + 9, at.Y + 4}, {at.X - 9 - width, at.Y + 4},
	}
	var covered box
	for _, p := range candidates {
		p.X = min(max(p.X, left+2), Width-width-2)
		covered = box{p.X, p.Y - textSize, p.X + width, p.Y + 3}
		free := covered.top > top && covered.bottom < Height-bottom
		for _, other := range taken {
			free = free && !covered.meets(other)
		}
		if free {
			break
		}
	}
	on.text(Point{covered.left, covered.bottom - 3}, textSize, start, ink, label)
	return covered
}

// A legend says what the colours mean, above the axes, from left to right.
type legend struct {
	on canvas
	at Point
}

func (l *legend) add(name, colour string) {
	if name == "" || l.at.X > Width-right {
		return
	}
	l.on.line([]Point{{l.at.X, l.at.Y - 4}, {l.at.X + 14, l.at.Y - 4}}, 3, colour)
	l.on.text(Point{l.at.X + 19, l.at.Y}, textSize, start, ink, name)
	l.at.X += 19 + textWidth(name, textSize) + 16
}
