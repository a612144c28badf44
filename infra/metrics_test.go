package infra

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/pipeline"
	"github.com/sluice-mt/sluice/pipeline/monitor"
	"github.com/sluice-mt/sluice/translator"
)

// everything is a pipeline of which each metric has a value.
type everything struct{}

func (everything) Stats() pipeline.Stats {
	return pipeline.Stats{Records: 1, Flags: map[string]int64{"failed": 1, "unreadable": 1}}
}

func (everything) Lanes() []pipeline.LaneState {
	return []pipeline.LaneState{{Name: "topic/0", Committed: job.Position{Record: 1}, InFlight: 1, Age: time.Second}}
}

func (everything) Credits() (used, total int64) { return 1, 2 }

type engine struct{}

func (engine) Stats() translator.Stats {
	return translator.Stats{Workers: 1, Slots: 64, Steps: 1, Rows: 1}
}

// A series is a metric with one set of labels, as /metrics shows it.
var series = regexp.MustCompile(`(?m)^([a-z_]+)(\{[^}]*\})? `)

// served returns the metrics that a job serves, with the labels of each.
func served(t *testing.T) map[string][]string {
	t.Helper()
	server, err := monitor.Listen(monitor.Config{
		Address: "127.0.0.1:0", Pipeline: func() monitor.Pipeline { return everything{} }, Engine: engine{}, Logger: slog.New(slog.DiscardHandler),
		Lag: func() map[string]int64 { return map[string]int64{"topic/0": 1} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	response, err := http.Get("http://" + server.Address() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string][]string{}
	for _, match := range series.FindAllStringSubmatch(string(body), -1) {
		metrics[match[1]] = append(metrics[match[1]], match[2])
	}
	if len(metrics) < 20 {
		t.Fatalf("only %d metrics are served", len(metrics))
	}
	return metrics
}

var (
	metricName = regexp.MustCompile(`\b(?:sluice|go|process|up)_[a-z_]+\b`)
	selector   = regexp.MustCompile(`\b(sluice_[a-z_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)\s*(=~|=)\s*"([^"]*)"`)
)

// checkExpression checks that an expression speaks of metrics, and of values of their labels, that there are.
func checkExpression(t *testing.T, where, expression string, metrics map[string][]string) {
	t.Helper()
	names := metricName.FindAllString(expression, -1)
	if len(names) == 0 {
		t.Errorf("%s: %q speaks of no metric", where, expression)
	}
	for _, name := range names {
		if metrics[name] == nil {
			t.Errorf("%s: nothing serves %s", where, name)
		}
	}
	for _, match := range selector.FindAllStringSubmatch(expression, -1) {
		for _, condition := range matcher.FindAllStringSubmatch(match[2], -1) {
			label, value := condition[1], condition[3]
			if label == "namespace" || label == "job" || label == "instance" {
				continue // which Prometheus adds
			}
			for alternative := range strings.SplitSeq(value, "|") {
				if !slices.ContainsFunc(metrics[match[1]], func(labels string) bool { return strings.Contains(labels, label+`="`+alternative+`"`) }) {
					t.Errorf("%s: there is no %s with %s %q", where, match[1], label, alternative)
				}
			}
		}
	}
}

type dashboard struct {
	Title      string
	Panels     []dashboardPanel
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

type dashboardPanel struct {
	ID                 int
	Title, Description string
	GridPos            struct{ X, Y, W, H int }
	Targets            []struct{ Expr, RefID string }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "infra", "dashboards", "sluice.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDashboardShowsMetricsThatExist(t *testing.T) {
	metrics, d := served(t), readDashboard(t)
	shown := map[string]bool{}
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			checkExpression(t, panel.Title, target.Expr, metrics)
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				shown[name] = true
			}
		}
	}
	for _, variable := range d.Templating.List {
		if variable.Definition != "" {
			checkExpression(t, "variable "+variable.Name, variable.Definition, metrics)
		}
	}
	for name := range metrics {
		if strings.HasPrefix(name, "sluice_") && !shown[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

func TestPanelsAreInOrder(t *testing.T) {
	ids := map[int]bool{}
	panels := readDashboard(t).Panels
	for i, p := range panels {
		if ids[p.ID] || p.Title == "" || p.Description == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d (%q) has an id that another has, no description, or lies outside", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, q := range panels[:i] {
			a, b := p.GridPos, q.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("panels %q and %q lie on each other", p.Title, q.Title)
			}
		}
	}
}

type rules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr         string
			Labels, Annotations map[string]string
		}
	}
}

func readRules(t *testing.T) rules {
	t.Helper()
	var r rules
	if err := yaml.Unmarshal([]byte(read(t, "infra", "alerts", "sluice.rules.yml")), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Groups) == 0 || len(r.Groups[0].Rules) < 5 {
		t.Fatal("there are no rules")
	}
	return r
}

func TestEachAlertHasItsMetricsItsRunbookAndItsTest(t *testing.T) {
	metrics := served(t)
	runbook, cases := read(t, "docs", "runbook.md"), read(t, "infra", "alerts", "sluice.rules.test.yml")
	for _, group := range readRules(t).Groups {
		for _, rule := range group.Rules {
			checkExpression(t, rule.Alert, rule.Expr, metrics)
			if !strings.Contains(runbook, "\n## "+rule.Alert+"\n") {
				t.Errorf("%s has no section in docs/runbook.md", rule.Alert)
			}
			if !strings.HasSuffix(rule.Annotations["runbook_url"], "/docs/runbook.md#"+strings.ToLower(rule.Alert)) {
				t.Errorf("%s does not point to its section in the runbook", rule.Alert)
			}
			if rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%s has no summary or no severity", rule.Alert)
			}
			if !strings.Contains(cases, "alertname: "+rule.Alert+"\n        exp_alerts:") {
				t.Errorf("no test makes %s fire", rule.Alert)
			}
		}
	}
}

// The guide and the runbook speak of metrics, too.
func TestDocumentsNameMetricsThatExist(t *testing.T) {
	metrics := served(t)
	for _, name := range []string{"streaming.md", "runbook.md"} {
		for _, metric := range metricName.FindAllString(read(t, "docs", name), -1) {
			if metrics[metric] == nil {
				t.Errorf("docs/%s: nothing serves %s", name, metric)
			}
		}
	}
	guide := read(t, "docs", "streaming.md")
	for metric := range metrics {
		if strings.HasPrefix(metric, "sluice_") && !strings.Contains(guide, "`"+metric+"`") {
			t.Errorf("docs/streaming.md does not explain %s", metric)
		}
	}
}

func TestRulesWithPromtool(t *testing.T) {
	promtool := tool(t, "promtool")
	mustRun(t, nil, promtool, "check", "rules", filepath.Join("infra", "alerts", "sluice.rules.yml"))
	mustRun(t, nil, promtool, "test", "rules", filepath.Join("infra", "alerts", "sluice.rules.test.yml"))
}
