package split

import "strings"

// Sentences divides text at the ends of its sentences and at its line breaks. Text and Separator of all segments, one after
// the other, are the text; white space at its start is the separator after an empty segment. An empty text is one empty
// segment.
func Sentences(text string) []Segment {
	var segments []Segment
	start := skipSpace(text, 0)
	if start > 0 {
		segments = append(segments, Segment{Separator: text[:start], Break: Space})
	}
	for read := start; read < len(text); {
		u := nextUnit(text, read)
		read = u.next
		separator := text[u.end:u.next]
		if read < len(text) && u.after != Sentence && !strings.ContainsAny(separator, "\n\r\u2028\u2029") {
			continue
		}
		segments = append(segments, Segment{Text: text[start:u.end], Separator: separator, Break: Sentence})
		start = read
	}
	if len(segments) == 0 {
		segments = append(segments, Segment{})
	}
	segments[len(segments)-1].Break = End
	return segments
}
