package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/kernels"
)

const (
	// tuningTime is about how long a model is measured at most, on a machine that has not seen its like, and again at the next starts if that
	// was too short.
	tuningTime = 200 * time.Millisecond
	// tuningVersion changes with the variants there are, of which old measurements say nothing, and with how they are compared.
	tuningVersion = 6
)

// A tuner has matrices multiplied in the way that was found fastest on this processor. What has been measured is in a file for each kind
// of processor, in the user's cache folder. Without such a folder nothing is measured, or it would be at each start.
type tuner struct {
	file   measurements[string, int]
	logger *slog.Logger
}

// newTuner returns the tuner of this processor, nil if there is no place for what it finds.
func newTuner(logger *slog.Logger) *tuner {
	folder, err := os.UserCacheDir()
	if err != nil {
		logger.Debug("products are not tuned", "error", err)
		return nil
	}
	processor := processorName()
	sum := sha256.Sum256([]byte(processor))
	return tunerAt(filepath.Join(folder, "sluice", fmt.Sprintf("kernels-%x.json", sum[:6])), processor, logger)
}

// tunerAt returns the tuner of a processor that has its measurements in a file.
func tunerAt(path, processor string, logger *slog.Logger) *tuner {
	return &tuner{measurements[string, int]{path: path, version: tuningVersion, kind: processor}, logger}
}

// fileOf returns where what was measured on a kind of device is remembered, beside what was on the processor.
func (t *tuner) fileOf(name string, kind any) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q", kind)))
	return filepath.Join(filepath.Dir(t.file.path), fmt.Sprintf("%s-%x.json", name, sum[:6]))
}

// tune chooses how matrices are multiplied, and measures it if the file does not say. A nil tuner leaves them as they are.
func (t *tuner) tune(matrices []kernels.Matrix) {
	if t == nil {
		return
	}
	tuning := kernels.Tuning(t.file.read())
	if tuning.Knows(matrices...) {
		tuning.Tune(0, matrices...)
		return
	}
	if err := t.measure(tuning, matrices); err != nil {
		t.logger.Debug("how products are fastest is not remembered", "error", err)
	}
}

// measure adds to a tuning what it lacks, and writes it.
func (t *tuner) measure(tuning kernels.Tuning, matrices []kernels.Matrix) error {
	return t.file.write(func() map[string]int {
		begin := time.Now()
		tuning.Tune(tuningTime, matrices...)
		t.logger.Debug("products tuned", "took", time.Since(begin).Round(time.Millisecond), "file", t.file.path)
		return tuning
	})
}

// processorName tells processors apart: what the system says about the first one, and the kernels that it can run.
func processorName() string {
	name := []string{runtime.GOARCH, strings.Join(kernels.Implementations(), "; ")}
	about, err := os.Open("/proc/cpuinfo") // of which only the beginning is read: the system writes it anew, and at length, for many processors
	if err != nil {
		return strings.Join(name, "; ")
	}
	defer about.Close()
	for lines := bufio.NewScanner(about); lines.Scan() && lines.Text() != ""; {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch strings.TrimSpace(key) {
		case "model name", "cpu family", "model", "stepping", "cache size", "CPU implementer", "CPU part":
			name = append(name, strings.TrimSpace(value))
		}
	}
	return strings.Join(name, "; ")
}
