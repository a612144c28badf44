package gpukernels

import (
	"cmp"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A Choice is a token with its score, as kernels write it. No token is -1, its score -∞.
type Choice struct {
	Score float32
	Token int32
}

// An Output is the output layer over rows of a decoder: the best tokens of each row. The scores are never stored.
type Output struct {
	X     Matrix       // rows×k, fp16
	Table cuda.Pointer // fp16, a row of k for each token
	Bias  cuda.Pointer // float32, for each token

	// Where there are scales, float32, X and Table are rows of bytes: those of an ByteMatrix, one scale for each row.
	XScales, TableScales cuda.Pointer

	// What is multiplied: all tokens from 0 up to Columns, or, if Tokens is not 0, those Columns that it lists (int32, ascending).
	// Normalised scores of a list depend on the list in their last bits, as its place in the sum moves.
	Columns int
	Tokens  cuda.Pointer

	// Where ColumnCount, an int32 on the device, is not 0, it says how many of the columns there are when the kernels run, and Columns is only the
	// most that there may be: so can a graph be there for all lists up to some length.
	ColumnCount cuda.Pointer

	// Candidates are sets of tokens, Words words of 32 bits each, and SetOfRow, int32, says which of them a row may choose from; -1 means
	// every token. 0 for no sets.
	Candidates, SetOfRow cuda.Pointer
	Words                int

	// Row r must not choose the tokens from Forbidden[ForbiddenStarts[r]] up to Forbidden[ForbiddenStarts[r+1]]; int32 both. They count
	// in the softmax all the same.
	ForbiddenStarts, Forbidden cuda.Pointer

	Count      int          // how many of the best are wanted
	Normalised bool         // log-probabilities rather than scores
	Scratch    cuda.Pointer // OutputScratch bytes
	Result     cuda.Pointer // Choice, Count for each row, the best first; equal ones by token. NaN scores if one was not finite
}

const outputColumns = 64 // in a tile

// OutputScratch returns the bytes of scratch memory that an Output wants.
func OutputScratch(rows, columns, count int) int {
	return rows * blocks(columns, outputColumns) * (8*count + 8)
}

// Output puts it into the stream.
func (k *Kernels) Output(s *cuda.Stream, o Output) error {
	t := small
	name := "output_16"
	if o.X.Rows > 2*small.m {
		t, name = middle, "output_64"
	}
	return k.output(s, o, t, name)
}

// Scores writes the score of every token up to columns for each row, float32, before the softmax.
func (k *Kernels) Scores(s *cuda.Stream, x Matrix, table, bias, result cuda.Pointer, columns int) error {
	if x.Rows == 0 {
		return nil
	}
	if err := needPlain("output", x); err != nil {
		return err
	}
	return k.byName["output_scores"].Launch(s, cuda.Shape{X: blocks(columns, small.n), Y: blocks(x.Rows, small.m)},
		cuda.Shape{X: small.threads}, small.shared(), cuda.Address(x.At), cuda.Address(table), cuda.Address(bias), cuda.Address(result),
		cuda.Int(x.Rows), cuda.Int(columns), cuda.Int(x.Columns))
}

func (k *Kernels) output(s *cuda.Stream, o Output, t tiling, name string) error {
	rows, tiles := o.X.Rows, blocks(o.Columns, outputColumns)
	if rows == 0 {
		return nil
	}
	if err := cmp.Or(
		needPlain("output", o.X),
		need(o.Count > 0 && o.Columns > 0, "output", "the best %d of %d columns", o.Count, o.Columns),
		need(o.ForbiddenStarts != 0, "output", "no list of forbidden tokens; it may be empty"),
		need(o.Candidates == 0 || o.SetOfRow != 0, "output", "candidates without the set of each row"),
		need((o.XScales == 0) == (o.TableScales == 0), "output", "scales of one operand"),
	); err != nil {
		return err
	}
	if o.XScales != 0 {
		name = k.ofBytes(name)
	}
	sums := cuda.Offset[Choice](o.Scratch, rows*tiles*o.Count)
	arguments := append(o.operands(make([]cuda.Argument, 0, outputArguments)), cuda.Address(o.Bias), cuda.Address(o.Tokens),
		cuda.Address(o.ColumnCount), cuda.Address(o.Candidates), cuda.Address(o.SetOfRow), cuda.Address(o.ForbiddenStarts),
		cuda.Address(o.Forbidden), cuda.Address(o.Scratch), cuda.Address(sums), cuda.Int(rows), cuda.Int(o.Columns), cuda.Int(o.length()), cuda.Int(o.Words), cuda.Int(o.Count))
	if err := k.byName[name].Launch(s, cuda.Shape{X: tiles, Y: blocks(rows, t.m)}, cuda.Shape{X: t.threads}, t.shared(),
		arguments...); err != nil {
		return err
	}
	return k.byName["output_merge"].Launch(s, rowGrid(rows), rowBlock, 0, cuda.Address(o.Scratch), cuda.Address(sums),
		cuda.Address(o.Result), cuda.Address(o.ColumnCount), cuda.Int(rows), cuda.Int(tiles), cuda.Int(o.Count), flag(o.Normalised))
}

// outputArguments is how many arguments those kernels have at most.
const outputArguments = 18

// operands appends the arguments that the kernels begin with.
func (o *Output) operands(to []cuda.Argument) []cuda.Argument {
	if o.XScales == 0 {
		return append(to, cuda.Address(o.X.At), cuda.Address(o.Table))
	}
	return append(to, cuda.Address(o.X.At), cuda.Address(o.XScales), cuda.Address(o.Table), cuda.Address(o.TableScales))
}

// length is that of a row, in elements of fp16 or in what is as large.
func (o *Output) length() int {
	if o.XScales == 0 {
		return o.X.Columns
	}
	return ByteStride(o.X.Columns) / 2
}

// A Guess is what a row goes on with before anybody has read the choices: the number of a state, and a token.
type Guess struct{ State, Token int32 }

// Beams are sentences whose rows compete. All lists are int32 but for Ranks and Guesses.
type Beams struct {
	// Row r has Count choices, the best first, from Choices[Places[r]] on. To go on with one is worth Ranks[r] (float32) + Weight × its score,
	// each rounded to float32. States[r] is the number of its state.
	Choices, Places, Ranks, States cuda.Pointer
	Count                          int
	Weight                         float32

	// Sentence s has the rows from FirstRows[s] up to FirstRows[s+1], and as many guesses as there are from FirstGuesses[s] to
	// FirstGuesses[s+1].
	FirstRows, FirstGuesses cuda.Pointer
	Sentences               int

	// Guesses (Guess) are the best ways to go on, best first; among equals those of earlier rows, then earlier choices. Where there are
	// no more, the token is -1.
	Guesses cuda.Pointer
}

// GuessBeams writes what the rows of beams go on with.
func (k *Kernels) GuessBeams(s *cuda.Stream, b Beams) error {
	if b.Sentences == 0 {
		return nil
	}
	if err := need(b.Count > 0, "guess_beams", "the best %d choices of a row", b.Count); err != nil {
		return err
	}
	return k.byName["guess_beams"].Launch(s, rowGrid(b.Sentences), rowBlock, 0, cuda.Address(b.Choices), cuda.Address(b.Places),
		cuda.Address(b.Ranks), cuda.Address(b.States), cuda.Address(b.FirstRows), cuda.Address(b.FirstGuesses), cuda.Address(b.Guesses),
		cuda.Int(b.Sentences), cuda.Int(b.Count), cuda.Float(b.Weight))
}

// A Draw is that of a row, as the kernel reads it: of its choices from Choices[Place] on, the best first, the first Kept have the odds
// exp((weight × score − weight × the best score) × InverseTemperature), and Chance, between 0 and 1, tells which one it is. The guess that
// comes of it goes to Guesses[Guess], and State is its state.
type Draw struct {
	Chance, InverseTemperature float64
	Place, Kept, State, Guess  int32
}

// A Picking asks for log-probabilities of tokens in rows of N scores, which are those of all tokens: see PickLogProbabilities.
type Picking struct {
	Scores  cuda.Pointer // float32
	Rows, N int
	Starts  cuda.Pointer // int32, Rows+1 of them
	Tokens  cuda.Pointer // int32

	// Which tokens have a part in the log-probabilities of a row: see Output.
	Candidates, SetOfRow cuda.Pointer
	Words                int

	Result cuda.Pointer // float32, for each of Tokens
}

// PickLogProbabilities sets Result[i] to the log-probability of Tokens[i] in the row r for which Starts[r] <= i < Starts[r+1], among the
// candidates of the row. A row in which the score of one is not finite has NaN.
func (k *Kernels) PickLogProbabilities(s *cuda.Stream, p Picking) error {
	if p.Rows == 0 {
		return nil
	}
	if err := need(p.Candidates == 0 || p.SetOfRow != 0, "pick_log_probabilities", "candidates without the set of each row"); err != nil {
		return err
	}
	return k.byName["pick_log_probabilities"].Launch(s, cuda.Shape{X: p.Rows}, rowBlock, 0, cuda.Address(p.Scores), cuda.Address(p.Starts),
		cuda.Address(p.Tokens), cuda.Address(p.Candidates), cuda.Address(p.SetOfRow), cuda.Address(p.Result), cuda.Int(p.N), cuda.Int(p.Words))
}

// DrawTokens guesses the samples that rows draw, of which draws has so many (Draw). The odds of one that is no token are 0; if there are
// no others, the token is -1.
func (k *Kernels) DrawTokens(s *cuda.Stream, choices, draws, guesses cuda.Pointer, count int, weight float32) error {
	if count == 0 {
		return nil
	}
	return k.byName["draw_tokens"].Launch(s, rowGrid(count), rowBlock, 0, cuda.Address(choices), cuda.Address(draws), cuda.Address(guesses),
		cuda.Int(count), cuda.Float(weight))
}

// Beginnings are what rows begin a step with. All lists are int32.
type Beginnings struct {
	Tokens, From cuda.Pointer // of each row: its token, and the number of the state that it goes on from

	// Where a row's place is not -1, it gets the token of that choice; no token, or one whose score is no number, is -1.
	Choices, Places cuda.Pointer

	// Where a row's number in Guessed is not -1, it gets token and state of that guess.
	Guesses, Guessed cuda.Pointer

	// The numbers of the words before Positions[r] are copied from the list of state From[r] to that of To[r]; a list has Capacity numbers.
	// 0 for no words. No state is both read and written.
	Words, To, Positions cuda.Pointer
	Capacity             int
}

// BeginRows writes what rows begin a step with, before anybody has read the choices.
func (k *Kernels) BeginRows(s *cuda.Stream, b Beginnings, rows int) error {
	if rows == 0 {
		return nil
	}
	return k.byName["begin_rows"].Launch(s, rowGrid(rows), rowBlock, 0, cuda.Address(b.Choices), cuda.Address(b.Places),
		cuda.Address(b.Guesses), cuda.Address(b.Guessed), cuda.Address(b.Tokens), cuda.Address(b.From), cuda.Address(b.To),
		cuda.Address(b.Positions), cuda.Address(b.Words), cuda.Int(rows), cuda.Int(b.Capacity))
}

// Readings are where hard attention is in the sources of rows. All lists are int32.
type Readings struct {
	Tokens, From, To, Positions cuda.Pointer // what BeginRows begins with
	Firsts, Counts              cuda.Pointer // rows of the memory that have a row's source
	Steps                       cuda.Pointer // tokens after which it moves on
	StepCount                   int
	Reads                       cuda.Pointer // of each state: the number of a token of the source. No state is both read and written
	Places                      cuda.Pointer // result: the row of the memory that each row reads, -1 if its source is empty
}

// ReadOn moves hard attention on where a row's token says so, behind BeginRows.
func (k *Kernels) ReadOn(s *cuda.Stream, r Readings, rows int) error {
	if rows == 0 {
		return nil
	}
	return k.byName["read_on"].Launch(s, cuda.Shape{X: blocks(rows, rowBlock.X)}, rowBlock, 0, cuda.Address(r.Tokens), cuda.Address(r.From),
		cuda.Address(r.To), cuda.Address(r.Positions), cuda.Address(r.Firsts), cuda.Address(r.Counts), cuda.Address(r.Steps),
		cuda.Address(r.Reads), cuda.Address(r.Places), cuda.Int(rows), cuda.Int(r.StepCount))
}
