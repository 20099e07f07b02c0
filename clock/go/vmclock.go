//go:build linux

package truechimer

import (
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
)

// vmclock is the page in which the hypervisor says that the machine was migrated or restored.
type vmclock struct {
	*device
	// Number of the device, if nobody says where it is.
	number uint64
	chosen bool
}

const (
	// Another name of the device than /dev/vmclockN.
	vmclockVariable = "TRUECHIMER_VMCLOCK"
	// Word of a hand on a device that is elsewhere.
	vmclockElsewhere = 0xffff
	vmclockMagic     = 0x4b4c4356
	vmclockVersion   = 1
	vmclockMinSize   = 32
)

// hypervisor is the device, from when a hand first says that there is one to look at.
type hypervisor struct {
	device atomic.Pointer[vmclock]
	sought atomic.Bool
}

// seek opens the device that a hand names, if it is there and may be read.
func (h *hypervisor) seek(said uint64) {
	if said == 0 || h.sought.Swap(true) {
		return
	}
	path, chosen := "", false
	if !privileged() {
		path = os.Getenv(vmclockVariable)
		chosen = path != ""
	}
	if !chosen {
		if said == vmclockElsewhere {
			return
		}
		path = fmt.Sprintf("/dev/vmclock%d", said-1)
	}
	if found := openVmclock(path); found != nil {
		h.device.Store(&vmclock{found, said, chosen})
	}
}

// agrees says whether the marker is still that of the hand, as far as this process can see.
func (h *hypervisor) agrees(said, marker uint64) bool {
	device := h.device.Load()
	if device == nil || said == 0 || !device.chosen && device.number != said {
		return true
	}
	agrees := device.marker() == marker
	runtime.KeepAlive(device)
	return agrees
}

// letsStand says likewise of a hand as it lies in the page. It is to be asked after the count was read
// that the hand is used with.
func (d *vmclock) letsStand(apart *beside, generation uint64) bool {
	stands := load(&apart.of) != generation || load(&apart.words[besideMarker]) == d.marker() ||
		load(&apart.words[besideVmclock]) == 0
	runtime.KeepAlive(d)
	return stands
}

// openVmclock maps the device, if it is one.
func openVmclock(path string) *device {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	var meta syscall.Stat_t
	if syscall.Fstat(int(file.Fd()), &meta) != nil {
		return nil
	}
	switch meta.Mode & syscall.S_IFMT {
	case syscall.S_IFCHR:
	case syscall.S_IFREG:
		if meta.Size < int64(os.Getpagesize()) {
			return nil
		}
	default:
		return nil
	}
	mapped, err := mapDevice(file)
	if err != nil {
		return nil
	}
	identity, version := littleEndian(load(&mapped.identity)), littleEndian(load(&mapped.version))
	if uint32(identity) != vmclockMagic || uint16(version) != vmclockVersion || identity>>32 < vmclockMinSize {
		return nil
	}
	return mapped
}

// marker is the disruption marker now, by one load.
func (d *device) marker() uint64 { return littleEndian(load(&d.vmclockLayout.marker)) }

// littleEndian is a number of a device, whose bytes are in that order.
func littleEndian(word uint64) uint64 {
	if bigEndian {
		return bits.ReverseBytes64(word)
	}
	return word
}
