package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-mt/sluice/internal/compress"
)

// scriptCommands are what the scripts use beside testscript's own commands.
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"exits":  scriptExits,
		"bytes":  scriptBytes,
		"repeat": scriptRepeat,
		"pack":   scriptPack,
		"cut":    scriptCut,
		"onlyof": scriptOnlyOf,

		"parquet": scriptParquet,
		"column":  scriptColumn,
	}
}

// exits CODE PROGRAM ARGUMENTS... runs a program that must end with that exit code.
func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// bytes FILE TEXT... writes the texts, in which backslashes mean what they mean in Go, joined without anything between.
func scriptBytes(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), unquoted(ts, args[1:]), 0o666))
}

// repeat FILE COUNT TEXT... writes the texts that many times, by pieces, so that the test itself takes no memory.
func scriptRepeat(ts *testscript.TestScript, _ bool, args []string) {
	count, err := strconv.Atoi(args[1])
	ts.Check(err)
	text := unquoted(ts, args[2:])
	file, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	for block := bytes.Repeat(text, max(1, min(count, 1<<16/len(text)))); count > 0; {
		n := min(count, len(block)/len(text))
		_, err := file.Write(block[:n*len(text)])
		ts.Check(err)
		count -= n
	}
	ts.Check(file.Close())
}

func unquoted(ts *testscript.TestScript, args []string) []byte {
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.Join(args, ""), `"`, `\"`) + `"`)
	ts.Check(err)
	return []byte(text)
}

// pack FILE NAME compresses a file as the new name's ending says.
func scriptPack(ts *testscript.TestScript, _ bool, args []string) {
	content := ts.ReadFile(args[0])
	var packed bytes.Buffer
	frames, err := compress.NewWriter(&packed, compress.BySuffix(args[1]))
	ts.Check(err)
	_, err = frames.Write([]byte(content))
	ts.Check(err)
	ts.Check(frames.Finish(true))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), packed.Bytes(), 0o666))
}

// cut FILE N NAME writes the first N bytes of a file, or all but the last -N.
func scriptCut(ts *testscript.TestScript, _ bool, args []string) {
	content := ts.ReadFile(args[0])
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	if n < 0 {
		n += len(content)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(content[:n]), 0o666))
}

// onlyof FOLDER NAME... checks that a folder holds these files and nothing else: nothing half done was left behind.
func scriptOnlyOf(ts *testscript.TestScript, _ bool, args []string) {
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if want := slices.Sorted(slices.Values(args[1:])); !slices.Equal(names, want) {
		ts.Fatalf("%s holds %q, want %q", args[0], names, want)
	}
}

type parquetRow struct {
	ID   int64  `parquet:"id"`
	Text string `parquet:"text"`
}

type translatedRow struct {
	parquetRow
	Translation string `parquet:"translation"`
}

// parquet FILE TEXT... writes a Parquet file of numbered texts.
func scriptParquet(ts *testscript.TestScript, _ bool, args []string) {
	var rows []parquetRow
	for i, text := range args[1:] {
		rows = append(rows, parquetRow{int64(i), text})
	}
	ts.Check(parquet.WriteFile(ts.MkAbs(args[0]), rows))
}

// column FILE TRANSLATION... checks the translations in a Parquet file, and that its rows have their numbers still.
func scriptColumn(ts *testscript.TestScript, _ bool, args []string) {
	rows, err := parquet.ReadFile[translatedRow](ts.MkAbs(args[0]))
	ts.Check(err)
	var got []string
	for i, row := range rows {
		got = append(got, row.Translation)
		if row.ID != int64(i) {
			ts.Fatalf("row %d has the number %d", i, row.ID)
		}
	}
	if !slices.Equal(got, args[1:]) {
		ts.Fatalf("%s holds %q, want %q", args[0], got, args[1:])
	}
}
