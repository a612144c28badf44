package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// steppers are the engine's models.
type steppers struct{ weights *cpumodel.Weights }

// NewSteppers makes a Stepper.
func (s steppers) NewSteppers(slots int) []search.Stepper {
	return []search.Stepper{s.weights.NewStepper(slots)}
}

// A validationEngine translates the validation set, as the model would be used after training.
type validationEngine struct {
	*translator.Engine
	release func() error // of what it has on the device; nil without
	failure error        // of the device; the processor has taken over then
}

// close ends the engine and returns what has become of its device.
func (e *validationEngine) close() error {
	e.Engine.Close()
	if e.release == nil {
		return nil
	}
	return errors.Join(e.failure, e.release())
}

// translate translates the validation set.
func (r *run) translate(ctx context.Context) ([]string, error) {
	engine, err := r.engine()
	if err != nil {
		return nil, fmt.Errorf("translating the validation set: %w", err)
	}
	translations, err := r.translateBy(ctx, engine.Engine)
	failure := engine.close()
	if errors.Is(failure, network.ErrCannotValidate) {
		r.translateHere(failure)
		return r.translate(ctx) // all of it: what the processor took over may have been in other arithmetic
	}
	if failure != nil {
		return nil, &validationError{r.state.Steps, errors.Join(failure, err)}
	}
	return translations, err
}

func (r *run) translateBy(ctx context.Context, engine *translator.Engine) ([]string, error) {
	sources := r.validator.sources
	translations, results := make([]string, len(sources)), make(chan error, len(sources))
	for i, text := range sources {
		engine.Submit(job.Segment{Text: text, Done: func(result job.Result) {
			if result.Err == nil && len(result.Hypotheses) > 0 {
				translations[i] = result.Hypotheses[0].Text
			}
			results <- result.Err
		}})
	}
	engine.Flush()
	for range sources {
		select {
		case err := <-results:
			if err != nil {
				return nil, fmt.Errorf("translating the validation set: %w", err)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrInterrupted, ctx.Err())
		}
	}
	return translations, nil
}

// translateHere lets the processor translate from now on.
func (r *run) translateHere(reason error) {
	r.logger.Warn("the validation set is translated on the CPU", "reason", reason)
	r.validator.translationsHere = true
}

// engine returns an engine on the device, if there is one that can, or else on the processor.
func (r *run) engine() (*validationEngine, error) {
	file, precision, err := r.runnable()
	if err != nil {
		return nil, err
	}
	m, err := model.Load(file, nil)
	if err != nil {
		return nil, err
	}
	config := translator.Config{
		Text: translator.Text{
			Source: r.source, Further: r.further, Target: r.target, RightLeft: m.RightLeft, MaxLength: r.config.ValidMaxLength, Crop: true,
		},
		Search:   search.Options{Beam: r.config.BeamSize, Normalize: float32(r.config.Normalize), MaxLengthFactor: 3},
		Batching: translator.Batching{Workers: r.config.CPUThreads},
	}
	if r.device != nil && !r.validator.translationsHere {
		engine, err := r.engineOnDevice(config, m, precision == cpumodel.Int8)
		if !errors.Is(err, network.ErrCannotValidate) {
			return engine, err
		}
		r.translateHere(err)
	}
	if config.Models, err = r.packed(m, precision); err != nil {
		return nil, err
	}
	engine, err := translator.New(config)
	return &validationEngine{Engine: engine}, err
}

// packed returns a model for the processor.
func (r *run) packed(m *model.Model, precision cpumodel.Precision) (translator.Models, error) {
	weights, err := cpumodel.Load(m, precision, cpumodel.Options{Suppress: r.target.Suppressed()})
	return steppers{weights}, err
}

// sortedPerSlot is how many sentences are sorted together for each slot of a device: enough for mini-batches of like lengths.
const sortedPerSlot = 4

// engineOnDevice returns an engine on the device. What overflows there, and everything after it has failed, the processor translates.
func (r *run) engineOnDevice(config translator.Config, m *model.Model, inBytes bool) (*validationEngine, error) {
	device, release, err := r.device.Translate(m, inBytes, r.target.Suppressed())
	if err != nil {
		return nil, r.ofValidation(err)
	}
	e := &validationEngine{release: release}
	config.Devices = []translator.Device{device}
	config.Batching.MaxiBatch = sortedPerSlot * device.Slots
	config.Precise = func() (translator.Models, error) { return r.packed(m, cpumodel.Float32) }
	config.OnFailure = func(f translator.Failure) {
		r.logger.Debug("the device has failed while it translated the validation set", "slots", f.Slots, "reason", f.Err)
		if f.Last {
			e.failure = cannotValidate(&device, f.Err)
		}
	}
	if e.Engine, err = translator.New(config); err != nil {
		return nil, errors.Join(r.ofValidation(cannotValidate(&device, err)), release())
	}
	return e, nil
}

// cannotValidate says of an error of a device that translates if it has no memory left for that.
func cannotValidate(d *translator.Device, err error) error {
	if d.Fits(err) {
		return fmt.Errorf("%w: %w", network.ErrCannotValidate, err)
	}
	return err
}

// ofValidation makes an error of the device one of validation, unless the processor can validate.
func (r *run) ofValidation(err error) error {
	if errors.Is(err, network.ErrCannotValidate) {
		return err
	}
	return &validationError{r.state.Steps, err}
}
