package marian

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// An npyParser reads the header of an .npy array: a Python dictionary with the keys descr (a string; a list if the elements
// are records), fortran_order (True or False) and shape (a tuple of numbers).
type npyParser struct {
	text string
	next int

	descr        string
	fortranOrder bool
	shape        []int
}

func (p *npyParser) dictionary() error {
	if !p.accept('{') {
		return errors.New("is not a dictionary")
	}
	seen := make(map[string]bool)
	for !p.accept('}') {
		key, err := p.quoted()
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("says %s twice", key)
		}
		seen[key] = true
		if !p.accept(':') {
			return fmt.Errorf("has no value for %q", shorten(key))
		}
		if err := p.value(key); err != nil {
			return err
		}
		if !p.accept(',') && p.peek() != '}' {
			return errors.New("is cut short")
		}
	}
	if p.peek() != 0 {
		return errors.New("goes on after the dictionary")
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return fmt.Errorf("does not say %s", key)
		}
	}
	return nil
}

func (p *npyParser) value(key string) (err error) {
	switch key {
	case "descr":
		if p.peek() == '[' {
			return errors.New("describes records, not numbers")
		}
		p.descr, err = p.quoted()
	case "fortran_order":
		p.fortranOrder, err = p.truth()
	case "shape":
		p.shape, err = p.tuple()
	default:
		return fmt.Errorf("has the unknown key %q", shorten(key))
	}
	return err
}

// peek returns the next byte that is not white space, or 0 at the end.
func (p *npyParser) peek() byte {
	for p.next < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.next]) >= 0 {
		p.next++
	}
	if p.next == len(p.text) {
		return 0
	}
	return p.text[p.next]
}

func (p *npyParser) accept(b byte) bool {
	if p.peek() != b {
		return false
	}
	p.next++
	return true
}

// quoted reads a string without escapes; none of the keys and types needs one.
func (p *npyParser) quoted() (string, error) {
	quote := p.peek()
	if quote != '\'' && quote != '"' {
		return "", errors.New("has something else where a string belongs")
	}
	rest := p.text[p.next+1:]
	end := strings.IndexByte(rest, quote)
	if end < 0 || strings.IndexByte(rest[:end], '\\') >= 0 {
		return "", errors.New("has a string that does not end")
	}
	p.next += end + 2
	return rest[:end], nil
}

func (p *npyParser) truth() (bool, error) {
	p.peek()
	for _, word := range []string{"True", "False"} {
		if strings.HasPrefix(p.text[p.next:], word) {
			p.next += len(word)
			return word == "True", nil
		}
	}
	return false, errors.New("says neither True nor False for fortran_order")
}

func (p *npyParser) tuple() ([]int, error) {
	if !p.accept('(') {
		return nil, errors.New("has a shape that is not a tuple")
	}
	shape := []int{}
	for !p.accept(')') {
		n, err := p.number()
		if err != nil {
			return nil, err
		}
		if shape = append(shape, n); len(shape) > maxRank {
			return nil, fmt.Errorf("has a shape of more than %d dimensions", maxRank)
		}
		if !p.accept(',') && p.peek() != ')' {
			return nil, errors.New("has a shape that does not end")
		}
	}
	return shape, nil
}

// number reads a dimension. Marian keeps dimensions in 31 bits.
func (p *npyParser) number() (int, error) {
	p.peek()
	end := p.next
	for end < len(p.text) && p.text[end] >= '0' && p.text[end] <= '9' {
		end++
	}
	n, err := strconv.ParseUint(p.text[p.next:end], 10, 64)
	if err != nil || n > math.MaxInt32 {
		return 0, fmt.Errorf("has the dimension %q", shorten(p.text[p.next:end]))
	}
	p.next = end
	if p.next < len(p.text) && p.text[p.next] == 'L' { // numbers of Python 2
		p.next++
	}
	return int(n), nil
}
