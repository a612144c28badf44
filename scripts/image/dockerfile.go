package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Settings say how an image is run, in the form that its configuration has.
type settings struct {
	User         string              `json:"User,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
	Env          []string            `json:"Env,omitempty"`
	Entrypoint   []string            `json:"Entrypoint,omitempty"`
	Cmd          []string            `json:"Cmd,omitempty"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
	Labels       map[string]string   `json:"Labels,omitempty"`
	StopSignal   string              `json:"StopSignal,omitempty"`
	Healthcheck  *healthcheck        `json:"Healthcheck,omitempty"` // not in the specification; Docker reads it
}

type healthcheck struct {
	Test        []string      `json:"Test"`
	Interval    time.Duration `json:"Interval,omitempty"`
	Timeout     time.Duration `json:"Timeout,omitempty"`
	StartPeriod time.Duration `json:"StartPeriod,omitempty"`
	Retries     int           `json:"Retries,omitempty"`
}

// parseStage reads the settings of one stage of a Dockerfile. What fills the image (COPY, RUN) is passed over; an
// instruction that is not known is an error.
func parseStage(text, stage string) (*settings, error) {
	s := &settings{ExposedPorts: map[string]struct{}{}, Labels: map[string]string{}}
	inside, found := false, false
	for _, line := range instructions(text) {
		word, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		if word == "FROM" {
			fields := strings.Fields(rest)
			inside = len(fields) == 3 && fields[1] == "AS" && fields[2] == stage
			if inside && fields[0] != "scratch" {
				return nil, fmt.Errorf("stage %s begins with %s instead of scratch", stage, fields[0])
			}
			found = found || inside
			continue
		}
		if inside {
			if err := s.set(word, rest); err != nil {
				return nil, fmt.Errorf("%s: %w", word, err)
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("there is no stage %q", stage)
	}
	return s, nil
}

// instructions joins lines that are continued and drops comments.
func instructions(text string) (list []string) {
	var open string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		before, continued := strings.CutSuffix(line, `\`)
		open += before
		if !continued {
			list = append(list, open)
			open = ""
		}
	}
	return list
}

func (s *settings) set(word, rest string) (err error) {
	switch word {
	case "COPY", "RUN":
	case "USER":
		s.User = rest
	case "WORKDIR":
		s.WorkingDir = rest
	case "STOPSIGNAL":
		s.StopSignal = rest
	case "EXPOSE":
		s.ExposedPorts[rest+"/tcp"] = struct{}{}
	case "ENV":
		var values map[string]string
		values, err = assignments(rest)
		for _, name := range slices.Sorted(maps.Keys(values)) {
			s.Env = append(s.Env, name+"="+values[name])
		}
	case "LABEL":
		var values map[string]string
		values, err = assignments(rest)
		maps.Copy(s.Labels, values)
	case "ENTRYPOINT":
		err = json.Unmarshal([]byte(rest), &s.Entrypoint)
	case "CMD":
		err = json.Unmarshal([]byte(rest), &s.Cmd)
	case "HEALTHCHECK":
		s.Healthcheck, err = parseHealthcheck(rest)
	default:
		err = errors.New("this instruction is not known here")
	}
	return err
}

// assignments reads NAME=value NAME="a value".
func assignments(text string) (map[string]string, error) {
	values := map[string]string{}
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		name, rest, ok := strings.Cut(text, "=")
		if !ok || strings.ContainsAny(name, " \"") {
			return nil, fmt.Errorf("%q is not of the form NAME=value", text)
		}
		var value string
		if quoted, isQuoted := strings.CutPrefix(rest, `"`); isQuoted {
			if value, text, ok = strings.Cut(quoted, `"`); !ok {
				return nil, fmt.Errorf("a quotation mark is not closed in %q", rest)
			}
		} else {
			value, text, _ = strings.Cut(rest, " ")
		}
		values[name] = value
	}
	return values, nil
}

func parseHealthcheck(text string) (*healthcheck, error) {
	h := new(healthcheck)
	options, command, ok := strings.Cut(text, "CMD ")
	if !ok {
		return nil, errors.New("there is no CMD")
	}
	for _, option := range strings.Fields(options) {
		name, value, _ := strings.Cut(option, "=")
		var err error
		switch name {
		case "--interval":
			h.Interval, err = time.ParseDuration(value)
		case "--timeout":
			h.Timeout, err = time.ParseDuration(value)
		case "--start-period":
			h.StartPeriod, err = time.ParseDuration(value)
		case "--retries":
			_, err = fmt.Sscanf(value, "%d", &h.Retries)
		default:
			err = errors.New("this option is not known here")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	var words []string
	if err := json.Unmarshal([]byte(command), &words); err != nil {
		return nil, err
	}
	h.Test = append([]string{"CMD"}, words...)
	return h, nil
}
