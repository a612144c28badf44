package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/translator/marian"
)

// convertFlags say how a model is to be stored.
type convertFlags struct {
	to        string
	family    string
	as        string
	eight     string
	calibrate string
	batch     int
	vocabs    []string
	overwrite bool
}

func newConvertModelCommand() *cobra.Command {
	var f convertFlags
	storage, calibration, output := newGroup("Storage options"), newGroup("Calibration options"), newGroup("Output options")
	storage.flags.StringVar(&f.to, "to", "", "format of OUTPUT: npz or bin (default by its suffix)")
	storage.flags.StringVar(&f.family, "family", "browsermt",
		"the Marian that shall read a .bin: browsermt (bergamot, Firefox) or mainline (marian-nmt)")
	storage.flags.StringVar(&f.as, "type", "",
		"type of the weights: float32, float16, int8, int16 or 4bit (default as they are stored; float32 for npz, which has none but the first two)")
	storage.flags.StringVar(&f.eight, "in-8-bits", marian.EightBitsAuto,
		"rows that a 4bit model keeps in 8 bits: MATRIX:ROWS for the first rows, MATRIX for all, several with commas, with * in names; auto for as many rows of embeddings and output layers as leave a seventh of the size in float32; none")
	calibration.flags.StringVar(&f.calibrate, "calibrate", "",
		"text in the source language, a thousand lines or so, to derive the alphas of an int8 model from")
	calibration.flags.IntVar(&f.batch, "calibrate-batch", defaultCalibrationBatch,
		"sentences that are translated together: the more, the larger the values that an alpha leaves room for")
	calibration.flags.StringArrayVar(&f.vocabs, "vocab", nil,
		"vocabulary for --calibrate; twice for source and target (default what lies beside INPUT)")
	output.flags.BoolVar(&f.overwrite, "overwrite", false, "replace OUTPUT if it exists")
	command := &cobra.Command{
		Use:   "convert INPUT OUTPUT",
		Short: "Change how a model is stored",
		Long: `Write a model in another format or another type of numbers.

8-bit models may hold an alpha for each product, a fixed multiplier for what meets the weights. Without
them every row of activations gets its own multiplier, which is as fast here and needs no calibration;
browsermt's Marian, bergamot and Firefox run faster with alphas.

4-bit weights are powers of two, half powers included, times a scale for every 64 of them. The first rows of
embeddings, those of the most frequent pieces, stay in 8 bits, as many as leave the file a seventh of the
model in float32 (--in-8-bits). It is read by sluice alone and runs in 8-bit arithmetic. A model loses
some quality, less if it was trained for that (quantize-bits: 4, quantize-log-based: true and
quantize-scales: blocks in the settings of sluice train): then it is stored without loss. So is one that was
trained for whole powers of two with one scale for each matrix, as Marian does.`,
		Example: `  sluice model convert model.npz model.bin --type int8 --calibrate dev.en
  sluice model convert trained4.npz model4.bin --type 4bit
  sluice model convert model.bin.gz model.npz`,
		Args: exactArguments(2, "an input and an output"),
		RunE: func(command *cobra.Command, arguments []string) error {
			return convertModel(command.Context(), arguments[0], arguments[1], f)
		},
	}
	addGroups(command, storage, calibration, output)
	return command
}

// A storage is how a model is to be written.
type storage struct {
	format marian.Format
	family marian.Family
	as     marian.Type // Invalid: as it is stored
	eight  string      // which rows of a 4-bit model are in 8 bits
}

// storage reads the options, for an output of that name.
func (f *convertFlags) storage(output string) (storage, error) {
	var s storage
	to := f.to
	if to == "" {
		to = output[strings.LastIndexByte(output, '.')+1:]
	}
	switch to {
	case "npz":
		s.format = marian.NPZ
	case "bin":
		s.format = marian.Bin
	case "gz", "zst":
		return s, usageErrorf("%s: models are written uncompressed: leave .%s out and compress the result", output, to)
	default:
		return s, usageErrorf("%s: end the name in .npz or .bin, or give --to npz or --to bin", output)
	}
	switch f.family {
	case "browsermt":
		s.family = marian.Browsermt
	case "mainline":
		s.family = marian.Mainline
	default:
		return s, usageErrorf("--family %s: want browsermt or mainline", f.family)
	}
	types := map[string]marian.Type{"": marian.Invalid, "float32": marian.Float32, "float16": marian.Float16,
		"int8": marian.Intgemm8, "int16": marian.Intgemm16, "4bit": marian.Log4}
	as, ok := types[f.as]
	if !ok {
		return s, usageErrorf("--type %s: want float32, float16, int8, int16 or 4bit", f.as)
	}
	s.as, s.eight = as, f.eight
	return s, f.checkCombination(s)
}

// checkCombination refuses what no program could read.
func (f *convertFlags) checkCombination(s storage) error {
	switch {
	case s.format == marian.NPZ && !storable(s.as):
		return usageErrorf("--type %s: an .npz holds float32 or float16 only: write a .bin", f.as)
	case f.eight != "" && f.eight != marian.EightBitsAuto && s.as != marian.Log4:
		return usageErrorf("--in-8-bits is for --type 4bit")
	case f.calibrate == "":
		return nil
	case s.as != marian.Intgemm8:
		return usageErrorf("--calibrate is for --type int8")
	case s.family == marian.Mainline:
		return usageErrorf("--calibrate: mainline Marian has no alphas: leave it out, or give --family browsermt")
	case f.batch < 1 || f.batch > maxCalibrationBatch:
		return usageErrorf("--calibrate-batch %d: want 1 to %d sentences", f.batch, maxCalibrationBatch)
	case len(f.vocabs) > 2:
		return usageErrorf("--vocab was given %d times: once for a shared vocabulary, twice for source and target", len(f.vocabs))
	}
	return nil
}

func convertModel(ctx context.Context, input, output string, f convertFlags) (err error) {
	s, err := f.storage(output)
	if err != nil {
		return err
	}
	if err := checkFree(output, f.overwrite); err != nil {
		return err
	}
	if output, err = fileOf(output); err != nil {
		return err
	}
	found, err := resolveModel(input)
	if err != nil {
		return err
	}
	file, err := marian.Open(found.Model)
	if err != nil {
		return modelError{err}
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var alphas map[string]float32
	if f.calibrate != "" {
		if alphas, err = calibrate(ctx, file, f.calibrate, f.batch, f.vocabularies(found.Source, found.Target)); err != nil {
			return err
		}
	}
	converted, err := s.convert(file, alphas)
	if err != nil {
		return modelError{err}
	}
	return s.write(output, converted)
}

// vocabularies are the two that were given, or else those found beside the model.
func (f *convertFlags) vocabularies(source, target string) [2]string {
	if len(f.vocabs) > 0 {
		return [2]string{f.vocabs[0], f.vocabs[len(f.vocabs)-1]}
	}
	return [2]string{source, target}
}

// convert returns the model with its tensors as the storage wants them.
func (s storage) convert(file *marian.File, alphas map[string]float32) (*marian.File, error) {
	as := s.as
	if as == marian.Invalid {
		as = quantizedType(file)
		if s.format == marian.NPZ && !storable(as) {
			as = marian.Float32
		}
	}
	switch {
	case as == marian.Invalid:
		return file, nil
	case as.In4Bits():
		eight, err := marian.RowsIn8Bits(s.eight, file.Tensors)
		if err != nil {
			return nil, fmt.Errorf("--in-8-bits: %w", err)
		}
		return file.Log4(log4Steps, eight)
	case as.IsIntgemm():
		return file.Quantize(as, s.family, alphas)
	}
	return file.Float(as)
}

// log4Steps is how often the scale of a matrix is fitted when it is converted into 4 bits. It has converged by then.
const log4Steps = 10

// storable says whether an .npz can hold weights of a type.
func storable(as marian.Type) bool { return !as.IsIntgemm() && !as.In4Bits() }

// quantizedType is the type of a model's quantised weights, Invalid if it has none.
func quantizedType(file *marian.File) marian.Type {
	for _, tensor := range file.Tensors {
		if !storable(tensor.Type) && !tensor.IsAlpha() {
			return tensor.Type
		}
	}
	return marian.Invalid
}

func (s storage) write(path string, file *marian.File) error {
	var err error
	if s.format == marian.NPZ {
		err = marian.WriteNPZ(path, file)
	} else {
		err = marian.WriteBin(path, file, s.family)
	}
	if err != nil {
		return outputError{fmt.Errorf("write model: %w", err)}
	}
	return nil
}
