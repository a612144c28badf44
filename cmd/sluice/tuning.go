package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/kernels"
)

const (
	// tuningTime is about how long a model is measured on a machine that has not seen its like.
	tuningTime = 200 * time.Millisecond
	// tuningVersion changes with the variants there are, of which old measurements say nothing.
	tuningVersion = 1
	// maxTuningBytes bounds the file that is read: a shape takes some 30 bytes.
	maxTuningBytes = 1 << 20
)

// A tuner has matrices multiplied in the way that was found fastest on this processor. What has been measured is in a file for each kind
// of processor, in the user's cache folder. Without such a folder nothing is measured, or it would be at each start.
type tuner struct {
	path      string
	processor string
	logger    *slog.Logger
}

// tuned is the content of the file.
type tuned struct {
	Version   int            `json:"version"`
	Processor string         `json:"processor"`
	From      kernels.Tuning `json:"two_panels_from_rows"`
}

// newTuner returns the tuner of this processor, nil if there is no place for what it finds.
func newTuner(logger *slog.Logger) *tuner {
	folder, err := os.UserCacheDir()
	if err != nil {
		logger.Debug("products are not tuned", "error", err)
		return nil
	}
	processor := processorName()
	name := fmt.Sprintf("kernels-%x.json", sha256.Sum256([]byte(processor)))
	return &tuner{filepath.Join(folder, "sluice", name[:len("kernels-")+12]+".json"), processor, logger}
}

// tune chooses how matrices are multiplied, and measures it if the file does not say. A nil tuner leaves them as they are.
func (t *tuner) tune(matrices []kernels.Matrix) {
	if t == nil {
		return
	}
	tuning := t.read()
	if tuning.Knows(matrices...) {
		tuning.Tune(0, matrices...)
		return
	}
	file, err := t.create()
	if err != nil {
		t.logger.Debug("products are not tuned", "error", err)
		return
	}
	begin := time.Now()
	tuning.Tune(tuningTime, matrices...)
	t.logger.Debug("products tuned", "took", time.Since(begin).Round(time.Millisecond), "file", t.path)
	if err := t.write(file, tuning); err != nil {
		t.logger.Debug("what was tuned is not remembered", "error", err)
	}
}

// read returns what is known, nothing if the file cannot be understood: it is written anew then.
func (t *tuner) read() kernels.Tuning {
	file, err := os.Open(t.path)
	if err != nil {
		return kernels.Tuning{}
	}
	defer file.Close()
	var known tuned
	err = json.NewDecoder(io.LimitReader(file, maxTuningBytes)).Decode(&known)
	if err != nil || known.Version != tuningVersion || known.Processor != t.processor || known.From == nil {
		return kernels.Tuning{}
	}
	return known.From
}

// create opens a new file beside that of the tuner.
func (t *tuner) create() (*os.File, error) {
	folder, name := filepath.Split(t.path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	return os.CreateTemp(folder, name+".*.tmp")
}

// write puts the file in its place at once, so that no other process reads half of it. Of two that measure at a time, the last one stays.
func (t *tuner) write(file *os.File, tuning kernels.Tuning) error {
	encoder := json.NewEncoder(file)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(tuned{tuningVersion, t.processor, tuning})
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(file.Name(), t.path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
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
