package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	filesource "github.com/sluice-mt/sluice/consumer/file"
	"github.com/sluice-mt/sluice/internal/cputime"
	"github.com/sluice-mt/sluice/internal/jobfile"
	trainrecipe "github.com/sluice-mt/sluice/train/recipe"
	"github.com/sluice-mt/sluice/translator"
)

// A recipeEngine is sluice translate for the steps of a recipe. Options come from the recipe alone, not from the environment nor
// from files beside the models: what a step gives must depend on what its stamp says.
type recipeEngine struct{}

// ofSteps are options that a step of a recipe says in another place.
var ofSteps = map[string]string{
	"models": "models", "vocabs": "the recipe's vocabularies", "shortlist": "shortlist", "n-best": "n-best", "config": "options",
	"no-spm-decode": "nothing: texts are what steps read", "word-scores": "nothing: texts are what steps read",
	"alignment": "nothing: texts are what steps read",
}

// Check says what is wrong with an option.
func (recipeEngine) Check(option jobfile.Option) error {
	if place, ok := ofSteps[option.Name]; ok {
		return fmt.Errorf("a recipe sets this with %s", place)
	}
	var t translation
	return setJobOption(t.recipeFlags(), option)
}

// recipeFlags are the options that a step may set.
func (t *translation) recipeFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("translate", pflag.ContinueOnError)
	for _, group := range []flagGroup{t.model.group(), t.search.group(), t.batch.group()} {
		flags.AddFlagSet(group.flags)
	}
	return flags
}

// Translate translates a file as sluice translate does.
func (recipeEngine) Translate(ctx context.Context, task trainrecipe.Translation) (trainrecipe.Throughput, error) {
	t, err := newStepTranslation(task)
	if err != nil {
		return trainrecipe.Throughput{}, err
	}
	parts, err := buildEngine(&t.model, &t.search, &t.batch, runtime.GOMAXPROCS(0), t.logger)
	if err != nil {
		return trainrecipe.Throughput{}, err
	}
	defer parts.models.close()
	source, sink, err := t.ends(parts)
	if err != nil {
		return trainrecipe.Throughput{}, err
	}
	engine, err := translator.New(parts.config)
	if err != nil {
		return trainrecipe.Throughput{}, usageError{err}
	}
	defer engine.Close()
	t.start = time.Now() // opening the models is not translating
	cpu, stop := cputime.Process(), followInput(source, task.Progress)
	err = t.stream(ctx, parts, source, sink, engine)
	stop()
	if errors.Is(err, errInterrupted) {
		return trainrecipe.Throughput{}, trainrecipe.ErrInterrupted
	}
	if err != nil && !errors.Is(err, errFlagged) {
		return trainrecipe.Throughput{}, err
	}
	speed, err := t.throughput()
	speed.CPUSeconds = (cputime.Process() - cpu).Seconds()
	speed.Precision, speed.Workers = parts.models.precision.String(), parts.config.Batching.Workers
	return speed, err
}

// newStepTranslation gives a translation the settings of a step; where it says nothing, the defaults of sluice translate.
func newStepTranslation(task trainrecipe.Translation) (*translation, error) {
	t := &translation{logger: task.Logger, stderr: io.Discard}
	flags := t.recipeFlags()
	for _, group := range []flagGroup{t.input.group(), t.output.group(), t.log.group()} {
		flags.AddFlagSet(group.flags)
	}
	for _, option := range task.Options {
		if err := setJobOption(flags, option); err != nil {
			return nil, usageErrorf("%s: %w", option.Name, err)
		}
	}
	if err := applyStepEnvironment(flags); err != nil {
		return nil, err
	}
	t.model.models, t.model.vocabs, t.model.shortlist = task.Models, task.Vocabularies, []string{"none"}
	if task.Shortlist != "" {
		t.model.shortlist = []string{task.Shortlist}
	}
	t.input.inputs, t.output.output, t.search.nBest = []string{task.Input}, task.Output, task.NBest
	t.input.format = "text"
	if task.Column > 0 {
		t.input.tsv, t.input.field = true, strconv.Itoa(task.Column)
	}
	t.output.report = filepath.Join(filepath.Dir(task.Output), ".report.json")
	t.output.tolerate, t.log.quiet = []string{"all"}, true
	return t, nil
}

// applyStepEnvironment takes from the environment what a translation does not depend on.
func applyStepEnvironment(flags *pflag.FlagSet) error {
	return applyEnvironment(flags, func(name string) (string, bool) {
		switch name {
		case environmentName("commit-every"), environmentName("grace-period"), environmentName("cpu-threads"), environmentName("memory"):
			return os.LookupEnv(name)
		}
		return "", false
	})
}

// throughput reads the report of a translation, and removes it.
func (t *translation) throughput() (trainrecipe.Throughput, error) {
	content, err := os.ReadFile(t.output.report)
	if err != nil {
		return trainrecipe.Throughput{}, err
	}
	var s summary
	if err := json.Unmarshal(content, &s); err != nil {
		return trainrecipe.Throughput{}, err
	}
	return trainrecipe.Throughput{Lines: s.Records, Words: s.Words, Seconds: s.Seconds.Total}, os.Remove(t.output.report)
}

// followInput tells now and then which share of the input has been read, which is what is translated but for the last few
// sentences.
func followInput(source *filesource.Source, tell func(share float64)) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for tell != nil {
			select {
			case <-end:
				return
			case <-ticker.C:
				if done, total := source.Progress(); total > 0 {
					tell(float64(done) / float64(total))
				}
			}
		}
	}()
	return func() { close(end); <-ended }
}
