package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"

	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/internal/shard"
)

// jobOptions are the options of sluice translate that a job sets under translate.
type jobOptions struct {
	model  modelFlags
	search searchFlags
	batch  batchFlags
	flags  *pflag.FlagSet
}

// elsewhere are options that a job says in another place.
var elsewhere = map[string]string{
	"input": "source", "output": "sink", "output-dir": "sink", "format": "records.format", "field": "records.field",
	"target-field": "records.targets", "memory": "memory", "grace-period": "grace-period", "commit-every": "commit-every",
	"log-level": "observe.log-level", "log-format": "observe.log-format", "n-best": "records.n-best or records.targets",
}

// newJobOptions sets the options of a job. An error is jobfile.Problems.
func newJobOptions(job *jobfile.Job) (*jobOptions, error) {
	o := new(jobOptions)
	flags := pflag.NewFlagSet("translate", pflag.ContinueOnError)
	for _, group := range []flagGroup{o.model.group(), o.search.group(), o.batch.group()} {
		flags.AddFlagSet(group.flags)
	}
	var problems jobfile.Problems
	for _, option := range job.Translate {
		if err := setJobOption(flags, option); err != nil {
			problems = append(problems, jobfile.Problem{
				Line: option.Line, Column: option.Column, Path: "translate." + option.Name, Message: err.Error(),
			})
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	if len(o.model.models) == 0 && len(o.model.configs) == 0 {
		return nil, jobfile.Problems{{Path: "translate.models", Message: "missing: the model's file or folder"}}
	}
	o.flags = flags
	if err := applyJobEnvironment(flags, job.Translate); err != nil {
		return nil, err
	}
	if err := o.forTargets(len(job.Records.Targets)); err != nil {
		return nil, err
	}
	o.search.nBest = o.search.nBest || job.Records.NBest
	return o, o.checkValues(job)
}

// checkValues finds what would be refused when the job is run.
func (o *jobOptions) checkValues(job *jobfile.Job) error {
	var problems jobfile.Problems
	add := func(path string, err error) {
		if err != nil {
			problems = append(problems, jobfile.Problem{Path: path, Message: err.Error()})
		}
	}
	_, err := o.search.options()
	add("translate", err)
	if job.Shard != "auto" {
		_, err = shard.Parse(job.Shard)
		add("shard", err)
	}
	if job.Observe.Listen != "" {
		_, _, err = net.SplitHostPort(job.Observe.Listen)
		add("observe.listen", err)
	}
	if job.Source.Kafka != nil {
		if job.Shard != "auto" {
			add("shard", errors.New("the partitions of topics are divided by their consumer group"))
		}
		_, err = (&streamingJob{job: job}).value()
		add("records", err)
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}

// applyJobEnvironment takes from the environment what a job leaves open of the settings of GPUs: nothing else, since a job is to say all. One that
// says where it translates keeps to that.
func applyJobEnvironment(flags *pflag.FlagSet, translate []jobfile.Option) error {
	settings := gpuSettings
	if saysWhere(translate) {
		settings = slices.DeleteFunc(slices.Clone(settings), func(name string) bool { return name == "devices" })
	}
	return applyEnvironment(flags, only(settings...))
}

// useDevices lets the job translate on other devices than it names; none leaves it as it says.
func (o *jobOptions) useDevices(devices []string) error {
	if len(devices) == 0 {
		return nil
	}
	if err := o.flags.Set("devices", devices[0]); err != nil { // so that they are said, as if the job had named them
		return err
	}
	return o.flags.Lookup("devices").Value.(pflag.SliceValue).Replace(devices)
}

// complete reads the configuration that lies with the model. It is left until the job runs, since a job file may be checked
// where the model is not.
func (o *jobOptions) complete(logger *slog.Logger) error {
	warnings, err := o.model.applyConfig(o.flags)
	for _, warning := range warnings {
		logger.Warn(warning)
	}
	return err
}

func setJobOption(flags *pflag.FlagSet, option jobfile.Option) error {
	if place, ok := elsewhere[option.Name]; ok {
		return fmt.Errorf("a job sets this with %s", place)
	}
	flag := flags.Lookup(option.Name)
	if flag == nil || option.Name == "memory" {
		return fmt.Errorf("no option of sluice translate has this name")
	}
	if flag.Value.Type() != "stringArray" && len(option.Values) != 1 {
		return fmt.Errorf("expected one value, found %d", len(option.Values))
	}
	for _, value := range option.Values {
		if err := flags.Set(option.Name, value); err != nil {
			return err
		}
	}
	return nil
}

// forTargets asks for as many hypotheses as there are fields to put them into.
func (o *jobOptions) forTargets(targets int) error {
	if targets <= 1 {
		return nil
	}
	if o.search.beamSize < targets {
		return jobfile.Problems{{
			Path: "translate.beam-size", Message: fmt.Sprintf("%d targets need a beam of at least %d hypotheses", targets, targets),
		}}
	}
	o.search.nBest = true
	return nil
}
