package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-mt/sluice/translator/marian"
)

// A Fact is a property of a model, in Marian's words.
type Fact struct{ Key, Value string }

// A Report says what a model is, for people.
type Report struct {
	Facts      []Fact     // of the architecture, in a fixed order
	Parameters int64      // numbers that were trained: all elements of all parameters
	Stored     []StoredAs // how the parameters are stored, most elements first
	Precision  string     // of the matrices of the layers: "float32", "float16", "int8", "int16", or "mixed"
	Alphas     int        // activation multipliers present
	Missing    []string   // parameters of quantised products that lack one although others have it
	Unknown    []string   // tensors that the architecture has no use for
}

// StoredAs counts the parameters of a storage type.
type StoredAs struct {
	Type     marian.Type
	Tensors  int
	Elements int64
}

// Report describes the model.
func (m *Model) Report() Report {
	r := Report{Facts: m.Architecture.Facts(), Precision: m.precision(), Alphas: len(m.Alphas), Unknown: m.Unknown}
	counts := map[marian.Type]*StoredAs{}
	for _, t := range m.parameters {
		r.Parameters += int64(t.Elements())
		s := counts[t.Type]
		if s == nil {
			s = &StoredAs{Type: t.Type}
			counts[t.Type] = s
		}
		s.Tensors++
		s.Elements += int64(t.Elements())
	}
	for _, t := range slices.Sorted(maps.Keys(counts)) {
		r.Stored = append(r.Stored, *counts[t])
	}
	sortStored(r.Stored)
	if len(m.Alphas) > 0 {
		for _, t := range m.parameters {
			if t.Type.IsIntgemm() && m.Alphas[t.Name] == nil && (t != m.SourceEmbedding || t == m.Output.W) {
				r.Missing = append(r.Missing, t.Name)
			}
		}
	}
	return r
}

// Parameters returns the tensors that the architecture uses, each once, in a fixed order.
func (m *Model) Parameters() []*marian.Tensor { return m.parameters }

// sortStored orders by elements, most first; types come in ascending order, and stay so where counts are equal.
func sortStored(s []StoredAs) {
	for i := 1; i < len(s); i++ {
		for j := i; j > 0 && s[j].Elements > s[j-1].Elements; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
}

// precision names the type of the layers' matrices. Embeddings, biases and norms may be stored in another.
func (m *Model) precision() string {
	found := ""
	for _, t := range m.parameters {
		rows, _ := t.Matrix()
		if rows == 1 || strings.Contains(t.Name, "Wemb") {
			continue
		}
		name := strings.TrimPrefix(t.Type.String(), "intgemm")
		switch name {
		case "8":
			name = "int8"
		case "16":
			name = "int16"
		}
		switch found {
		case "", name:
			found = name
		default:
			return "mixed"
		}
	}
	return found
}

// A factList gathers facts.
type factList []Fact

func (l *factList) add(key, value string)        { *l = append(*l, Fact{key, value}) }
func (l *factList) number(key string, value int) { l.add(key, strconv.Itoa(value)) }
func (l *factList) flag(key string, value bool) {
	if value {
		l.add(key, "true")
	}
}

// Facts lists the properties of the architecture under Marian's names.
func (a *Architecture) Facts() []Fact {
	var facts factList
	facts.add("type", a.Type)
	if a.Version != "" {
		facts.add("version", a.Version)
	}
	if a.HasEncoder() {
		facts.add("dim-vocabs", numbers(slices.Concat([]int{a.SourceVocabulary}, a.FurtherVocabularies, []int{a.TargetVocabulary})))
	} else {
		facts.number("dim-vocabs", a.TargetVocabulary)
	}
	facts.number("dim-emb", a.Dim)
	if a.Recurrence != nil {
		a.recurrentFacts(&facts)
	} else {
		a.transformerFacts(&facts)
	}
	facts.flag("tied-embeddings", a.TiedEmbeddings)
	facts.flag("tied-embeddings-src", a.TiedEmbeddingsSrc)
	facts.flag("tied-embeddings-all", a.TiedEmbeddingsAll)
	facts.flag("output-omit-bias", a.OutputOmitBias)
	facts.flag("right-left", a.RightLeft)
	if a.HasEncoder() && a.Recurrence == nil {
		facts.number("transformer-guided-alignment-layer", a.AlignmentLayer+1)
	}
	return facts
}

// transformerFacts lists what transformers alone have.
func (a *Architecture) transformerFacts(facts *factList) {
	facts.number("transformer-heads", a.Heads)
	if a.HasEncoder() {
		facts.number("enc-depth", a.EncoderStack.Depth)
		facts.number("transformer-dim-ffn", a.EncoderStack.FFNDim)
		facts.number("transformer-ffn-depth", a.EncoderStack.FFNDepth)
	}
	facts.number("dec-depth", a.DecoderStack.Depth)
	facts.number("transformer-decoder-dim-ffn", a.DecoderStack.FFNDim)
	facts.number("transformer-decoder-ffn-depth", a.DecoderStack.FFNDepth)
	facts.add("transformer-ffn-activation", a.DecoderStack.Activation.String())
	facts.add("transformer-decoder-autoreg", a.Autoregression.String())
	switch a.Autoregression {
	case AverageAttention:
		facts.number("transformer-dim-aan", a.AverageNetwork.Dim)
		facts.number("transformer-aan-depth", a.AverageNetwork.Depth)
		facts.add("transformer-aan-activation", a.AverageNetwork.Activation.String())
		facts.flag("transformer-aan-nogate", !a.AverageNetwork.Gate)
	case RecurrentCell:
		facts.add("dec-cell", a.DecoderCell.String())
		facts.flag("layer-normalization", a.CellNorm)
	}
	facts.add("transformer-preprocess", strconv.Quote(a.Preprocess))
	facts.add("transformer-postprocess", strconv.Quote(a.Postprocess))
	facts.add("transformer-postprocess-emb", strconv.Quote(a.PostprocessEmb))
	facts.add("transformer-postprocess-top", strconv.Quote(a.PostprocessTop))
	facts.flag("transformer-no-projection", a.NoProjection)
	facts.flag("transformer-rnn-projection", a.RNNProjection)
	facts.flag("transformer-disable-position-embeddings", a.NoPositions)
	if len(a.TiedLayers) > 0 {
		facts.add("transformer-tied-layers", numbers(a.TiedLayers))
	}
}

// recurrentFacts lists what recurrent models alone have.
func (a *Architecture) recurrentFacts(facts *factList) {
	r := a.Recurrence
	facts.number("dim-rnn", r.Dim)
	if a.HasEncoder() {
		facts.add("enc-type", r.Encoder.String())
		facts.add("enc-cell", r.EncoderCell.String())
		facts.number("enc-depth", a.EncoderStack.Depth)
		facts.number("enc-cell-depth", r.EncoderCells)
	}
	facts.add("dec-cell", r.DecoderCell.String())
	if r.Devlin != nil {
		r.Devlin.facts(facts)
		facts.flag("skip", r.Skip)
		return
	}
	facts.number("dec-depth", a.DecoderStack.Depth)
	if r.Hard != nil {
		r.Hard.facts(facts)
	} else {
		facts.number("dec-cell-base-depth", r.BaseCells)
		facts.number("dec-cell-high-depth", r.HighCells)
	}
	facts.flag("layer-normalization", r.LayerNorm)
	facts.flag("skip", r.Skip)
}

func numbers(list []int) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, " ")
}
