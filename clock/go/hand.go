//go:build linux

package truechimer

// Where each word of a hand is. A number of 128 bits takes two, the upper half first.
const (
	wordBase = iota
	wordTime
	_
	wordPeriod
	_
	wordGrowth
	wordState
	wordBound
	_
	wordVoidAfter
	wordPatience
	wordLeaps
	wordLastLeap
	wordNextLeap
	wordDifferenceError
	wordDifference
	_
	wordPathBound
	_
	wordBoot
	_
	wordMade
	_
	wordMadeRaw
	wordMadeSuspended
	wordBits
	wordRawPeriod
	_
	wordRawError
	wordRawPair
	wordDisputed
)

// Where each word beside a hand is.
const (
	besideImbalance = iota
	besideLikely
	besideLikelyGrowth
	besideVmclock
	besideMarker
)

const (
	// Times and bounds from here on are damage, in s.
	farthest = 1 << 40
	// Two periods of one counter are no further apart than this: 1 %, in 2⁻⁶⁴.
	periodsApart = 184_467_440_737_095_516
	// Number of times that a look is repeated before the page is taken to be damaged.
	tries = 1000
)

// hand is a copy of a hand, and of what stands beside it.
type hand struct {
	generation uint64
	words      [handWords]uint64
	// Distance by which true time may be farther after the time than before it, in 2⁻³² s.
	imbalance int64
	// The hypervisor's device, and the disruption marker in it under which the hand was made.
	vmclock, marker uint64
	// Length of a count, for the absolute clock.
	period period
}

func (h *hand) wide(at int) wide { return wide{int64(h.words[at]), h.words[at+1]} }

func (h *hand) kind() kind { return kind(h.words[wordState]) }

func (h *hand) status() Status { return Status(h.words[wordState] >> 8 & 0xff) }

func (h *hand) epoch() uint32 { return uint32(h.words[wordState] >> 32) }

// span is how long so many counts last by the absolute clock.
func (h *hand) span(counts int64) wide {
	return times(counts, h.words[wordPeriod], h.words[wordPeriod+1])
}

// differenceSpan is how long so many counts last by the difference clock.
func (h *hand) differenceSpan(counts int64) wide {
	return times(counts, h.words[wordDifference], h.words[wordDifference+1])
}

// voidAt says whether the hand promises nothing at that count.
func (h *hand) voidAt(count uint64) bool { return int64(h.words[wordVoidAfter]-count) < 0 }

// at is the time at a count, as a clock of this status gives it.
func (h *hand) at(count uint64, status Status) instants {
	span := h.span(int64(count - h.words[wordBase]))
	told := instants{count: count, best: h.wide(wordTime).add(span), status: status, earliest: lowest, latest: highest}
	copy(told.leaps[:], h.words[wordLeaps:])
	if status.BoundHolds() {
		bound := h.wide(wordBound).add(share(span, h.words[wordGrowth]))
		before, after := sides(bound, h.imbalance)
		told.earliest, told.latest = told.best.sub(before), told.best.add(after)
	}
	return told
}

// sides are how far true time may be before the best estimate and after it.
func sides(bound wide, imbalance int64) (before, after wide) {
	// One of the two is 0.
	early := imbalance &^ (imbalance >> 63)
	late := early - imbalance
	return bound.minus(coarse(uint64(early))), bound.minus(coarse(uint64(late)))
}

// coarse is a number of 2⁻³² s.
func coarse(units uint64) wide { return wide{int64(units >> 32), units << 32} }

// newest copies the newest hand and checks it, and names the field that cannot be. No hand at all is
// a generation of 0.
func (p *layout) newest(into *hand) (field string) {
	for i := 0; i < tries; i++ {
		generation := load(&p.sequence)
		if generation == 0 {
			*into = hand{}
			return ""
		}
		slot, apart := &p.hand[generation%slots], &p.beside[generation%slots]
		for j := range slot.words {
			into.words[j] = load(&slot.words[j])
		}
		var extra [besideWords]uint64
		if load(&apart.of) == generation {
			for j := range extra {
				extra[j] = load(&apart.words[j])
			}
		}
		if load(&slot.generation) == generation {
			into.generation = generation
			return into.check(&extra)
		}
	}
	return "generation"
}

// check looks for the field that cannot be, and works out what the words only imply.
func (h *hand) check(extra *[besideWords]uint64) string {
	w := &h.words
	state := w[wordState]
	var known bool
	if h.kind().String() == "" {
		return "counter"
	}
	if h.period, known = periodOf(w[wordPeriod], w[wordPeriod+1]); !known {
		return "period"
	}
	difference, known := periodOf(w[wordDifference], w[wordDifference+1])
	if !known {
		return "difference period"
	}
	if h.status() > Disrupted || state&0xffff_0000 != 0 {
		return "status"
	}
	holds := h.status().BoundHolds()
	far := wide{farthest, 0}
	bound, path := h.wide(wordBound), h.wide(wordPathBound)
	switch {
	case !h.wide(wordTime).abs().less(far):
		return "time"
	case !difference.within(h.period, periodsApart):
		return "difference period"
	case int64(w[wordDifferenceError]) < 0:
		return "error of the difference period"
	case path.hi < 0 || bound.less(path) || holds && !bound.less(far):
		return "bound"
	case bound.sub(path).less(coarse(w[wordDisputed])):
		return "disputed part of the bound"
	case int64(w[wordGrowth]) < 0:
		return "growth of the bound"
	case int64(w[wordPatience]) != h.period.counts(wide{3, 0}):
		return "patience"
	case !leapsAreSane(w[wordLeaps]):
		return "leap second"
	}
	if field := h.checkDevice(); field != "" {
		return field
	}
	h.imbalance = int64(extra[besideImbalance])
	apart := coarse(uint64(h.imbalance))
	if h.imbalance < 0 {
		apart = coarse(uint64(-h.imbalance))
	}
	if holds && bound.less(apart) {
		return "imbalance of the bound"
	}
	if growth := int64(extra[besideLikelyGrowth]); growth < 0 || extra[besideLikely] == 0 && growth != 0 {
		return "likely interval"
	}
	h.vmclock, h.marker = extra[besideVmclock], extra[besideMarker]
	if h.vmclock > vmclockElsewhere || h.vmclock == 0 && h.marker != 0 {
		return "disruption marker"
	}
	return ""
}

// checkDevice looks at how a counter that is a device would be read.
func (h *hand) checkDevice() string {
	w := &h.words
	byRaw := w[wordRawPeriod] | w[wordRawPeriod+1] | w[wordRawError] | w[wordRawPair]
	if w[wordBits] > 64 || w[wordBits] == 0 && byRaw != 0 {
		return "width of the counter"
	}
	if byRaw == 0 {
		return ""
	}
	period, known := periodOf(w[wordRawPeriod], w[wordRawPeriod+1])
	if !known || !period.within(h.period, periodsApart) {
		return "period by the raw clock"
	}
	if w[wordRawError] > periodsApart {
		return "error of the period by the raw clock"
	}
	if pair := int64(w[wordRawPair]); pair < 0 || (wide{1, 0}).less(h.span(pair)) {
		return "pair of count and raw clock"
	}
	return ""
}

// Limits of what is no break yet.
const (
	// The counter and CLOCK_MONOTONIC_RAW may drift apart by 1000 ppm, in 2⁻⁶⁴.
	drift = 18_446_744_073_709_552
	// And they may be apart by this to begin with, or the counter go back by it.
	apartNS = 100_000
	// A shorter suspend than this there is not.
	suspendNS = 10_000_000
)

// judge says how the clock is, by a reading of the host's own clocks, and whether that is as the hand
// says, with a daemon that looks.
func (h *hand) judge(heartbeat uint64, host *hostReading) (status Status, stands bool) {
	w := &h.words
	width := h.differenceSpan(host.width).abs()
	apart := ofNanos(apartNS).add(width)
	counted := h.differenceSpan(int64(host.count - w[wordMade]))
	raw := ofNanosBetween(int64(w[wordMadeRaw]), host.raw)
	suspended := ofNanosBetween(int64(w[wordMadeSuspended]), host.suspended)
	if ofNanos(suspendNS).add(width).less(suspended.abs()) ||
		counted.less(wide{}.sub(apart)) ||
		apart.add(over(raw.abs(), drift)).less(counted.sub(raw).abs()) {
		return Disrupted, false
	}
	if h.voidAt(host.count) {
		return Unknown, false
	}
	silence := h.span(int64(host.count - heartbeat)).abs()
	if h.status().BoundHolds() && (wide{3, 0}).less(silence) {
		return Holdover, false
	}
	return h.status(), true
}
