package translator

import (
	"testing"

	"github.com/sluice-mt/sluice/translator/batch"
)

// What a user asks for goes before what suits the device, and that before what suits the processor.
func TestTopUpOfDevices(t *testing.T) {
	for _, c := range []struct{ asked, device, want float64 }{
		{0, 0, batch.ProcessorTopUp}, {0, 0.25, 0.25}, {1, 0.25, 1}, {0.1, 0, 0.1}, {-1, 0.25, 0.25}, {2, 0, batch.ProcessorTopUp},
	} {
		d := Device{TopUp: c.device}
		if got := d.topUp(Batching{TopUp: c.asked}.Automatic(1)); got != c.want {
			t.Errorf("%v asked for, %v suits the device: refilled at %v, not %v", c.asked, c.device, got, c.want)
		}
	}
}
