package main

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/translator/vocab"
)

func newEncodeCommand() *cobra.Command {
	var path, format string
	group := newGroup("Options")
	addVocab(group, &path)
	group.flags.StringVar(&format, "output-format", string(asPieces), "piece or id")
	command := &cobra.Command{
		Use:   "encode --vocab VOCABULARY [FILE]",
		Short: "Divide text into pieces, as spm_encode does",
		Args:  atMostOneText,
		RunE: func(command *cobra.Command, arguments []string) error {
			v, err := vocabAndFormat(path, pieceFormat(format), "output-format")
			if err != nil {
				return err
			}
			var ids []int32
			return eachOutputLine(command.Context(), textOf(arguments), command.OutOrStdout(), func(w *bufio.Writer, _ int, line string) error {
				words := v.EncodePieces
				if pieceFormat(format) == asIDs {
					words = func(line string) []string {
						ids = v.Encode(line, ids[:0])
						return numbers(ids)
					}
				}
				_, err := w.WriteString(strings.Join(words(line), " ") + "\n")
				return outputFailure(err)
			})
		},
	}
	addGroups(command, group)
	return command
}

func newDecodeCommand() *cobra.Command {
	var path, format string
	group := newGroup("Options")
	addVocab(group, &path)
	group.flags.StringVar(&format, "input-format", string(asPieces), "piece or id")
	command := &cobra.Command{
		Use:   "decode --vocab VOCABULARY [FILE]",
		Short: "Join pieces to text, as spm_decode does",
		Args:  atMostOneText,
		RunE: func(command *cobra.Command, arguments []string) error {
			v, err := vocabAndFormat(path, pieceFormat(format), "input-format")
			if err != nil {
				return err
			}
			text := textOf(arguments)
			return eachOutputLine(command.Context(), text, command.OutOrStdout(), func(w *bufio.Writer, number int, line string) error {
				ids, err := idsOf(v, line, pieceFormat(format))
				if err != nil {
					return inputError{fmt.Errorf("%s, line %d: %w", displayName(text), number, err)}
				}
				_, err = w.Write(append(v.Decode(ids, w.AvailableBuffer()), '\n'))
				return outputFailure(err)
			})
		},
	}
	addGroups(command, group)
	return command
}

func addVocab(group flagGroup, path *string) {
	group.flags.StringVar(path, "vocab", "", "`FILE` with the vocabulary")
}

func atMostOneText(command *cobra.Command, arguments []string) error {
	if len(arguments) > 1 {
		return usageErrorf("%s takes one text, or standard input", command.CommandPath())
	}
	return nil
}

func textOf(arguments []string) string {
	if len(arguments) == 0 {
		return "-"
	}
	return arguments[0]
}

func vocabAndFormat(path string, format pieceFormat, option string) (vocab.Vocabulary, error) {
	if path == "" {
		return nil, usageErrorf("--vocab is needed")
	}
	if err := format.check(option); err != nil {
		return nil, err
	}
	return openVocabulary(path)
}

func outputFailure(err error) error {
	if err != nil {
		return outputError{err}
	}
	return nil
}

func numbers(ids []int32) []string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.Itoa(int(id))
	}
	return words
}

// idsOf reads a line of pieces or ids. A piece that the vocabulary does not have is the unknown one.
func idsOf(v vocab.Vocabulary, line string, format pieceFormat) ([]int32, error) {
	var ids []int32
	for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == ' ' }) {
		if format == asPieces {
			id, _ := v.ID(word)
			ids = append(ids, id)
			continue
		}
		id, err := strconv.ParseInt(word, 10, 32)
		if err != nil || id < 0 || int(id) >= v.Size() {
			return nil, fmt.Errorf("%q is not an id of the vocabulary, which has 0 to %d", word, v.Size()-1)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}
