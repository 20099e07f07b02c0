//go:build linux

package truechimer

import (
	"context"
	"math/bits"
	"syscall"
	"time"
)

const (
	// Time to sleep between looks.
	pause = 20 * time.Millisecond
	// The longest sleep of WaitAfter: then the clock is looked at anew.
	longest = time.Second
	// Timers of the runtime may be late by a millisecond: the rest of a sleep is left to the kernel.
	timers = 2 * time.Millisecond
	// Rest of a wait that is waited for without sleep: an ordinary sleep ends so much too late.
	spin = 60 * time.Microsecond
	// Now and then it ends later than that, which matters to a wait that must not end after its time.
	spinBefore = 200 * time.Microsecond
)

// Side is on which side of its time a wait ends: the choice of who waits, as the time is only known to
// lie between earliest and latest.
type Side uint8

const (
	// Before ends a wait while its time is surely not over: as soon as latest is within a microsecond
	// of it. Whether the goroutine was woken early enough the reading says: its latest is before the
	// time.
	Before Side = iota
	// Likely ends a wait when its time is likely to have come: as soon as best has reached it.
	Likely
	// After ends a wait when its time is surely over: as soon as earliest is after it (commit wait).
	After
)

// lead is how long before its time a wait that must not end after it ends, 2⁻⁶⁴ s.
const lead = 1<<64/1_000_000 - 1

// left is how long it takes until a wait ends, by a reading; below 0: it is over.
func (s Side) left(time wide, r *instants) wide {
	switch s {
	case Before:
		return time.sub(r.latest).sub(wide{0, lead})
	case Likely:
		return time.sub(r.best).sub(wide{0, 1})
	}
	return time.sub(r.earliest)
}

// fraction is the fraction of a second to wait for, 2⁻⁶⁴ s: so that what ends the wait is true of the
// reading in whole nanoseconds too, where earliest and best are rounded down and latest up.
func (s Side) fraction(ns uint64) uint64 {
	if s == After {
		// The last of the instants that are rounded down to it.
		if ns+1 == nanos {
			return 1<<64 - 1
		}
		return roundedUp(ns+1) - 1
	}
	return roundedUp(ns)
}

func roundedUp(ns uint64) uint64 {
	fraction, rest := bits.Div64(ns, 0, nanos)
	if rest != 0 {
		fraction++
	}
	return fraction
}

// later is the instant of a Unix time: of the second that is shown twice, before a leap and in it, the
// later one.
func (l *leaps) later(unix int64, fraction uint64) wide {
	at := l.instant(unix, fraction)
	for _, leap := range [2]leap{l.last(), l.next()} {
		if leap.step > 0 && at.hi == less1(less1(leap.at)) {
			at.hi++
			break
		}
	}
	return at
}

// WaitAfter waits until a time is over for sure: until the reading's earliest is after it. That is the
// commit wait of databases which order transactions by time: what any machine's clock says from then
// on is later. It returns the reading that was, or a [*WaitError] once the context is done.
//
// It sleeps for most of the time and turns round for the last 60 µs of it. A clock that promises
// nothing (yet) is looked at fifty times a second. Of a time that a leap second repeats the later one
// is meant.
func (c *Clock) WaitAfter(ctx context.Context, t time.Time) (Reading, error) {
	return c.WaitFor(ctx, t, After)
}

// WaitFor waits for a time as WaitAfter does, on that side of it; the last 200 µs before a time that
// must not be over it turns round.
func (c *Clock) WaitFor(ctx context.Context, t time.Time, side Side) (Reading, error) {
	r, err := c.wait(ctx, side, func(l *leaps) wide { return l.later(t.Unix(), side.fraction(uint64(t.Nanosecond()))) })
	if err != nil {
		return Reading{}, err
	}
	return r.reading(), nil
}

func (c *Clock) wait(ctx context.Context, side Side, at func(*leaps) wide) (r instants, err error) {
	start := time.Now()
	turns := spin
	if side == Before {
		turns = spinBefore
	}
	for {
		err = c.now(&r)
		if err == ErrClosed {
			return r, err
		}
		rest := pause
		if err == nil && r.status.BoundHolds() {
			left := side.left(at(&r.leaps), &r)
			if left.hi < 0 {
				return r, nil
			}
			rest = time.Duration(left.nanos())
		}
		if ctx.Err() != nil {
			return r, waited(ctx, start, &r, err)
		}
		if rest > turns {
			sleep(ctx, sleptIn(least(rest-turns, longest), turns))
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

// sleptIn is the length of a sleep that ends within span, or later by less than turns. It is by the kernel's
// clock, which whoever keeps the system clock may slow by a tenth (tick of adjtimex(2)); what is left of a long
// one is slept for anew.
func sleptIn(span, turns time.Duration) time.Duration {
	if span > 8*turns {
		return span - span/8
	}
	return span
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
