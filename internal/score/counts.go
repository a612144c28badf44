package score

// Counts returns what a metric counts in one segment. The score of several segments is that of their summed counts: whoever
// looks for the best choice of translations counts each candidate once.
func Counts(m Metric, hypothesis string, references []string) ([]int64, error) {
	streams := make([][]string, len(references))
	for i, reference := range references {
		streams[i] = []string{reference}
	}
	counts, err := segments(m, []string{hypothesis}, streams)
	if err != nil {
		return nil, err
	}
	return counts[0], nil
}

// Points returns the score of counts, summed over segments: between 0 and 100.
func Points(m Metric, counts []int64) float64 { return m.points(counts) }
