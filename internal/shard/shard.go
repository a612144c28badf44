// Package shard divides lanes among workers that do not speak to each other: a lane belongs to the worker that a hash
// of its name falls to. Workers may overlap without harm, since outputs are created only where there are none; they
// must not leave a gap.
package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// A Shard is the part of all lanes that one worker takes. The zero value is everything.
type Shard struct {
	Index int // from 0
	Count int // of workers
}

// Parse reads a shard such as 0/8, which is the first of eight; the last is 7/8.
func Parse(text string) (Shard, error) {
	first, second, ok := strings.Cut(text, "/")
	index, indexErr := strconv.Atoi(first)
	count, countErr := strconv.Atoi(second)
	if !ok || indexErr != nil || countErr != nil {
		return Shard{}, fmt.Errorf("shard %q is not of the form i/n, such as 0/8 for the first of eight", text)
	}
	return check(Shard{index, count})
}

func check(s Shard) (Shard, error) {
	if s.Count < 1 || s.Index < 0 || s.Index >= s.Count {
		return Shard{}, fmt.Errorf("shard %d/%d does not exist: of %d shards the first is 0 and the last %d", s.Index, s.Count, s.Count, s.Count-1)
	}
	return s, nil
}

// String returns the shard as Parse reads it.
func (s Shard) String() string {
	if s.Count == 0 {
		return "0/1"
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Count)
}

// Has says whether a lane belongs to the shard.
func (s Shard) Has(lane string) bool {
	if s.Count <= 1 {
		return true
	}
	sum := sha256.Sum256([]byte(lane))
	return binary.BigEndian.Uint64(sum[:8])%uint64(s.Count) == uint64(s.Index)
}

// Detect finds the shard in what the scheduler puts into the environment, and says where it found it; "" is nowhere.
// count is how many workers there are, and is needed where the scheduler tells only the index; 0 is not known.
//
//	Kubernetes Indexed Job   JOB_COMPLETION_INDEX; the Job must set JOB_COMPLETIONS to what its completions are
//	AWS Batch array job      AWS_BATCH_JOB_ARRAY_INDEX, AWS_BATCH_JOB_ARRAY_SIZE
//	SLURM job array          SLURM_ARRAY_TASK_ID, _MIN, _STEP, _COUNT
func Detect(getenv func(string) string, count int) (Shard, string, error) {
	for _, s := range []scheduler{
		{index: "JOB_COMPLETION_INDEX", count: "JOB_COMPLETIONS"},
		{index: "AWS_BATCH_JOB_ARRAY_INDEX", count: "AWS_BATCH_JOB_ARRAY_SIZE"},
		{index: "SLURM_ARRAY_TASK_ID", count: "SLURM_ARRAY_TASK_COUNT", first: "SLURM_ARRAY_TASK_MIN", step: "SLURM_ARRAY_TASK_STEP"},
	} {
		if getenv(s.index) == "" {
			continue
		}
		shard, err := s.read(getenv, count)
		if err != nil {
			return Shard{}, s.index, fmt.Errorf("the environment tells the shard by %s: %w", s.index, err)
		}
		return shard, s.index, nil
	}
	return Shard{}, "", nil
}

// A scheduler names the variables that it sets. Indices go from first on in steps.
type scheduler struct{ index, count, first, step string }

func (s scheduler) read(getenv func(string) string, count int) (Shard, error) {
	number := func(name string, otherwise int) (int, error) {
		if name == "" || getenv(name) == "" {
			return otherwise, nil
		}
		value, err := strconv.Atoi(getenv(name))
		if err != nil {
			return 0, fmt.Errorf("%s is %q, which is no number", name, getenv(name))
		}
		return value, nil
	}
	index, err := number(s.index, 0)
	if err != nil {
		return Shard{}, err
	}
	told, err := number(s.count, count)
	if err != nil {
		return Shard{}, err
	}
	if count > 0 && told != count {
		return Shard{}, fmt.Errorf("%s says %d shards, and %d were set", s.count, told, count)
	}
	first, err := number(s.first, 0)
	if err != nil {
		return Shard{}, err
	}
	step, err := number(s.step, 1)
	if err != nil {
		return Shard{}, err
	}
	if told == 0 {
		return Shard{}, fmt.Errorf("it does not tell how many there are: set %s, or give the number", s.count)
	}
	if step < 1 || (index-first)%step != 0 {
		return Shard{}, fmt.Errorf("index %d is not on the way from %d in steps of %d", index, first, step)
	}
	return check(Shard{(index - first) / step, told})
}
