//go:build linux

package truechimer

import "math/bits"

// wide is a signed number of 128 bits in two's complement: times and spans in units of 2⁻⁶⁴ s.
type wide struct {
	hi int64
	lo uint64
}

const nanos = 1_000_000_000

var (
	lowest  = wide{-1 << 63, 0}
	highest = wide{1<<63 - 1, 1<<64 - 1}
)

// plus is the sum, which wraps.
func (a wide) plus(b wide) wide {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	return wide{a.hi + b.hi + int64(carry), lo}
}

// minus is the difference, which wraps.
func (a wide) minus(b wide) wide {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	return wide{a.hi - b.hi - int64(borrow), lo}
}

// add is the sum, held at the ends of the scale.
func (a wide) add(b wide) wide {
	sum := a.plus(b)
	if (a.hi < 0) == (b.hi < 0) && (sum.hi < 0) != (a.hi < 0) {
		return end(a.hi < 0)
	}
	return sum
}

// sub is the difference, held at the ends of the scale.
func (a wide) sub(b wide) wide {
	difference := a.minus(b)
	if (a.hi < 0) != (b.hi < 0) && (difference.hi < 0) != (a.hi < 0) {
		return end(a.hi < 0)
	}
	return difference
}

func end(negative bool) wide {
	if negative {
		return lowest
	}
	return highest
}

// abs is the magnitude, held at the end of the scale.
func (a wide) abs() wide {
	if a.hi >= 0 {
		return a
	}
	return wide{}.sub(a)
}

func (a wide) less(b wide) bool {
	return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo
}

// times is ⌊counts · period / 2⁶⁴⌋, the period being in 2⁻¹²⁸ s: it wraps.
func times(counts int64, high, low uint64) wide {
	negative := uint64(counts >> 63)
	fromLow, _ := bits.Mul64(uint64(counts), low)
	fromLow -= low & negative
	hi, lo := bits.Mul64(uint64(counts), high)
	hi -= high & negative
	lo, carry := bits.Add64(lo, fromLow, 0)
	return wide{int64(hi + uint64(int64(fromLow)>>63) + carry), lo}
}

// share is ⌊|span| · rate / 2⁶⁴⌋, the rate being in 2⁻⁶⁴ and below 1.
func share(span wide, rate uint64) wide {
	sign := uint64(span.hi >> 63)
	lo, carry := bits.Add64(span.lo^sign, sign&1, 0)
	hi := (uint64(span.hi) ^ sign) + carry
	fromLow, _ := bits.Mul64(lo, rate)
	high, low := bits.Mul64(hi, rate)
	low, carry = bits.Add64(low, fromLow, 0)
	return wide{int64(high + carry), low}
}

// over is how much a span ≥ 0 grows at a rate ≥ 0 in 2⁻⁶⁴, held at the end of the scale.
func over(span wide, rate uint64) wide {
	// |span| / 2³² has 96 bits.
	high, low := uint64(span.hi)>>32, uint64(span.hi)<<32|span.lo>>32
	top, upper := bits.Mul64(high, rate)
	middle, lo := bits.Mul64(low, rate)
	upper, carry := bits.Add64(upper, middle, 0)
	if top+carry != 0 || upper>>63 != 0 {
		return highest
	}
	return wide{int64(upper >> 32), upper<<32 | lo>>32}
}

// ofNanos is a whole number of nanoseconds, to the nearest unit.
func ofNanos(ns int64) wide {
	seconds, rest := ns/nanos, ns%nanos
	if rest < 0 {
		seconds, rest = seconds-1, rest+nanos
	}
	fraction, _ := bits.Div64(uint64(rest), nanos/2, nanos)
	return wide{seconds, fraction}
}

// ofNanosBetween is how long it was from one number of nanoseconds to another, however far apart.
func ofNanosBetween(from, to int64) wide {
	difference := to - from
	if (from < 0) == (to < 0) || (difference < 0) == (to < 0) {
		return ofNanos(difference)
	}
	return ofNanos(to).sub(ofNanos(from))
}

// nanos is the number of nanoseconds to the nearest, held at the ends of the scale.
func (a wide) nanos() int64 {
	hi, lo := bits.Mul64(a.lo, nanos)
	return nanosOf(a.hi, int64(hi+lo>>63))
}

// nanosUp is the number of nanoseconds rounded up, for bounds.
func (a wide) nanosUp() int64 {
	ns := a.nanos()
	if ns < 1<<63-1 && ofNanos(ns).less(a) {
		return ns + 1
	}
	return ns
}

// nanosOf is so many seconds with so many nanoseconds (≥ 0), held at the ends of the scale.
func nanosOf(seconds, rest int64) int64 {
	// Nearly always, and in line.
	if uint64(seconds)+9_000_000_000 <= 18_000_000_000 {
		return seconds*nanos + rest
	}
	return nanosFar(seconds, rest)
}

func nanosFar(seconds, rest int64) int64 {
	hi, lo := bits.Mul64(uint64(seconds), nanos)
	if seconds < 0 {
		hi -= nanos
	}
	lo, carry := bits.Add64(lo, uint64(rest), 0)
	hi += carry
	if hi == uint64(int64(lo)>>63) {
		return int64(lo)
	}
	return end(int64(hi) < 0).hi
}

// period is how long a count lasts: mantissa · 2^−shift in 2⁻⁶⁴ s, the mantissa's top bit set.
type period struct {
	mantissa uint64
	shift    uint
}

// periodOf is the period that two words of a page stand for, if there is one.
func periodOf(high, low uint64) (period, bool) {
	if high == 0 {
		return period{}, false
	}
	shift := uint(bits.LeadingZeros64(high))
	mantissa, rest := high, low
	if shift > 0 {
		mantissa, rest = high<<shift|low>>(64-shift), low<<shift
	}
	return period{mantissa, shift}, rest == 0
}

// counts is how many counts a span ≥ 0 takes, rounded down and held at the end of the scale.
func (p period) counts(span wide) int64 {
	const limit = 1<<63 - 1
	high := uint64(span.hi)
	top, rest := high/p.mantissa, high%p.mantissa
	quotient, rest := bits.Div64(rest, span.lo, p.mantissa)
	if top != 0 || quotient > limit>>p.shift {
		return limit
	}
	fine, _ := bits.Div64(rest>>1>>(63-p.shift), rest<<p.shift, p.mantissa)
	sum := quotient<<p.shift + fine
	if sum > limit {
		return limit
	}
	return int64(sum)
}

// within says whether the period is no more than a rate ≥ 0 (in 2⁻⁶⁴, below ½) from a reference.
func (p period) within(reference period, rate uint64) bool {
	// Both mantissas at one scale: at most twice 2⁶⁴.
	a, b := wide{0, p.mantissa}, wide{0, reference.mantissa}
	half := false
	switch {
	case p.shift == reference.shift:
	case p.shift+1 == reference.shift:
		a = a.plus(a)
	case p.shift == reference.shift+1:
		b, half = b.plus(b), true
	default:
		return false
	}
	difference := a.minus(b).abs()
	if half {
		difference = wide{difference.hi >> 1, difference.lo>>1 | uint64(difference.hi)<<63}
	}
	if difference.hi != 0 || difference.lo >= reference.mantissa/2 {
		return false
	}
	apart, _ := bits.Div64(difference.lo, 0, reference.mantissa)
	return apart <= rate
}
