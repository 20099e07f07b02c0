//go:build linux

package truechimer

import (
	"sync/atomic"
	"time"
)

// uptime is a clock that no correction of the time moves: a moment at which CLOCK_BOOTTIME was read,
// and the latest that was given out.
type uptime struct {
	anchor atomic.Pointer[anchor]
	// ns.
	latest atomic.Int64
}

type anchor struct {
	moment Moment
	// CLOCK_BOOTTIME at the moment, to within width, ns.
	boot, width int64
}

// Uptime is time since the machine was started, suspended or not, never before what an earlier call on
// this clock gave: for programs that need a clock which no correction of the time, leap second or
// change of the system clock moves.
//
// At the first call, and at the first in a new epoch, it is CLOCK_BOOTTIME; from there on it goes by
// the difference clock, and the bound is that of the length since.
func (c *Clock) Uptime() (Length, error) {
	now, err := c.Count()
	if err != nil {
		return Length{}, err
	}
	from := c.up.anchor.Load()
	if from == nil || from.moment.Stretch != now.Stretch {
		made, err := c.anchorAnew()
		if err != nil {
			return Length{}, err
		}
		// Goroutines never wait for each other here: those that come meanwhile go by their own.
		c.up.anchor.CompareAndSwap(from, made)
		from = made
	}
	// An anchor that was made just now is later than the count, by microseconds.
	since, bound, err := c.elapsed(from.moment, now)
	if err != nil {
		return Length{}, err
	}
	plain := ofNanos(from.boot).add(since)
	nanos := plain.nanos()
	given := latest(&c.up.latest, nanos)
	stood := ofNanos(given).sub(plain).abs()
	whole := bound.add(stood).add(ofNanos(from.width))
	return Length{time.Duration(given), time.Duration(whole.nanosUp())}, nil
}

func (c *Clock) anchorAnew() (*anchor, error) {
	before, err := c.Count()
	if err != nil {
		return nil, err
	}
	boot := gettime(clockBoottime)
	after, err := c.Count()
	if err != nil {
		return nil, err
	}
	width, bound, err := c.elapsed(before, after)
	if err != nil {
		return nil, err
	}
	half := wide{width.hi >> 1, width.lo>>1 | uint64(width.hi)<<63}
	middle := Moment{before.Count + uint64(int64(after.Count-before.Count)>>1), before.Stretch}
	return &anchor{middle, boot, half.add(bound).nanosUp()}, nil
}
