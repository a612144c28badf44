package handover

import (
	"encoding/json"
	"strings"

	"github.com/sluice-mt/sluice/internal/s3client"
)

const jobName = "job.yml"

// An s3Job is a job file of sluice run. JSON is YAML.
type s3Job struct {
	Name      string                     `json:"name"`
	Source    map[string]json.RawMessage `json:"source"`
	Sink      map[string]json.RawMessage `json:"sink"`
	Records   map[string]bool            `json:"records,omitempty"`
	Translate json.RawMessage            `json:"translate"`
	Shard     string                     `json:"shard"`
}

// job returns the job, for a worker that has the files of the folder below its own folder.
func (h *handed) job() ([]byte, error) {
	source := object{"inputs": s3client.URI(h.Bucket, h.folder+"in/")}
	sink := object{"prefix": s3client.URI(h.Bucket, h.folder+"out/")}
	if h.Endpoint != "" {
		for _, o := range []object{source, sink} {
			o["endpoint"], o["path-style"] = "${AWS_ENDPOINT_URL:-"+h.Endpoint+"}", true
		}
	}
	j := s3Job{Name: "recipe-" + strings.TrimSuffix(h.folder[len(h.Prefix):], "/"), Shard: "${SHARD:-auto}"}
	var err error
	if j.Source, err = wrapped("s3", source); err != nil {
		return nil, err
	}
	if j.Sink, err = wrapped("s3", sink); err != nil {
		return nil, err
	}
	if h.task.NBest {
		j.Records = map[string]bool{"n-best": true}
	}
	if j.Translate, err = json.Marshal(h.options()); err != nil {
		return nil, err
	}
	return json.MarshalIndent(j, "", "  ")
}

type object map[string]any

func wrapped(name string, o object) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(o)
	return map[string]json.RawMessage{name: text}, err
}

// options are those of sluice translate.
func (h *handed) options() object {
	o := object{}
	for _, option := range h.task.Options {
		var values []any
		for _, value := range option.Values {
			values = append(values, escape(value))
		}
		o[option.Name] = values
		if len(values) == 1 {
			o[option.Name] = values[0]
		}
	}
	names := make([]any, len(h.files))
	for i := range h.files {
		names[i] = escape(h.fileName(i))
	}
	models, vocabularies := len(h.task.Models), len(h.task.Models)+len(h.task.Vocabularies)
	o["models"], o["vocabs"], o["shortlist"] = names[:models], names[models:vocabularies], "none"
	if h.task.Shortlist != "" {
		o["shortlist"] = names[vocabularies]
	}
	return o
}

// escape keeps a value from being taken for one with variables.
func escape(value string) string { return strings.ReplaceAll(value, "${", "$${") }
