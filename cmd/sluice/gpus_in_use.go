package main

import (
	"fmt"

	"github.com/sluice-mt/sluice/kernels"
)

// A gpuInUse says how a GPU is kept busy.
type gpuInUse struct {
	Name     string `json:"name"`
	Device   string `json:"device"` // what it says of itself
	Streams  int    `json:"streams"`
	Slots    int    `json:"slots"` // of each stream
	Products string `json:"products"`
}

func (u gpuInUse) String() string {
	return fmt.Sprintf("%s, streams: %d, slots of each: %d, products by %s", u.Device, u.Streams, u.Slots, u.Products)
}

// gpusInUse are the GPUs that translate; none if the processor does.
func (p *engineParts) gpusInUse() (all []gpuInUse) {
	for i, d := range p.config.Devices {
		g := p.models.gpus[i]
		all = append(all, gpuInUse{Name: d.Name, Device: g.device.Properties().String(), Streams: d.Workers, Slots: d.Slots, Products: g.multiplied()})
	}
	return all
}

// multiplying names what computes: the kernels of the processor, or the GPUs.
func (p *engineParts) multiplying() (names []string) {
	for _, g := range p.gpusInUse() {
		names = append(names, fmt.Sprintf("%s: %v", g.Name, g))
	}
	if len(names) == 0 {
		return kernels.Implementations()
	}
	return names
}

// slots is how many hypotheses all workers decode at a time.
func (p *engineParts) slots() (n int) {
	if len(p.config.Devices) == 0 {
		return p.config.Batching.Workers * p.config.Batching.Slots
	}
	for _, d := range p.config.Devices {
		n += d.Workers * d.Slots
	}
	return n
}
