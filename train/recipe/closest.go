package recipe

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-mt/sluice/internal/score"
)

// A choice is a pair with the translations that there are to choose from.
type choice struct {
	pair
	candidates []string
}

// choiceCounts count pairs.
type choiceCounts struct{ kept, empty int }

// choicesAtOnce is how many choices are made side by side.
const choicesAtOnce = 4096

// writeClosest writes a corpus in which the target of each pair is replaced by the translation, out of an n-best list, that is
// closest to it by sentence BLEU; of equals by the better one. inverse does it with sources. Pairs whose translation is empty
// are left out.
func writeClosest(path string, originals iter.Seq2[pair, error], nBest string, inverse bool) (choiceCounts, error) {
	var counts choiceCounts
	return counts, WriteText(path, func(out *bufio.Writer) error {
		var waiting []choice
		decide := func() error {
			if err := chooseAll(waiting, inverse); err != nil {
				return err
			}
			for _, c := range waiting {
				if c.source == "" || c.target == "" {
					counts.empty++
					continue
				}
				counts.kept++
				if err := writePair(out, c.pair); err != nil {
					return err
				}
			}
			waiting = waiting[:0]
			return nil
		}
		for c, err := range choices(originals, nBest) {
			if err != nil {
				return err
			}
			if waiting = append(waiting, c); len(waiting) == choicesAtOnce {
				if err := decide(); err != nil {
					return err
				}
			}
		}
		return decide()
	})
}

// chooseAll replaces the target, or the source, of every pair by the closest candidate.
func chooseAll(all []choice, inverse bool) error {
	workers := runtime.GOMAXPROCS(0)
	failures := make([]error, workers)
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < len(all) && failures[worker] == nil; i += workers {
				to := &all[i].target
				if inverse {
					to = &all[i].source
				}
				*to, failures[worker] = closest(all[i].candidates, *to)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// closest returns the first of those candidates that have the best sentence BLEU.
func closest(candidates []string, reference string) (string, error) {
	best, most := "", -1.0
	for _, candidate := range candidates {
		s, err := score.SentenceBLEU(candidate, []string{reference}, score.BLEUOptions{EffectiveOrder: true})
		if err != nil {
			return "", err
		}
		if s.Score > most {
			best, most = candidate, s.Score
		}
	}
	return best, nil
}

// choices reads pairs together with the entries of an n-best list that belong to them.
func choices(originals iter.Seq2[pair, error], nBest string) iter.Seq2[choice, error] {
	return func(yield func(choice, error) bool) {
		next, stop := iter.Pull2(Lines(nBest))
		defer stop()
		id, candidate, err := parseEntry(next())
		number := 0
		for p, pairErr := range originals {
			c := choice{pair: p}
			for err == nil && id == number {
				c.candidates = append(c.candidates, candidate)
				id, candidate, err = parseEntry(next())
			}
			if err = errors.Join(pairErr, err); err == nil && len(c.candidates) == 0 {
				err = fmt.Errorf("%w: %s has no translation of line %d", ErrFormat, nBest, number+1)
			}
			if !yield(c, err) || err != nil {
				return
			}
			number++
		}
		if err == nil && id >= 0 {
			err = fmt.Errorf("%w: %s has translations of more lines than the %d there are", ErrFormat, nBest, number)
		}
		if err != nil {
			yield(choice{}, err)
		}
	}
}

// parseEntry takes an entry of an n-best list apart: "number ||| text ||| F0= score ||| score". The text may hold bars of its
// own. Without a line the number is -1.
func parseEntry(line string, err error, ok bool) (id int, text string, _ error) {
	if err != nil || !ok {
		return -1, "", err
	}
	const bar = " ||| "
	number, rest, found := strings.Cut(line, bar)
	for range 2 { // the scores
		at := strings.LastIndex(rest, bar)
		found = found && at >= 0
		rest = rest[:max(at, 0)]
	}
	id, err = strconv.Atoi(number)
	if err != nil || !found || id < 0 {
		return -1, "", fmt.Errorf("%w: %q is no entry of an n-best list", ErrFormat, line)
	}
	return id, rest, nil
}
