// Package tracing sends traces of a pipeline's runs to an OpenTelemetry collector.
//
// A trace is a run: records of one lane that were written together. Its span begins when its first record was fetched and
// ends when the run was committed; below it are the stages fetch, translate, write and commit, which follow each other and
// may leave gaps: the time in which finished records waited for the ones before them.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-mt/sluice/pipeline"
)

// Config says where traces go.
type Config struct {
	Endpoint string  // of the collector, such as http://localhost:4318; /v1/traces is added where it has no path
	Share    float64 // of the runs, from 0 to 1
	Job      string
	Version  string
	Logger   *slog.Logger
}

// An Exporter sends traces in the background. What the collector does not take in time is dropped, and said once.
type Exporter struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// Start returns an Exporter. It does not connect: a collector that is away holds nobody up. Headers, certificates and
// time limits are taken from the variables that OpenTelemetry names for them (OTEL_EXPORTER_OTLP_HEADERS and so on).
func Start(ctx context.Context, config Config) (*Exporter, error) {
	endpoint, err := url.Parse(config.Endpoint)
	if err != nil {
		return nil, err
	}
	if endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.Host == "" {
		return nil, fmt.Errorf("%q: expected the address of a collector, such as http://localhost:4318", config.Endpoint)
	}
	if endpoint.Path == "" || endpoint.Path == "/" {
		endpoint.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint.String()))
	if err != nil {
		return nil, err
	}
	reportOnce(config.Logger)
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter),
		sdk.WithSampler(sdk.TraceIDRatioBased(config.Share)),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "sluice"), attribute.String("service.version", config.Version),
			attribute.String("service.namespace", config.Job),
		)),
	)
	return &Exporter{provider: provider, tracer: provider.Tracer("github.com/sluice-mt/sluice/pipeline")}, nil
}

// reportOnce logs the first thing that goes wrong with the export. The library has one place for that, for the whole
// process.
func reportOnce(logger *slog.Logger) {
	var said atomic.Bool
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if !said.Swap(true) {
			logger.Warn("traces cannot be sent; later failures are not reported", "error", err)
		}
	}))
}

// Run sends the trace of a run. It does not block.
func (e *Exporter) Run(run *pipeline.RunTrace) {
	end := run.Written.End
	if run.Committed.End.After(end) {
		end = run.Committed.End
	}
	ctx, span := e.tracer.Start(context.Background(), "run", trace.WithTimestamp(run.Fetched.Begin))
	defer span.End(trace.WithTimestamp(end))
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String("sluice.lane", run.Lane), attribute.Int64("sluice.record.first", run.From),
		attribute.Int64("sluice.records", run.To-run.From), attribute.Int64("sluice.source.words", run.Words),
		attribute.Int64("sluice.source.bytes", run.Bytes), attribute.Int("sluice.flagged", run.Flagged),
	)
	if run.Err != nil {
		span.SetStatus(codes.Error, run.Err.Error())
	}
	e.stage(ctx, "fetch", run.Fetched)
	e.stage(ctx, "translate", run.Translated)
	e.stage(ctx, "write", run.Written)
	e.stage(ctx, "commit", run.Committed)
}

func (e *Exporter) stage(ctx context.Context, name string, during pipeline.Span) {
	if during.Begin.IsZero() {
		return
	}
	_, span := e.tracer.Start(ctx, name, trace.WithTimestamp(during.Begin))
	span.End(trace.WithTimestamp(during.End))
}

// mostFlush is how long the last traces may take.
const mostFlush = 5 * time.Second

// Close sends what is left.
func (e *Exporter) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), mostFlush)
	defer cancel()
	return e.provider.Shutdown(ctx)
}
