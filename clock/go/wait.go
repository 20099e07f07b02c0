//go:build linux

package truechimer

import (
	"context"
	"math/bits"
	"syscall"
	"time"
)

const (
	// How long to sleep between looks.
	pause = 20 * time.Millisecond
	// The longest sleep of WaitAfter: then the clock is looked at anew.
	longest = time.Second
	// Timers of the runtime may be late by a millisecond: the rest of a sleep is left to the kernel.
	timers = 2 * time.Millisecond
	// Rest of a wait that is waited for without sleep: an ordinary sleep ends so much too late.
	spin = 60 * time.Microsecond
)

// WaitAfter waits until a time is over for sure: until the reading's earliest is after it. That is the
// commit wait of databases which order transactions by time: what any machine's clock says from then
// on is later. It returns the reading that was, or a [*WaitError] once the context is done.
//
// It sleeps for most of the time and turns round for the last 60 µs of it. A clock that promises
// nothing (yet) is looked at fifty times a second. Of a time that a leap second repeats the later one
// is meant.
func (c *Clock) WaitAfter(ctx context.Context, t time.Time) (Reading, error) {
	unix, ns := t.Unix(), uint64(t.Nanosecond())
	// Rounded up, and never by a whole second.
	fraction, rest := bits.Div64(ns, 0, nanos)
	if rest != 0 {
		fraction++
	}
	start := time.Now()
	for {
		var r instants
		err := c.now(&r)
		if err == ErrClosed {
			return Reading{}, err
		}
		rest := pause
		if err == nil && r.status.BoundHolds() {
			left := r.leaps.instant(unix, fraction).sub(r.earliest)
			if left.hi < 0 {
				return r.reading(), nil
			}
			rest = time.Duration(left.nanos())
		}
		if ctx.Err() != nil {
			return Reading{}, waited(ctx, start, &r, err)
		}
		if rest > spin {
			sleep(ctx, least(rest-spin, longest))
		}
	}
}

// WaitSynchronised waits until the clock is synchronised, with a bound of at most maxBound unless that
// is 0 or less, and returns the reading that was, or a [*WaitError] once the context is done. It looks
// fifty times a second.
func (c *Clock) WaitSynchronised(ctx context.Context, maxBound time.Duration) (Reading, error) {
	start := time.Now()
	for {
		var r instants
		err := c.now(&r)
		if err == ErrClosed {
			return Reading{}, err
		}
		if err == nil && r.status == Synchronised && (maxBound <= 0 || !ofNanos(int64(maxBound)).less(r.bound())) {
			return r.reading(), nil
		}
		if ctx.Err() != nil {
			return Reading{}, waited(ctx, start, &r, err)
		}
		sleep(ctx, pause)
	}
}

// bound is the larger of the two sides.
func (r *instants) bound() wide {
	before, after := r.best.sub(r.earliest), r.latest.sub(r.best)
	if before.less(after) {
		return after
	}
	return before
}

func waited(ctx context.Context, start time.Time, r *instants, err error) error {
	failed := &WaitError{Waited: time.Since(start), Err: err, Cause: ctx.Err()}
	if err == nil {
		failed.Last = r.reading()
	}
	return failed
}

func least(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}

func sleep(ctx context.Context, length time.Duration) {
	if length <= timers {
		rest := syscall.NsecToTimespec(int64(length))
		// Ended early by a signal or not: the clock is looked at anew.
		_ = syscall.Nanosleep(&rest, nil)
		return
	}
	timer := time.NewTimer(length - timers)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
