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

const (
	longestCycle  = 12 // tokens
	fewestRepeats = 8  // of a cycle
	fewestTokens  = 24 // of all repeats together
)

// Repeats says whether a translation (without its end of sentence) is stuck in a loop.
func Repeats(tokens []Token) bool {
	for cycle := 1; cycle <= longestCycle; cycle++ {
		need := max(fewestRepeats*cycle, fewestTokens)
		same := cycle
		for i := cycle; i < len(tokens); i++ {
			if tokens[i] != tokens[i-cycle] {
				same = cycle
				continue
			}
			if same++; same >= need {
				return true
			}
		}
	}
	return false
}
