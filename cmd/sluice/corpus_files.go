package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/train/corpus"
)

// corpusInput says where sentence pairs come from: two texts, a table, or for commands that take it one text alone.
type corpusInput struct {
	source, target, tsv, text string
}

func (in *corpusInput) addPair(flags *pflag.FlagSet) {
	flags.StringVar(&in.source, "source", "", "source `FILE`, one sentence on each line, compressed or not")
	flags.StringVar(&in.target, "target", "", "target `FILE`")
	flags.StringVar(&in.tsv, "tsv", "", "instead a `FILE` of source, tab and target on each line; - is standard input")
}

func (in *corpusInput) addText(flags *pflag.FlagSet) {
	flags.StringVar(&in.text, "text", "", "instead a `FILE` of one language; - is standard input")
}

func (in *corpusInput) check(command string) error {
	ways := 0
	for _, given := range []bool{in.source != "" || in.target != "", in.tsv != "", in.text != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways > 1:
		return usageErrorf("%s takes one corpus: --source and --target, or one file", command)
	case ways == 0, (in.source == "") != (in.target == ""):
		return usageErrorf("%s needs --source and --target, or --tsv (see sluice %s --help)", command, command)
	case in.source == "-" && in.target == "-":
		return usageErrorf("standard input cannot be both sides: use --tsv")
	}
	return nil
}

// paths are all that may be named; empty ones are not.
func (in *corpusInput) paths() []string { return []string{in.source, in.target, in.tsv, in.text} }

// name is what the corpus is called in messages.
func (in *corpusInput) name() string {
	if in.source != "" {
		return displayName(in.source) + " and " + displayName(in.target)
	}
	return displayName(in.tsv + in.text)
}

// single tells whether there is no target side.
func (in *corpusInput) single() bool { return in.text != "" }

// each calls f for every line, until the first error.
func (in *corpusInput) each(ctx context.Context, f func(corpus.Pair) error) (err error) {
	paths := []string{in.source, in.target}
	if in.source == "" {
		paths = []string{in.tsv + in.text}
	}
	var files []*lineReader
	defer func() {
		for _, file := range files {
			err = errors.Join(err, file.Close())
		}
	}()
	for _, path := range paths {
		file, err := openLines(path)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	for {
		if ctx.Err() != nil {
			return errInterrupted
		}
		pair, err := in.next(files)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = f(pair)
		}
		if err != nil {
			return err
		}
	}
}

// next reads a line of every file.
func (in *corpusInput) next(files []*lineReader) (corpus.Pair, error) {
	first, err := files[0].next()
	if err != nil && err != io.EOF {
		return corpus.Pair{}, err
	}
	if in.tsv != "" && err == nil {
		fields := strings.SplitN(first, "\t", 3)
		if len(fields) < 2 {
			return corpus.Pair{}, inputError{fmt.Errorf("%s, line %d: there is no tab between source and target", displayName(in.tsv), files[0].count)}
		}
		return corpus.Pair{Source: fields[0], Target: fields[1], Rest: strings.Join(fields[2:], "")}, nil
	}
	if len(files) == 1 {
		return corpus.Pair{Source: first}, err
	}
	second, secondErr := files[1].next()
	switch {
	case secondErr != nil && secondErr != io.EOF:
		return corpus.Pair{}, secondErr
	case err != secondErr: // one of them has ended
		return corpus.Pair{}, unequalLines(files[0], files[1])
	}
	return corpus.Pair{Source: first, Target: second}, err
}

// unequalLines reads both files to their ends, to say how long they are.
func unequalLines(files ...*lineReader) error {
	for _, file := range files {
		for {
			if _, err := file.next(); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
		}
	}
	return inputError{fmt.Errorf("%s has %d lines and %s has %d: they must be translations of each other, line by line",
		displayName(files[0].path), files[0].count, displayName(files[1].path), files[1].count)}
}

// writeTo writes a file as writeFile does, and "-" to standard output.
func writeTo(stdout io.Writer, path string, write func(io.Writer) error) error {
	if path != "-" {
		return writeFile(path, write)
	}
	buffered := bufio.NewWriterSize(stdout, 1<<16)
	err := write(buffered)
	if flushErr := buffered.Flush(); flushErr != nil {
		err = errors.Join(err, outputError{flushErr})
	}
	return err
}
