package train

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// loadPretrained takes the values of another model's parameters. One of the same type must be of the same architecture. Of a
// model of another type, such as a language model for the decoder of a translation model, what has the same name is taken.
func (r *run) loadPretrained() error {
	path := r.config.PretrainedModel
	file, err := marian.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var theirs *model.Architecture
	if file.Config != nil {
		if theirs, err = model.Describe(file.Config); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if theirs.Type != r.network.Model.Type {
			return r.loadMatching(file)
		}
	}
	m, err := model.Load(file, r.description)
	if err != nil {
		return fmt.Errorf("%w: the pretrained model is not of this architecture: %w", ErrConfig, err)
	}
	if theirs != nil {
		if key := difference(theirs, &m.Architecture); key != "" {
			return fmt.Errorf("%w: the pretrained model %s is not of this architecture: its %s is different", ErrConfig, path, key)
		}
	}
	n, err := network.New(m)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return n.Load(r.values)
}

// loadMatching takes the parameters that have the same names. Others keep the values they have.
func (r *run) loadMatching(file *marian.File) error {
	tensors := map[string]*marian.Tensor{}
	for _, t := range file.Tensors {
		tensors[t.Name] = t
	}
	taken := 0
	for i := range r.network.Parameters {
		p := &r.network.Parameters[i]
		t := tensors[p.Name]
		if t == nil {
			continue
		}
		if rows, columns := t.Matrix(); rows != p.Rows || columns != p.Cols {
			return fmt.Errorf("%w: in the pretrained model %s, parameter %s is %d×%d, but here it is %d×%d",
				ErrConfig, file.Path, p.Name, rows, columns, p.Rows, p.Cols)
		}
		values, err := t.Float32()
		if err != nil {
			return fmt.Errorf("%s: %w", file.Path, err)
		}
		copy(network.Values(p, r.values), values)
		taken++
	}
	if taken == 0 {
		return fmt.Errorf("%w: the pretrained model %s has no parameter that this model has, too", ErrConfig, file.Path)
	}
	r.logger.Info("parameters taken from the pretrained model", "model", file.Path, "taken", taken,
		"random", len(r.network.Parameters)-taken, "left_over", len(tensors)-taken)
	return nil
}

// difference returns the first property in which two architectures with the same parameters compute something different; ""
// if there is none.
func difference(a, b *model.Architecture) string {
	theirs := map[string]string{}
	for _, fact := range a.Facts() {
		theirs[fact.Key] = fact.Value
	}
	for _, fact := range b.Facts() {
		value := theirs[fact.Key]
		delete(theirs, fact.Key)
		switch fact.Key {
		case "version", "dim-vocabs", "transformer-guided-alignment-layer":
			continue // of no consequence, or seen in the parameters
		}
		if value != fact.Value {
			return fact.Key
		}
	}
	delete(theirs, "version")
	for _, fact := range a.Facts() {
		if _, only := theirs[fact.Key]; only {
			return fact.Key
		}
	}
	return ""
}

// embeddingTables returns the table of each source and that of the target, in the order of the training sets. Tables may be the
// same.
func embeddingTables(m *model.Model) []*marian.Tensor {
	var tables []*marian.Tensor
	if m.HasEncoder() {
		tables = append(tables, m.SourceEmbedding)
	}
	for i := range m.Further {
		tables = append(tables, m.Further[i].Embedding)
	}
	if m.Recurrent != nil {
		for i := range m.Recurrent.Further {
			tables = append(tables, m.Recurrent.Further[i].Embedding)
		}
	}
	return append(tables, m.TargetEmbedding)
}

// loadVectors sets embeddings from files. Of a table that several sides share, the first file counts, as in Marian.
func (r *run) loadVectors() error {
	tables := embeddingTables(r.network.Model)
	if n := len(r.config.EmbeddingVectors); n != 0 && n != len(tables) {
		return fmt.Errorf("%w: embedding-vectors has %d files, but must have %d, one for each side; \"\" stands for none", ErrConfig, n, len(tables))
	}
	for i := len(r.config.EmbeddingVectors) - 1; i >= 0; i-- {
		path := r.config.EmbeddingVectors[i]
		if path == "" {
			continue
		}
		p := r.network.Parameter(tables[i])
		values := network.Values(p, r.values)
		found, err := readVectorFile(path, p.Rows, p.Cols, values)
		if err != nil {
			return err
		}
		if r.config.EmbeddingNormalization {
			normalise(values)
		}
		r.logger.Info("embeddings read", "file", path, "vectors", found, "random", p.Rows-found)
	}
	return nil
}

// normalise divides by the length of all values together, as Marian does.
func normalise(values []float32) {
	square := 0.0
	for _, v := range values {
		square += float64(v) * float64(v)
	}
	if square == 0 {
		return
	}
	factor := float32(1 / math.Sqrt(square))
	for i := range values {
		values[i] *= factor
	}
}

func readVectorFile(path string, rows, columns int, into []float32) (found int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("embedding-vectors: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	plain, err := compress.NewReader(f)
	if err == nil {
		defer func() { err = errors.Join(err, plain.Close()) }()
		found, err = readVectors(plain, rows, columns, into)
	}
	if err != nil {
		return 0, fmt.Errorf("embedding-vectors: %s: %w", path, err)
	}
	return found, nil
}

// maxVectorLine bounds a line of a file of vectors, in bytes.
const maxVectorLine = 1 << 20

// readVectors reads vectors in the text format of word2vec, with the numbers of a vocabulary in the place of words, as Marian
// reads them: a line with their number and length, then the number of a piece and its vector on each line. It sets rows of into
// and returns how many were found; vectors beyond the vocabulary are passed over.
func readVectors(from io.Reader, rows, columns int, into []float32) (int, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxVectorLine)
	seen := make([]bool, rows)
	found := 0
	number := 1
	for ; lines.Scan(); number++ {
		fields := strings.Fields(lines.Text())
		if number == 1 {
			if len(fields) != 2 || fields[1] != strconv.Itoa(columns) {
				return 0, fmt.Errorf("%w: line 1 is %.60q, but must be the number of vectors and their length, which is dim-emb, %d",
					ErrConfig, lines.Text(), columns)
			}
			continue
		}
		row, values, err := vector(fields, columns)
		if err != nil {
			return 0, fmt.Errorf("%w: line %d %w", ErrConfig, number, err)
		}
		if row >= rows {
			continue
		}
		if !seen[row] {
			seen[row] = true
			found++
		}
		copy(into[row*columns:], values)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return 0, fmt.Errorf("%w: line %d has more than %d bytes, but a line is the number of a piece and its vector", ErrConfig, number, maxVectorLine)
	} else if err != nil {
		return 0, fmt.Errorf("reading vectors: line %d: %w", number, err)
	}
	if found == 0 {
		return 0, fmt.Errorf("%w: it has no vector for a piece of the vocabulary", ErrConfig)
	}
	return found, nil
}

// vector reads the fields of a line.
func vector(fields []string, columns int) (int, []float32, error) {
	if len(fields) != columns+1 {
		return 0, nil, fmt.Errorf("has %d fields, but must have the number of a piece and %d numbers", len(fields), columns)
	}
	row, err := strconv.Atoi(fields[0])
	if err != nil || row < 0 {
		return 0, nil, fmt.Errorf("begins with %.60q, which is not the number of a piece of the vocabulary", fields[0])
	}
	values := make([]float32, columns)
	for i, field := range fields[1:] {
		v, err := strconv.ParseFloat(field, 32)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, nil, fmt.Errorf("holds %.60q, which is not a number", field)
		}
		values[i] = float32(v)
	}
	return row, values, nil
}

// fixed returns the tables that are not trained. Of a table that several sides share, the first side decides, as in Marian.
func (c *Config) fixed(m *model.Model) []*marian.Tensor {
	var fixed []*marian.Tensor
	decided := map[*marian.Tensor]bool{}
	tables := embeddingTables(m)
	for i, table := range tables {
		fix := c.EmbeddingFixSrc
		if i == len(tables)-1 {
			fix = c.EmbeddingFixTrg
		}
		if fix && !decided[table] {
			fixed = append(fixed, table)
		}
		decided[table] = true
	}
	return fixed
}
