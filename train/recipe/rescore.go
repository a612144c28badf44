package recipe

import "path/filepath"

// Rescore ranks n-best lists anew: what further models, such as ones from right to left and language models, think of each
// translation is a feature beside what those that made the list think, and the weights of all are tuned.
type Rescore struct {
	Text       string   `yaml:"text" desc:"What was translated: lines, or a corpus (.tsv), whose sources are taken."`
	List       string   `yaml:"list" desc:"Its n-best list, as a translate step with n-best writes it."`
	Models     []string `yaml:"models" desc:"The models that score, each a feature. A pattern stands for all models of the recipe that match."`
	TuneCorpus string   `yaml:"tune-corpus" desc:"Sentence pairs to tune weights with. Without them every feature counts once."`
	TuneList   string   `yaml:"tune-list" desc:"The n-best list of their sources, by the same models as list."`
	Metric     string   `yaml:"metric" oneof:"bleu chrf" desc:"What weights are tuned for. Default bleu."`
	Weights    string   `yaml:"weights" desc:"The tuned weights to write, as sluice rescore --config reads them."`
	To         string   `yaml:"to" desc:"The best translations to write."`
}

func (r *Rescore) inputs() []string {
	return append([]string{r.Text, r.List, r.TuneCorpus, r.TuneList}, r.Models...)
}

func (r *Rescore) outputs() []string {
	if r.Weights == "" {
		return []string{r.To}
	}
	return []string{r.To, r.Weights}
}

func (r *Rescore) check(c *checking) {
	c.need(map[string]bool{"text": r.Text != "", "list": r.List != "", "models": len(r.Models) > 0, "to": r.To != ""})
	c.corpus("tune-corpus", r.TuneCorpus)
	if (r.TuneCorpus == "") != (r.TuneList == "") {
		c.at("", "tune-corpus and tune-list belong together")
	}
	if r.TuneCorpus == "" && (r.Weights != "" || r.Metric != "") {
		c.at("", "weights and metric are for tuning: tune-corpus is missing")
	}
}

func (r *Rescore) run(w *work) error {
	output, err := w.output(r.To)
	if err != nil {
		return err
	}
	task := Rescoring{
		Models: w.paths(r.Models), Vocabularies: w.direction(false), List: w.input(r.List), Source: w.input(r.Text), Metric: r.Metric,
		Folder: w.scratch, Output: output, Logger: w.logger, Progress: w.progress,
	}
	if isCorpus(r.Text) {
		paths := []string{filepath.Join(w.scratch, "source"), filepath.Join(w.scratch, "target")}
		if err := writeSides([]string{task.Source}, paths, false); err != nil {
			return err
		}
		task.Source = paths[0]
	}
	if r.TuneCorpus != "" {
		task.TuneList = w.input(r.TuneList)
		task.TuneSource, task.TuneReference = filepath.Join(w.scratch, "tune.source"), filepath.Join(w.scratch, "tune.target")
		if err := writeSides([]string{w.input(r.TuneCorpus)}, []string{task.TuneSource, task.TuneReference}, false); err != nil {
			return err
		}
		task.Weights = filepath.Join(w.scratch, "weights.yml")
	}
	if r.Weights != "" {
		if task.Weights, err = w.output(r.Weights); err != nil {
			return err
		}
	}
	return w.engine.Rescore(w.ctx, task)
}
