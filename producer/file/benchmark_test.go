package file

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkCopy is what reading, decoding, encoding and writing cost, without a translation.
func BenchmarkCopy(b *testing.B) {
	const records = 200_000
	for _, s := range shapes {
		b.Run(s.name, func(b *testing.B) {
			input := s.write(b, b.TempDir(), records)
			info, err := os.Stat(input)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(info.Size())
			b.ReportAllocs()
			for b.Loop() {
				c := copyJob{input: input, output: filepath.Join(b.TempDir(), s.output), records: s.records, commitEvery: 1000}
				if err := c.run(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(records*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
