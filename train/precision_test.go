package train

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"
)

// With products in bfloat16, the losses of updates are other ones than in float32, but less than 1 % away.
func TestBFloat16Losses(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"ssru": func(*Config) {},
		"self-attention": func(c *Config) {
			c.Autoregression, c.FFNActivation, c.TiedEmbeddingsAll = "self-attention", "gelu", false
		},
		"recurrent": func(c *Config) {
			c.Type, c.DimRNN, c.EncDepth, c.DecDepth, c.EncCell, c.DecCell = "s2s", 48, 1, 1, "gru", "gru"
		},
	} {
		t.Run(name, func(t *testing.T) {
			losses := func(products string) (losses []float64) {
				folder := t.TempDir()
				toy(t, folder, 100)
				c := toyConfig(folder)
				change(&c)
				c.DispFreq, c.AfterBatches, c.Precision = 1, 20, []string{products, "float32"}
				mustRun(t, c)
				for _, m := range readMetrics(t, c, "train") {
					losses = append(losses, m.Loss)
				}
				return losses
			}
			want, got := losses("float32"), losses("bfloat16")
			if len(want) != 20 || len(got) != 20 || !(want[19] < 0.95*want[0]) {
				t.Fatalf("losses %v, %v", want, got)
			}
			same := 0
			for i, v := range got {
				if !(math.Abs(v-want[i]) < 0.01*want[i]) {
					t.Errorf("update %d: the loss is %v, in float32 %v", i+1, v, want[i])
				}
				if v == want[i] {
					same++
				}
			}
			if same > 5 {
				t.Errorf("%d losses are those of float32", same)
			}
		})
	}
}

// A checkpoint knows what products read, and a warning says if they read something else now.
func TestPrecisionOfCheckpoints(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 20)
	c := toyConfig(folder)
	c.CPUThreads = 1
	for i, run := range []struct{ products, warning string }{
		{"float32", ""}, {"float32", ""}, {"bfloat16", "before=float32 now=bfloat16"}, {"bfloat16", ""}, {"float32", "before=bfloat16 now=float32"}, {"float32", ""},
	} {
		c.AfterBatches, c.Precision = i+1, []string{run.products, "float32"}
		var log bytes.Buffer
		if _, err := Run(testContext(t), c, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		warned := strings.Contains(log.String(), "products are computed in another precision")
		if warned != (run.warning != "") || !strings.Contains(log.String(), run.warning) {
			t.Errorf("run %d: want the warning %q:\n%s", i, run.warning, log.String())
		}
	}
}
