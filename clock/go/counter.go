//go:build linux

package truechimer

import (
	"fmt"
	"runtime"
	"sort"
)

// Pages are read by loads of 64 bits, which a machine of 32 bits cannot make of read-only memory.
const _ = uint(^uint(0)>>63 - 1)

// kind is the number of a counter in the page.
type kind uint8

const (
	kindTSC        kind = 1
	kindArmGeneric kind = 2
	kindRaw        kind = 3
	kindHPET       kind = 4
	kindACPI       kind = 5
	kindSimulated  kind = 255
)

func (k kind) String() string {
	switch k {
	case kindTSC:
		return "tsc"
	case kindArmGeneric:
		return "arm-generic"
	case kindRaw:
		return "raw"
	case kindHPET:
		return "hpet"
	case kindACPI:
		return "acpi-pm"
	case kindSimulated:
		return "simulated"
	}
	return ""
}

// readable says why the counter cannot be read here; nil if it can.
func (k kind) readable() error {
	if k == native {
		return nativeReadable()
	}
	switch k {
	case kindRaw:
		return nil
	case kindSimulated:
		return fail(ErrCounter, "cannot read the clock's counter: the counter is a simulation's: there is nothing to read")
	case kindHPET, kindACPI:
		return fail(ErrCounter, fmt.Sprintf("cannot read the clock's counter %v: the reader in Go reads no devices. Start the "+
			"daemon with --counter raw, or read the clock through libtruechimer", k))
	}
	return fail(ErrCounter, fmt.Sprintf("cannot read the clock's counter: this machine (%s) has no counter '%v': "+
		"use --counter auto or raw", runtime.GOARCH, k))
}

// read reads a counter that is readable.
func (k kind) read(fenced bool) uint64 {
	switch {
	case k != native || native == kindRaw:
		// The kernel's read always is in order.
		return uint64(gettime(clockMonotonicRaw))
	case fenced:
		return readNativeFenced()
	}
	return readNative()
}

// Number of readings in a row that show how fine a counter is, and of tries.
const (
	burst  = 256
	bursts = 16
)

// resolution is the smallest step of a counter, ≥ 1, as far as it shows: under 0.2 ms for those that
// an instruction reads.
func (k kind) resolution() int64 {
	least := int64(1<<63 - 1)
	for i := 0; i < bursts; i++ {
		var readings [burst]uint64
		for j := range readings {
			readings[j] = k.read(false)
		}
		// An interruption makes a burst look coarse, never fine.
		if step := usualStep(&readings); step < least {
			least = step
		}
	}
	return least
}

// usualStep is the step up to which half of the way is made; 1 if there is no way. Some processors
// add one to a reading that would otherwise repeat the last, so the least step says little.
func usualStep(readings *[burst]uint64) int64 {
	var steps []int64
	whole, way := int64(0), int64(0)
	for i := 1; i < burst; i++ {
		if step := int64(readings[i] - readings[i-1]); step > 0 {
			steps = append(steps, step)
			whole += step
		}
	}
	sort.Slice(steps, func(i, j int) bool { return steps[i] < steps[j] })
	for _, step := range steps {
		if way += step; way >= whole-way {
			return step
		}
	}
	return 1
}
