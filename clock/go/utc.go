//go:build linux

package truechimer

import "math/bits"

// leaps are leap seconds as far as known, as a hand has them: offset, steps and a flag; the last
// leap; the next.
type leaps [3]uint64

// step is the change of TAI − UTC at a leap, s; 0 if there is none.
type leap struct {
	at   int64
	step int32
}

func (l *leaps) offset() int32 { return int32(l[0]) }

func (l *leaps) known() bool { return l[0]>>48&1 == 1 }

func (l *leaps) last() leap { return leap{int64(l[1]), int32(int8(l[0] >> 32))} }

func (l *leaps) next() leap { return leap{int64(l[2]), int32(int8(l[0] >> 40))} }

// leapsAreSane: steps of one second or none, and nothing where nothing is known to be.
func leapsAreSane(word uint64) bool {
	last, next := int8(word>>32), int8(word>>40)
	return last >= -1 && last <= 1 && next >= -1 && next <= 1 && word>>49 == 0
}

// offsetAt is TAI − UTC in force at that second, s.
func (l *leaps) offsetAt(seconds int64) int32 {
	last, next := l.last(), l.next()
	switch {
	case next.step != 0 && seconds >= next.at:
		return saturated(int64(l.offset()) + int64(next.step))
	case last.step != 0 && seconds < last.at:
		return saturated(int64(l.offset()) - int64(last.step))
	}
	return l.offset()
}

func saturated(n int64) int32 {
	switch {
	case n > 1<<31-1:
		return 1<<31 - 1
	case n < -1<<31:
		return -1 << 31
	}
	return int32(n)
}

func less1(n int64) int64 {
	if n == -1<<63 {
		return n
	}
	return n - 1
}

// sum is a + b, held at the ends of the scale.
func sum(a, b int64) int64 {
	total := a + b
	if (a < 0) == (b < 0) && (total < 0) != (a < 0) {
		return end(a < 0).hi
	}
	return total
}

// utc is that instant as Unix time, which stays at 23:59:59 in an inserted second.
func (l *leaps) utc(at wide) (unix int64, inserted bool) {
	for _, leap := range [2]leap{l.last(), l.next()} {
		inserted = inserted || leap.step > 0 && at.hi == less1(leap.at)
	}
	unix = sum(at.hi, -int64(l.offsetAt(at.hi)))
	if inserted {
		unix = less1(unix)
	}
	return unix, inserted
}

// instant is the instant of a Unix time: of a second that is shown twice, in an inserted one, the
// first; later has the other.
func (l *leaps) instant(unix int64, fraction uint64) wide {
	last, next := l.last(), l.next()
	if seconds := sum(unix, int64(saturated(int64(l.offset())+int64(next.step)))); next.step != 0 && seconds >= next.at {
		return wide{seconds, fraction}
	}
	if seconds := sum(unix, int64(l.offset())); last.step != 0 && seconds >= last.at {
		return wide{seconds, fraction}
	}
	return wide{sum(unix, int64(saturated(int64(l.offset())-int64(last.step)))), fraction}
}

// instants are a reading before it is rounded.
type instants struct {
	count                  uint64
	earliest, best, latest wide
	status                 Status
	leaps                  leaps
}

// tell rounds to whole nanoseconds of Unix time, the ends outwards. Field by field and in place: to
// copy a reading that was just put together takes longer than to make it.
func (r *instants) tell(told *Reading) {
	l := &r.leaps
	told.Count, told.Status, told.TAIOffset, told.TAIKnown, told.LeapSecond = r.count, r.status, l.offset(), l.known(), false
	promised := r.status.BoundHolds()
	earliest, latest := r.earliest, r.latest
	if !promised {
		earliest, latest = r.best, r.best
	}
	const steps = 0xffff << 32
	if l[0]&steps == 0 || l.clear(earliest, latest) {
		offset := int64(l.offset())
		told.EarliestNS = down(earliest.hi-offset, earliest.lo)
		told.BestNS = down(r.best.hi-offset, r.best.lo)
		told.LatestNS = up(latest.hi-offset, latest.lo)
	} else {
		l.around(earliest, r.best, latest, told)
	}
	if !promised {
		told.EarliestNS, told.LatestNS = lowest.hi, highest.hi
	}
}

func (r *instants) reading() (told Reading) {
	r.tell(&told)
	return
}

// clear says whether there is no leap near an interval.
func (l *leaps) clear(earliest, latest wide) bool {
	last, next := l.last(), l.next()
	return (last.step == 0 || earliest.hi >= last.at) && (next.step == 0 || latest.hi < next.at-1)
}

// around rounds where some of the three are at or before the last leap, or at or after the next. One
// second is shown twice there: the ends of an interval need not be the ends of what Unix time showed
// in it.
func (l *leaps) around(earliest, best, latest wide, told *Reading) {
	unix, _ := l.utc(earliest)
	low := down(unix, earliest.lo)
	unix, _ = l.utc(latest)
	high := up(unix, latest.lo)
	for _, leap := range [2]leap{l.last(), l.next()} {
		// Where the inserted second begins, Unix time goes back from the end of 23:59:59 to its
		// beginning.
		begins := wide{less1(leap.at), 0}
		if leap.step > 0 && earliest.less(begins) && !latest.less(begins) {
			unix, _ = l.utc(begins)
			if from := down(unix, 0); from < low {
				low = from
			}
			if to := nanosOf(unix, nanos-1); to > high {
				high = to
			}
		}
	}
	unix, told.LeapSecond = l.utc(best)
	told.EarliestNS, told.BestNS, told.LatestNS = low, down(unix, best.lo), high
	told.TAIOffset = l.offsetAt(best.hi)
}

// down is Unix time in ns, rounded down.
func down(seconds int64, fraction uint64) int64 {
	rest, _ := bits.Mul64(fraction, nanos)
	return nanosOf(seconds, int64(rest))
}

// up is Unix time in ns, rounded up.
func up(seconds int64, fraction uint64) int64 {
	rest, below := bits.Mul64(fraction, nanos)
	if below != 0 {
		rest++
	}
	return nanosOf(seconds, int64(rest))
}
