// Package modelcheck looks at every state that a small model of a protocol can get into, whatever happens in whichever
// order. Tests use it for the protocols that streaming rests on: what a model shows for a few records and two workers,
// chaos on real servers shows for many.
package modelcheck

import (
	"fmt"
	"slices"
	"strings"
)

// A Step leads from one state to another.
type Step[S comparable] struct {
	Name string
	To   S
}

// A Model is a protocol and its environment.
type Model[S comparable] struct {
	Initial S
	Next    func(S) []Step[S] // everything that may happen in a state
	Check   func(S) error     // what must hold in every state
	Goal    func(S) bool      // what must remain reachable from every state; nil checks nothing
}

// A Violation says how a state is reached in which something does not hold.
type Violation struct {
	Err   error
	Trace []string // steps from the initial state
	State string
}

// Error lists the steps.
func (v *Violation) Error() string {
	return fmt.Sprintf("%v\nafter %s\nin %s", v.Err, strings.Join(v.Trace, ", "), v.State)
}

// origin is how a state was first reached.
type origin[S comparable] struct {
	from S
	step string
}

// Explore visits all states that can be reached, the nearest first, and returns how many there are. An error is a *Violation;
// its trace is as short as any.
func (m Model[S]) Explore(limit int) (states int, err error) {
	origins := map[S]origin[S]{m.Initial: {}}
	queue := []S{m.Initial}
	before := map[S][]S{} // from where a state is reached in one step
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		if err := m.Check(state); err != nil {
			return len(origins), m.violation(origins, state, err)
		}
		for _, step := range m.Next(state) {
			before[step.To] = append(before[step.To], state)
			if _, known := origins[step.To]; known {
				continue
			}
			if len(origins) == limit {
				return limit, fmt.Errorf("more than %d states", limit)
			}
			origins[step.To] = origin[S]{state, step.Name}
			queue = append(queue, step.To)
		}
	}
	return len(origins), m.reachable(origins, before)
}

// reachable goes back from the goals and looks for states that it does not come to.
func (m Model[S]) reachable(origins map[S]origin[S], before map[S][]S) error {
	if m.Goal == nil {
		return nil
	}
	var queue []S
	good := map[S]bool{}
	for state := range origins {
		if m.Goal(state) {
			good[state] = true
			queue = append(queue, state)
		}
	}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		for _, from := range before[state] {
			if !good[from] {
				good[from] = true
				queue = append(queue, from)
			}
		}
	}
	for state := range origins {
		if !good[state] {
			return m.violation(origins, state, fmt.Errorf("the goal cannot be reached any more"))
		}
	}
	return nil
}

func (m Model[S]) violation(origins map[S]origin[S], state S, err error) *Violation {
	v := &Violation{Err: err, State: fmt.Sprintf("%+v", state)}
	for state != m.Initial {
		o := origins[state]
		v.Trace = append(v.Trace, o.step)
		state = o.from
	}
	slices.Reverse(v.Trace)
	return v
}
