//go:build linux

package truechimer

import (
	"context"
	"math/bits"
	"time"
)

// Timer is a row of times at even distances, to be waited for one after the other: it keeps to true
// time, never drifts, and keeps its distance through a leap second. For one goroutine at a time.
type Timer struct {
	clock *Clock
	side  Side
	// The next time, on the scale without leap seconds: whole seconds and nanoseconds.
	seconds int64
	nanos   uint64
	period  uint64
}

// Tick is a time of a timer that has come.
type Tick struct {
	// Time is that time.
	Time time.Time
	// Reading is the one that ended the wait.
	Reading Reading
	// Missed is how many times before this one had come already when it was asked for, and were left
	// out.
	Missed uint64
}

// NewTimer is a timer for a first time and every period after it, on that side of each. A period below
// a microsecond counts as that. Only once the clock was set is it known where the leap seconds are:
// until then there is ErrNotYet. It runs nothing by itself, and need not be stopped.
func (c *Clock) NewTimer(first time.Time, period time.Duration, side Side) (*Timer, error) {
	var r instants
	if err := c.now(&r); err != nil {
		return nil, err
	}
	if period < time.Microsecond {
		period = time.Microsecond
	}
	seconds := r.leaps.later(first.Unix(), 0).hi
	return &Timer{clock: c, side: side, seconds: seconds, nanos: uint64(first.Nanosecond()), period: uint64(period)}, nil
}

// Tick waits for the next time. Of times that have come already only the last is given out, so that a
// program that was held up catches up at once. After an error the same time is waited for once more.
func (t *Timer) Tick(ctx context.Context) (Tick, error) {
	next := wide{t.seconds, t.side.fraction(t.nanos)}
	r, err := t.clock.wait(ctx, t.side, func(*leaps) wide { return next })
	if err != nil {
		return Tick{}, err
	}
	missed := periods(wide{}.minus(t.side.left(next, &r)), t.period)
	t.add(missed)
	unix, _ := r.leaps.utc(wide{t.seconds, 0})
	tick := Tick{time.Unix(unix, int64(t.nanos)).UTC(), r.reading(), missed}
	t.add(1)
	return tick, nil
}

// periods is how many whole periods, ns, are in a length above 0: none too many.
func periods(late wide, period uint64) uint64 {
	high, low := bits.Mul64(uint64(late.hi), nanos)
	below, _ := bits.Mul64(late.lo, nanos)
	low, carry := bits.Add64(low, below, 0)
	if high += carry; high >= period {
		return 1<<64 - 1
	}
	count, _ := bits.Div64(high, low, period)
	return count
}

// add goes on by so many periods.
func (t *Timer) add(count uint64) {
	high, low := bits.Mul64(count, t.period)
	low, carry := bits.Add64(low, t.nanos, 0)
	if high += carry; high >= nanos {
		t.seconds, t.nanos = highest.hi, nanos-1
		return
	}
	seconds, rest := bits.Div64(high, low, nanos)
	if seconds > 1<<63-1 {
		seconds = 1<<63 - 1
	}
	t.seconds, t.nanos = sum(t.seconds, int64(seconds)), rest
}
