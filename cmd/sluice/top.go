package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sluice-mt/sluice/pipeline/page"
)

// A viewer is one run of "sluice top".
type viewer struct {
	tokenFile string
	sort      string
	find      string
	every     time.Duration
	once      bool
	asJSON    bool

	base   *url.URL
	token  string
	client *http.Client
}

func newTopCommand() *cobra.Command {
	v := &viewer{client: &http.Client{Timeout: 5 * time.Second}}
	command := &cobra.Command{
		Use:   "top [flags] [ADDRESS]",
		Short: "Show what a running job is doing, in a terminal",
		Long: `Show what a running job is doing: how fast, how far its lanes are, where time goes, and what went wrong. It
reads what the status page of the job reads. ADDRESS is the job's observe.listen, localhost:9090 if nothing is said; a job
that is shown to this machine only is looked at from there, or by a tunnel such as kubectl port-forward.`,
		Example: `  sluice top
  sluice top --sort lag --find reviews/1 localhost:9091
  sluice top --once --json | jq .now`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			if err := v.prepare(arguments); err != nil {
				return err
			}
			return v.run(command.Context(), command.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.StringVar(&v.sort, "sort", "age", "lanes that come first: `ORDER` is age, lag, flight, committed, share or name")
	flags.StringVar(&v.find, "find", "", "only lanes with this `TEXT` in their name")
	flags.DurationVar(&v.every, "every", time.Second, "time between two looks")
	flags.BoolVar(&v.once, "once", false, "look once")
	flags.BoolVar(&v.asJSON, "json", false, "print JSON, a line for each look")
	flags.StringVar(&v.tokenFile, "token-file", "", "`FILE` that holds the job's token, if it asks for one")
	return command
}

func (v *viewer) prepare(arguments []string) error {
	address := "localhost:9090"
	if len(arguments) > 0 {
		address = arguments[0]
	}
	if !strings.Contains(address, "://") {
		if strings.HasPrefix(address, ":") {
			address = "localhost" + address
		}
		address = "http://" + address
	}
	var err error
	if v.base, err = url.Parse(address); err != nil || v.base.Host == "" {
		return usageErrorf("%q is no address such as localhost:9090", arguments[0])
	}
	if v.every < 100*time.Millisecond {
		return usageErrorf("--every %v: at least 100ms", v.every)
	}
	v.token, err = secret("", v.tokenFile)
	return err
}

func (v *viewer) run(ctx context.Context, out io.Writer) error {
	terminal := isTerminal(out)
	var about page.Job
	if err := v.ask(ctx, "api/job", nil, &about); err != nil {
		return err
	}
	if terminal && !v.once && !v.asJSON {
		fmt.Fprint(out, "\x1b[?25l")       // without the cursor
		defer fmt.Fprint(out, "\x1b[?25h") // with it again
	}
	failures := 0
	for {
		var state page.State
		width, height := terminalSize(out)
		err := v.ask(ctx, "api/state", url.Values{"sort": {v.sort}, "find": {v.find}, "limit": {fmt.Sprint(max(5, height))}}, &state)
		switch {
		case err == nil:
			failures = 0
			if err := v.show(out, &about, &state, width, height, terminal && !v.once); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return nil
		case v.once || failures >= 5: // a job that does not answer for seconds is over
			return err
		default:
			failures++
		}
		if v.once {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(v.every):
		}
	}
}

// A descriptor is standard output, as it is or watched.
type descriptor interface{ Fd() uintptr }

func isTerminal(out io.Writer) bool {
	file, ok := out.(descriptor)
	return ok && term.IsTerminal(int(file.Fd()))
}

// terminalSize is that of the terminal, or what is printed where there is none.
func terminalSize(out io.Writer) (width, height int) {
	if file, ok := out.(descriptor); ok {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
			return max(width, 40), max(height, 12)
		}
	}
	return 110, 40
}

// show prints one look. On a terminal it replaces the last one.
func (v *viewer) show(out io.Writer, about *page.Job, state *page.State, width, height int, replace bool) error {
	if v.asJSON {
		line, err := json.Marshal(state)
		if err != nil {
			return err
		}
		return writeOutput(out, string(line)+"\n")
	}
	lines := topLines(about, state, width)
	if replace {
		lines = lines[:min(len(lines), height-1)]
		return writeOutput(out, "\x1b[H"+strings.Join(lines, "\x1b[K\n")+"\x1b[K\n\x1b[J")
	}
	return writeOutput(out, strings.Join(lines, "\n")+"\n")
}

// Most bytes of an answer that are read.
const mostOfAnswer = 4 << 20

// ask asks the job for JSON.
func (v *viewer) ask(ctx context.Context, path string, query url.Values, into any) error {
	address := v.base.JoinPath(path)
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return usageError{err}
	}
	if v.token != "" {
		request.Header.Set("Authorization", "Bearer "+v.token)
	}
	response, err := v.client.Do(request)
	if err != nil {
		var network *net.OpError
		if errors.As(err, &network) {
			return inputError{fmt.Errorf("no job answers at %s: %w (is observe.listen set?)", v.base.Host, network)}
		}
		return inputError{err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostOfAnswer))
	if err != nil {
		return inputError{err}
	}
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return inputError{fmt.Errorf("%s has no status page: observe.page is off, or it is something else", v.base.Host)}
	default:
		return inputError{fmt.Errorf("%s answers %s: %s", v.base.Host, response.Status, printable(strings.TrimSpace(string(body)), 200))}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return inputError{fmt.Errorf("%s is no job of sluice: %w", v.base.Host, err)}
	}
	return nil
}
