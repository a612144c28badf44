package main

import (
	"slices"
	"strings"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/nbest"
	"github.com/sluice-mt/sluice/internal/recordio"
	filesink "github.com/sluice-mt/sluice/producer/file"
	"github.com/sluice-mt/sluice/translator"
)

// encoder chooses how outputs are written.
func (t *translation) encoder(parts *engineParts, records recordio.Options) (filesink.Encoder, error) {
	alignment, err := nbest.ParseAlignment(t.search.alignment)
	if err != nil {
		return nil, usageErrorf("--alignment: %v", err)
	}
	format := nbest.Format{Alignment: alignment, WordScores: t.search.wordScores}
	marian := marianEncoder{format: format, pieces: t.search.noSPMDecode, nBest: t.search.nBest, empty: emptyLine(t.search.beamSize)}
	lines := records.Format == recordio.Text || t.input.tsv
	details := marian.pieces || alignment.Kind != nbest.None || format.WordScores
	switch {
	case t.input.tsv && (records.Header || records.Target != ""):
		return nil, usageErrorf("--tsv prints translations alone: use --format tsv with --header and --target-field")
	case t.output.jsonl:
		return recordio.NewReportEncoder(), nil
	case t.search.nBest:
		return &marian, marian.scoreEmptyLine(&parts.config)
	case lines && details:
		return &marian, nil
	case details:
		return nil, usageErrorf("--alignment, --word-scores and --no-spm-decode need plain text, --tsv, --n-best or --jsonl")
	case lines:
		return recordio.NewTextEncoder(), nil
	}
	return recordio.NewEncoder(records), nil
}

// A marianEncoder prints what marian-decoder prints.
type marianEncoder struct {
	format nbest.Format
	pieces bool // pieces instead of text
	nBest  bool
	empty  []job.Hypothesis // of an empty line
}

// newListEncoder returns the encoder of a job's n-best lists.
func newListEncoder(parts *engineParts) (*marianEncoder, error) {
	e := &marianEncoder{nBest: true, empty: emptyLine(parts.config.Search.Beam)}
	return e, e.scoreEmptyLine(&parts.config)
}

// Append appends the lines of one output.
func (e *marianEncoder) Append(dst []byte, output *job.Output) ([]byte, error) {
	hypotheses := output.Result.Hypotheses
	if len(hypotheses) == 0 {
		hypotheses = make([]job.Hypothesis, 1)
	}
	if len(hypotheses) == 1 && ofEmptyLine(&hypotheses[0]) {
		hypotheses = e.empty
	}
	if e.pieces {
		hypotheses = inPieces(hypotheses)
	}
	if e.nBest {
		dst = e.format.AppendNBest(dst, output.Record.Seq, hypotheses)
	} else {
		dst = e.format.AppendLine(dst, &hypotheses[0])
	}
	return append(dst, '\n'), nil
}

// ofEmptyLine says whether the model was not asked for a hypothesis: it has none of what a model gives.
func ofEmptyLine(h *job.Hypothesis) bool {
	return h.Text == "" && h.ModelScores == nil && h.WordScores == nil && h.Alignment == nil
}

// emptyLine is what Marian prints for an empty line: as many hypotheses as the beam has, with the end of sentence
// alone, which costs nothing.
func emptyLine(beam int) []job.Hypothesis {
	h := job.Hypothesis{WordScores: []float32{0}, Alignment: [][]float32{{1}}}
	return slices.Repeat([]job.Hypothesis{h}, beam)
}

// scoreEmptyLine adds what lists print of an empty line besides: what the models think of it.
func (e *marianEncoder) scoreEmptyLine(config *translator.Config) error {
	h, err := config.EmptyHypothesis()
	if err != nil {
		return modelError{err}
	}
	e.empty = slices.Repeat([]job.Hypothesis{h}, len(e.empty))
	return nil
}

// inPieces returns the hypotheses with their pieces for text, the end of sentence left out.
func inPieces(hypotheses []job.Hypothesis) []job.Hypothesis {
	out := make([]job.Hypothesis, len(hypotheses))
	for i, h := range hypotheses {
		pieces := h.Pieces
		if n := len(pieces); n > 0 && pieces[n-1] == "</s>" {
			pieces = pieces[:n-1]
		}
		h.Text = strings.Join(pieces, " ")
		out[i] = h
	}
	return out
}
