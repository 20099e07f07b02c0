//go:build linux

package truechimer

import (
	"context"
	"errors"
	"math/bits"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// daemon is a stand-in for the daemon: it writes a page by the document.
type daemon struct {
	path string
	page *layout
	file *os.File
	kind kind
	// How long a count lasts, 2⁻¹²⁸ s.
	high, low uint64
}

func newDaemon(t testing.TB) *daemon { return newDaemonBy(t, native) }

func newDaemonBy(t testing.TB, kind kind) *daemon {
	t.Helper()
	d := &daemon{path: filepath.Join(t.TempDir(), "clock"), kind: kind}
	from := readHost(kind)
	time.Sleep(50 * time.Millisecond)
	to := readHost(kind)
	span, counts := ofNanos(to.raw-from.raw), to.count-from.count
	high, rest := bits.Div64(0, span.lo, counts)
	low, _ := bits.Div64(rest, 0, counts)
	// Sixty-four bits from the topmost one on.
	unused := 64 - uint(bits.LeadingZeros64(high))
	d.high, d.low = high, low>>unused<<unused
	var err error
	if d.file, err = os.OpenFile(d.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := d.file.Truncate(pageSize); err != nil {
		t.Fatal(err)
	}
	bytes, err := syscall.Mmap(int(d.file.Fd()), 0, pageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = d.file.Close(), syscall.Munmap(bytes) })
	p := (*layout)(unsafe.Pointer(&bytes[0]))
	p.version, p.size, p.hands, p.handSize, p.handsOffset = pageVersion, pageSize, slots, handSize, handsOffset
	atomic.StoreUint64(&p.magic, pageMagic)
	d.page = p
	return d
}

// words of a synchronised hand of this moment: its time is 1 790 000 000 s.
func (d *daemon) words(t testing.TB) (w [handWords]uint64) {
	boot, err := readBoot()
	if err != nil {
		t.Fatal(err)
	}
	host := readHost(d.kind)
	period, ok := periodOf(d.high, d.low)
	if !ok {
		t.Fatal(d)
	}
	w[wordBase], w[wordTime] = host.count, 1_790_000_000
	w[wordPeriod], w[wordPeriod+1] = d.high, d.low
	w[wordDifference], w[wordDifference+1] = w[wordPeriod], w[wordPeriod+1]
	w[wordState] = uint64(d.kind) | uint64(Synchronised)<<8 | 1<<32
	w[wordBound+1], w[wordPathBound+1] = 1<<50, 1<<49
	w[wordVoidAfter] = host.count + uint64(period.counts(wide{1000, 0}))
	w[wordPatience] = uint64(period.counts(wide{3, 0}))
	w[wordLeaps] = 37 | 1<<48
	w[wordBoot], w[wordBoot+1] = boot[0], boot[1]
	w[wordMade], w[wordMade+1] = host.count, uint64(host.raw)
	w[wordMadeRaw], w[wordMadeSuspended] = uint64(host.raw), uint64(host.suspended)
	return w
}

func (d *daemon) publish(w *[handWords]uint64) {
	generation := atomic.LoadUint64(&d.page.sequence) + 1
	slot, apart := &d.page.hand[generation%slots], &d.page.beside[generation%slots]
	atomic.StoreUint64(&slot.generation, 0)
	for i := range apart.words {
		atomic.StoreUint64(&apart.words[i], 0)
	}
	atomic.StoreUint64(&apart.of, generation)
	for i, word := range w {
		atomic.StoreUint64(&slot.words[i], word)
	}
	atomic.StoreUint64(&slot.generation, generation)
	atomic.StoreUint64(&d.page.sequence, generation)
	d.look()
}

func (d *daemon) look() { atomic.StoreUint64(&d.page.heartbeat, d.kind.read(true)) }

func (d *daemon) clock(t testing.TB, options ...Option) *Clock {
	t.Helper()
	clock, err := OpenAt(d.path, options...)
	if err != nil {
		t.Fatal(err)
	}
	return clock
}

func synchronised(t testing.TB) *daemon {
	d := newDaemon(t)
	w := d.words(t)
	d.publish(&w)
	return d
}

// All hands are of one and the same clock, each from another base and with a wider bound than the one
// before: so every reading has to lie on the line.
func TestNoReadingMixesTwoHandsInManyGoroutines(t *testing.T) {
	d := newDaemon(t)
	first := d.words(t)
	d.publish(&first)
	clock := d.clock(t)
	var h hand
	h.words = first
	var done atomic.Bool
	var readers sync.WaitGroup
	for i := 0; i < 8; i++ {
		readers.Add(1)
		go func() {
			defer readers.Done()
			widest := wide{}
			for !done.Load() {
				var r instants
				if err := clock.now(&r); err != nil {
					t.Errorf("no reading: %v", err)
					return
				}
				line := h.wide(wordTime).plus(h.span(int64(r.count - first[wordBase])))
				// But for the rounding of two products.
				if off := r.best.minus(line).abs(); (wide{0, 2}).less(off) {
					t.Errorf("off the line by %v", off)
					return
				}
				if r.bound().less(widest) || r.best.minus(r.earliest) != r.latest.minus(r.best) {
					t.Errorf("an older hand after a newer one, or two: %+v", r)
					return
				}
				widest = r.bound()
			}
		}()
	}
	for n := uint64(1); n < 20_000; n++ {
		w := first
		away := int64(n*0x9e3779b97f4a7c15) >> 30
		time := h.wide(wordTime).plus(h.span(away))
		w[wordBase] += uint64(away)
		w[wordTime], w[wordTime+1] = uint64(time.hi), time.lo
		w[wordBound+1] += n
		d.publish(&w)
		if n%64 == 0 {
			syscall.Nanosleep(&syscall.Timespec{Nsec: 20_000}, nil)
		}
	}
	done.Store(true)
	readers.Wait()
}

func TestMonotoneTimeIsSoInAllGoroutines(t *testing.T) {
	d := synchronised(t)
	clock := d.clock(t)
	first := d.words(t)
	var done atomic.Bool
	var readers sync.WaitGroup
	var order sync.Mutex
	var last, lastUp int64
	for i := 0; i < 4; i++ {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for !done.Load() {
				order.Lock()
				now, err := clock.NowMonotone()
				up, errUp := clock.Uptime()
				if err != nil || errUp != nil || now.BestNS < last || int64(up.Span) < lastUp {
					t.Errorf("%+v after %d, %+v after %d: %v, %v", now, last, up, lastUp, err, errUp)
				}
				last, lastUp = now.BestNS, int64(up.Span)
				order.Unlock()
			}
		}()
	}
	for n := uint64(0); n < 2_000; n++ {
		w := first
		w[wordTime]--
		w[wordTime+1] -= n * 7919 % 40 << 44
		d.publish(&w)
	}
	done.Store(true)
	readers.Wait()
}

func TestAMomentThatIsNotOverIsToldFromAnOldPage(t *testing.T) {
	d := newDaemon(t)
	w := d.words(t)
	w[wordVoidAfter] = w[wordBase]
	d.publish(&w)
	clock := d.clock(t)
	moment, err := clock.Count()
	if err != nil {
		t.Fatal(err)
	}
	ahead := moment
	ahead.Count += 1 << 40
	for _, of := range []struct {
		from Moment
		want error
	}{{moment, errVoid}, {ahead, errNotOver}} {
		if _, err := clock.Elapsed(of.from, moment); err != of.want || !errors.Is(err, ErrVoid) {
			t.Errorf("%v, not %v", err, of.want)
		}
	}
}

func TestAReadingTakesNoMemory(t *testing.T) {
	d := synchronised(t)
	clock := d.clock(t)
	moment, err := clock.Count()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clock.Elapsed(moment, moment); err != nil {
		t.Fatal(err)
	}
	if _, err := clock.Uptime(); err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func(){
		"Now":         func() { _, _ = clock.Now() },
		"NowMonotone": func() { _, _ = clock.NowMonotone() },
		"Status":      func() { _, _ = clock.Status() },
		"Count":       func() { _, _ = clock.Count() },
		"TimeOf":      func() { _, _ = clock.TimeOf(moment) },
		"Elapsed":     func() { _, _ = clock.Elapsed(moment, moment) },
		"Uptime":      func() { _, _ = clock.Uptime() },
		"Bound":       func() { now, _ := clock.Now(); _, _ = now.Bound(); _ = now.Earliest() },
		"unwatched": func() {
			atomic.StoreUint64(&d.page.heartbeat, 1)
			_, _ = clock.Now()
			d.look()
		},
	} {
		if n := testing.AllocsPerRun(200, ask); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestWithoutADaemonItIsHoldover(t *testing.T) {
	d := synchronised(t)
	clock := d.clock(t)
	period, _ := periodOf(d.high, d.low)
	atomic.StoreUint64(&d.page.heartbeat, d.kind.read(true)-uint64(period.counts(wide{4, 0})))
	if status, err := clock.Status(); status != Holdover || err != nil {
		t.Fatal(status, err)
	}
	now, _ := clock.Now()
	if bound, ok := now.Bound(); !ok || bound <= 0 || now.Earliest().After(now.Best()) || now.Latest().Before(now.Best()) {
		t.Fatalf("%+v", now)
	}
	d.look()
	if status, _ := clock.Status(); status != Synchronised {
		t.Fatal(status)
	}
}

func TestAClosedClockSaysSo(t *testing.T) {
	d := synchronised(t)
	clock := d.clock(t, Fenced())
	var readers sync.WaitGroup
	for i := 0; i < 4; i++ {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for {
				if _, err := clock.Now(); err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		}()
	}
	time.Sleep(5 * time.Millisecond)
	if err := clock.Close(); err != nil {
		t.Fatal(err)
	}
	readers.Wait()
	if err := clock.Close(); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, err := clock.WaitAfter(context.Background(), time.Unix(0, 0)); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestWaitsEndWithTheirContext(t *testing.T) {
	d := synchronised(t)
	clock := d.clock(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	now, _ := clock.Now()
	_, err := clock.WaitAfter(ctx, now.Latest().Add(time.Hour))
	var failed *WaitError
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &failed) || !failed.Last.Status.BoundHolds() {
		t.Fatal(err)
	}
	after, err := clock.WaitAfter(context.Background(), now.Latest())
	if err != nil || !after.Earliest().After(now.Latest()) {
		t.Fatalf("%v: %+v, %+v", err, now, after)
	}
}

// A sleep is by the kernel's clock, which may run slower by a tenth than true time.
func TestASleepEndsInTimeHoweverTheKernelsClockIsSlewed(t *testing.T) {
	for _, turns := range []time.Duration{spin, spinBefore} {
		for span := turns; span <= longest; span += span/7 + 1 {
			slept := sleptIn(span, turns)
			if late := slept + slept/10 - span; late >= turns {
				t.Errorf("%v of %v: %v late at most, no more than %v is waited for without sleep", slept, span, late, turns)
			}
			if slept < span-span/8 {
				t.Errorf("%v of %v is slept for", slept, span)
			}
		}
	}
}

func TestDevicesAreRefusedWithTheMend(t *testing.T) {
	d := newDaemon(t)
	w := d.words(t)
	w[wordState] = w[wordState]&^0xff | uint64(kindHPET)
	w[wordBits] = 32
	d.publish(&w)
	_, err := OpenAt(d.path)
	if !errors.Is(err, ErrCounter) || err.Error() != "cannot read the clock's counter hpet: the reader in Go reads no devices. "+
		"Start the daemon with --counter raw, or read the clock through libtruechimer" {
		t.Fatal(err)
	}
}

func TestThePageIsWhereTheEnvironmentSays(t *testing.T) {
	d := synchronised(t)
	t.Setenv("TRUECHIMER_PAGE", d.path)
	clock, err := Open()
	if err != nil || clock.Page() != d.path {
		t.Fatal(err)
	}
	t.Setenv("TRUECHIMER_PAGE", "")
	folder := filepath.Join(t.TempDir(), "truechimer")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", filepath.Dir(folder))
	if err := os.Link(d.path, filepath.Join(folder, "clock")); err != nil {
		t.Fatal(err)
	}
	if clock, err = Open(); err != nil || clock.Page() != filepath.Join(folder, "clock") {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "relative")
	if got := places(); len(got) != 1 || got[0] != systemPage {
		t.Fatal(got)
	}
}

// Words gone mad are never time: no panic, and no bound that is none.
func FuzzNonsenseInThePage(f *testing.F) {
	d := synchronised(f)
	right := d.words(f)
	clock := d.clock(f)
	for i := range right {
		f.Add(uint8(i), uint64(1)<<uint(i), uint8(i+1), ^uint64(0))
	}
	f.Fuzz(func(t *testing.T, at uint8, value uint64, also uint8, other uint64) {
		w := right
		w[at%handWords], w[also%handWords] = value, w[also%handWords]^other
		d.publish(&w)
		moment := Moment{value, right[wordState]&0xff | 1<<32}
		for i := 0; i < 2; i++ {
			for _, ask := range []func() (Reading, error){
				clock.Now, clock.NowMonotone, func() (Reading, error) { return clock.TimeOf(moment) },
			} {
				r, err := ask()
				if err == nil && (r.EarliestNS > r.BestNS || r.BestNS > r.LatestNS) {
					t.Fatalf("%+v", r)
				}
			}
			if length, err := clock.Elapsed(moment, Moment{other, moment.Stretch}); err == nil && length.Bound < 0 {
				t.Fatalf("%+v", length)
			}
			_, _ = clock.Uptime()
		}
	})
}

// The page of the processor's own counter is what programs mostly read.
func BenchmarkNow(b *testing.B) { benchmark(b, native) }

func BenchmarkNowByTheRawClock(b *testing.B) { benchmark(b, kindRaw) }

func BenchmarkNowFenced(b *testing.B) { benchmark(b, native, Fenced()) }

func benchmark(b *testing.B, kind kind, options ...Option) {
	d := newDaemonBy(b, kind)
	w := d.words(b)
	d.publish(&w)
	clock := d.clock(b, options...)
	var done atomic.Bool
	var looking sync.WaitGroup
	looking.Add(1)
	go func() {
		defer looking.Done()
		for !done.Load() {
			d.look()
			time.Sleep(100 * time.Millisecond)
		}
	}()
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if _, err := clock.Now(); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	done.Store(true)
	looking.Wait()
}

func BenchmarkCount(b *testing.B) {
	d := newDaemonBy(b, native)
	w := d.words(b)
	d.publish(&w)
	clock := d.clock(b)
	for i := 0; i < b.N; i++ {
		_, _ = clock.Count()
	}
}

func BenchmarkTimeNow(b *testing.B) {
	for i := 0; i < b.N; i++ {
		now = time.Now()
	}
}

func BenchmarkBareCounter(b *testing.B) {
	for i := 0; i < b.N; i++ {
		_ = readNative()
	}
}

var now time.Time
