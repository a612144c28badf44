package gpumodel

import (
	"errors"
	"fmt"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A Device is a GPU with its kernels loaded.
type Device struct {
	context    *cuda.Context
	kernels    *gpukernels.Kernels
	properties cuda.Properties
	as         gpukernels.Arithmetic
	blas       *cuda.BLAS // nil if there is none, or it was not asked for
	closes     int        // how often Close is still to be called
}

// Open takes a device of a driver, numbered from 0, and loads the kernels that compute in float16.
func Open(driver *cuda.Driver, number int) (*Device, error) {
	return OpenFor(driver, number, gpukernels.Arithmetic{})
}

// OpenFor is Open for another arithmetic.
func OpenFor(driver *cuda.Driver, number int, as gpukernels.Arithmetic) (*Device, error) {
	properties, err := driver.Properties(number)
	if err != nil {
		return nil, err
	}
	if err := as.Check(driver, properties); err != nil {
		return nil, err
	}
	context, err := driver.Context(number)
	if err != nil {
		return nil, err
	}
	d := &Device{context: context, properties: properties, as: as, closes: 1}
	if err := d.bound(func() (err error) {
		d.kernels, err = gpukernels.Load(driver, number, context, as)
		return err
	}); err != nil {
		context.Close()
		return nil, err
	}
	return d, nil
}

// Properties are what the device says of itself.
func (d *Device) Properties() cuda.Properties { return d.properties }

// Share lets one more user close the device, which is given back with the last one. It reports false if it has been given back already. One
// goroutine at a time may share and close a device.
func (d *Device) Share() bool {
	if d.closes == 0 {
		return false
	}
	d.closes++
	return true
}

// Close gives the device back, if no other user has it. All Weights and Steppers of the user must be closed before.
func (d *Device) Close() error {
	if d.closes--; d.closes > 0 {
		return nil
	}
	if err := d.bound(func() error { return errors.Join(d.closeBLAS(), d.kernels.Close()) }); err != nil {
		return fmt.Errorf("give the GPU back: %w", err)
	}
	return d.context.Close()
}

// bound runs work on a thread that has the device's context.
func (d *Device) bound(work func() error) error {
	release, err := d.context.Bind()
	if err != nil {
		return err
	}
	defer release()
	return work()
}
