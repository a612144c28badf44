package shortlist

// Statistics describe a shortlist.
type Statistics struct {
	First        int     `json:"first"`
	Best         int     `json:"best"`
	Threshold    float64 `json:"threshold"` // 0 for a binary file, which does not say
	Sources      int     `json:"sources"`   // source pieces
	Targets      int     `json:"targets"`   // target pieces, or one more than the largest id where no vocabulary is known
	Entries      int     `json:"entries"`
	WithEntries  int     `json:"with_entries"`   // source pieces that have any
	Full         int     `json:"full"`           // source pieces that have as many as Best allows
	MostEntries  int     `json:"most_entries"`   // of one source piece
	DistinctIDs  int     `json:"distinct_ids"`   // target pieces that are an entry or below First
	BinaryBytes  int     `json:"binary_bytes"`   // size of the binary form
	MeanPerPiece float64 `json:"mean_per_piece"` // entries of the source pieces that have any
}

// Inspect describes the shortlist.
func (s *Shortlist) Inspect() Statistics {
	stats := Statistics{
		First: s.params.First, Best: s.params.Best, Threshold: s.params.Threshold,
		Sources: s.Sources(), Targets: s.targets, Entries: s.Entries(),
		BinaryBytes: headerSize + len(s.offsets) + len(s.ids),
	}
	scratch := s.NewScratch()
	scratch.markBelow(min(s.params.First, s.targets))
	for piece := range s.Sources() {
		from, to := s.bounds(piece)
		if to > from {
			stats.WithEntries++
		}
		if to-from == s.params.Best {
			stats.Full++
		}
		stats.MostEntries = max(stats.MostEntries, to-from)
	}
	var ids []int32
	for piece := range s.Sources() {
		ids = s.Of(int32(piece), ids[:0])
		for _, id := range ids {
			scratch.mark(id)
		}
	}
	stats.DistinctIDs = scratch.count
	if stats.WithEntries > 0 {
		stats.MeanPerPiece = float64(stats.Entries) / float64(stats.WithEntries)
	}
	if s.lastIsEmpty() {
		stats.BinaryBytes += 4
	}
	return stats
}

// MeanCandidates returns the average number of candidates of sentences, each as for Candidates. It is 0 for none.
func (s *Shortlist) MeanCandidates(sentences [][]int32) float64 {
	if len(sentences) == 0 {
		return 0
	}
	var found []int32
	total := 0
	for _, sentence := range sentences {
		found = s.Candidates(sentence, found[:0])
		total += len(found)
	}
	return float64(total) / float64(len(sentences))
}
