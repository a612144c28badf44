package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/occupancy"
)

// A usage is what a kernel needs.
type usage struct {
	registers, spilled int // of a thread; bytes
	shared             int // static, bytes of a block
}

// A log is what a release of ptxas says of the kernels on a device.
type log struct {
	device, release string
	names           []string // in their order
	kernels         map[string]usage
}

func readLog(file string) (log, error) {
	device, release, ok := strings.Cut(filepath.Base(file), "-")
	if !ok {
		return log{}, fmt.Errorf("%s is not called after a device and a release", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return log{}, err
	}
	defer f.Close()
	l, err := parseLog(f)
	l.device, l.release = device, release
	if err != nil {
		return l, fmt.Errorf("%s: %w", file, err)
	}
	return l, nil
}

var (
	entryLine = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	spillLine = regexp.MustCompile(`(\d+) bytes spill stores, (\d+) bytes spill loads`)
	usageLine = regexp.MustCompile(`Used (\d+) registers(?:.*?(\d+) bytes smem)?`)
)

func parseLog(r io.Reader) (log, error) {
	l := log{kernels: map[string]usage{}}
	name, spilled := "", 0
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := lines.Text()
		if found := entryLine.FindStringSubmatch(line); found != nil {
			name, spilled = found[1], 0
		} else if found := spillLine.FindStringSubmatch(line); found != nil {
			spilled = number(found[1]) + number(found[2])
		} else if found := usageLine.FindStringSubmatch(line); found != nil {
			l.names = append(l.names, name)
			l.kernels[name] = usage{number(found[1]), spilled, number(found[2])}
		} else if strings.Contains(line, "error") || strings.Contains(line, "fatal") {
			return l, errors.New(line)
		}
	}
	if len(l.names) == 0 {
		return l, errors.New("it speaks of no kernel")
	}
	return l, nil
}

// number reads digits; nothing is 0.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

func (l log) print(w io.Writer) {
	fmt.Fprintf(w, "%-28s %9s %7s %7s\n", l.device+", release "+l.release, "registers", "spilled", "shared")
	for _, name := range l.names {
		k := l.kernels[name]
		fmt.Fprintf(w, "%-28s %9d %7d %7d\n", name, k.registers, k.spilled, k.shared)
	}
}

func (l log) spilled() int {
	sum := 0
	for _, k := range l.kernels {
		sum += k.spilled
	}
	return sum
}

// occupancyTable says for all kernels on all devices how much of a multiprocessor's warps are there at a time, by the last release's
// logs. Kernels that agree in everything share a row.
func occupancyTable(blocks []gpukernels.Block, logs []log) (string, error) {
	devices := occupancy.Devices()
	var b strings.Builder
	b.WriteString("| kernels | threads | shared, KiB |")
	for _, d := range devices {
		fmt.Fprintf(&b, " %s |", d.Name)
	}
	b.WriteString("\n|---|---|---|" + strings.Repeat("---|", len(devices)) + "\n")
	kernelsOf := map[string][]string{}
	var rows []string
	for _, block := range blocks {
		row, err := occupancyRow(block, devices, logs)
		if err != nil {
			return "", err
		}
		if kernelsOf[row] == nil {
			rows = append(rows, row)
		}
		kernelsOf[row] = append(kernelsOf[row], "`"+block.Kernel+"`")
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |%s\n", strings.Join(kernelsOf[row], ", "), row)
	}
	return b.String(), nil
}

// occupancyRow is what stands behind the names of the kernels.
func occupancyRow(block gpukernels.Block, devices []occupancy.Device, logs []log) (string, error) {
	shared, cells := 0, ""
	for _, d := range devices {
		if 10*d.Major+d.Minor < block.Least {
			cells += " – |"
			continue
		}
		l, ok := lastOf(logs, d.Name)
		k, said := l.kernels[block.Kernel]
		if !ok || !said {
			return "", fmt.Errorf("no log for %s speaks of %s", d.Name, block.Kernel)
		}
		shared = block.Shared + k.shared
		needs := occupancy.Kernel{Threads: block.Threads, Registers: k.registers, Shared: shared}
		cells += fmt.Sprintf(" %d: %.0f %% |", d.Blocks(needs), 100*d.Occupancy(needs))
	}
	return fmt.Sprintf(" %d | %s |%s", block.Threads, strconv.FormatFloat(float64(shared)/1024, 'f', -1, 64), cells), nil
}

// lastOf is the log of a device by the last release.
func lastOf(logs []log, device string) (log, bool) {
	of := slices.DeleteFunc(slices.Clone(logs), func(l log) bool { return l.device != device })
	if len(of) == 0 {
		return log{}, false
	}
	return slices.MaxFunc(of, func(x, y log) int { return cmp.Compare(releaseNumber(x.release), releaseNumber(y.release)) }), true
}

// releaseNumber orders releases such as 9.2 and 13.10.
func releaseNumber(release string) int {
	major, minor, _ := strings.Cut(release, ".")
	return 1000*number(major) + number(minor)
}

const tableBegins, tableEnds = "<!-- occupancy: scripts/ptx.sh -->\n", "<!-- end of occupancy -->\n"

// replaceTable puts the table between its marks in a page.
func replaceTable(page, table string) (string, error) {
	before, rest, begins := strings.Cut(page, tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return "", fmt.Errorf("no place between %q and %q", strings.TrimSpace(tableBegins), strings.TrimSpace(tableEnds))
	}
	return before + tableBegins + table + tableEnds + after, nil
}
