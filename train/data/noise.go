package data

import (
	"hash/fnv"

	"github.com/sluice-mt/sluice/train/corpus"
)

// disturb puts the noise of an epoch into a pair. What happens to it depends on the seed of the noise, the epoch and its texts
// alone.
func (c *Config) disturb(p *Pair, epoch int) {
	noise := *c.Noise
	noise.Seed = scatter(noise.Seed, uint64(epoch))
	texts := corpus.Pair{Source: string(p.texts[0]), Target: string(p.texts[1])}
	before, hash := texts, fnv.New64a()
	for _, text := range p.texts {
		hash.Write(append(text, '\t'))
	}
	noise.Apply(hash.Sum64(), &texts, new(corpus.Changes))
	if texts == before {
		return
	}
	source, target := encode(nil, c.Source, []byte(texts.Source)), p.Target
	if len(source) == 0 || len(source) >= c.MaxLength {
		return
	}
	if texts.Target != before.Target {
		target = encode(nil, c.Target, []byte(texts.Target))
		if len(target) == 0 || len(target) >= c.MaxLength {
			return
		}
		target = finish(target, c.Target, c.RightLeft)
	}
	p.Source, p.Target, p.Alignment = finish(source, c.Source, c.RightLeft), target, p.Alignment[:0]
	if len(p.Weights) > 0 {
		weight := p.Weights[0]
		p.Weights = p.Weights[:0]
		for range target {
			p.Weights = append(p.Weights, weight)
		}
	}
}
