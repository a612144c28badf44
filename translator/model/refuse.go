package model

import "strings"

const (
	remedyMarian = "translate with marian-decoder, or distil the model into a transformer student"
	remedyPlain  = "train the student without it, or use marian-decoder"
)

// refuse returns an error if the description is of an architecture that is not supported.
func (c *Description) refuse() error {
	if err := refuseType(c.Type); err != nil {
		return err
	}
	switch {
	case c.FactorsDimEmb != 0 || c.LemmaDimEmb != 0 || c.LemmaDependency != "":
		return unsupported("use plain SentencePiece vocabularies, or marian-decoder", "factored vocabularies")
	case c.ULR:
		return unsupported(remedyPlain, "ulr (universal language representation)")
	case c.Pool:
		return unsupported(remedyPlain, "transformer-pool instead of attention to the source")
	case c.AttentionMask != "default" && c.AttentionMask != "":
		return unsupported(remedyPlain, "transformer-attention-mask: %s", c.AttentionMask)
	case c.TrainPositions:
		return unsupported(remedyPlain, "transformer-train-positions: trained position embeddings")
	}
	return nil
}

// refuseType returns an error unless models of the type are supported.
func refuseType(name string) error {
	switch {
	case name == typeTransformer || name == typeLM || name == typeMulti || name == typeSharedMulti || isRecurrent(name):
		return nil
	case name == "transformer-new":
		return unsupported(remedyMarian, "type: transformer-new, the experimental framework of layers")
	case name == "char-s2s":
		return unsupported(remedyMarian, "type: char-s2s, a model of characters")
	case name == "transformer_s2s":
		return unsupported(remedyMarian, "type: %s, a transformer with a recurrent decoder", name)
	case strings.HasPrefix(name, "bert"):
		return unsupported("it does not translate", "type: %s, a classifier or masked language model", name)
	case strings.HasPrefix(name, "comet") || name == "bleurt":
		return unsupported("evaluate with marian evaluate", "type: %s, a metric", name)
	case strings.HasPrefix(name, "laser"):
		return unsupported("it does not translate", "type: %s, a sentence embedder", name)
	}
	return unsupported(remedyMarian, "type: %s", name)
}
