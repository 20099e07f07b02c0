//go:build linux

package truechimer

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// The kernel's clocks, by their numbers.
const (
	clockMonotonic    = 1
	clockMonotonicRaw = 4
	clockBoottime     = 7
)

// hostReading is the host's clocks at one count, each within width of it.
type hostReading struct {
	count uint64
	// CLOCK_MONOTONIC_RAW, ns.
	raw int64
	// CLOCK_BOOTTIME − CLOCK_MONOTONIC, ns: time spent in suspend.
	suspended int64
	// CLOCK_BOOTTIME, ns.
	boot int64
	// Length of the whole reading, in counts.
	width int64
}

// readHost is the narrowest of five readings: some microseconds.
func readHost(k kind) hostReading {
	best := hostReading{width: -1}
	for i := 0; i < 5; i++ {
		before := k.read(true)
		monotonic := gettime(clockMonotonic)
		raw := gettime(clockMonotonicRaw)
		boot := gettime(clockBoottime)
		again := gettime(clockMonotonic)
		after := k.read(true)
		// Half-way between its two readings, as the others are on either side of it.
		monotonic += (again - monotonic) / 2
		width := int64(after - before)
		// As an unsigned number a negative width, a counter going backwards, is the widest of all.
		if i == 0 || uint64(width) < uint64(best.width) {
			best = hostReading{
				count: before + uint64(width>>1), raw: raw, suspended: boot - monotonic, boot: boot, width: width,
			}
		}
	}
	return best
}

// readBoot is this boot's number, its first digit uppermost.
func readBoot() ([2]uint64, error) {
	const path = "/proc/sys/kernel/random/boot_id"
	text, err := os.ReadFile(path)
	if err != nil {
		return [2]uint64{}, fail(ErrCounter, fmt.Sprintf("cannot tell this boot from others: %v: mount /proc", err))
	}
	digits := strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")
	if len(digits) == 32 {
		high, errHigh := strconv.ParseUint(digits[:16], 16, 64)
		low, errLow := strconv.ParseUint(digits[16:], 16, 64)
		if errHigh == nil && errLow == nil {
			return [2]uint64{high, low}, nil
		}
	}
	return [2]uint64{}, fail(ErrCounter, fmt.Sprintf("%s: '%s' is not a UUID", path, strings.TrimSpace(string(text))))
}

// checkNamespace refuses a time namespace that shifts the kernel's monotonic clocks: there breaks
// would show where there are none.
func checkNamespace() error {
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		// A kernel without such namespaces.
		return nil
	}
	if shift := shiftOf(string(text)); shift != "" {
		return fail(ErrCounter, fmt.Sprintf("cannot read the clock's counter: this process is in a time namespace that shifts "+
			"the monotonic clocks by %s: leave the namespace", shift))
	}
	return nil
}

// shiftOf is the shift of the monotonic clocks in /proc/self/timens_offsets; empty if there is none.
func shiftOf(text string) string {
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 3 && words[0] == "monotonic" && (words[1] != "0" || words[2] != "0") {
			return words[1] + " s + " + words[2] + " ns"
		}
	}
	return ""
}
