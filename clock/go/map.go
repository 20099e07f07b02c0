//go:build linux

package truechimer

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// All that is unsafe in this package: the page in memory, and system calls that take a pointer.

// layout is the file as it lies in memory, by docs/reference/clock-page.md.
type layout struct {
	magic                          uint64
	version, size, hands, handSize uint32
	handsOffset                    uint64
	writer, reference, deviation   uint64
	_                              uint64
	sequence, heartbeat, keptAt    uint64
	_                              [5]uint64
	hand                           [slots]slot
	beside                         [slots]beside
	_                              [176]uint64
}

// slot is a hand as it lies in the page.
type slot struct {
	generation uint64
	words      [handWords]uint64
}

// beside is what stands beside a hand.
type beside struct {
	of    uint64
	words [besideWords]uint64
}

// The compiler refuses a layout of another size.
var _ = [1]struct{}{}[unsafe.Sizeof(layout{})-pageSize]

// mapPage maps the first 4096 bytes of a file that is known to be that long.
func mapPage(file *os.File) (*mapping, error) {
	bytes, err := syscall.Mmap(int(file.Fd()), 0, pageSize, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	// The mapping is as long as the layout, aligned to a memory page, and stays until the finaliser
	// has run. The words may change at any time: all loads are atomic.
	mapped := &mapping{layout: (*layout)(unsafe.Pointer(&bytes[0])), bytes: bytes}
	runtime.SetFinalizer(mapped, func(m *mapping) { _ = syscall.Munmap(m.bytes) })
	return mapped, nil
}

// mapping is a page in memory. It is unmapped when nothing refers to it any more, so that a reading in
// another goroutine never loses it.
type mapping struct {
	*layout
	bytes []byte
}

// vmclockLayout is the beginning of a vmclock device as it lies in memory.
type vmclockLayout struct {
	// Magic and size; version, and the sequence, which is not needed for one word.
	identity, version, marker uint64
}

// device is a vmclock device in memory, as mapping is a page.
type device struct {
	*vmclockLayout
	bytes []byte
}

// mapDevice maps one page of memory of a device, as its driver wants, or of a file that is known to be
// that long.
func mapDevice(file *os.File) (*device, error) {
	bytes, err := syscall.Mmap(int(file.Fd()), 0, os.Getpagesize(), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	// As for mapPage: it is longer than the layout, and aligned.
	mapped := &device{vmclockLayout: (*vmclockLayout)(unsafe.Pointer(&bytes[0])), bytes: bytes}
	runtime.SetFinalizer(mapped, func(d *device) { _ = syscall.Munmap(d.bytes) })
	return mapped, nil
}

func load(word *uint64) uint64 { return atomic.LoadUint64(word) }

func load32(word *uint32) uint32 { return atomic.LoadUint32(word) }

// gettime is one of the kernel's clocks in ns.
func gettime(clock uintptr) int64 {
	var now syscall.Timespec
	// The kernel writes to now, and knows these clocks.
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&now)), 0)
	return now.Sec*nanos + now.Nsec
}

// tended says whether a daemon has the file open for writing: whether one holds its lock.
func tended(file *os.File) bool {
	const getOFDLock = 36
	lock := syscall.Flock_t{Type: syscall.F_RDLCK}
	err := syscall.FcntlFlock(file.Fd(), getOFDLock, &lock)
	return err == nil && lock.Type == syscall.F_WRLCK
}

// privileged says whether this program has more rights than whoever started it (AT_SECURE): then the
// environment does not count.
func privileged() bool {
	const secure = 23
	auxv, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		// As it is for programs with more rights.
		return true
	}
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		pair := (*[2]uint64)(unsafe.Pointer(&auxv[0]))
		if pair[0] == secure {
			return pair[1] != 0
		}
	}
	return false
}
