package shard_test

import (
	"fmt"
	"testing"

	"github.com/sluice-mt/sluice/internal/shard"
)

func TestEveryLaneBelongsToOneShard(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 100} {
		counts := make([]int, n)
		for i := range 10000 {
			owners := 0
			for index := range n {
				if (shard.Shard{Index: index, Count: n}).Has(fmt.Sprint("s3://bucket/part-", i)) {
					owners++
					counts[index]++
				}
			}
			if owners != 1 {
				t.Fatalf("%d of %d shards have lane %d", owners, n, i)
			}
		}
		for index, count := range counts {
			if want := 10000 / n; count < want/2 || count > 2*want {
				t.Errorf("shard %d of %d has %d lanes", index, n, count)
			}
		}
	}
	if !(shard.Shard{}).Has("x") {
		t.Error("the zero value is not everything")
	}
}

// The division must not change from one version to the next: workers of both may run at once.
func TestTheDivisionStaysAsItIs(t *testing.T) {
	var got string
	for i := range 12 {
		for index := range 4 {
			if (shard.Shard{Index: index, Count: 4}).Has(fmt.Sprint("s3://corpus/part-", i, ".gz")) {
				got += fmt.Sprint(index)
			}
		}
	}
	if want := "033032310022"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParse(t *testing.T) {
	if s, err := shard.Parse("3/8"); err != nil || s != (shard.Shard{Index: 3, Count: 8}) || s.String() != "3/8" {
		t.Errorf("%v, %v", s, err)
	}
	for _, bad := range []string{"", "3", "8/8", "-1/8", "0/0", "a/b", "1/2/3"} {
		if s, err := shard.Parse(bad); err == nil {
			t.Errorf("%q was read as %v", bad, s)
		}
	}
}

func TestDetect(t *testing.T) {
	for _, test := range []struct {
		env   map[string]string
		count int
		want  string
		from  string
		fails bool
	}{
		{env: nil, want: "0/1"},
		{env: map[string]string{"JOB_COMPLETION_INDEX": "2", "JOB_COMPLETIONS": "5"}, want: "2/5", from: "JOB_COMPLETION_INDEX"},
		{env: map[string]string{"JOB_COMPLETION_INDEX": "2"}, count: 5, want: "2/5", from: "JOB_COMPLETION_INDEX"},
		{env: map[string]string{"JOB_COMPLETION_INDEX": "2"}, fails: true},
		{env: map[string]string{"JOB_COMPLETION_INDEX": "5", "JOB_COMPLETIONS": "5"}, fails: true},
		{env: map[string]string{"JOB_COMPLETION_INDEX": "1", "JOB_COMPLETIONS": "5"}, count: 4, fails: true},
		{env: map[string]string{"JOB_COMPLETION_INDEX": "x", "JOB_COMPLETIONS": "5"}, fails: true},
		{env: map[string]string{"AWS_BATCH_JOB_ARRAY_INDEX": "0", "AWS_BATCH_JOB_ARRAY_SIZE": "3"}, want: "0/3", from: "AWS_BATCH_JOB_ARRAY_INDEX"},
		{env: map[string]string{"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_STEP": "2", "SLURM_ARRAY_TASK_COUNT": "4"}, want: "3/4", from: "SLURM_ARRAY_TASK_ID"},
		{env: map[string]string{"SLURM_ARRAY_TASK_ID": "6", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_STEP": "2", "SLURM_ARRAY_TASK_COUNT": "4"}, fails: true},
	} {
		s, from, err := shard.Detect(func(name string) string { return test.env[name] }, test.count)
		if (err != nil) != test.fails || err == nil && (s.String() != test.want || from != test.from) {
			t.Errorf("%v: %v from %q, %v", test.env, s, from, err)
		}
	}
}
