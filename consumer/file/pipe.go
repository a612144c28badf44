package file

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// headSize is how much of an input its identity looks at.
const headSize = 64 << 10

// A pipe is an input that can be read once. It keeps its first bytes, by which it is recognised when the job goes on.
type pipe struct {
	mu      sync.Mutex
	in      io.ReadCloser
	head    []byte // the first bytes, up to headSize
	played  int    // of head, to the reader
	opening atomic.Bool
}

func (p *pipe) open(in *input) error {
	p.mu.Lock()
	there := p.in != nil
	p.mu.Unlock()
	if there {
		return nil
	}
	p.opening.Store(true)
	opened, err := openPipe(in)
	p.opening.Store(false)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.in = opened
	p.mu.Unlock()
	return nil
}

func openPipe(in *input) (io.ReadCloser, error) {
	if in.stdin == nil {
		return os.Open(in.path)
	}
	reader, err := newInterruptible(in.stdin)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return reader, nil
}

func (p *pipe) close() error { return p.in.Close() }

// interrupt ends a Read that waits. It returns false if the pipe is still being opened.
func (p *pipe) interrupt() bool {
	if p.opening.Load() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.in != nil {
		p.in.Close()
	}
	return true
}

// Read is called from the goroutine of the lane only.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	if p.played < len(p.head) {
		n := copy(b, p.head[p.played:])
		p.played += n
		p.mu.Unlock()
		return n, nil
	}
	p.mu.Unlock()
	n, err := p.in.Read(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	if keep := min(n, headSize-len(p.head)); keep > 0 {
		p.head = append(p.head, b[:keep]...)
		p.played += keep
	}
	return n, err
}

// peek returns the first bytes, n at most. It waits for them if wait is set, which is allowed only before anything
// else is read; otherwise it returns those that have been read already.
func (p *pipe) peek(in *input, n int, wait bool) ([]byte, error) {
	if wait {
		if err := p.open(in); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n = max(0, min(n, headSize))
	if missing := n - len(p.head); wait && missing > 0 {
		more := make([]byte, missing)
		got, err := io.ReadFull(p.in, more)
		p.head = append(p.head, more[:got]...)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return nil, fmt.Errorf("%s: %w", in.path, err)
		}
	}
	return p.head[:min(n, len(p.head))], nil
}
