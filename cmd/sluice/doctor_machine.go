package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator"
)

// rootOfSystem is where /proc and /sys are read from.
var rootOfSystem = os.DirFS("/")

// discarded is for what is told by checks instead.
var discarded = slog.New(slog.DiscardHandler)

// machine looks at what does not depend on a job.
func (e *examination) machine() {
	e.processor(kernels.Implementations())
	e.cores(runtime.GOMAXPROCS(0), runtime.NumCPU())
	e.openFiles(openFilesLimit())
	e.gpus(os.Getenv(driverVariable))
}

// processor looks at which kernels were chosen. Others are right as well, and slower.
func (e *examination) processor(chosen []string) {
	found := strings.Join(chosen, "; ")
	switch {
	case strings.Contains(found, "generic"):
		e.warn("processor", found, "many times slower than with AVX2 or NEON: take a machine of the last ten years, and see that SLUICE_CPU is not set")
	case strings.Contains(found, "AVX2") && !strings.Contains(found, "VNNI"):
		e.warn("processor", found, "machines with AVX-512 VNNI or AVX-VNNI (Intel since 2019, AMD since Zen 4) translate faster in 8 bits")
	default:
		e.ok("processor", "%s", found)
	}
}

// cores compares the workers that there will be with the cores of the machine. The Go runtime heeds the quota of a container.
func (e *examination) cores(used, all int) {
	if os.Getenv("GOMAXPROCS") != "" && used > all {
		e.warn("cores", fmt.Sprintf("GOMAXPROCS is %d and there are %d cores", used, all), "leave GOMAXPROCS out: it is found")
		return
	}
	e.ok("cores", "%d of %d may be used", used, all)
}

// leastFiles is how many open files a job of some hundred lanes needs.
const leastFiles = 1024

func (e *examination) openFiles(limit uint64, known bool) {
	switch {
	case !known:
		e.skip("open files", "this system does not tell its limit")
	case limit < leastFiles:
		e.warn("open files", fmt.Sprintf("at most %d", limit), fmt.Sprintf("raise it to %d (ulimit -n, LimitNOFILE=): each lane takes some", leastFiles))
	default:
		e.ok("open files", "at most %d", limit)
	}
}

// memoryGoal is GOMEMLIMIT, 0 if it is not set.
func memoryGoal() int64 {
	if goal := debug.SetMemoryLimit(-1); goal != math.MaxInt64 {
		return goal
	}
	return 0
}

// memory compares what there is with what is needed.
func (e *examination) memory(root fs.FS, goal int64) {
	total, limit := totalMemory(root), memoryLimit(root)
	have := total
	if limit > 0 && (have == 0 || limit < have) {
		have = limit
	}
	if have == 0 {
		e.skip("memory", "this system does not tell how much there is")
		return
	}
	found := fmt.Sprintf("%d MiB", total>>20)
	if have == limit {
		found = fmt.Sprintf("%d MiB, the limit of the control group", limit>>20)
	}
	need := e.resident + e.records + e.lanes
	if e.resident > 0 {
		found += fmt.Sprintf("; about %d MiB are needed (model and engine %d, records %d, lanes %d)", need>>20, e.resident>>20, e.records>>20, e.lanes>>20)
	}
	switch {
	case need > have:
		e.fail(exitFailure, "memory", found, fmt.Sprintf("raise the limit to %d MiB, or lower memory, lanes or translate.cpu-threads in the job", need*5/4>>20))
	case need*5/4 > have:
		e.warn("memory", found, fmt.Sprintf("that leaves little: raise the limit to %d MiB", need*5/4>>20))
	case have == limit && goal == 0:
		e.warn("memory", found, fmt.Sprintf("set GOMEMLIMIT=%dMiB, so that the heap keeps below the limit", limit*4/5>>20))
	default:
		e.ok("memory", "%s", found)
	}
}

// usableMemory is what the process can have, in bytes; 0 if that is not told.
func usableMemory(root fs.FS) int64 {
	total, limit := totalMemory(root), memoryLimit(root)
	if limit > 0 && (total == 0 || limit < total) {
		return limit
	}
	return total
}

// totalMemory is what the machine has, in bytes; 0 if that is not told.
func totalMemory(root fs.FS) int64 {
	content, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// memoryLimit is the least limit of the process's control group and those that it is part of, of both versions; 0 if there is none.
func memoryLimit(root fs.FS) int64 {
	content, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(0)
	for line := range strings.Lines(string(content)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(parts) != 3 {
			continue
		}
		folder, file := "sys/fs/cgroup", "memory.max"
		switch {
		case parts[1] == "memory":
			folder, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case parts[1] != "":
			continue
		}
		for at := path.Join("/", parts[2]); ; at = path.Dir(at) {
			if limit := readLimit(root, path.Join(folder, at, file)); limit > 0 && (least == 0 || limit < least) {
				least = limit
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}

// noLimit is more than any machine has; the first version of control groups writes a number like this where there is no limit.
const noLimit = 1 << 60

func readLimit(root fs.FS, name string) int64 {
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil || limit >= noLimit { // "max"
		return 0
	}
	return limit
}

// model reads a model and translates with it on all cores.
func (e *examination) model(ctx context.Context, options *jobOptions) {
	fail := func(err error) {
		code, advice := exitCode(err), "sluice model verify MODEL tells more"
		if code == exitFailure && len(options.model.devices) > 0 {
			advice = "see what is said of GPUs above"
		}
		e.fail(code, "model", reasonOf(err), advice)
	}
	if err := options.complete(discarded); err != nil {
		fail(err)
		return
	}
	parts, err := buildEngine(ctx, &options.model, &options.search, &options.batch, runtime.GOMAXPROCS(0), discarded)
	if err != nil {
		fail(err)
		return
	}
	defer parts.models.close()
	for _, file := range parts.models.files {
		if !e.weights(file.Path) {
			return
		}
	}
	fingerprint, err := parts.fingerprint()
	if err == nil {
		err = tryEngine(parts)
	}
	if err != nil {
		fail(err)
		return
	}
	e.resident = residentBytes()
	e.ok("model", "translates in %s, made of %s", parts.models.arithmetic(), short(fingerprint))
	e.gpusInUse(options, parts)
}

// weights reads all numbers of a model's file.
func (e *examination) weights(path string) bool {
	result, err := verifyModel(path)
	if err == nil && !result.OK {
		f := result.Findings[0]
		e.fail(exitModel, "model file", fmt.Sprintf("%s: %s: %s", path, f.Where, f.Problem), f.Remedy)
		return false
	}
	if err != nil {
		e.fail(exitCode(err), "model file", reasonOf(err), "")
		return false
	}
	e.ok("model file", "%s: %s numbers in %d tensors", path, grouped(result.Elements), result.Tensors)
	return true
}

// tryEngine translates some sentences for each worker, which makes its buffers as large as they get.
func tryEngine(parts *engineParts) error {
	engine, err := translator.New(parts.config)
	if err != nil {
		return usageError{err}
	}
	defer engine.Close()
	lines := make([]string, 2*parts.slots())
	for i := range lines {
		lines[i] = strings.TrimSpace(strings.Repeat(fmt.Sprintf("%d, ", i), 20))
	}
	if n := len(parts.config.Text.Further); n > 0 {
		for i := range lines {
			lines[i] = strings.TrimSuffix(strings.Repeat(lines[i]+"\t", n+1), "\t")
		}
	}
	if err := translateAll(engine, lines); err != nil {
		return modelError{fmt.Errorf("a trial: %w", err)}
	}
	return nil
}
