package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/gpumodel"
)

// A card is what a GPU can do at most, by its maker's data sheet: without sparsity, float16 with sums in float32.
type card struct {
	name      string
	devices   []string // what the driver calls it, behind the maker's name
	tensor    float64
	bandwidth float64 // of memory, bytes a second
	fp8       float64 // peak of products in fp8, as a multiple of tensor; 0: it has none
	bytes     bool    // products are of 8 bits
}

// in is the card with the products of an arithmetic. All of these cards multiply integers at twice the peak of float16. For fp8, sm_90 and
// sm_100 have no instruction of the kind that the kernels use: ptxas unpacks the operands to float16.
func (c card) in(as gpukernels.Arithmetic) card {
	switch as.Products {
	case gpukernels.Int8:
		c.tensor, c.bytes = 2*c.tensor, true
	case gpukernels.FP8:
		c.tensor, c.bytes = c.fp8*c.tensor, true
	}
	return c
}

// runs says whether the card has the products of an arithmetic.
func (c card) runs(as gpukernels.Arithmetic) bool { return as.Products != gpukernels.FP8 || c.fp8 > 0 }

// cards are peaks from NVIDIA's data sheets: "A100 Tensor Core GPU" (2021 for 80 GB, 2020 for 40), "L4", "L40" and "L40S" (2023), "H100 Tensor Core
// GPU" (2023, SXM and PCIe), "H200" (2023), "DGX B200" (2024, an eighth of it).
func cards() []card {
	return []card{
		{name: "A100 SXM 80GB", devices: []string{"A100-SXM4-80GB"}, tensor: 312e12, bandwidth: 2039e9},
		{name: "A100 PCIe 80GB", devices: []string{"A100 80GB PCIe"}, tensor: 312e12, bandwidth: 1935e9},
		{name: "A100 40GB", devices: []string{"A100-SXM4-40GB", "A100-PCIE-40GB"}, tensor: 312e12, bandwidth: 1555e9},
		{name: "L40S", devices: []string{"L40S"}, tensor: 362e12, bandwidth: 864e9, fp8: 2},
		{name: "L40", devices: []string{"L40"}, tensor: 181e12, bandwidth: 864e9, fp8: 2},
		{name: "L4", devices: []string{"L4"}, tensor: 121e12, bandwidth: 300e9, fp8: 2},
		{name: "H100 PCIe", devices: []string{"H100 PCIe"}, tensor: 756e12, bandwidth: 2000e9, fp8: 1},
		{name: "H100 SXM", devices: []string{"H100 80GB HBM3"}, tensor: 989e12, bandwidth: 3350e9, fp8: 1},
		{name: "H200", devices: []string{"H200"}, tensor: 989e12, bandwidth: 4800e9, fp8: 1},
		{name: "B200", devices: []string{"B200"}, tensor: 2250e12, bandwidth: 8000e9, fp8: 1},
	}
}

// cardOf finds the peaks of a device by its whole name: one whose name only begins likewise may be another card, or a part of a card (MIG). Of one that
// is not in the list, the bandwidth comes from what it says of itself, and of its tensor cores nothing is known.
func cardOf(p cuda.Properties) card {
	name := strings.TrimPrefix(p.Name, "NVIDIA ")
	for _, c := range cards() {
		if slices.Contains(c.devices, name) {
			return c
		}
	}
	return card{name: p.Name, bandwidth: 2 * float64(p.MemoryClock) * 1e3 * float64(p.MemoryBus) / 8}
}

// An architecture is one that benchmarks use.
type architecture interface {
	size() architectureSize
	description() string // in the words of Marian's configuration

	// encoderProducts are those over so many tokens, with what the decoder sees of the source, and stepProducts those of a decoder step over
	// so many rows; one of each kind, however many layers have it.
	encoderProducts(tokens int) []productShape
	stepProducts(rows int) []productShape

	// encoderKernels and stepKernels are likewise those that are no products: attention and cells.
	encoderKernels(tokens int) []timedKernel
	stepKernels(rows int) []timedKernel

	// encoderBound is the least time that a card needs to encode so many tokens, and stepBound that of a decoder step over so many rows,
	// without the output layer.
	encoderBound(c card, tokens int) float64
	stepBound(c card, rows int) float64
}

// An architectureSize is what all of them have.
type architectureSize struct {
	Name            string
	Vocabulary, Dim int // pieces, and elements of an embedding, with which the output layer multiplies
}

// architectures are all that benchmarks use, by their names on the command line.
func architectures() []architecture {
	var all []architecture
	for _, s := range slices.Concat(students(), attentiveStudents()) {
		all = append(all, s)
	}
	for _, r := range recurrentModels() {
		all = append(all, r)
	}
	return all
}

// A student is a Transformer that benchmarks use, with one table of embeddings. Layers of a decoder of SSRUs share their parameters.
type student struct {
	Name             string
	Encoder, Decoder int // layers
	Dim, FFN, Heads  int
	Vocabulary       int
	Autoregression   autoregression
}

// An autoregression is how a student's decoder looks at the target words so far, in the words of Marian's configuration.
type autoregression string

const (
	ofSSRUs     autoregression = "rnn"
	ofAttention autoregression = "self-attention"
	ofAverages  autoregression = "average-attention"
)

// students are the sizes in use for fast translation, from Marian's tiny to large.
func students() []student {
	return []student{
		{"tiny", 6, 2, 256, 1536, 8, 32000, ofSSRUs}, {"small", 6, 2, 384, 1536, 6, 32000, ofSSRUs},
		{"base", 6, 2, 512, 2048, 8, 32000, ofSSRUs}, {"large", 12, 2, 1024, 4096, 16, 32000, ofSSRUs},
	}
}

// attentiveStudents are those of the same sizes with self-attention in the decoder, which other engines translate with, too, and one with
// average attention.
func attentiveStudents() []student {
	var all []student
	for _, s := range students() {
		s.Name, s.Autoregression = s.Name+"-self", ofAttention
		all = append(all, s)
	}
	base := students()[2]
	base.Name, base.Autoregression = "base-average", ofAverages
	return append(all, base)
}

func (s student) size() architectureSize { return architectureSize{s.Name, s.Vocabulary, s.Dim} }

func (s student) description() string {
	text := fmt.Sprintf("type: transformer\ndim-vocabs: [%d, %d]\ndim-emb: %d\nenc-depth: %d\ndec-depth: %d\ntransformer-heads: %d\n"+
		"transformer-dim-ffn: %d\ntransformer-ffn-activation: relu\ntied-embeddings-all: true\ntransformer-decoder-autoreg: %s\n",
		s.Vocabulary, s.Vocabulary, s.Dim, s.Encoder, s.Decoder, s.Heads, s.FFN, s.Autoregression)
	switch s.Autoregression {
	case ofSSRUs:
		return text + fmt.Sprintf("dec-cell: ssru\ntransformer-tied-layers: [1%s]\n", strings.Repeat(", 1", s.Decoder-1))
	case ofAverages:
		return text + fmt.Sprintf("transformer-dim-aan: %d\n", s.FFN)
	}
	return text
}

// A shape is a product of m×k with k×n elements.
type productShape struct {
	what    string
	m, n, k int
}

func (p productShape) operations() float64 { return 2 * float64(p.m) * float64(p.n) * float64(p.k) }

// moved are the bytes of both operands and the result, each moved once. Rows that are multiplied in 8 bits are read in float16, written
// and read again.
func (c card) moved(p productShape) float64 {
	rows, weights, result := float64(p.m)*float64(p.k), float64(p.n)*float64(p.k), float64(p.m)*float64(p.n)
	if c.bytes {
		return 4*rows + weights + 2*result
	}
	return 2 * (rows + weights + result)
}

// bound is the least time that a card needs for it, and what holds it up.
func (c card) bound(p productShape) (seconds float64, by string) {
	return c.slower(c.moved(p), p.operations())
}

// slower is the time of so many bytes, or that of so many operations of tensor cores if it is longer. Without a known peak it is that of the
// bytes, and where not even that of the memory is known, as drivers do not tell it of every device, it is 0, by nothing.
func (c card) slower(bytes, operations float64) (seconds float64, by string) {
	if c.bandwidth == 0 {
		return 0, ""
	}
	memory := bytes / c.bandwidth
	if c.tensor > 0 && operations/c.tensor > memory {
		return operations / c.tensor, "tensor cores"
	}
	return memory, "memory"
}

// outputBytes are those of the output layer, whose scores are never stored.
func (c card) outputBytes(p productShape) float64 { return c.moved(p) - 2*float64(p.m)*float64(p.n) }

// All layers have the same products.
func (s student) encoderProducts(tokens int) []productShape {
	return []productShape{
		{"encoder: queries, keys, values", tokens, 3 * s.Dim, s.Dim}, {"encoder: attention's output", tokens, s.Dim, s.Dim},
		{"encoder: feed-forward, up", tokens, s.FFN, s.Dim}, {"encoder: feed-forward, down", tokens, s.Dim, s.FFN},
		s.contextProduct(tokens),
	}
}

// layerProducts are those of an encoder layer.
func (s student) layerProducts(tokens int) []productShape {
	all := s.encoderProducts(tokens)
	return all[:len(all)-1]
}

func (s student) stepProducts(rows int) []productShape {
	return append(s.autoregressiveProducts(rows), productShape{"decoder: queries", rows, s.Dim, s.Dim},
		productShape{"decoder: attention's output", rows, s.Dim, s.Dim}, productShape{"decoder: feed-forward, up", rows, s.FFN, s.Dim},
		productShape{"decoder: feed-forward, down", rows, s.Dim, s.FFN})
}

// autoregressiveProducts are those of the sublayer that looks at the target words so far.
func (s student) autoregressiveProducts(rows int) []productShape {
	switch s.Autoregression {
	case ofAttention:
		return []productShape{
			{"decoder: queries, keys, values of the words", rows, 3 * s.Dim, s.Dim}, {"decoder: self-attention's output", rows, s.Dim, s.Dim},
		}
	case ofAverages:
		return []productShape{
			{"decoder: average, up", rows, s.FFN, s.Dim}, {"decoder: average, down", rows, s.Dim, s.FFN},
			{"decoder: gate of the input", rows, s.Dim, s.Dim}, {"decoder: gate of the average", rows, s.Dim, s.Dim},
		}
	}
	return []productShape{{"decoder: gates", rows, 2 * s.Dim, s.Dim}}
}

// contextProduct makes the keys and values that a decoder layer sees of so many source tokens.
func (s student) contextProduct(tokens int) productShape {
	return productShape{"decoder: keys and values of the source", tokens, 2 * s.Dim, s.Dim}
}

func (s architectureSize) outputProduct(rows int) productShape {
	return productShape{"output layer", rows, s.Vocabulary, s.Dim}
}

// encoderAttentionBytes are the queries, keys and values of so many tokens, and what attention finds for them, in float16.
func (s student) encoderAttentionBytes(tokens int) float64 {
	return 4 * 2 * float64(tokens) * float64(s.Dim)
}

// Each layer of the encoder has a kernel of attention and two of norms besides its products.
func (s student) encoderBound(c card, tokens int) float64 {
	const kernelsBesideProducts = 3
	products := s.layerProducts(tokens)
	layer := max(c.sum(products)+s.encoderAttentionBytes(tokens)/c.bandwidth, c.least(len(products)+kernelsBesideProducts, len(products)))
	context, _ := c.bound(s.contextProduct(tokens))
	return c.least(1, 0) + float64(s.Encoder)*layer + max(context, c.least(1, 1)) // with embeddings
}

// A step is that of a mean position: with self-attention, each reads the keys and values of one more word than the one before.
func (s student) stepBound(c card, rows int) float64 {
	products := s.stepProducts(rows)
	contexts := s.attentionBytes(rows, modelLength) / c.bandwidth
	layers := 0.0
	for words := 1; words <= modelLength; words++ {
		bytes := s.autoregressiveBytes(rows, words) / c.bandwidth
		layers += float64(s.Decoder) * max(c.sum(products)+contexts+bytes, c.least(s.kernelsOfLayer(), len(products)))
	}
	return c.least(kernelsBeforeLayers, 0) + layers/modelLength
}

// attentionBytes are the keys and values of so many places, which every row reads, in float16.
func (s student) attentionBytes(rows, places int) float64 {
	return float64(rows) * float64(places) * 4 * float64(s.Dim)
}

// autoregressiveBytes are what a layer of the decoder moves of what it keeps of so many words, the one of the step included.
func (s student) autoregressiveBytes(rows, words int) float64 {
	if s.Autoregression == ofAttention {
		return s.attentionBytes(rows, words+1) // one is written
	}
	return float64(rows) * 2 * 4 * float64(s.Dim) // a state is read and written in float32
}

// kernelsOfLayer is how many kernels a layer of the decoder has: see gpumodel.
func (s student) kernelsOfLayer() int {
	const lookUp, feedForward = 4, 3 // queries, attention, its output, a norm; up, down, a norm
	switch s.Autoregression {
	case ofAttention:
		return 5 + lookUp + feedForward // queries, keys, values; they are kept; attention; its output; a norm
	case ofAverages:
		return 7 + lookUp + feedForward // the average; up; down; two gates; they are applied; a norm
	}
	return 3 + lookUp + feedForward // gates, the cell, a norm
}

// sum is the least time for products one after another.
func (c card) sum(products []productShape) (seconds float64) {
	for _, p := range products {
		bound, _ := c.bound(p)
		seconds += bound
	}
	return seconds
}

const (
	modelTokens = 8192    // source pieces encoded at a time with 512 slots
	modelLength = 25      // pieces of a sentence, source and target
	modelKernel = 0.84e-6 // seconds that a kernel in a graph costs at least, measured on a card with empty kernels

	kernelsBeforeLayers = 2 // of a decoder step: what rows begin with, embeddings
)

// least is the least time for so many kernels, of which some are products: if these are of 8 bits, one more quantises the rows of each.
func (c card) least(kernels, products int) float64 {
	if c.bytes {
		kernels += products
	}
	return float64(kernels) * modelKernel
}

// roofline is the most source pieces a second that a card can translate with an architecture, with so many hypotheses in a step and a beam:
// if every kernel reached the bound of its memory or its tensor cores, and nothing else took time. Sentences are encoded in mini-batches of the size that
// belongs to so many slots, or one by one if that is less than a sentence.
func (c card) roofline(a architecture, rows, beam int) float64 {
	tokens := max(gpumodel.MiniBatch(rows), modelLength)
	output := a.size().outputProduct(rows)
	outputTime, _ := c.slower(c.outputBytes(output), output.operations())
	step := a.stepBound(c, rows) + max(outputTime, c.least(3, 1))
	sentences := float64(rows) / float64(beam)
	return 1 / (a.encoderBound(c, tokens)/float64(tokens) + step/sentences)
}

// printRoofline prints the table for all cards and students.
func printRoofline(w io.Writer, as gpukernels.Arithmetic) error {
	var b strings.Builder
	fmt.Fprintf(&b, `A model, not a measurement: million source pieces a second at most in %v, and words of %g pieces in brackets, if products, attention and what decoders keep
took no longer than their bytes at the card's memory bandwidth or their operations at the peak of its tensor cores, and every kernel %.2f µs. What embeddings and norms
move is left out. Sentences of %d pieces, both sides.

`, as, piecesOfWord, modelKernel*1e6, modelLength)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "card\tTFLOP/s\tGB/s\thypotheses\tbeam\t")
	for _, a := range architectures() {
		fmt.Fprintf(t, "%s\t", a.size().Name)
	}
	fmt.Fprintln(t)
	for _, c := range cards() {
		if !c.runs(as) {
			continue
		}
		c = c.in(as)
		for _, batch := range []struct{ rows, beam int }{{1, 1}, {4, 4}, {512, 1}, {512, 4}} {
			fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%d\t%d\t", c.name, c.tensor/1e12, c.bandwidth/1e9, batch.rows, batch.beam)
			for _, a := range architectures() {
				pieces := c.roofline(a, batch.rows, batch.beam) / 1e6
				fmt.Fprintf(t, "%.3f (%.3f)\t", pieces, pieces/piecesOfWord)
			}
			fmt.Fprintln(t)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	printTrainingRoofline(&b)
	if as.Products == gpukernels.Stored {
		printPeers(&b)
	}
	printKernelBounds(&b, as)
	return writeOutput(w, b.String())
}

// printKernelBounds prints what the roofline is made of: the kernels of two students on a card, with the bytes and operations of each, and the time that
// they take at least.
func printKernelBounds(w io.Writer, as gpukernels.Arithmetic) {
	all := cards()
	c := all[slices.IndexFunc(all, func(c card) bool { return c.name == "H100 SXM" })].in(as)
	fmt.Fprintf(w, "\nThe kernels of that on an %s, in %v: what each moves and multiplies, and the time for that. A layer has one of each, encoders over %d pieces and\n"+
		"decoders over %d rows; training's have %d pieces of each side, in bfloat16.\n\n", c.name, as, modelTokens, modelRows, trainingPieces)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "student\tkernel\tm\tn\tk\tMB\tGFLOP\tµs\tby\t")
	row := func(of, what string, m, n, k int, bytes, operations float64, c card) {
		seconds, by := c.slower(bytes, operations)
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%.2f\t%.3f\t%.2f\t%s\t\n", of, what, m, n, numberOrDash(k), bytes/1e6, operations/1e9, 1e6*seconds, by)
	}
	for _, s := range []student{students()[2], attentiveStudents()[2]} {
		for _, p := range slices.Concat(s.encoderProducts(modelTokens), s.stepProducts(modelRows)) {
			row(s.Name, p.what, p.m, p.n, p.k, c.moved(p), p.operations(), c)
		}
		for _, k := range slices.Concat(s.encoderKernels(modelTokens), s.stepKernels(modelRows), []timedKernel{s.size().outputKernel(c, modelRows)}) {
			row(s.Name, k.what, k.m, k.n, k.k, k.bytes, k.operations, c)
		}
	}
	trained := students()[2]
	for _, k := range trained.trainingKernels(trainingPieces) {
		row(trained.Name+", training", k.what, k.m, k.n, k.k, k.bytes, k.operations, c.in(gpukernels.Arithmetic{}))
	}
	t.Flush()
}
