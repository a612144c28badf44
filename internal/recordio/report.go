package recordio

import (
	"math"
	"strconv"

	"github.com/sluice-mt/sluice/internal/job"
)

// NewReportEncoder returns an Encoder that writes everything that is known of a record as one line of JSON:
//
//	{"id":0,"text":"…","score":-1.5,"model_scores":[-3],"word_scores":[…],"pieces":[…],"alignment":[[…],…],
//	 "hypotheses":[{"text":"…","score":…,…},…],"source_tokens":4,"target_tokens":5,"flags":["split"],"error":"…"}
//
// id is the record's number in the lane. text to alignment are of the best hypothesis; text is null where there is
// none. hypotheses are all of them, best first, and stand there only if there are several. Parts that were not asked
// for are missing; so are flags and error where there are none. A number that is not finite is null.
func NewReportEncoder() Encoder { return reportEncoder{} }

type reportEncoder struct{}

func (reportEncoder) Append(dst []byte, output *job.Output) ([]byte, error) {
	record, result := &output.Record, &output.Result
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, record.Seq, 10)
	dst = append(dst, ',')
	if len(result.Hypotheses) == 0 {
		dst = append(dst, `"text":null`...)
	} else {
		dst = appendHypothesis(dst, &result.Hypotheses[0])
	}
	if len(result.Hypotheses) > 1 {
		dst = append(dst, `,"hypotheses":`...)
		dst = appendArray(dst, result.Hypotheses, func(dst []byte, hypothesis job.Hypothesis) []byte {
			return append(appendHypothesis(append(dst, '{'), &hypothesis), '}')
		})
	}
	dst = append(dst, `,"source_tokens":`...)
	dst = strconv.AppendInt(dst, int64(result.SourceTokens), 10)
	dst = append(dst, `,"target_tokens":`...)
	dst = strconv.AppendInt(dst, int64(result.TargetTokens), 10)
	if names := (record.Flags | result.Flags).Names(); len(names) > 0 {
		dst = append(dst, `,"flags":`...)
		dst = appendArray(dst, names, appendJSONString)
	}
	err := record.Err
	if err == nil {
		err = result.Err
	}
	if err != nil {
		dst = append(dst, `,"error":`...)
		dst = appendJSONString(dst, err.Error())
	}
	return append(dst, '}', '\n'), nil
}

// appendHypothesis appends the members of a hypothesis.
func appendHypothesis(dst []byte, hypothesis *job.Hypothesis) []byte {
	dst = append(dst, `"text":`...)
	dst = appendJSONString(dst, hypothesis.Text)
	dst = append(dst, `,"score":`...)
	dst = appendFloat(dst, hypothesis.Score)
	if hypothesis.ModelScores != nil {
		dst = append(dst, `,"model_scores":`...)
		dst = appendArray(dst, hypothesis.ModelScores, appendFloat)
	}
	if hypothesis.WordScores != nil {
		dst = append(dst, `,"word_scores":`...)
		dst = appendArray(dst, hypothesis.WordScores, appendFloat)
	}
	if hypothesis.Pieces != nil {
		dst = append(dst, `,"pieces":`...)
		dst = appendArray(dst, hypothesis.Pieces, appendJSONString)
	}
	if hypothesis.Alignment != nil {
		dst = append(dst, `,"alignment":`...)
		dst = appendArray(dst, hypothesis.Alignment, func(dst []byte, row []float32) []byte {
			return appendArray(dst, row, appendFloat)
		})
	}
	return dst
}

func appendArray[T any](dst []byte, values []T, appendOne func([]byte, T) []byte) []byte {
	dst = append(dst, '[')
	for i, value := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendOne(dst, value)
	}
	return append(dst, ']')
}

// appendFloat appends the shortest decimal number that reads back as the same float32.
func appendFloat(dst []byte, x float32) []byte {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, float64(x), 'g', -1, 32)
}
