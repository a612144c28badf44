package search

// The scores of tokens that prefixes give are asked for apart: they decide nothing, so that a Picker may tell them when the next step is under way.

// askForGiven asks all models for the log-probabilities of the tokens that sentences are going to go on with, if all can tell those alone.
func (d *Decoder) askForGiven() {
	if len(d.pickers) == 0 {
		return
	}
	d.given, d.givenStarts = d.given[:0], append(d.givenStarts[:0], 0)
	for _, b := range d.active {
		b.given = len(d.given)
		for range b.live {
			if b.mode == modeForced && b.trellis.models > 0 && candidateIndex(b.sentence.Source.Candidates, b.sentence.Prefix[b.length]) >= 0 {
				d.given = append(d.given, b.sentence.Prefix[b.length])
			}
			d.givenStarts = append(d.givenStarts, int32(len(d.given)))
		}
	}
	if len(d.given) == 0 {
		return
	}
	for _, picker := range d.pickers {
		picker.AskLogProbs(d.givenStarts, d.given)
	}
}

// readGiven reads what was asked for.
func (d *Decoder) readGiven() {
	if len(d.given) == 0 {
		return
	}
	d.givenLogProbs = d.givenLogProbs[:0]
	for _, picker := range d.pickers {
		first := len(d.givenLogProbs)
		d.givenLogProbs = append(d.givenLogProbs, make([]float32, len(d.given))...)
		picker.AnswerLogProbs(d.givenLogProbs[first:])
	}
}

// givenLogProb is the log-probability by a model of the token that a prefix gives hypothesis i of a sentence: 0, as of what is certain, if the
// sentence or the model could not have chosen it.
func (d *Decoder) givenLogProb(b *beam, i, model int) float32 {
	index := candidateIndex(b.sentence.Source.Candidates, b.sentence.Prefix[b.length])
	if index < 0 {
		return 0
	}
	var logProb float32
	if len(d.pickers) > 0 {
		logProb = d.givenLogProbs[model*len(d.given)+b.given+i]
	} else {
		logProb = d.steppers[model].LogProbs(int32(b.firstRow + i))[index]
	}
	if logProb == negativeInfinity {
		return 0
	}
	return logProb
}
