package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-mt/sluice/pipeline/page"
)

// topLines is a look at a job in text, each line of which has at most width characters.
func topLines(about *page.Job, state *page.State, width int) []string {
	now, total := &state.Now, &state.Total
	running := "running for " + roughly(float64(state.Time-state.Started)/1000)
	if !state.Ready {
		running = "ending"
	}
	lines := []string{
		fmt.Sprintf("%s  %s", about.Name, running),
		fmt.Sprintf("%s -> %s   %s %s", about.Source, about.Sink, strings.Join(about.Model.Paths, " "), about.Model.Precision),
		"",
		fmt.Sprintf("words/s   %-10s records/s %-10s written %-12s failed  %s", formatCount(int64(now.Words)), formatCount(int64(now.Records)),
			formatCount(total.Written), formatCount(total.Flags["failed"]+total.Flags["unreadable"])),
		fmt.Sprintf("in flight %-10s oldest    %-10s behind  %-12s left    %s", formatCount(now.Flight), roughly(now.Age), orDash(now.Lag), timeLeft(state.Left)),
		fmt.Sprintf("memory    %-10s records   %s of %s", mebibytes(state.Memory.Process), mebibytes(state.Memory.Used), mebibytes(state.Memory.Budget)),
	}
	if e := state.Engine; e != nil {
		lines = append(lines, fmt.Sprintf("workers   %-10d busy      %-10s decoder %-12s waiting %s", e.Workers, percent(now.Busy), percent(now.Decoder)+" full", formatCount(int64(e.Waiting))))
	}
	if flags := otherFlags(total.Flags); flags != "" {
		lines = append(lines, "flags     "+flags)
	}
	lines = append(lines, "", stageLine(state.Stages), "")
	lines = append(lines, laneLines(&state.Lanes, width)...)
	for i, line := range lines {
		lines[i] = printable(line, width)
	}
	return lines
}

func otherFlags(flags map[string]int64) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if name != "failed" && name != "unreadable" {
			words = append(words, name+" "+formatCount(flags[name]))
		}
	}
	return strings.Join(words, ", ")
}

// stageLine says where a second of the last minute went.
func stageLine(stages []page.Stage) string {
	parts := []string{"lanes:"}
	for _, stage := range stages {
		if stage.Name == "encode" {
			parts = append(parts, " workers:")
		}
		parts = append(parts, fmt.Sprintf("%s %.2f", stage.Name, stage.Lately))
	}
	return strings.Join(parts, " ") + "   (seconds in a second)"
}

func laneLines(lanes *page.Lanes, width int) []string {
	name := max(16, width-62)
	lines := []string{fmt.Sprintf("%-*s %14s %9s %10s %10s %10s", name, fmt.Sprintf("LANE (%s open)", formatCount(int64(lanes.Open))), "COMMITTED", "FLIGHT", "OLDEST", "BEHIND", "READ")}
	for _, lane := range lanes.Shown {
		read := "-"
		if lane.Share >= 0 {
			read = percent(lane.Share)
		}
		shown := printable(lane.Name, name)
		lines = append(lines, fmt.Sprintf("%s%s %14s %9d %10s %10s %10s", shown, strings.Repeat(" ", name-utf8.RuneCountInString(shown)),
			formatCount(lane.Committed), lane.Flight, roughly(lane.Age), orDash(lane.Lag), read))
	}
	return lines
}

// printable cuts a text to a width, and takes out of it what a terminal would take for a command: names of lanes come from outside.
func printable(text string, width int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, text)
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, width-1)]) + "…"
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

func orDash(n int64) string {
	if n < 0 {
		return "-"
	}
	return formatCount(n)
}

// roughly is a time with as many digits as one wants to read.
func roughly(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d == 0:
		return "-"
	case d < 10*time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

func timeLeft(left *page.Left) string {
	switch {
	case left == nil || left.Seconds < 0:
		return "-"
	case left.Of == "lag" && left.Seconds == 0:
		return "caught up"
	case left.Of == "input":
		return fmt.Sprintf("%s (%s done)", roughly(left.Seconds), percent(left.Share))
	}
	return roughly(left.Seconds)
}
