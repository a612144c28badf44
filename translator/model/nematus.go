package model

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-mt/sluice/translator/marian"
)

// nematusMarker is a tensor that files of types nematus and amun have when their parameters go by the names of Nematus.
const nematusMarker = "decoder_c_tt"

// leftovers are tensors of such files that are no parameters.
var leftovers = map[string]bool{nematusMarker: true, "uidx": true, "history_errs": true}

// nematusNames maps names of Nematus to ours, by their beginnings: what follows W, U and b is the same in both.
var nematusNames = map[string]string{
	"decoder_U": "decoder_cell1_U", "decoder_Ux": "decoder_cell1_Ux",
	"decoder_W": "decoder_cell1_W", "decoder_Wx": "decoder_cell1_Wx",
	"decoder_b": "decoder_cell1_b", "decoder_bx": "decoder_cell1_bx",
	"decoder_U_nl": "decoder_cell2_U", "decoder_Ux_nl": "decoder_cell2_Ux",
	"decoder_Wc": "decoder_cell2_W", "decoder_Wcx": "decoder_cell2_Wx",
	"decoder_b_nl": "decoder_cell2_b", "decoder_bx_nl": "decoder_cell2_bx",
	"encoder_U": "encoder_bi_U", "encoder_Ux": "encoder_bi_Ux", "encoder_W": "encoder_bi_W", "encoder_Wx": "encoder_bi_Wx",
	"encoder_b": "encoder_bi_b", "encoder_bx": "encoder_bi_bx",
	"encoder_r_U": "encoder_bi_r_U", "encoder_r_Ux": "encoder_bi_r_Ux", "encoder_r_W": "encoder_bi_r_W", "encoder_r_Wx": "encoder_bi_r_Wx",
	"encoder_r_b": "encoder_bi_r_b", "encoder_r_bx": "encoder_bi_r_bx",
	"encoder_gamma1": "encoder_bi_gamma1", "encoder_gamma2": "encoder_bi_gamma2",
	"encoder_r_gamma1": "encoder_bi_r_gamma1", "encoder_r_gamma2": "encoder_bi_r_gamma2",
	"ff_logit_prev_W": "decoder_ff_logit_l1_W0", "ff_logit_lstm_W": "decoder_ff_logit_l1_W1", "ff_logit_ctx_W": "decoder_ff_logit_l1_W2",
	"ff_logit_prev_b": "decoder_ff_logit_l1_b0", "ff_logit_lstm_b": "decoder_ff_logit_l1_b1", "ff_logit_ctx_b": "decoder_ff_logit_l1_b2",
	"ff_logit_prev_ln_s": "decoder_ff_logit_l1_ln_s0", "ff_logit_lstm_ln_s": "decoder_ff_logit_l1_ln_s1", "ff_logit_ctx_ln_s": "decoder_ff_logit_l1_ln_s2",
	"ff_logit_prev_ln_b": "decoder_ff_logit_l1_ln_b0", "ff_logit_lstm_ln_b": "decoder_ff_logit_l1_ln_b1", "ff_logit_ctx_ln_b": "decoder_ff_logit_l1_ln_b2",
	"ff_logit_l1_gamma0": "decoder_ff_logit_l1_gamma0", "ff_logit_l1_gamma1": "decoder_ff_logit_l1_gamma1", "ff_logit_l1_gamma2": "decoder_ff_logit_l1_gamma2",
	"ff_logit_W": "decoder_ff_logit_l2_W", "ff_logit_b": "decoder_ff_logit_l2_b",
	"ff_state_W": "decoder_ff_state_W", "ff_state_b": "decoder_ff_state_b", "ff_state_gamma": "decoder_ff_state_gamma",
	"ff_state_ln_s": "decoder_ff_state_ln_s", "ff_state_ln_b": "decoder_ff_state_ln_b",
}

// fromNematus returns our name of a parameter, which is its own if it is not one of Nematus.
func (a *Architecture) fromNematus(name string) string {
	switch name {
	case "Wemb":
		return a.sourceEmbedding()
	case "Wemb_dec":
		return a.targetEmbedding()
	}
	if name, ending, ok := cutNorm(name); ok && (strings.HasPrefix(name, "encoder") || strings.HasPrefix(name, "decoder")) {
		return a.fromNematus(name) + ending
	}
	if ours := nematusNames[name]; ours != "" {
		return ours
	}
	if ours, ok := deepCell(name); ok {
		return ours
	}
	return name
}

// cutNorm cuts the ending of a norm's parameters off.
func cutNorm(name string) (rest, ending string, ok bool) {
	for _, ending := range []string{"_lns", "_lnb"} {
		if rest, ok := strings.CutSuffix(name, ending); ok {
			return rest, ending, true
		}
	}
	return name, "", false
}

// deepCell translates the names of deep transitions: encoder_U_drt_1 and decoder_Ux_nl_drt_2 are those of the second cell of
// the encoder and the fourth of the decoder.
func deepCell(name string) (string, bool) {
	base, digits, ok := strings.Cut(name, "_drt_")
	number, err := strconv.Atoi(digits)
	if !ok || err != nil || number < 1 || number > maxDepth {
		return "", false
	}
	for _, side := range nematusSides {
		rest, isSide := strings.CutPrefix(base, side.theirs)
		part, isCell := strings.CutSuffix(rest, side.ending)
		if isSide && isCell && isDeepPart(part) {
			return side.ours + strconv.Itoa(number+side.first) + "_" + part, true
		}
	}
	return "", false
}

// toNematus returns the name that Nematus has for one of ours, which is our own if it has none.
func (a *Architecture) toNematus(name string) string {
	switch name {
	case a.sourceEmbedding():
		return "Wemb"
	case a.targetEmbedding():
		return "Wemb_dec"
	}
	if base, ending, ok := cutNorm(name); ok {
		if their := a.toNematus(base); strings.HasPrefix(their, "encoder") || strings.HasPrefix(their, "decoder") {
			return their + ending
		}
		return name
	}
	for their, ours := range nematusNames {
		if ours == name {
			return their
		}
	}
	return nematusCell(name)
}

// nematusCell is the reverse of deepCell.
func nematusCell(name string) string {
	for _, side := range nematusSides {
		rest, isSide := strings.CutPrefix(name, side.ours)
		digits, part, isCell := strings.Cut(rest, "_")
		number, err := strconv.Atoi(digits)
		if isSide && isCell && err == nil && number > side.first && isDeepPart(part) {
			return side.theirs + part + side.ending + "_drt_" + strconv.Itoa(number-side.first)
		}
	}
	return name
}

// nematusSides are the beginnings, and the endings, of the names of cells of deep transitions, of which the first in Nematus' count
// follows the first in ours.
var nematusSides = []struct {
	theirs, ending, ours string
	first                int
}{
	{"encoder_r_", "", "encoder_bi_r_cell", 1}, {"encoder_", "", "encoder_bi_cell", 1}, {"decoder_", "_nl", "decoder_cell", 2},
}

func isDeepPart(part string) bool { return part == "U" || part == "Ux" || part == "b" || part == "bx" }

// translate lets the parameters of a file that has Nematus' names be found by ours.
func (b *binder) translate(a *Architecture, file *marian.File) {
	if a.Type != typeNematus && a.Type != typeAmun || b.tensors[nematusMarker] == nil {
		return
	}
	for _, t := range file.Tensors {
		if ours := a.fromNematus(t.Name); b.tensors[ours] == nil {
			b.tensors[ours] = t
		}
	}
}

// marker returns the tensor that says that a file has Nematus' names, if it does.
func (a *Architecture) marker(file *marian.File) *marian.Tensor {
	if a.Type != typeNematus && a.Type != typeAmun {
		return nil
	}
	for _, t := range file.Tensors {
		if t.Name == nematusMarker {
			return t
		}
	}
	return nil
}

// withoutLeftovers drops what is in files with Nematus' names beside parameters.
func withoutLeftovers(unknown []string) []string {
	return slices.DeleteFunc(unknown, func(name string) bool { return leftovers[name] })
}
