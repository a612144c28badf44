package train

import "github.com/sluice-mt/sluice/translator/model"

// marianVersion is the version of Marian whose definitions trained models follow: it decides what "gelu" means.
const marianVersion = "v1.12.43 (written by sluice)"

// defaultArchitecture describes a transformer with the defaults of Marian's command line, but for the number of layers, which is
// that of Vaswani et al. 2017.
func defaultArchitecture() model.Description {
	d := model.DefaultDescription()
	d.Type, d.EncDepth, d.DecDepth = "transformer", 6, 6
	return d
}

// describe returns the YAML that the model file embeds.
func describe(d model.Description, vocabularies []int) ([]byte, error) {
	d.DimVocabs, d.Version = vocabularies, marianVersion
	return d.YAML()
}
