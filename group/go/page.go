//go:build linux

package group

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// All that is unsafe in this package: the front's page in memory (group/client/src/delivery.rs has it word by word),
// and the call that wakes the front.

const (
	pageMagic   = 0x3154_4e4f_5246_4354 // "TCFRONT1"
	pageVersion = 4
	headSize    = 4096
	ports       = 1 << 16
	pageSize    = headSize + ports*8
	processes   = 256

	flagClock  = 1
	flagFenced = 2

	markAccepted = 1 << 63
	markEnded    = 1 << 62
	markClosed   = 1 << 61
)

// layout is the page as it lies in memory.
type layout struct {
	magic            uint64
	version, head    uint32
	flags            uint64
	time             int64
	sequence         uint64
	_                [3]uint64
	programs         uint64
	busy, settles    uint32
	watching         uint32
	_                uint32
	process          uint64
	front            uint64
	handed, many     uint32
	filling, looking uint32
	looper, serial   uint32
	running          [processes]uint64
	_                [(headSize - 128 - processes*8) / 8]uint64
	taken            [ports]uint64
}

// The compiler refuses a layout of another size.
var _ = [1]struct{}{}[unsafe.Sizeof(layout{})-pageSize]

// Kinds of errors, to ask for with errors.Is. The error itself says more.
var (
	// ErrNoFront: no front that runs has its page there; one may come.
	ErrNoFront = errors.New("there is no front")
	// ErrVersion: the front is of another release.
	ErrVersion = errors.New("the front is of another release")
	// ErrFenced: the front could not go on with this program, which gets no time any more.
	ErrFenced = errors.New("the front has ended, as it could not go on with this program: there is no time")
)

// openPage maps the page of a front that runs. It stays mapped as long as the program runs.
func openPage(path string) (*layout, error) {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no %s (truechimer group front)", ErrNoFront, path)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if about.Size() < headSize || !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no whole page", ErrNoFront, path)
	}
	// The head first: of another release the page may have another length.
	head, err := syscall.Mmap(int(file.Fd()), 0, headSize, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("cannot map %s: %w", path, err)
	}
	begins := (*struct {
		magic         uint64
		version, head uint32
		_             [10]uint64
		front         uint64
	})(unsafe.Pointer(&head[0]))
	magic, front := atomic.LoadUint64(&begins.magic), atomic.LoadUint64(&begins.front)
	version, length := atomic.LoadUint32(&begins.version), atomic.LoadUint32(&begins.head)
	if err := syscall.Munmap(head); err != nil {
		return nil, err
	}
	switch {
	case magic != pageMagic:
		return nil, fmt.Errorf("%w: %s is no whole page", ErrNoFront, path)
	case isGone(front):
		return nil, fmt.Errorf("%w: that of %s has ended", ErrNoFront, path)
	case version != pageVersion:
		return nil, fmt.Errorf("%w: %s: its front speaks version %d of the page, and this program %d: use one release of both",
			ErrVersion, path, version, pageVersion)
	case length != headSize || about.Size() != pageSize:
		return nil, fmt.Errorf("%w: %s is no whole page", ErrNoFront, path)
	}
	whole, err := syscall.Mmap(int(file.Fd()), 0, pageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("cannot map %s: %w", path, err)
	}
	// As long as the layout, and aligned to a memory page. The words may change at any time: all access is atomic.
	return (*layout)(unsafe.Pointer(&whole[0])), nil
}

func isGone(process uint64) bool {
	return process == 0 || process > 1<<31-1 || syscall.Kill(int(process), 0) == syscall.ESRCH
}

// attach says that this process is the program.
func (p *layout) attach() {
	own := uint64(os.Getpid())
	atomic.StoreUint64(&p.process, own)
	if !p.enter(own) {
		atomic.StoreUint32(&p.many, 1)
	}
	atomic.AddUint64(&p.programs, 1)
}

// enter gives the process a place, that of one that is gone if there is no other.
func (p *layout) enter(own uint64) bool {
	for n := range p.running {
		if atomic.LoadUint64(&p.running[n]) == own {
			return true
		}
	}
	for n := range p.running {
		if atomic.CompareAndSwapUint64(&p.running[n], 0, own) {
			return true
		}
	}
	for n := range p.running {
		old := atomic.LoadUint64(&p.running[n])
		if isGone(old) && atomic.CompareAndSwapUint64(&p.running[n], old, own) {
			return true
		}
	}
	return false
}

// busyUp: a goroutine has taken input, or a connection. Before that is counted.
func (p *layout) busyUp() { atomic.AddUint32(&p.busy, 1) }

// busyDown: it waits for more.
func (p *layout) busyDown() {
	if atomic.AddUint32(&p.busy, ^uint32(0)) != 0 {
		return
	}
	atomic.AddUint32(&p.settles, 1)
	if atomic.LoadUint32(&p.watching) != 0 {
		const wake = 1
		// Waking reads nothing but the word's address.
		_, _, _ = syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&p.settles)), wake, 1<<31-1, 0, 0, 0)
	}
}

// handOn: another goroutine may work that nobody has seen begin: the front is to look closer.
func (p *layout) handOn() { atomic.AddUint32(&p.handed, 1) }

func (p *layout) took(port uint16, bytes int) { atomic.AddUint64(&p.taken[port], uint64(bytes)) }

// mark sets one of the marks of a connection.
func (p *layout) mark(port uint16, mark uint64) {
	word := &p.taken[port]
	for {
		old := atomic.LoadUint64(word)
		if old&mark != 0 || atomic.CompareAndSwapUint64(word, old, old|mark) {
			return
		}
	}
}

func (p *layout) has(flag uint64) bool { return atomic.LoadUint64(&p.flags)&flag != 0 }
