package main

import (
	"fmt"
	"os"

	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/search"
)

// stuckPlace is the environment variable that says where sluice-stuck hangs as a device may: while it is loaded, or in a step.
const stuckPlace = "SLUICE_TEST_STUCK"

// nowStuck is what sluice-stuck says then.
const nowStuck = "stuck\n"

// beginStuck begins an engine with a device that never comes back.
func beginStuck(config translator.Config) (liveTranslator, error) {
	if os.Getenv(stuckPlace) == "load" {
		hang()
	}
	models := config.Models
	config.Devices = []translator.Device{{Name: "stuck", Open: func(slots int) ([]search.Stepper, error) {
		steppers := models.NewSteppers(slots)
		for i := range steppers {
			steppers[i] = stuckStepper{steppers[i]}
		}
		return steppers, nil
	}}}
	return translator.New(config)
}

// A stuckStepper never comes back from a step.
type stuckStepper struct{ search.Stepper }

func (stuckStepper) Step([]search.Slot, []search.Token, bool) { hang() }

func hang() {
	fmt.Fprint(os.Stderr, nowStuck)
	select {}
}
