package kafkaclient

import (
	"sync"
	"time"
)

const (
	outageFrom  = 3 * time.Second  // for so long a call fails before anybody is told
	outageAgain = 30 * time.Second // between two lines of log, whatever the number of calls that fail
)

// An outage is a time in which calls fail that are made again. Many calls fail at once then; the log has one line for
// all of them now and then, and one when the brokers answer again.
type outage struct {
	mutex sync.Mutex
	said  time.Time // zero while all is well
}

// Failing notes that a call has failed since a moment and is going to be made again.
func (c *Client) Failing(operation string, since time.Time, err error) {
	lasted := time.Since(since)
	if lasted < outageFrom {
		c.config.Logger.Debug("kafka: trying again", "operation", operation, "error", err)
		return
	}
	c.outage.mutex.Lock()
	defer c.outage.mutex.Unlock()
	if !c.outage.said.IsZero() && time.Since(c.outage.said) < outageAgain {
		return
	}
	c.outage.said = time.Now()
	c.config.Logger.Warn("kafka: the brokers do not do what they are asked; still trying", "operation", operation,
		"for", lasted.Round(time.Second), "at most", c.Patience(err), "error", err)
}

// Recovered notes that a call has succeeded that had failed since a moment.
func (c *Client) Recovered(operation string, since time.Time) {
	if time.Since(since) < outageFrom {
		return
	}
	c.outage.mutex.Lock()
	defer c.outage.mutex.Unlock()
	if c.outage.said.IsZero() {
		return // another call has said it
	}
	c.outage.said = time.Time{}
	c.config.Logger.Info("kafka: the brokers answer again", "operation", operation, "after", time.Since(since).Round(time.Second))
}
