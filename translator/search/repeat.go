package search

// banned appends to dst the tokens that would complete an n-gram of size n which is already in tokens.
func banned(dst, tokens []Token, n int) []Token {
	tail := len(tokens) - (n - 1)
	if tail < 0 {
		return dst
	}
	last := tokens[tail:]
next:
	for i := 0; i+n <= len(tokens); i++ {
		for j, token := range last {
			if tokens[i+j] != token {
				continue next
			}
		}
		dst = append(dst, tokens[i+n-1])
	}
	return dst
}

// What counts as a loop. Of 1.83 million lines of German (web crawl, news, subtitles, in pieces of a vocabulary of 32,000)
// these bounds hit one, in which someone wrote "Wiiii…" with 45 letters; 16 tokens instead of 24 would hit nine.
const (
	longestCycle  = 24 // tokens of a cycle
	fewestRepeats = 4  // of the cycle
	fewestTokens  = 24 // of all repeats together
)

// Repeats says whether a sequence of tokens (without its end of sentence) repeats itself as no honest text does: whether
// somewhere a cycle of at most 24 tokens stands at least 4 times in a row and at least 24 tokens long.
func Repeats(tokens []Token) bool {
	for cycle := 1; cycle <= longestCycle; cycle++ {
		need := max(fewestRepeats*cycle, fewestTokens)
		length := cycle // of the repetition that ends before i
		for i := cycle; i < len(tokens); i++ {
			if tokens[i] != tokens[i-cycle] {
				length = cycle
				continue
			}
			if length++; length >= need {
				return true
			}
		}
	}
	return false
}
