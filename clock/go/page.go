//go:build linux

package truechimer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Numbers of the layout, by docs/reference/clock-page.md.
const (
	pageMagic   = 0x3172656D69684354
	pageVersion = 1
	pageSize    = 4096
	slots       = 8
	handSize    = 256
	handsOffset = 128
	handWords   = handSize/8 - 1
	besideWords = 7
)

const systemPage = "/run/truechimer/clock"

// page is an open clock page.
type page struct {
	*mapping
	file *os.File
	path string
}

// places are where a page is looked for, in this order.
func places() []string {
	if privileged() {
		return []string{systemPage}
	}
	if path := os.Getenv("TRUECHIMER_PAGE"); path != "" {
		return []string{path}
	}
	if own := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(own) {
		return []string{filepath.Join(own, "truechimer/clock"), systemPage}
	}
	return []string{systemPage}
}

func missing(searched []string) error {
	text := "no clock page at " + searched[0]
	for _, path := range searched[1:] {
		text += " or " + path
	}
	return fail(ErrNoPage, text+": start a daemon (truechimer run --server HOST), or name the page of one that runs ($TRUECHIMER_PAGE)")
}

// openPage opens and checks the page at path: it is hostile until then.
func openPage(path string) (*page, error) {
	// Without O_NONBLOCK a FIFO in its place would hold us up.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, missing([]string{path})
		}
		// A socket, or the file of a device that is not there.
		if errors.Is(err, syscall.ENXIO) {
			return nil, notAFile(path)
		}
		return nil, refused("open", path, err)
	}
	mapped, err := checked(file, path)
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &page{mapped, file, path}, nil
}

func refused(action, path string, err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		err = number
	}
	return fail(ErrSystem, fmt.Sprintf("cannot %s %s: %v; name another page ($TRUECHIMER_PAGE), or let this user read it", action, path, err))
}

func notAFile(path string) error {
	return fail(ErrForeign, fmt.Sprintf("%s is not a regular file; name another page", path))
}

func checked(file *os.File, path string) (*mapping, error) {
	var meta syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &meta); err != nil {
		return nil, refused("examine", path, err)
	}
	if meta.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, notAFile(path)
	}
	if !trusted(meta.Uid, path) {
		return nil, fail(ErrUntrusted, fmt.Sprintf("%s belongs to user %d, who is not to be trusted with the time here; "+
			"name another page, or remove it", path, meta.Uid))
	}
	if mode := meta.Mode & 0o7777; mode&0o022 != 0 {
		return nil, fail(ErrUntrusted, fmt.Sprintf("%s can be written by others than its owner (mode %04o); "+
			"chmod go-w it if its content can be trusted, or remove it", path, mode))
	}
	foreign := fail(ErrForeign, fmt.Sprintf("%s is not a clock page; name another page, or remove it if nothing needs it", path))
	unfinished := fail(ErrUnfinished, fmt.Sprintf("%s is not a whole clock page (yet): %d bytes of %d, or without its header; "+
		"is the daemon starting?", path, meta.Size, pageSize))
	if meta.Size < pageSize {
		// A page that is being made is short only while nothing is in it.
		var begins [8]byte
		n, _ := file.ReadAt(begins[:], 0)
		number := binary.LittleEndian.Uint64(begins[:])
		if bigEndian {
			number = binary.BigEndian.Uint64(begins[:])
		}
		if number == 0 || number == pageMagic && n == len(begins) {
			return nil, unfinished
		}
		return nil, foreign
	}
	mapped, err := mapPage(file)
	if err != nil {
		return nil, refused("map", path, err)
	}
	// Loads are acquire: what comes after the magic was stored before it.
	switch load(&mapped.magic) {
	case 0:
		return nil, unfinished
	case pageMagic:
	default:
		return nil, foreign
	}
	if found := load32(&mapped.version); found != pageVersion {
		return nil, fail(ErrVersion, fmt.Sprintf("%s has layout version %d, this program knows version %d: "+
			"use programs and daemon of the same release, or remove it once no daemon runs", path, found, pageVersion))
	}
	if load32(&mapped.size) != pageSize || load32(&mapped.hands) != slots || load32(&mapped.handSize) != handSize ||
		load(&mapped.handsOffset) != handsOffset {
		return nil, fail(ErrDamaged, fmt.Sprintf("the header of %s contradicts itself; remove it once no daemon runs", path))
	}
	return mapped, nil
}

// trusted says whether an owner may tell the time: root, this user, or the owner of the directory.
func trusted(owner uint32, path string) bool {
	if owner == 0 || owner == uint32(os.Geteuid()) {
		return true
	}
	var folder syscall.Stat_t
	return syscall.Stat(filepath.Dir(path), &folder) == nil && folder.Uid == owner
}
