package recordio

import "github.com/sluice-mt/sluice/internal/job"

// spoolEncoder writes one JSON string a line, or null where there is no translation.
type spoolEncoder struct{}

func (spoolEncoder) Append(dst []byte, output *job.Output) ([]byte, error) {
	if _, absent := output.Record.Carry.(absentValue); absent || len(output.Result.Hypotheses) == 0 {
		return append(dst, "null\n"...), nil
	}
	return append(appendJSONString(dst, output.Result.Text()), '\n'), nil
}

// absentValue is carried by records of a Parquet file whose value is null.
type absentValue struct{}
