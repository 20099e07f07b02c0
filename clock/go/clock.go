//go:build linux

package truechimer

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// Status is the state of a clock by its own word.
type Status uint8

const (
	// Unknown: never synchronised, or too old to say: no bound is promised.
	Unknown Status = iota
	// Synchronised: following its sources; the bound holds.
	Synchronised
	// Holdover: no fresh word from any source, or no daemon; the bound holds and grows.
	Holdover
	// Disrupted: the counter lost its continuity; the bound is void until the clock has synchronised
	// again.
	Disrupted
)

// BoundHolds says whether the bound is promised to hold.
func (s Status) BoundHolds() bool { return s == Synchronised || s == Holdover }

// String is the name, in lower case.
func (s Status) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case Synchronised:
		return "synchronised"
	case Holdover:
		return "holdover"
	case Disrupted:
		return "disrupted"
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Reading is the time, and how well it is known: Unix time (UTC) in nanoseconds since 1970.
//
// While Status.BoundHolds true time lay from earliest to latest at the moment of the reading.
// Otherwise nothing is promised and those two are the ends of the scale, so that a program which
// looks at nothing else cannot be deceived.
type Reading struct {
	// EarliestNS: true time was not before this. Rounded down.
	EarliestNS int64
	// BestNS is the best estimate, rounded down. Not necessarily half-way between the other two.
	// While nothing is promised it is only what the clock shows, in 1970 perhaps.
	BestNS int64
	// LatestNS: true time was not after this. Rounded up.
	LatestNS int64
	// Count is the count that the time is of.
	Count uint64
	// TAIOffset is TAI − UTC at the best estimate, s, if TAIKnown; otherwise it only counts leap
	// seconds since the daemon began.
	TAIOffset int32
	// Status of the clock.
	Status Status
	// TAIKnown says whether TAIOffset is TAI − UTC.
	TAIKnown bool
	// LeapSecond: the best estimate lies within an inserted second, 23:59:60, which Unix time shows
	// as another 23:59:59.
	LeapSecond bool
}

// Earliest is EarliestNS as UTC.
func (r Reading) Earliest() time.Time { return time.Unix(0, r.EarliestNS).UTC() }

// Best is BestNS as UTC.
func (r Reading) Best() time.Time { return time.Unix(0, r.BestNS).UTC() }

// Latest is LatestNS as UTC.
func (r Reading) Latest() time.Time { return time.Unix(0, r.LatestNS).UTC() }

// Bound is the farthest that true time may be from the best estimate, ≥ 0; false if nothing is
// promised.
func (r Reading) Bound() (time.Duration, bool) {
	if !r.Status.BoundHolds() {
		return 0, false
	}
	before, after := r.BestNS-r.EarliestNS, r.LatestNS-r.BestNS
	if after > before {
		before = after
	}
	if before < 0 {
		// Farther than can be said.
		before = 1<<63 - 1
	}
	return time.Duration(before), true
}

// Moment is a count that knows which counter it is of: what to keep of an event in order to ask later
// when it was, or how long ago. The words are those of a moment in the client in Rust and in C.
type Moment struct {
	// Count is the count.
	Count uint64
	// Stretch says of which counter, and in which unbroken stretch of it.
	Stretch uint64
}

func (m Moment) kind() kind { return kind(m.Stretch) }

func (m Moment) epoch() uint32 { return uint32(m.Stretch >> 32) }

func (m Moment) valid() bool { return m.Stretch>>8&0xff == 0 && m.kind().String() != "" }

// Length is a length of time by the difference clock.
type Length struct {
	// Span is how long, to the nearest nanosecond; negative if the second moment came first.
	Span time.Duration
	// Bound: the true length is within this of Span, ≥ 0, rounded up.
	Bound time.Duration
}

// Clock is a clock to read. It serves any number of goroutines: open it once.
type Clock struct {
	page   *page
	boot   [2]uint64
	fenced bool
	closed atomic.Bool
	// The newest hand that was examined in full and found to stand; 0 for none. A reading goes
	// straight ahead with this one only.
	vetted atomic.Uint64
	// The hypervisor's word that the machine was migrated or restored.
	hypervisor hypervisor
	// The smallest step of the native counter and of CLOCK_MONOTONIC_RAW, once measured.
	steps [2]atomic.Int64
	_     [64]byte
	// The latest that NowMonotone has given out, ns of Unix time.
	latest atomic.Int64
	up     uptime
	_      [64]byte
}

// Option is something to ask of a clock as it is opened.
type Option func(*Clock)

// Fenced makes each reading of the counter wait for what is before it and hold up what is after it,
// for some 15 ns. Otherwise the processor may read it some instructions earlier or later: tens of
// nanoseconds at most, which the bound does not contain.
func Fenced() Option { return func(c *Clock) { c.fenced = true } }

const never = -1 << 63

// Open opens the clock of this machine: the page that $TRUECHIMER_PAGE names, else
// $XDG_RUNTIME_DIR/truechimer/clock or /run/truechimer/clock: the first that a daemon tends, or the
// first that exists. A page without any time yet is no error here but one of Now.
func Open(options ...Option) (*Clock, error) {
	searched := places()
	var found *page
	var first error
	for _, path := range searched {
		page, err := openPage(path)
		switch {
		case err == nil && tended(page.file):
			if found != nil {
				_ = found.file.Close()
			}
			return opened(page, options)
		case err == nil && found == nil && first == nil:
			found = page
		case err == nil:
			_ = page.file.Close()
		case err.(*failure).kind != ErrNoPage && found == nil && first == nil:
			first = err
		}
	}
	switch {
	case found != nil:
		return opened(found, options)
	case first != nil:
		return nil, first
	}
	return nil, missing(searched)
}

// OpenAt opens the clock whose page is at path.
func OpenAt(path string, options ...Option) (*Clock, error) {
	page, err := openPage(path)
	if err != nil {
		return nil, err
	}
	return opened(page, options)
}

func opened(page *page, options []Option) (*Clock, error) {
	clock := &Clock{page: page}
	clock.latest.Store(never)
	clock.up.latest.Store(never)
	for _, option := range options {
		option(clock)
	}
	if err := clock.begin(); err != nil {
		_ = page.file.Close()
		return nil, err
	}
	return clock, nil
}

func (c *Clock) begin() error {
	// The kernel's clock is what the counter is checked against when no daemon does.
	if err := checkNamespace(); err != nil {
		return err
	}
	var err error
	if c.boot, err = readBoot(); err != nil {
		return err
	}
	var h hand
	if field := c.page.newest(&h); field != "" {
		return corrupt(c.page.path, field)
	}
	switch {
	case h.generation == 0:
		return nil
	case c.ofThisBoot(&h):
		// Now, as a program may give up its rights once it has opened all it needs.
		c.hypervisor.seek(h.vmclock)
		return h.kind().readable()
	// A daemon of this boot that has not published yet: its lock shows that it is there.
	case tended(c.page.file):
		return nil
	}
	return fail(ErrOtherBoot, fmt.Sprintf("the clock page %s was left by another boot, and no daemon tends it: start one "+
		"(truechimer run --server HOST)", c.page.path))
}

func (c *Clock) ofThisBoot(h *hand) bool {
	return h.words[wordBoot] == c.boot[0] && h.words[wordBoot+1] == c.boot[1]
}

// Page is the path of the clock's page.
func (c *Clock) Page() string { return c.page.path }

// Close ends the use of the clock: from then on there is ErrClosed. Other goroutines may be reading
// meanwhile; the 4096 bytes are unmapped when nothing refers to the clock any more.
func (c *Clock) Close() error {
	if c.closed.Swap(true) {
		return ErrClosed
	}
	c.vetted.Store(0)
	return c.page.file.Close()
}

// Now is the time now, with its bound and status.
func (c *Clock) Now() (reading Reading, err error) {
	var r instants
	if err = c.now(&r); err == nil {
		r.tell(&reading)
	}
	return
}

// now is the way of nearly all readings, by the newest hand as it lies in the page, if all is as
// usual: it was examined before, promises a bound, and a daemon tends it.
//
// Whether the counter is read before or after the hand does not matter: should a newer hand come out
// in between, this one still holds. What does matter is that words and count are of the same counter,
// and of the same hand, which is asked last.
func (c *Clock) now(r *instants) error {
	p := c.page.mapping
	generation := load(&p.sequence)
	if generation == c.vetted.Load() && generation != 0 {
		slot := &p.hand[generation%slots]
		w := &slot.words
		state := load(&w[wordState])
		var count uint64
		switch {
		case kind(state) == native && native != kindRaw && !c.fenced:
			count = readNative()
		default:
			count = kind(state).read(c.fenced)
		}
		span := times(int64(count-load(&w[wordBase])), load(&w[wordPeriod]), load(&w[wordPeriod+1]))
		bound := wide{int64(load(&w[wordBound])), load(&w[wordBound+1])}.plus(share(span, load(&w[wordGrowth])))
		r.best = wide{int64(load(&w[wordTime])), load(&w[wordTime+1])}.plus(span)
		imbalance := int64(0)
		if apart := &p.beside[generation%slots]; load(&apart.of) == generation {
			imbalance = int64(load(&apart.words[besideImbalance]))
		}
		before, after := sides(bound, imbalance)
		r.earliest, r.latest = r.best.minus(before), r.best.plus(after)
		r.count, r.status = count, Status(state>>8)
		r.leaps = leaps{load(&w[wordLeaps]), load(&w[wordLastLeap]), load(&w[wordNextLeap])}
		if c.stands(p, slot, generation, count) {
			return nil
		}
	}
	return c.nowLessQuickly(r)
}

// stands says whether the hand can be used as it is at that count, and whether all that was loaded so
// far was of it: it is not void, it is the newest still, and the daemon looked at the host within the
// last three seconds (nor that far in the future, as it seems after the counter went back).
func (c *Clock) stands(p *mapping, slot *slot, generation, count uint64) bool {
	w := &slot.words
	if device := c.hypervisor.device.Load(); device != nil && !device.letsStand(&p.beside[generation%slots], generation) {
		return false
	}
	patience, voidAfter := load(&w[wordPatience]), load(&w[wordVoidAfter])
	silence := count - load(&p.heartbeat)
	// Loads are acquire: what is asked here is as it was after all loads before.
	whole := load(&slot.generation) == generation && load(&p.sequence) == generation
	runtime.KeepAlive(p)
	return whole && silence+patience <= 2*patience && int64(voidAfter-count) >= 0
}

// now for when something is unusual.
//
//go:noinline
func (c *Clock) nowLessQuickly(r *instants) error {
	var v view
	if err := c.view(&v); err != nil {
		return err
	}
	*r = v.at(v.count, v.status)
	return nil
}

// view is the clock's state after a look at the host's own clocks.
type view struct {
	hand
	count  uint64
	status Status
}

// view looks at the newest hand and at the host's own clocks: some microseconds.
func (c *Clock) view(v *view) error {
	defer runtime.KeepAlive(c.page.mapping)
	if c.closed.Load() {
		return ErrClosed
	}
	if field := c.page.newest(&v.hand); field != "" {
		return corrupt("the clock page", field)
	}
	if v.generation == 0 || !c.ofThisBoot(&v.hand) {
		if tended(c.page.file) {
			return errStarting
		}
		return errNeverSet
	}
	kind := v.kind()
	if err := kind.readable(); err != nil {
		return err
	}
	c.hypervisor.seek(v.vmclock)
	heartbeat := load(&c.page.heartbeat)
	host := readHost(kind)
	var stands bool
	v.status, stands = v.judge(heartbeat, &host)
	v.count = kind.read(c.fenced)
	if !c.hypervisor.agrees(v.vmclock, v.marker) {
		v.status, stands = Disrupted, false
	}
	if stands && v.status.BoundHolds() {
		c.vetted.Store(v.generation)
		if c.closed.Load() {
			c.vetted.Store(0)
		}
	}
	return nil
}

// statusAt is the status of the clock for another moment: a hand that is void by now still holds for
// the time that it was made for.
func (v *view) statusAt(count uint64) Status {
	switch {
	case v.status == Disrupted:
		return Disrupted
	case v.voidAt(count):
		return Unknown
	case v.status == Unknown && v.hand.status().BoundHolds():
		return Holdover
	}
	return v.status
}

// NowMonotone is the time now, never before what an earlier call on this clock gave, in any goroutine:
// the best estimate stands still while the clock goes back, or while nothing is promised, and through
// an inserted leap second, in which Unix time shows 23:59:59 once more.
func (c *Clock) NowMonotone() (Reading, error) {
	var r instants
	if err := c.now(&r); err != nil {
		return Reading{}, err
	}
	told := r.reading()
	if r.status.BoundHolds() {
		told.BestNS = latest(&c.latest, told.BestNS)
	} else if before := c.latest.Load(); before != never {
		told.BestNS = before
	}
	if told.BestNS < told.EarliestNS {
		told.EarliestNS = told.BestNS
	}
	if told.LatestNS < told.BestNS {
		told.LatestNS = told.BestNS
	}
	return told, nil
}

// latest raises what was given out to n, if that is more, and is the greater of the two.
func latest(given *atomic.Int64, n int64) int64 {
	for {
		before := given.Load()
		if before >= n {
			return before
		}
		if given.CompareAndSwap(before, n) {
			return n
		}
	}
}

// Status is the status of the clock now.
func (c *Clock) Status() (Status, error) {
	var r instants
	err := c.now(&r)
	return r.status, err
}

// Count is this moment, to ask about later. It costs little more than reading the counter.
func (c *Clock) Count() (Moment, error) {
	p := c.page.mapping
	generation := load(&p.sequence)
	if generation == c.vetted.Load() && generation != 0 {
		slot := &p.hand[generation%slots]
		state := load(&slot.words[wordState])
		count := kind(state).read(c.fenced)
		if c.stands(p, slot, generation, count) {
			return momentOf(count, state), nil
		}
	}
	var v view
	if err := c.view(&v); err != nil {
		return Moment{}, err
	}
	if v.status == Disrupted && v.hand.status() != Disrupted {
		return Moment{}, errBroken
	}
	return momentOf(v.count, v.words[wordState]), nil
}

func momentOf(count, state uint64) Moment { return Moment{count, state&0xff | state>>32<<32} }

// TimeOf is the time of a moment, by what is known now: the bound grows with the distance, in either
// direction.
func (c *Clock) TimeOf(moment Moment) (Reading, error) {
	var v view
	if err := c.viewOf(&v, moment, moment); err != nil {
		return Reading{}, err
	}
	r := v.at(moment.Count, v.statusAt(moment.Count))
	return r.reading(), nil
}

// Elapsed is how long it was from one moment to another, by the difference clock: the one that knows
// nothing of corrections to the time, only how long a count lasts. Negative if to came first.
func (c *Clock) Elapsed(from, to Moment) (Length, error) {
	span, bound, err := c.elapsed(from, to)
	if err != nil {
		return Length{}, err
	}
	ns := span.nanos()
	// Rounding to whole nanoseconds is an error of its own.
	rounding := span.sub(ofNanos(ns)).abs()
	return Length{time.Duration(ns), time.Duration(bound.add(rounding).nanosUp())}, nil
}

func (c *Clock) elapsed(from, to Moment) (span, bound wide, err error) {
	var v view
	if err := c.viewOf(&v, from, to); err != nil {
		return wide{}, wide{}, err
	}
	for _, moment := range [2]Moment{from, to} {
		if v.voidAt(moment.Count) && int64(v.count-moment.Count) < 0 {
			return wide{}, wide{}, errNotOver
		}
		if v.voidAt(moment.Count) {
			return wide{}, wide{}, errVoid
		}
	}
	if v.status == Disrupted {
		return wide{}, wide{}, errBroken
	}
	span = v.differenceSpan(int64(to.Count - from.Count))
	bound = share(span, v.words[wordDifferenceError])
	step := v.differenceSpan(c.step(v.kind()))
	// Either count may be old by up to one step; one unit more for the rounding of each.
	return span, bound.add(step).add(wide{0, 3}), nil
}

// viewOf is a view in which counts of both moments mean something.
func (c *Clock) viewOf(v *view, from, to Moment) error {
	if !from.valid() || !to.valid() {
		return ErrMoment
	}
	if !c.quickView(v, from, to) {
		if err := c.view(v); err != nil {
			return err
		}
	}
	for _, moment := range [2]Moment{from, to} {
		if moment.kind() != v.kind() {
			return fail(ErrOtherEpoch, fmt.Sprintf("that moment is of the counter %s, and the clock goes by %s now",
				moment.kind(), v.kind()))
		}
		if moment.epoch() != v.epoch() {
			return fail(ErrOtherEpoch, fmt.Sprintf("the counter lost its continuity in between: that moment is of epoch %d, the "+
				"clock in epoch %d", moment.epoch(), v.epoch()))
		}
	}
	return nil
}

// quickView copies the newest hand if all is as usual and both moments are over.
func (c *Clock) quickView(v *view, from, to Moment) bool {
	p := c.page.mapping
	generation := load(&p.sequence)
	if generation != c.vetted.Load() || generation == 0 {
		return false
	}
	slot := &p.hand[generation%slots]
	for i := range v.words {
		v.words[i] = load(&slot.words[i])
	}
	v.imbalance = 0
	if apart := &p.beside[generation%slots]; load(&apart.of) == generation {
		v.imbalance = int64(load(&apart.words[besideImbalance]))
	}
	v.generation, v.status, v.count = generation, v.hand.status(), v.kind().read(c.fenced)
	return c.stands(p, slot, generation, v.count) &&
		int64(v.count-from.Count) >= 0 && int64(v.count-to.Count) >= 0
}

// step is the smallest step of a counter that is read here, measured at the first call.
func (c *Clock) step(k kind) int64 {
	place := &c.steps[0]
	if k == kindRaw {
		place = &c.steps[1]
	}
	if step := place.Load(); step != 0 {
		return step
	}
	place.CompareAndSwap(0, k.resolution())
	return place.Load()
}
