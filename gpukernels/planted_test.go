//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/internal/plantedtest"
)

// A plantedBug is a change to the real sources that makes them wrong.
type plantedBug struct {
	name, file string
	from, to   string // the text from stands in the file once
	source     string // what has to be compiled anew
	mode       string // the mode that must find it
	test       string
	want       string // what must be said, if it is not just a wrong result
}

// plantedBugs are what the tests must find: waits and barriers that are missing, bounds, races, threads that go astray. Where a mode is
// named, it is the first one that finds it.
var plantedBugs = []plantedBug{
	{"product: no barrier behind the wait", "product.cuh", "    __syncthreads();  // the slice is there for all, and all have read the stage that is loaded next\n", "",
		"product.cu", "forward", "Product", ""},
	{"product: waits for one slice too few", "product.cuh", "copy_async_wait<T::STAGES - 2>", "copy_async_wait<T::STAGES - 1>",
		"product.cu", "forward", "Product", ""},
	{"product: loads into the stage that is being read", "product.cuh", "load(slice + T::STAGES - 1);", "load(slice + T::STAGES);",
		"product.cu", "forward", "Product", ""},
	{"product: the end of a row is not filled with zeros", "product.cuh", "from && k + column < length", "from && k + column < length + 8",
		"product.cu", "forward", "Product", ""},
	{"product: rows that begin where tensor cores cannot read", "product.cuh", "STRIDE = SLICE + 8", "STRIDE = SLICE + 4",
		"product.cu", "forward", "Product", "not aligned to 16 bytes"},
	{"product: writes behind the last row", "linear.cuh", "if (row >= m || column >= n) continue;", "if (column >= n) continue;",
		"product.cu", "address", "Product", "heap-buffer-overflow"},
	{"product: writes behind the end of a row", "linear.cuh", "if (row >= m || column >= n) continue;", "if (row >= m) continue;",
		"product.cu", "address", "Product", "heap-buffer-overflow"},
	{"product: a thread without a row leaves early", "linear.cuh", "  multiply<T>(sums", "  if (m0 + T::row(0, 0) >= m) return;\n  multiply<T>(sums",
		"product.cu", "forward", "Product", "do not exist or have returned|have returned|returns while"},
	{"int8 product: waits for one slice too few", "product.cuh", "copy_async_wait<T::STAGES - 2>", "copy_async_wait<T::STAGES - 1>",
		"int8.cu", "forward", "Int8Product", ""},
	{"int8 product: writes behind the last row", "linear.cuh", "if (row >= m || column >= n) continue;", "if (column >= n) continue;",
		"int8.cu", "address", "Int8Product", "heap-buffer-overflow"},
	{"quantise: a row too many", "bytes.cuh", "if (row >= rows) return;", "if (row > rows) return;",
		"int8.cu", "address", "Quantise", "heap-buffer-overflow"},
	{"quantise: the largest of a lane, not of the row", "bytes.cuh", "warp_max(magnitude)", "magnitude",
		"int8.cu", "forward", "Quantise", ""},
	{"quantise: what lies behind a row is not zeros", "bytes.cuh", "if (i < n && !zeros)", "if (!zeros)",
		"int8.cu", "forward", "Quantise", ""},
	{"quantise: what a fixed multiplier makes too large is not cut off", "bytes.cuh", "fmaxf(-most, fminf(most, __fmul_rn(v[e], multiplier)))",
		"__fmul_rn(v[e], multiplier)", "int8.cu", "forward", "Quantise", ""},
	{"fp8 product: waits for one slice too few", "product.cuh", "copy_async_wait<T::STAGES - 2>", "copy_async_wait<T::STAGES - 1>",
		"fp8.cu", "forward", "Float8Product", ""},
	{"quantise to fp8: pairs in each other's place", "fp8.cu", "pack_float8(v[2], v[3]) << 16", "pack_float8(v[2], v[3])",
		"fp8.cu", "forward", "QuantiseFloat8", ""},
	{"int8 output: rows are searched before they are there", "output.cuh", "  __syncthreads();\n  for (int r = threadIdx.x / 32", "  for (int r = threadIdx.x / 32",
		"int8.cu", "forward", "Int8Output", ""},
	{"output: scores are written where slices are read", "output.cuh", "  __syncthreads();  // the scores take the place of the stages\n", "",
		"output.cu", "thread", "Output", "data race"},
	{"output: rows are searched before they are there", "output.cuh", "  __syncthreads();\n  for (int r = threadIdx.x / 32", "  for (int r = threadIdx.x / 32",
		"output.cu", "forward", "Output", ""},
	{"output: one row more than there are", "output.cuh", "r < T::TILE_M && m0 + r < rows", "r < T::TILE_M && m0 + r <= rows",
		"output.cu", "address", "Output", "heap-buffer-overflow"},
	{"output: what is infinite is taken for a score", "output.cuh", "    broken = broken || !(fabsf(scores[column]) < INFINITY);\n", "",
		"output.cu", "forward", "OutputOfBrokenRows", ""},
	{"output: tiles behind the last column are multiplied", "output.cuh", "column_count ? min(columns, *column_count)", "column_count ? max(columns, *column_count)",
		"output.cu", "address", "OutputOfCountedColumns", "heap-buffer-overflow"},
	{"output: the best of a tile that nobody has written", "output.cu", "tiles = (counted(column_count, tiles * TILE_COLUMNS) + TILE_COLUMNS - 1) / TILE_COLUMNS;", "tiles = counted(column_count, tiles) > 0 ? tiles : 0;",
		"output.cu", "forward", "OutputOfCountedColumns", ""},
	{"output: the last columns of a list are left out", "output.cu", "+ TILE_COLUMNS - 1) / TILE_COLUMNS;", ") / TILE_COLUMNS;",
		"output.cu", "forward", "OutputOfCountedColumns", ""},
	{"int8 output: the best of columns that are not there", "output.cuh", "choose<T::TILE_N>(scores + r * STRIDE, tokens, m0 + r, n0, columns,", "choose<T::TILE_N>(scores + r * STRIDE, tokens, m0 + r, n0, most_columns,",
		"int8.cu", "address", "Int8OutputOfCountedColumns", "heap-buffer-overflow"},
	{"attention: no barrier behind the wait", "attention.cu", "    __syncthreads();  // the tile is there for all\n", "",
		"attention.cu", "forward", "Attention", ""},
	{"attention: overwrites keys that are being read", "attention.cu", "    __syncthreads();  // all have read it, before it is overwritten\n", "",
		"attention.cu", "reverse", "Attention", ""},
	{"attention: waits for one tile too few", "attention.cu", "copy_async_wait<1>", "copy_async_wait<2>",
		"attention.cu", "forward", "Attention", ""},
	{"attention: keys behind the end of the sentence", "attention.cu", "% 4 * 2 + e % 2 < valid ?", "% 4 * 2 + e % 2 < valid + 1 ?",
		"attention.cu", "forward", "Attention", ""},
	{"attention: keys of the next sentence", "attention.cu", "row < valid ? from + size_t(row) * stride + column : from, row < valid", "row < valid + 1 ? from + size_t(row) * stride + column : from, row < valid + 1",
		"attention.cu", "address", "Attention", "heap-buffer-overflow"},
	{"attention of wide heads: a part is read before it is there", "attention.cu", "      __syncthreads();  // the part is there for all\n", "",
		"attention.cu", "forward", "Attention", ""},
	{"attention of wide heads: overwrites a part that is being read", "attention.cu",
		"      __syncthreads();  // all have read the part, before it is overwritten\n", "", "attention.cu", "reverse", "Attention", ""},
	{"attention of wide heads: the first part of a query again", "attention.cu", "(first) * stride + part * DIM, stride, length - first", "(first) * stride, stride, length - first",
		"attention.cu", "forward", "Attention", ""},
	{"attention of wide heads: the values of another part", "attention.cu", "2 * width + own, stride", "2 * width + (own + DIM) % width, stride",
		"attention.cu", "forward", "Attention", ""},
	{"lookup of wide heads: the first part of a key again", "lookup.cu", "query += DIM, key += DIM", "query += DIM",
		"lookup.cu", "forward", "Lookup", ""},
	{"lookup of wide heads: too little shared memory", "lookup.cu", "shared + threadIdx.x / 32 * parts", "shared + (threadIdx.x / 32 + 1) * parts",
		"lookup.cu", "address", "Lookup", "heap-buffer-overflow"},
	{"lookup: queries are read before they are there", "lookup.cu", "  __syncwarp();\n", "",
		"lookup.cu", "forward", "Lookup", ""},
	{"lookup: warps share a query", "lookup.cu", "queries[threadIdx.x / 32]", "queries[0]",
		"lookup.cu", "thread", "Lookup", "data race"},
	{"lookup: too little shared memory", "lookup.cu", "float[WARPS][DIM]", "float[WARPS - 1][DIM]",
		"lookup.cu", "address", "Lookup", "heap-buffer-overflow"},
	{"lookup: positions behind the end of the sentence", "lookup.cu", "position < length ? dot", "position < length + 1 ? dot",
		"lookup.cu", "forward", "Lookup", ""},
	{"lookup: lanes without a position leave early", "lookup.cu", "  size_t at =", "  if (int(threadIdx.x) % 32 >= lengths[row]) return;\n  size_t at =",
		"lookup.cu", "forward", "Lookup", "do not exist or have returned|returns while"},
	{"recall: the word itself is left out", "lookup.cu", "positions[row] + 1", "positions[row]",
		"lookup.cu", "forward", "Recall", ""},
	{"recall: the words of another slot", "lookup.cu", "size_t(slots[row]) * capacity", "size_t(slots[row] / 2) * capacity",
		"lookup.cu", "forward", "Recall", ""},
	{"average: the mean of who was in the slot before", "gates.cu", "t > 0 ? mean[i + e] : 0.f", "mean[i + e]",
		"gates.cu", "forward", "Average", ""},
	{"cells: the state of who was in the slot before", "cells.cu", "!positions || positions[row] == 0", "!positions",
		"cells.cu", "forward", "BeginCells", ""},
	{"cells: the memory of the row's old place", "cells.cu", "states + size_t(from[row]) * stride + i", "states + size_t(from[row]) * stride + i % n",
		"cells.cu", "forward", "BeginCells", ""},
	{"cells: the input of the row, not of its place", "cells.cu", "size_t place = places ? places[row] : row", "size_t place = places ? row : row",
		"cells.cu", "forward", "Cells", ""},
	{"cells: a row too many", "cells.cuh", "if (row >= rows) return;  // of all cells", "if (row > rows) return;",
		"cells.cu", "address", "Cells", "heap-buffer-overflow"},
	{"cells: factors from the first columns of the input", "cells.cu", "* x_width + x_width - n + i", "* x_width + i",
		"cells.cu", "forward", "MultiplyCells", ""},
	{"norm of columns: a row too many", "layernorm.cu", "if (row >= rows) return;", "if (row > rows) return;",
		"layernorm.cu", "address", "NormColumns", "heap-buffer-overflow"},
	{"additive attention: scores are read before they are there", "cells.cuh", "  __syncthreads();  // the scores of all warps are there\n", "",
		"cells.cu", "forward", "AdditiveAttention", ""},
	{"additive attention: sums are added before they are there", "cells.cuh", "  __syncthreads();  // the sums of all warps are there\n", "",
		"cells.cu", "forward", "AdditiveAttention", ""},
	{"additive attention: weights that are being divided", "cells.cuh", "  __syncthreads();  // the weights are there for all\n", "",
		"cells.cu", "forward", "AdditiveAttention", ""},
	{"additive attention: positions behind the end of the sentence", "cells.cu", "for (int j = 0; j < length; j++)", "for (int j = 0; j <= length; j++)",
		"cells.cu", "forward", "AdditiveAttention", ""},
	{"words: a row too many is kept", "words.cu", "if (row >= rows) return;  // of keep_words", "if (row > rows) return;",
		"words.cu", "address", "Words", "heap-buffer-overflow"},
	{"norm: rows behind the last one", "layernorm.cu", "if (row >= rows) return;", "if (row >= rows + 1) return;",
		"layernorm.cu", "address", "LayerNorm", "heap-buffer-overflow"},
	{"norm: what fills a part up counts", "layernorm.cu", "int here = own - (part < n ? i % part : i);", "int here = part - (part < n ? i % part : i);",
		"layernorm.cu", "forward", "NormOfParts", ""},
	{"copied rows: a row too many", "embed.cu", "if (row >= rows) return;\n  int place", "if (row > rows) return;\n  int place",
		"embed.cu", "address", "CopyRows", "heap-buffer-overflow"},
	{"norm: only half of a warp is summed", "rows.cuh", "for (int d = 16; d; d /= 2) x += ", "for (int d = 8; d; d /= 2) x += ",
		"layernorm.cu", "forward", "LayerNorm", ""},
	{"SSRU: the state of who was in the slot before", "ssru.cu", "begins ? 0.f : before[i + e]", "begins && n < 0 ? 0.f : before[i + e]",
		"ssru.cu", "forward", "SSRU", ""},
	{"SSRU: the state of the row's old place is overwritten", "ssru.cu", "float* cell = state + size_t(to[row])", "float* cell = state + size_t(n < 0 ? to[row] : from[row])",
		"ssru.cu", "forward", "SSRU", ""},
	{"average: the mean of another place is read", "gates.cu", "mean = state + size_t(from[row])", "mean = state + size_t(n < 0 ? from[row] : to[row])",
		"gates.cu", "forward", "Average", ""},
	{"beginnings: a choice that is no number is taken", "output.cu", "c.score > -INFINITY ? c.token : -1", "c.token",
		"output.cu", "forward", "BeginRows", ""},
	{"beginnings: rows without a place are looked up", "output.cu", "places[row] >= 0 && lane == 0", "lane == 0",
		"output.cu", "address", "BeginRows", "heap-buffer-overflow"},
	{"beginnings: the words of the state before the guess", "output.cu", "    state = g.state;\n", "    state = from[row];\n",
		"output.cu", "forward", "BeginRows", ""},
	{"beginnings: a row too many", "output.cu", "if (row >= rows) return;  // of begin_rows", "if (row > rows) return;",
		"output.cu", "address", "BeginRows", "heap-buffer-overflow"},
	{"guesses: a sentence too many", "output.cu", "if (sentence >= sentences) return;  // of guess_beams", "if (sentence > sentences) return;",
		"output.cu", "address", "GuessBeams", "heap-buffer-overflow"},
	{"guesses: ranks are forgotten", "output.cu", "__fadd_rn(ranks[row], __fmul_rn", "__fadd_rn(0.f * ranks[row], __fmul_rn",
		"output.cu", "forward", "GuessBeams", ""},
	{"picks: no barrier before the sums are added", "pick.cu", "  __syncthreads();  // the sums of all warps are there\n", "",
		"pick.cu", "forward", "PickLogProbabilities", ""},
	{"picks: the largest of a warp, not of the row", "pick.cu", "top = fmaxf(top, tops[w]);", "top = fmaxf(top, tops[warp]);",
		"pick.cu", "forward", "PickLogProbabilities", ""},
	{"picks: what is no candidate counts", "pick.cu", "    if (candidate(i)) sum += ", "    sum += ", "pick.cu", "forward", "PickLogProbabilities", ""},
	{"picks: a token of the next row", "pick.cu", "i < end; i", "i <= end; i",
		"pick.cu", "address", "PickLogProbabilities", "heap-buffer-overflow"},
	{"draws: one too many", "draw.cu", "if (number >= count) return;  // of draw_tokens", "if (number > count) return;",
		"draw.cu", "address", "DrawTokens", "heap-buffer-overflow"},
	{"draws: choices that are not kept", "draw.cu", "if (i >= d.kept || ", "if (",
		"draw.cu", "forward", "DrawTokens", ""},
	{"draws: what is no token is drawn", "draw.cu", "      if (x == 0) continue;\n", "",
		"draw.cu", "forward", "DrawTokens", ""},
	{"joined: sums are added before they are there", "joined.cu", "  __syncthreads();  // the parts of the sum are there\n", "",
		"joined.cu", "forward", "Joined", ""},
	{"joined: parts are overwritten before they are read", "joined.cu",
		"  for (int w = 0; w < BLOCK / 32; w++) sum += parts[w];\n  __syncthreads();  // all have read them, before they are overwritten\n",
		"  for (int w = 0; w < BLOCK / 32; w++) sum += parts[w];\n", "joined.cu", "thread", "Joined", "data race"},
	{"joined: the largest of a warp, not of the row", "joined.cu", "  __syncthreads();  // the largest of all warps are there\n", "",
		"joined.cu", "forward", "Joined", ""},
	{"joined: the best are compared before they are there", "joined.cu", "  __syncthreads();  // the best of all warps are there\n", "",
		"joined.cu", "forward", "Joined", "waits at a barrier"},
	{"joined: the odds of threads before they are there", "joined.cu", "  __syncthreads();  // the sums of all threads are there\n", "",
		"joined.cu", "reverse", "Joined", ""},
	{"joined: a token before it is found", "joined.cu", "  __syncthreads();  // the token is there for all\n", "",
		"joined.cu", "forward", "Joined", ""},
	{"joined: masses are added before they are there", "joined.cu", "    __syncthreads();  // the masses of all threads are there\n", "",
		"joined.cu", "forward", "Joined", ""},
	{"joined: digits are compared before they are there", "joined.cu", "    __syncthreads();  // those of all digits are there\n", "",
		"joined.cu", "forward", "Joined", ""},
	{"joined: forbidden by another thread than has the sum", "joined.cu", "    if (forbidden[i] % BLOCK == int(threadIdx.x)) sums", "    if (threadIdx.x == 0) sums",
		"joined.cu", "thread", "Joined", "data race"},
	{"joined: a token behind the last one", "joined.cu", "first = min(int(threadIdx.x) * each, r.n), end = min(first + each, r.n)", "first = int(threadIdx.x) * each, end = first + each",
		"joined.cu", "address", "Joined", "heap-buffer-overflow"},
	{"joined: what is no candidate counts", "joined.cu", "      if (candidate(i)) sum += ", "      sum += ",
		"joined.cu", "forward", "Joined", ""},
	{"joined: what is forbidden is chosen", "joined.cu", "sums[forbidden[i]] = -INFINITY", "sums[forbidden[i]] += 0",
		"joined.cu", "forward", "Joined", ""},
	{"joined: equal tokens behind the end of a nucleus", "joined.cu", "sum == end.score && token <= end.token", "sum == end.score && token <= end.token + 300",
		"joined.cu", "forward", "JoinedTies", ""},
	{"joined: a nucleus with one token too few", "joined.cu", "min(static_cast<Mass>(fmax(least, 1.)), all) - 1", "min(static_cast<Mass>(fmax(least, 2.)), all) - (Mass(1) << 44)",
		"joined.cu", "forward", "JoinedTies", ""},
	{"joined: an epsilon that is forgotten", "joined.cu", "if (lot.method == EPSILON)", "if (lot.method == NUCLEUS)",
		"joined.cu", "forward", "Joined", ""},
	{"joined: an infinity is taken for a score", "joined.cu", "      if (!(fabsf(of[i]) < INFINITY)) broken = 1;\n", "",
		"joined.cu", "forward", "JoinedOfBrokenRows", ""},
	{"joined: choices are sorted before they are there", "joined.cu",
		"      __syncthreads();  // the choices are where the last comparisons have put them\n", "", "joined.cu", "forward", "JoinedTies", ""},
	{"joined: choices beyond the last one are sorted", "joined.cu", "other <= i || other >= count ||", "other <= i ||",
		"joined.cu", "address", "JoinedNoise", "heap-buffer-overflow"},
	{"joined: choices are gathered before it is known where", "joined.cu", "  __syncthreads();  // the numbers of all threads are there\n", "",
		"joined.cu", "forward", "JoinedTies", "waits at a barrier"},
	{"joined: choices are read before they are there", "joined.cu", "  __syncthreads();  // what is chosen is there\n", "",
		"joined.cu", "reverse", "Joined", ""},
	{"joined: one of few too many", "joined.cu", "min(n * ONE,", "min((n + 1) * ONE,", "joined.cu", "forward", "JoinedTies", ""},
	{"joined: what is forbidden is one of few", "joined.cu", "return sum > -INFINITY ? mass(__fmul_rn(__fadd_rn(sum, -highest), factor)) : 0;",
		"return mass(__fmul_rn(__fadd_rn(sum, -highest), factor));", "joined.cu", "forward", "Joined", ""},
	{"joined: all tokens have the same noise", "joined.cu", "gumbel(lot.key, i)", "gumbel(lot.key, 0)", "joined.cu", "forward", "JoinedNoise", ""},
	{"joined: noise that no float holds", "joined.cu", "bits < WHOLE / 2 ?", "bits < WHOLE ?", "joined.cu", "forward", "JoinedNoise", ""},
	{"joined: noise that is not normalised", "joined.cu", "if (lot.method == NOISY && !none) less", "if (lot.method == BEST && !none) less",
		"joined.cu", "forward", "JoinedNoise", ""},
	{"joined: what is given is looked for", "joined.cu", "if (lot.method == GIVEN) {", "if (lot.method == GIVEN && !count) {",
		"joined.cu", "forward", "JoinedOfGivenChoices", ""},
	{"joined: what is given has no weight", "joined.cu", "__fmul_rn(weights[0], choice.score)", "__fmul_rn(weights[0] / weights[0], choice.score)", "joined.cu", "forward", "JoinedOfGivenChoices", ""},
	{"hard attention: a row too many", "output.cu", "if (row >= rows) return;  // of read_on", "if (row > rows) return;",
		"output.cu", "address", "ReadOn", "heap-buffer-overflow"},
	{"hard attention: the place of who was in the slot before", "output.cu", "positions[row] > 0 ? reads[from[row]] : 0", "positions[row] >= 0 ? reads[from[row]] : 0",
		"output.cu", "forward", "ReadOn", ""},
	{"hard attention: beyond the end of the source", "output.cu", "min(read + moves, counts[row] - 1)", "read + moves",
		"output.cu", "forward", "ReadOn", ""},
	{"embedding: a row for no token", "embed.cu", "if (token >= 0) read_eight", "read_eight",
		"embed.cu", "address", "Embed", "heap-buffer-overflow"},
	{"training product: rows behind the end of the sum", "training_product.cu", "k + row < length && first + column < most", "first + column < most",
		"training_product.cu", "address", "TrainingProduct", "heap-buffer-overflow"},
	{"training attention: queries are read before they are there", "training_attention.cu", "  stage(query, q + b.place(row), b.dim);\n  __syncwarp();\n  int sentence = b.sentences[row], position",
		"  stage(query, q + b.place(row), b.dim);\n  int sentence = b.sentences[row], position", "training_attention.cu", "forward", "TrainingAttention", ""},
	{"training guide: queries are read before they are there", "training_attention.cu", "  stage(query, q + b.place(row), b.dim);\n  __syncwarp();\n  int sentence = b.sentences[row], keys",
		"  stage(query, q + b.place(row), b.dim);\n  int sentence = b.sentences[row], keys", "training_attention.cu", "forward", "TrainingGuide", ""},
	{"training attention: a key forgets the query at its own place", "training_attention.cu", "b.causal ? position : 0", "b.causal ? position + 1 : 0",
		"training_attention.cu", "forward", "TrainingAttention", ""},
	{"training guide: targets of the next query", "training_attention.cu", "size_t(row - b.query_starts[sentence]) * keys;", "size_t(row + 1 - b.query_starts[sentence]) * keys;",
		"training_attention.cu", "address", "TrainingGuide", "heap-buffer-overflow"},
	{"training guide: keys behind the end of the sentence", "training_attention.cu", "lane < count ? own[first + lane] : 0.f", "own[first + lane]",
		"training_attention.cu", "address", "TrainingGuide", "heap-buffer-overflow"},
	{"training attention of wide heads: the first part of the values again", "training_attention.cu", "v + b.place(key) + part", "v + b.place(key)",
		"training_attention.cu", "forward", "TrainingAttention", ""},
	{"training attention of wide heads: what lies behind the head is written, too", "training_attention.cu", "1 / sum, b.dim - part", "1 / sum, b.dim",
		"training_attention.cu", "address", "TrainingAttention", "heap-buffer-overflow"},
	{"training attention of wide heads: dq lies in the first part", "training_attention.cu", "dq + b.place(row) + part, of_gradients", "dq + b.place(row), of_gradients",
		"training_attention.cu", "forward", "TrainingAttention", ""},
	{"training attention of wide heads: dk of the first part's queries", "training_attention.cu", "of_score, q + b.place(query) + part", "of_score, q + b.place(query)",
		"training_attention.cu", "forward", "TrainingAttention", ""},
	{"training attention of wide heads: too little shared memory", "training_attention.cu", "(side * WARPS + threadIdx.x / 32)", "(side * WARPS + threadIdx.x / 32 + 1)",
		"training_attention.cu", "address", "TrainingAttention", "heap-buffer-overflow"},
	{"training attention: both sides have one place", "training_attention.cu", "(side * WARPS + threadIdx.x / 32)", "(0 * side + threadIdx.x / 32)",
		"training_attention.cu", "forward", "TrainingAttention", ""},
	{"training guide of wide heads: the first part of the keys again", "training_attention.cu", "k + b.place(first_key + first) + part", "k + b.place(first_key + first)",
		"training_attention.cu", "forward", "TrainingGuide", ""},
	{"training guide of wide heads: the first part of the queries again", "training_attention.cu", "q + b.place(b.query_starts[sentence] + first) + part", "q + b.place(b.query_starts[sentence] + first)",
		"training_attention.cu", "forward", "TrainingGuide", ""},
	{"training SRU: the state before the sentence", "training_gates.cu", "dc = later + g * reset * (1 - out * out), before = row > first ?", "dc = later + g * reset * (1 - out * out), before = row > 0 ?",
		"training_gates.cu", "forward", "TrainingSRU", ""},
	{"training gates: elements behind the end", "training_gates.cu", "* 2;\n  if (i >= size_t(n)) return;", "* 2;\n  if (i > size_t(n)) return;",
		"training_gates.cu", "address", "TrainingGatedSum", "heap-buffer-overflow"},
	{"training rounding: a row that is not finite", "training_rows.cu", "if (finite) v[e] =", "v[e] =",
		"training_rows.cu", "forward", "TrainingRoundRows", ""},
	{"training gather: readers behind the last one", "training_cells.cu", "for (int i = first; i < end; i++) sum", "for (int i = first; i <= end; i++) sum",
		"training_cells.cu", "address", "TrainingGather", "heap-buffer-overflow"},
	{"training cells: a row too many", "cells.cuh", "if (row >= rows) return;  // of all cells", "if (row > rows) return;",
		"training_cells.cu", "address", "TrainingCopyColumns", "heap-buffer-overflow"},
	{"training cells: elements are dropped, not columns", "training_cells.cu", "v[e] *= dropout.of_element(number + e);", "v[e] *= dropout.of_element(row * n + number + e);",
		"training_cells.cu", "forward", "TrainingDropColumns", ""},
	{"training cells: what later steps have added is forgotten", "training_cells.cu", "dm += g * o * (1 - outset * outset);", "dm = g * o * (1 - outset * outset);",
		"training_cells.cu", "forward", "TrainingCells", ""},
	{"training look: scores are read before they are there", "cells.cuh", "  __syncthreads();  // the scores of all warps are there\n", "",
		"training_cells.cu", "forward", "TrainingLook", ""},
	{"training look: weights that are being divided", "cells.cuh", "  __syncthreads();  // the weights are there for all\n", "",
		"training_cells.cu", "forward", "TrainingLook", ""},
	{"training look: gradients are added before they are there", "training_cells.cu", "  __syncthreads();  // the gradients of all warps are there\n", "",
		"training_cells.cu", "forward", "TrainingLook", ""},
	{"training look: gradients of weights, not of scores", "training_cells.cu", "  __syncthreads();  // the gradients of the sums are there for all\n", "",
		"training_cells.cu", "forward", "TrainingLook", ""},
	{"training look: words of the sentence behind", "training_cells.cu", "times += target_starts[sentence];", "times += target_starts[sentence + 1];",
		"training_cells.cu", "address", "TrainingLook", "heap-buffer-overflow"},
	{"training loss: chunks with other largest logits", "training_loss.cu", "s.sum * __expf(s.largest - largest)", "s.sum",
		"training_loss.cu", "forward", "TrainingLoss", ""},
	{"training update: squares are added before they are there", "training_update.cu", "  __syncthreads();\n  if (threadIdx.x) return;", "  if (threadIdx.x) return;",
		"training_update.cu", "forward", "TrainingSquares", ""},
	{"training norm, backward: a row too many", "training_rows.cu", "if (row >= rows) return;\n  x += size_t(row) * stride, dy +=", "if (row > rows) return;\n  x += size_t(row) * stride, dy +=",
		"training_rows.cu", "address", "TrainingNorm", "heap-buffer-overflow"},
	{"training norm, backward: the sum of a lane, not of the row", "training_rows.cu", "with = warp_sum(with) / columns;", "with = with / columns;",
		"training_rows.cu", "forward", "TrainingNorm", ""},
	{"training norm, backward: gaps count", "training_rows.cu", "warp_sum(sum) / columns, with", "warp_sum(sum) / n, with",
		"training_rows.cu", "forward", "TrainingNormSpaced", ""},
	{"training norm, backward: rows of all columns", "training_rows.cu", "dx += size_t(row) * stride;", "dx += size_t(row) * n;",
		"training_rows.cu", "forward", "TrainingNormOfColumns", ""},
	{"training norm, backward: what was there is forgotten", "training_rows.cu", "if (add) read_eight(old", "if (add < 0) read_eight(old",
		"training_rows.cu", "forward", "TrainingNorm", ""},
	{"training SSRU, backward: the state before the sentence", "training_rows.cu", "before = row > first ? states", "before = row > 0 ? states",
		"training_rows.cu", "forward", "TrainingSSRU", ""},
	{"training SSRU, backward: the first row is left out", "training_rows.cu", "row >= first; row--", "row > first; row--",
		"training_rows.cu", "forward", "TrainingSSRU", ""},
	{"training SSRU, backward: the row behind the sentence", "training_rows.cu", "starts[blockIdx.y + 1] - 1; row", "starts[blockIdx.y + 1]; row",
		"training_rows.cu", "address", "TrainingSSRU", "heap-buffer-overflow"},
	{"training SSRU, backward: what later rows give is lost", "training_rows.cu", "later = dc * keep;", "later = dc * keep * (row < first);",
		"training_rows.cu", "forward", "TrainingSSRU", ""},
	{"training embeddings, backward: a row of the next word", "training_rows.cu", "i < end; i++) sum += to_float(dy[size_t(order[i])", "i <= end; i++) sum += to_float(dy[size_t(order[i])",
		"training_rows.cu", "forward", "TrainingEmbed", ""},
	{"training embeddings, backward: words that share a row", "training_rows.cu", "tokens[order[first]]", "tokens[first]",
		"training_rows.cu", "forward", "TrainingEmbed", ""},
	{"training embeddings, backward: what was there is forgotten", "training_rows.cu", "gradient[column] += sum * factor;", "gradient[column] = sum * factor;",
		"training_rows.cu", "forward", "TrainingEmbed", ""},
	{"training embeddings, backward: columns of one step of the block", "training_rows.cu", "column < n; column += THREADS", "column < n && column < THREADS; column += THREADS",
		"training_rows.cu", "forward", "TrainingEmbed", ""},
	{"training dropout: two elements are dropped together", "dropout.cuh", "i % 2 ? number >> 32 : number", "number",
		"training_rows.cu", "forward", "TrainingElements", ""},
	{"training dropout: gaps have numbers", "training_rows.cu", "first = Spacing{width, stored}.number(i);", "first = width + stored < 0 ? 0 : i;",
		"training_rows.cu", "forward", "TrainingNormSpaced", ""},
	{"training dropout: elements behind the end", "training_rows.cu", "if (i >= size_t(n)) return;\n  Dropout", "if (i > size_t(n)) return;\n  Dropout",
		"training_rows.cu", "address", "TrainingElements", "heap-buffer-overflow"},
	{"training dropout: where nothing is dropped, nothing is kept", "dropout.cuh", "    if (!threshold) return 1;\n", "",
		"training_attention.cu", "forward", "TrainingAttention", ""},
	{"training activations: gaps are activated, too", "training_gates.cu", "e < own ? activated(v[e], kind) : 0.f", "activated(own < -1000 ? 0 : v[e], kind)",
		"training_gates.cu", "forward", "TrainingActivate", ""},
	{"training Adam: a number too many", "training_update.cu", "if (i >= size_t(n)) return;\n  float g", "if (i > size_t(n)) return;\n  float g",
		"training_update.cu", "address", "TrainingAdam", "heap-buffer-overflow"},
	{"training Adam: blocks share a number", "training_update.cu", "* THREADS + threadIdx.x;\n  if (i >= size_t(n)) return;", "* (THREADS - 1) + threadIdx.x;\n  if (i >= size_t(n)) return;",
		"training_update.cu", "forward", "TrainingAdam", ""},
	{"training Adam: the gradient stays", "training_update.cu", "gradient[i] = 0, ", "",
		"training_update.cu", "forward", "TrainingAdam", ""},
	{"training Adam: products read what was before the step", "training_update.cu", "values[i] = x, stored[i] = from_float(x);", "stored[i] = from_float(values[i]), values[i] = x;",
		"training_update.cu", "forward", "TrainingAdam", "is not the rounded parameters"},
	{"training loss, gradients: the statistics of another row", "training_loss.cu", "read_statistics(statistics + 4 * size_t(row));\n  float weight", "read_statistics(statistics + size_t(row));\n  float weight",
		"training_loss.cu", "forward", "TrainingLoss", ""},
	{"training loss, gradients: what lies behind the columns is not zeros", "training_loss.cu", "i < stride; i += 32", "i < columns; i += 32",
		"training_loss.cu", "forward", "TrainingLoss", ""},
	{"training loss, gradients: a row too many", "training_loss.cu", "if (row >= rows) return;\n  logits += size_t(row) * stride, gradient", "if (row > rows) return;\n  logits += size_t(row) * stride, gradient",
		"training_loss.cu", "address", "TrainingLoss", "heap-buffer-overflow"},
	{"training loss, gradients: the targets of the first words", "training_loss.cu", "int word = words[row] - first;\n  for", "int word = words[row] - min(first, 0);\n  for",
		"training_loss.cu", "forward", "TrainingLoss", ""},
}

// No block sees what another one of its launch has written: there are no sums that blocks share, and so no fences between them that could be
// missing. That a missing one would be found shows package cuda, with a kernel that is made for it.
func TestBlocksShareNothing(t *testing.T) {
	files, err := os.ReadDir(emulated.SourceFolder())
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(emulated.SourceFolder(), file.Name()))
		must(t, err)
		for _, word := range []string{"atomic", "__threadfence", "cooperative_groups"} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s has %q: let plantedBugs take its fences away", file.Name(), word)
			}
		}
	}
}

func TestPlantedBugs(t *testing.T) {
	if testing.Short() || os.Getenv(emulated.LibraryVariable) != "" {
		t.Skip("compiles kernels many times")
	}
	modes := map[string]emulated.Mode{}
	for _, mode := range append(emulated.Modes(), emulated.Plain(), emulated.Reverse()) {
		modes[mode.Name] = mode
	}
	for _, bug := range plantedtest.InTurn(t, plantedBugs, "*.go", filepath.Join(emulated.SourceFolder(), "*")) {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			mode := modes[bug.mode]
			library := emulated.Library(t, mode.Sanitizer, bug.plant(t)...)
			output, err := emulated.Rerun(t, mode, library, "^Test("+bug.test+")$")
			if err == nil {
				t.Fatalf("nobody noticed:\n%s", output)
			}
			if !bug.found(output) {
				t.Errorf("want %q:\n%s", bug.want, output)
			}
		})
	}
}

// plant returns the sources with the bug in them.
func (b *plantedBug) plant(t *testing.T) []string {
	t.Helper()
	folder := filepath.Join(emulated.Cache(), "planted", strings.NewReplacer(" ", "-", ":", "").Replace(b.name))
	must(t, os.RemoveAll(folder))
	must(t, os.CopyFS(folder, os.DirFS(emulated.SourceFolder())))
	at := filepath.Join(folder, b.file)
	text, err := os.ReadFile(at)
	must(t, err)
	if n := strings.Count(string(text), b.from); n != 1 {
		t.Fatalf("%q stands %d times in %s, not once", b.from, n, b.file)
	}
	must(t, os.WriteFile(at, []byte(strings.Replace(string(text), b.from, b.to, 1)), 0o666))
	sources := emulated.Sources(t)
	for i, source := range sources {
		if filepath.Base(source) == b.source {
			sources[i] = filepath.Join(folder, b.source)
		}
	}
	return sources
}

// found says whether the output has one of what is wanted: not that of a test that could not begin, in any case.
func (b *plantedBug) found(output string) bool {
	if b.want == "" {
		return strings.Contains(output, ", want ")
	}
	for want := range strings.SplitSeq(b.want, "|") {
		if strings.Contains(output, want) {
			return true
		}
	}
	return false
}
