package cuda

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"
)

// A Stream is a queue of work that the device does in order. Streams do not wait for each other, except for events.
type Stream struct {
	driver *Driver
	handle streamHandle
}

// nonBlocking makes a stream that does not wait for the driver's default stream.
const nonBlocking = 1 // CU_STREAM_NON_BLOCKING

// Stream makes a stream. Other streams may be urgent, none can be less so.
func (c *Context) Stream() (*Stream, error) {
	least, _, err := c.priorities()
	if err != nil {
		return nil, err
	}
	return c.streamOf(least)
}

// UrgentStream makes a stream whose blocks begin before those of other streams that wait for a place on the device, too.
func (c *Context) UrgentStream() (*Stream, error) {
	_, greatest, err := c.priorities()
	if err != nil {
		return nil, err
	}
	return c.streamOf(greatest)
}

// priorities are those that streams may have. They are the same on a device that knows no priorities.
func (c *Context) priorities() (least, greatest int32, err error) {
	err = c.driver.check("cuCtxGetStreamPriorityRange", c.driver.call.CtxGetStreamPriorityRange(&least, &greatest))
	return least, greatest, err
}

func (c *Context) streamOf(priority int32) (*Stream, error) {
	s := &Stream{driver: c.driver}
	if err := c.driver.check("cuStreamCreateWithPriority", c.driver.call.StreamCreateWithPriority(&s.handle, nonBlocking, priority)); err != nil {
		return nil, err
	}
	return s, nil
}

// Close destroys the stream when its work is done.
func (s *Stream) Close() error {
	return s.driver.check("cuStreamDestroy", s.driver.call.StreamDestroy(s.handle))
}

// Synchronize waits until the stream's work is done.
func (s *Stream) Synchronize() error {
	return s.driver.check("cuStreamSynchronize", s.driver.call.StreamSynchronize(s.handle))
}

// CopyIn copies from this machine to the device. A slice that AllocHost returned is read when the stream gets there, and must not
// be written before; any other is read before CopyIn returns.
func CopyIn[T any](s *Stream, to Pointer, from []T) error {
	if len(from) == 0 {
		return nil
	}
	bytes := uint64(len(from)) * uint64(unsafe.Sizeof(from[0]))
	return s.driver.check("cuMemcpyHtoDAsync", s.driver.call.MemcpyHtoDAsync(to, unsafe.Pointer(&from[0]), bytes, s.handle))
}

// CopyOut copies from the device to this machine. A slice that AllocHost returned is written when the stream gets there; any other
// is written when CopyOut returns, which then waits for the stream.
func CopyOut[T any](s *Stream, to []T, from Pointer) error {
	if len(to) == 0 {
		return nil
	}
	bytes := uint64(len(to)) * uint64(unsafe.Sizeof(to[0]))
	return s.driver.check("cuMemcpyDtoHAsync", s.driver.call.MemcpyDtoHAsync(unsafe.Pointer(&to[0]), from, bytes, s.handle))
}

// Copy copies bytes on the device. The places must not overlap.
func (s *Stream) Copy(to, from Pointer, bytes int) error {
	if bytes == 0 {
		return nil
	}
	return s.driver.check("cuMemcpyDtoDAsync", s.driver.call.MemcpyDtoDAsync(to, from, uint64(bytes), s.handle))
}

// A Place is memory of one of several devices.
type Place struct {
	Context *Context
	At      Pointer
}

// CopyAcross copies bytes from one device to another, one of which is the stream's.
func (s *Stream) CopyAcross(to, from Place, bytes int) error {
	if bytes == 0 {
		return nil
	}
	return s.driver.check("cuMemcpyPeerAsync", s.driver.call.MemcpyPeerAsync(to.At, to.Context.handle, from.At, from.Context.handle, uint64(bytes), s.handle))
}

// Zero sets bytes on the device to 0.
func (s *Stream) Zero(to Pointer, bytes int) error {
	if bytes == 0 {
		return nil
	}
	return s.driver.check("cuMemsetD8Async", s.driver.call.MemsetD8Async(to, 0, uint64(bytes), s.handle))
}

// An Event is a place in a stream.
type Event struct {
	driver *Driver
	handle eventHandle
}

// Event makes an event.
func (c *Context) Event() (*Event, error) {
	e := &Event{driver: c.driver}
	if err := c.driver.check("cuEventCreate", c.driver.call.EventCreate(&e.handle, 0)); err != nil {
		return nil, err
	}
	return e, nil
}

// Close destroys the event.
func (e *Event) Close() error {
	return e.driver.check("cuEventDestroy", e.driver.call.EventDestroy(e.handle))
}

// Record sets the event to where the stream's queue now ends.
func (s *Stream) Record(e *Event) error {
	return s.driver.check("cuEventRecord", s.driver.call.EventRecord(e.handle, s.handle))
}

// Wait lets what is asked of the stream from now on wait for the event as it was last recorded.
func (s *Stream) Wait(e *Event) error {
	return s.driver.check("cuStreamWaitEvent", s.driver.call.StreamWaitEvent(s.handle, e.handle, 0))
}

// Done says whether the device has got to the event. An event that was never recorded is done.
func (e *Event) Done() (bool, error) {
	code := e.driver.call.EventQuery(e.handle)
	if code == statusNotReady {
		return false, nil
	}
	err := e.driver.check("cuEventQuery", code)
	return err == nil, err
}

// Synchronize waits for the event.
func (e *Event) Synchronize() error {
	return e.driver.check("cuEventSynchronize", e.driver.call.EventSynchronize(e.handle))
}

// Since returns the device's time from one event to the next; both must be done.
func (e *Event) Since(start *Event) (time.Duration, error) {
	var milliseconds float32
	err := e.driver.check("cuEventElapsedTime", e.driver.call.EventElapsedTime(&milliseconds, start.handle, e.handle))
	return time.Duration(float64(milliseconds) * float64(time.Millisecond)), err
}

// A Graph is work that was captured from a stream and is launched as a whole, with the arguments and addresses that it had then.
type Graph struct {
	driver *Driver
	handle programHandle
}

// captureOfThread lets other threads go on with calls that a capture forbids to its own.
const captureOfThread = 1 // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

// Capture records what work asks of the stream, which is not done now, as a graph. work must neither wait nor allocate. If the capture cannot be ended, the
// goroutine keeps its thread for good.
func (s *Stream) Capture(work func() error) (*Graph, error) {
	call := s.driver.call
	if err := s.driver.check("cuStreamBeginCapture", call.StreamBeginCapture(s.handle, captureOfThread)); err != nil {
		return nil, err
	}
	failed := work()
	var captured graphHandle
	ended := s.driver.check("cuStreamEndCapture", call.StreamEndCapture(s.handle, &captured))
	if captured != 0 {
		defer call.GraphDestroy(captured)
	}
	if ended != nil {
		// The thread may go on capturing, where the device was lost meanwhile. It would be refused memory and waits on all devices: it stays with
		// this goroutine, for which it was locked by Bind, and ends with it, so that no other one gets it.
		runtime.LockOSThread()
	}
	if failed != nil {
		return nil, fmt.Errorf("capture a graph: %w", failed)
	}
	if ended != nil {
		return nil, ended
	}
	g := &Graph{driver: s.driver}
	if err := s.driver.check("cuGraphInstantiate", call.GraphInstantiateWithFlags(&g.handle, captured, 0)); err != nil {
		return nil, err
	}
	return g, nil
}

// Launch puts the graph's work into the stream.
func (g *Graph) Launch(s *Stream) error {
	return g.driver.check("cuGraphLaunch", g.driver.call.GraphLaunch(g.handle, s.handle))
}

// Close destroys the graph.
func (g *Graph) Close() error {
	return g.driver.check("cuGraphExecDestroy", g.driver.call.GraphExecDestroy(g.handle))
}
