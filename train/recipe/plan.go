package recipe

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// WritePlan writes the graph: every step after those it needs, what it reads and writes, whether it is done and, where it was
// measured, how long it took or will take. Nothing is changed.
func WritePlan(out io.Writer, r *Recipe) error {
	run, err := newRunner(r, nil, nil)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "STEP\tDOES\tSTATE\tTIME\tREADS\tWRITES")
	p := planner{runner: run, dirty: map[*node]bool{}}
	for _, n := range run.order {
		state, time := p.state(n)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", n.step.Name, n.word, state, time, inputNames(n), outputNames(n))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, p.summary())
	return err
}

// A planner adds up what is left to do.
type planner struct {
	*runner
	dirty   map[*node]bool // steps that are not done
	left    float64        // seconds of steps that were measured
	unknown int            // steps that are to be done and were never measured
}

// state says of a step how it is, and how long it took or will take.
func (p *planner) state(n *node) (state, time string) {
	var s stamp
	known := readJSON(p.stampPath(n), &s)
	waiting := p.waitsFor(n)
	from, err := p.origin(n)
	if waiting == "" && err == nil {
		if _, done := p.done(n, from); done {
			return "done", duration(s.Seconds)
		}
	}
	p.dirty[n] = true
	var b begun
	if err == nil && readJSON(filepath.Join(p.scratch(n), "begun.json"), &b) && b.From.equal(from) {
		if seconds, ok := remaining(b.Seconds, b.Share); ok {
			p.left += seconds
			return "begun, " + percent(b.Share), duration(seconds) + " left"
		}
	}
	time = "?"
	if known {
		p.left += s.Seconds
		time = "about " + duration(s.Seconds)
	} else {
		p.unknown++
	}
	switch {
	case waiting != "":
		return "after " + waiting, time
	case err != nil:
		return err.Error(), time
	case known && len(s.From.differences(from)) > 0:
		return "again, changed: " + strings.Join(s.From.differences(from), ", "), time
	case known:
		return "again, outputs are not as they were", time
	}
	return "to do", time
}

// waitsFor names the first step that has to be done before.
func (p *planner) waitsFor(n *node) string {
	for _, in := range n.inputs {
		if in.writer != nil && p.dirty[in.writer] {
			return in.writer.step.Name
		}
	}
	return ""
}

func (p *planner) summary() string {
	switch {
	case len(p.dirty) == 0:
		return "everything is done"
	case p.unknown == 0:
		return fmt.Sprintf("%d of %d steps left, about %s", len(p.dirty), len(p.order), duration(p.left))
	case p.left > 0:
		return fmt.Sprintf("%d of %d steps left: about %s, and %d steps that never ran", len(p.dirty), len(p.order), duration(p.left), p.unknown)
	}
	return fmt.Sprintf("%d of %d steps left; how long they take is known once they have run", len(p.dirty), len(p.order))
}

func inputNames(n *node) string {
	var names []string
	for _, in := range n.inputs {
		names = append(names, in.name)
	}
	return shorten(names)
}

func outputNames(n *node) string { return shorten(n.kind.outputs()) }

// shorten names the first few.
func shorten(names []string) string {
	const most = 4
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], " "), len(names)-most)
	}
	return strings.Join(names, " ")
}
