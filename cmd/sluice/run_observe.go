package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/pipeline"
	"github.com/sluice-mt/sluice/pipeline/monitor"
	"github.com/sluice-mt/sluice/pipeline/page"
)

// A presentPass is what metrics and the page are read from. Between two passes it is the last one.
type presentPass struct {
	pipeline *pipeline.Pipeline
	source   *jobSource
}

// lag is how far each lane is behind; nil where nothing is known.
func (j *streamingJob) lag() map[string]int64 {
	if lag := j.present.Load().source.lag; lag != nil {
		return lag()
	}
	return nil
}

// input is how much of the whole input is read, in bytes; the total is 0 where nobody knows.
func (j *streamingJob) input() (done, total int64) {
	if files, ok := j.present.Load().source.Source.(*shardedFiles); ok && files.shard.Count <= 1 {
		return files.Progress()
	}
	return 0, 0
}

// observe starts the server of metrics, probes and the page, which stays for all passes. stop ends the job.
func (j *streamingJob) observe(ctx context.Context, stop func(), source *jobSource, parts *engineParts, engine liveTranslator) error {
	o := &j.job.Observe
	if o.Listen == "" || j.server != nil {
		return nil
	}
	access, err := pageAccess(o)
	if err != nil {
		return err
	}
	config := monitor.Config{
		Address: o.Listen, Pprof: o.Pprof, Stall: j.job.Stall, Logger: j.logger, Access: access, Lag: j.lag,
		Pipeline: func() monitor.Pipeline { return j.present.Load().pipeline },
	}
	config.Engine, _ = engine.(monitor.Engine) // what tests put in its place has nothing to count
	attributes := []any{}
	if o.Page != "off" {
		if j.page, err = j.newPage(ctx, source, parts, engine); err != nil {
			return err
		}
		config.Page, attributes = j.page, append(attributes, "page", o.Page)
	}
	if access.Token != "" {
		config.Act = page.NewActions(func() {
			j.logger.Info("somebody who has the token ends the job")
			stop()
		})
	}
	if j.server, err = monitor.Listen(config); err != nil {
		return usageErrorf("observe.listen: %v", err)
	}
	j.server.Ready(true)
	context.AfterFunc(ctx, func() { j.server.Ready(false) })
	j.logger.Info("metrics are served", append(attributes, "address", j.server.Address())...)
	return nil
}

// pageAccess says who may see the page.
func pageAccess(o *jobfile.Observe) (monitor.Access, error) {
	token, err := secret(o.Token, o.TokenFile)
	if err != nil {
		return monitor.Access{}, err
	}
	if o.TokenFile != "" && len(token) < jobfile.LeastToken {
		return monitor.Access{}, usageErrorf("observe.token-file: the token has %d characters; at least %d are needed", len(token), jobfile.LeastToken)
	}
	return monitor.Access{Network: o.Page == "network", Token: token, Open: page.IsAsset}, nil
}

// newPage makes the page of the job. It is alive until ctx ends.
func (j *streamingJob) newPage(ctx context.Context, source *jobSource, parts *engineParts, engine liveTranslator) (*page.Page, error) {
	fingerprint, err := parts.fingerprint()
	if err != nil {
		return nil, err
	}
	made, err := j.madeWith(parts)
	if err != nil {
		return nil, err
	}
	o := &j.job.Observe
	config := page.Config{
		Job: page.Job{
			Name: j.job.Name, Source: source.description, Sink: describeSink(&j.job.Sink), Version: buildVersion(),
			Settings: j.job.Settings(), CanStop: o.Token != "" || o.TokenFile != "",
			Model: page.Model{
				Precision: parts.models.arithmetic(), Fingerprint: fingerprint, MadeOf: made,
				Kernels: parts.multiplying(), RightLeft: parts.config.Text.RightLeft,
			},
		},
		Pipeline: func() page.Pipeline { return j.present.Load().pipeline },
		Lag:      j.lag, Input: j.input, Ready: func() bool { return ctx.Err() == nil },
	}
	for _, file := range parts.models.files {
		config.Job.Model.Paths = append(config.Job.Model.Paths, file.Path)
	}
	config.Engine, _ = engine.(page.Engine) // what tests put in its place has nothing to count
	return page.New(config), nil
}

// notable tells the page of a record that is out of the ordinary.
func (j *streamingJob) notable(lane string, output *job.Output) {
	if j.page != nil {
		j.page.Notable(lane, output)
	}
}

// unobserve ends the server and the page.
func (j *streamingJob) unobserve() {
	if j.server != nil {
		closeMonitor(j.server, j.logger)
	}
	if j.page != nil {
		j.page.Close()
	}
}

// closeMonitor gives whoever reads metrics a moment to finish.
func closeMonitor(server *monitor.Server, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Close(ctx); err != nil {
		logger.Debug("metrics", "error", err)
	}
}
