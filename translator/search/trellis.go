package search

// A trellis stores the hypotheses of one sentence: every token that ever stood in the beam, with a pointer to the token
// before it. Its memory is kept from sentence to sentence.
type trellis struct {
	models  int // model sums per node; 0 where nothing is scored
	width   int // attention weights per row of attention
	nodes   []node
	sums    []float32 // sums[n*models+m]: unweighted sum of model m's log-probabilities up to node n
	weights []float32 // rows of attention
}

// A node is one token of one or several hypotheses.
type node struct {
	token     Token
	parent    int32   // node before it; -1 at the start
	attention int32   // row of weights; -1 without
	score     float32 // weighted sum of log-probabilities up to here
	rank      float32 // what the beam is sorted by: the score, or the score with noise
}

func (t *trellis) reset(models, width int) {
	t.models, t.width = models, width
	t.nodes, t.sums, t.weights = t.nodes[:0], t.sums[:0], t.weights[:0]
}

// add appends a node. logProbs holds each model's log-probability of the token, or is empty.
func (t *trellis) add(n node, logProbs []float32) int32 {
	id := int32(len(t.nodes))
	t.nodes = append(t.nodes, n)
	for m := range t.models {
		sum := float32(0)
		if n.parent >= 0 {
			sum = t.sums[int(n.parent)*t.models+m]
		}
		t.sums = append(t.sums, sum+logProbs[m])
	}
	return id
}

// addAttention appends a row of weights, cut or filled to the length of the source.
func (t *trellis) addAttention(weights []float32) int32 {
	row := int32(len(t.weights) / t.width)
	weights = weights[:min(len(weights), t.width)]
	t.weights = append(t.weights, weights...)
	for range t.width - len(weights) {
		t.weights = append(t.weights, 0)
	}
	return row
}

// rank and score of a node; the start has none.
func (t *trellis) rank(id int32) float32 {
	if id < 0 {
		return 0
	}
	return t.nodes[id].rank
}

func (t *trellis) score(id int32) float32 {
	if id < 0 {
		return 0
	}
	return t.nodes[id].score
}

// token is the last token of the hypothesis that ends in a node.
func (t *trellis) token(id int32) Token {
	if id < 0 {
		return NoToken
	}
	return t.nodes[id].token
}

// tokens fills dst, whose length is the hypothesis' length, from its end.
func (t *trellis) tokens(id int32, dst []Token) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = t.nodes[id].token
		id = t.nodes[id].parent
	}
}

// hypothesis builds the result for the hypothesis of that length that ends in a node.
func (t *trellis) hypothesis(id int32, length int, options *Options, found *found) Hypothesis {
	h := Hypothesis{Tokens: found.tokens(length)}
	t.tokens(id, h.Tokens)
	if t.models > 0 {
		h.ModelScores = found.modelScores(t.models)
		copy(h.ModelScores, t.sums[int(id)*t.models:])
	}
	if options.WordScores {
		h.WordScores = t.wordScores(id, length)
	}
	if options.Align {
		h.Alignment = t.alignment(id, length)
	}
	return h
}

func (t *trellis) wordScores(id int32, length int) []float32 {
	scores := make([]float32, length)
	for i := length - 1; i >= 0; i-- {
		parent := t.nodes[id].parent
		scores[i] = t.nodes[id].score - t.score(parent)
		id = parent
	}
	return scores
}

func (t *trellis) alignment(id int32, length int) [][]float32 {
	rows := make([][]float32, length)
	flat := make([]float32, length*t.width)
	for i := length - 1; i >= 0; i-- {
		rows[i] = flat[i*t.width : (i+1)*t.width : (i+1)*t.width]
		if row := int(t.nodes[id].attention); row >= 0 {
			copy(rows[i], t.weights[row*t.width:])
		}
		id = t.nodes[id].parent
	}
	return rows
}
