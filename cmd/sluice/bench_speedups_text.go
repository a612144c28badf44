package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// text opens the model and the text that the flags name, or makes them up.
func (b *speedupsBench) text() (*speedupText, error) {
	if len(b.model.models) == 0 && b.input == "" {
		return b.madeUp()
	}
	if len(b.model.models) != 1 || b.input == "" {
		return nil, usageErrorf("a model (-m) and a text (-i) go together")
	}
	if err := b.model.find(); err != nil {
		return nil, err
	}
	models, err := openModels(b.model.models, nil)
	if err != nil {
		return nil, err
	}
	m := models.models[0] // whose file stays open until the end
	if m.Sources() != 1 {
		return nil, usageErrorf("%s reads %d sources, not one", b.model.models[0], m.Sources())
	}
	var vocabs []vocab.Vocabulary
	for _, path := range b.model.vocabs {
		v, err := vocab.Open(path)
		if err != nil {
			return nil, modelError{err}
		}
		vocabs = append(vocabs, v)
	}
	source, target := vocabs[0], vocabs[len(vocabs)-1]
	if source.Size() != m.SourceVocabulary || target.Size() != m.TargetVocabulary {
		return nil, modelError{fmt.Errorf("the vocabularies have %d and %d pieces, but the model %d and %d",
			source.Size(), target.Size(), m.SourceVocabulary, m.TargetVocabulary)}
	}
	text := &speedupText{model: m, end: target.EOS(), suppress: target.Suppressed(), factor: 3, unit: "word"}
	err = eachLine(b.input, func(line string) error {
		if tokens := source.Encode(line, nil); len(tokens) > 0 {
			text.sources = append(text.sources, search.Source{Tokens: append(tokens, source.EOS())})
			text.words += int64(len(strings.Fields(line)))
		}
		return nil
	})
	if err == nil && text.words == 0 {
		err = inputError{fmt.Errorf("%s holds no text", b.input)}
	}
	return text, err
}

// madeUp returns a random model and random sentences.
func (b *speedupsBench) madeUp() (*speedupText, error) {
	if b.kind != "devlin" && b.kind != "s2s" {
		return nil, usageErrorf("--type %s: devlin or s2s", b.kind)
	}
	random := rand.New(rand.NewPCG(2017, 1))
	m, err := randomModel(fmt.Sprintf("type: %s\ndim-vocabs: [%d, %d]\ndim-emb: %d\ndim-rnn: %d\nenc-depth: 1\ndec-fc-depth: %d\ntied-embeddings: true\n",
		b.kind, b.vocabulary, b.vocabulary, b.dimEmb, b.dimRNN, b.fcDepth), random)
	if err != nil {
		return nil, usageError{err}
	}
	text := &speedupText{
		model: m, words: int64(b.sentences * b.length), end: 0, suppress: []search.Token{0}, factor: 1, unit: "piece",
	}
	pieces := rand.NewZipf(random, 1.1, 3, uint64(b.vocabulary-2))
	draw := func(n int) []search.Token {
		tokens := make([]search.Token, n)
		for i := range tokens {
			tokens[i] = search.Token(1 + pieces.Uint64())
		}
		return tokens
	}
	for range b.sentences {
		source := search.Source{Tokens: draw(b.length)}
		for len(source.Candidates) < min(b.candidates, b.vocabulary/2) {
			token := draw(1)[0]
			if place, there := slices.BinarySearch(source.Candidates, token); !there {
				source.Candidates = slices.Insert(source.Candidates, place, token)
			}
		}
		text.sources = append(text.sources, source)
	}
	return text, nil
}

// randomModel returns a model of the description with random weights, in the magnitudes of those that training begins with.
func randomModel(description string, random *rand.Rand) (*model.Model, error) {
	m, err := model.New([]byte(description))
	if err != nil {
		return nil, err
	}
	file := &marian.File{Config: []byte(description)}
	for _, t := range m.Parameters() {
		rows, columns := t.Matrix()
		scale := 1 / math.Sqrt(float64(rows))
		if rows == 1 || strings.HasSuffix(t.Name, "Wemb") {
			scale = 1 / math.Sqrt(float64(columns))
		}
		data := make([]byte, 0, 4*rows*columns)
		for range rows * columns {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(scale*random.NormFloat64())))
		}
		file.Tensors = append(file.Tensors, &marian.Tensor{Name: t.Name, Shape: t.Shape, Type: marian.Float32, Data: data})
	}
	if m.Marker != nil {
		file.Tensors = append(file.Tensors, m.Marker)
	}
	return model.Load(file, nil)
}
